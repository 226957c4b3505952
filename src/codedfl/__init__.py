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
    "run_in_process",
    "make_parties",
    "TrainedModel",
    "CodedRidge",
    "CodedRidgeClassifier",
    "CodedRidgeCV",
    "CodedRidgeClassifierCV",
    "CodedLasso",
    "CodedLogisticRegression",
    "CodedPoissonRegressor",
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
    from codedfl.contract.study import Study
    from codedfl.contract.toml_file import load_study
    from codedfl.crypto.sealed import Identity
    from codedfl.data.dataset import Dataset
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
    from codedfl.estimators.by_study import CodedLasso, CodedLogisticRegression, CodedPoissonRegressor
    from codedfl.estimators.ridge import CodedRidge, CodedRidgeClassifier
    from codedfl.estimators.ridge_path import CodedRidgeClassifierCV, CodedRidgeCV
    from codedfl.exact.fixed_point import Bounds, FixedPoint
    from codedfl.exact.ring import Ring
    from codedfl.protocol import Agreement, Device, Parameters, Server
    from codedfl.protocol.schemes.coded_keys import CodedKeys, OneShot
    from codedfl.protocol.schemes.coded_padded import CodedPadded
    from codedfl.protocol.schemes.descriptor import CodedScheme, Scheme
    from codedfl.protocol.schemes.registry import register_scheme
    from codedfl.protocol.schemes.role_keys import RoleKeys, RoleSums
    from codedfl.run.in_process import run_in_process
    from codedfl.run.parties import make_parties
    from codedfl.solve.closed_form import ClosedForm
    from codedfl.solve.descent import GradientDescent, Nesterov, StepSchedule
    from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
    from codedfl.solve.registry import SolverKind, SolverSettings, make_solver, register_solver
    from codedfl.solve.solver import Solver
else:  # hidden from type checkers, which would take every name for a good one
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "codedfl.data.dataset": ["Dataset"],
            "codedfl.data.features": ["FeatureMap"],
            "codedfl.data.recipe": ["Recipe"],
            "codedfl.data.problem": ["Problem", "make_problem"],
            "codedfl.contract.study": ["Study"],
            "codedfl.contract.toml_file": ["load_study"],
            "codedfl.data.model": ["TrainedModel"],
            "codedfl.exact.fixed_point": ["Bounds", "FixedPoint"],
            "codedfl.exact.ring": ["Ring"],
            "codedfl.code.gradient_code": ["GradientCode", "GroupedCode"],
            "codedfl.crypto.sealed": ["Identity"],
            "codedfl.protocol": ["Parameters", "Agreement", "Device", "Server"],
            "codedfl.protocol.schemes.descriptor": ["Scheme", "CodedScheme"],
            "codedfl.protocol.schemes.coded_padded": ["CodedPadded"],
            "codedfl.protocol.schemes.coded_keys": ["CodedKeys", "OneShot"],
            "codedfl.protocol.schemes.role_keys": ["RoleKeys", "RoleSums"],
            "codedfl.protocol.schemes.registry": ["register_scheme"],
            "codedfl.solve.solver": ["Solver"],
            "codedfl.solve.descent": ["GradientDescent", "Nesterov", "StepSchedule"],
            "codedfl.solve.krylov": ["BlockKrylov", "ConjugateGradient"],
            "codedfl.solve.registry": ["SolverKind", "SolverSettings", "make_solver", "register_solver"],
            "codedfl.solve.closed_form": ["ClosedForm"],
            "codedfl.run.in_process": ["run_in_process"],
            "codedfl.run.parties": ["make_parties"],
            "codedfl.estimators.by_study": ["CodedLasso", "CodedLogisticRegression", "CodedPoissonRegressor"],
            "codedfl.estimators.ridge": ["CodedRidge", "CodedRidgeClassifier"],
            "codedfl.estimators.ridge_path": ["CodedRidgeCV", "CodedRidgeClassifierCV"],
            "codedfl.errors": [
                *("CodedFLError", "InvalidInput", "MessageRefused"),
                *("NotEnoughDevices", "RangeExceeded", "SolverFailed", "WrongAnswers"),
            ],
        },
    )
