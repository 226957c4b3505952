"""codedfl: federated learning that does not wait for its slowest devices.

Exact gradients from the fastest D - alpha + 1 devices; the server sees nothing but the total, no device sees another's
data. DESIGN.md draws the data flow; the names below follow it. Each is imported when it is first used: on a node,
``import codedfl`` loads neither planner nor simulator.
"""

from typing import TYPE_CHECKING

from codedfl.on_demand import names_on_demand
from codedfl.version import __version__

__all__ = [  # noqa: RUF022 (data-flow order, not the alphabet)
    "Dataset",
    "FeatureMap",
    "Recipe",
    "Problem",
    "make_problem",
    "Study",
    "load_study",
    "Bounds",
    "FixedPoint",
    "Ring",
    "GradientCode",
    "GroupedCode",
    "Identity",
    "Parameters",
    "Agreement",
    "Device",
    "Server",
    "Scheme",
    "CodedScheme",
    "CodedPadded",
    "CodedKeys",
    "OneShot",
    "RoleKeys",
    "RoleSums",
    "Conventional",
    "ConventionalFullBatch",
    "DropSlowest",
    "CodedFedL",
    "register_scheme",
    "Solver",
    "GradientDescent",
    "Nesterov",
    "ConjugateGradient",
    "BlockKrylov",
    "ClosedForm",
    "StepSchedule",
    "SolverKind",
    "SolverSettings",
    "make_solver",
    "register_solver",
    "Fleet",
    "LatencyModel",
    "FleetLatency",
    "Conditions",
    "run_in_process",
    "make_parties",
    "simulate",
    "Entry",
    "Settings",
    "compare",
    "Limits",
    "plan",
    "TrainedModel",
    "CodedRidge",
    "CodedRidgeClassifier",
    "CodedRidgeCV",
    "CodedRidgeClassifierCV",
    "CodedFLError",
    "InvalidInput",
    "MessageRefused",
    "NotEnoughDevices",
    "RangeExceeded",
    "SolverFailed",
    "WrongAnswers",
    "__version__",
]

if TYPE_CHECKING:
    from codedfl.code.gradient_code import GradientCode, GroupedCode
    from codedfl.contract import Study, load_study
    from codedfl.crypto.sealed import Identity
    from codedfl.data.datasets import Dataset
    from codedfl.data.features import FeatureMap
    from codedfl.data.model import TrainedModel
    from codedfl.data.problem import Problem, make_problem
    from codedfl.data.recipe import Recipe
    from codedfl.errors import (
        CodedFLError,
        InvalidInput,
        MessageRefused,
        NotEnoughDevices,
        RangeExceeded,
        SolverFailed,
        WrongAnswers,
    )
    from codedfl.exact.fixed_point import Bounds, FixedPoint
    from codedfl.exact.ring import Ring
    from codedfl.fleet.fleet import Fleet
    from codedfl.fleet.latency import FleetLatency, LatencyModel
    from codedfl.protocol import Agreement, Device, Parameters, Server
    from codedfl.run.estimators import CodedRidge, CodedRidgeClassifier
    from codedfl.run.in_process import run_in_process
    from codedfl.run.parties import make_parties
    from codedfl.run.path_estimators import CodedRidgeClassifierCV, CodedRidgeCV
    from codedfl.run.simulator import simulate
    from codedfl.schemes import (
        CodedFedL,
        CodedKeys,
        CodedPadded,
        CodedScheme,
        Conditions,
        Conventional,
        ConventionalFullBatch,
        DropSlowest,
        OneShot,
        RoleKeys,
        RoleSums,
        Scheme,
        register_scheme,
    )
    from codedfl.solve.closed_form import ClosedForm
    from codedfl.solve.descent import GradientDescent, Nesterov, StepSchedule
    from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
    from codedfl.solve.registry import SolverKind, SolverSettings, make_solver, register_solver
    from codedfl.solve.solver import Solver
    from codedfl.study.comparison import Entry, Settings, compare
    from codedfl.study.planner import Limits, plan
else:  # hidden from type checkers, which would take every name for a good one
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "codedfl.data.datasets": ["Dataset"],
            "codedfl.data.features": ["FeatureMap"],
            "codedfl.data.recipe": ["Recipe"],
            "codedfl.data.problem": ["Problem", "make_problem"],
            "codedfl.contract": ["Study", "load_study"],
            "codedfl.data.model": ["TrainedModel"],
            "codedfl.exact.fixed_point": ["Bounds", "FixedPoint"],
            "codedfl.exact.ring": ["Ring"],
            "codedfl.code.gradient_code": ["GradientCode", "GroupedCode"],
            "codedfl.crypto.sealed": ["Identity"],
            "codedfl.protocol": ["Parameters", "Agreement", "Device", "Server"],
            "codedfl.schemes": [
                *("Scheme", "CodedScheme", "CodedPadded", "CodedKeys", "OneShot", "RoleKeys", "RoleSums"),
                *("Conventional", "ConventionalFullBatch", "DropSlowest", "CodedFedL", "Conditions"),
                "register_scheme",
            ],
            "codedfl.solve.solver": ["Solver"],
            "codedfl.solve.descent": ["GradientDescent", "Nesterov", "StepSchedule"],
            "codedfl.solve.krylov": ["BlockKrylov", "ConjugateGradient"],
            "codedfl.solve.registry": ["SolverKind", "SolverSettings", "make_solver", "register_solver"],
            "codedfl.solve.closed_form": ["ClosedForm"],
            "codedfl.fleet.fleet": ["Fleet"],
            "codedfl.fleet.latency": ["LatencyModel", "FleetLatency"],
            "codedfl.study.comparison": ["Entry", "Settings", "compare"],
            "codedfl.study.planner": ["Limits", "plan"],
            "codedfl.run.in_process": ["run_in_process"],
            "codedfl.run.parties": ["make_parties"],
            "codedfl.run.simulator": ["simulate"],
            "codedfl.run.estimators": ["CodedRidge", "CodedRidgeClassifier"],
            "codedfl.run.path_estimators": ["CodedRidgeCV", "CodedRidgeClassifierCV"],
            "codedfl.errors": [
                *("CodedFLError", "InvalidInput", "MessageRefused"),
                *("NotEnoughDevices", "RangeExceeded", "SolverFailed", "WrongAnswers"),
            ],
        },
    )
