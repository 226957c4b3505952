"""codedfl: federated learning that does not wait for its slowest devices.

Exact gradients from the fastest D - alpha + 1 devices; the server sees nothing but the total, no device sees another's
data. DESIGN.md draws the data flow; the names below follow it.
"""

from typing import TYPE_CHECKING, Any

from codedfl.code.gradient_code import GradientCode, GroupedCode
from codedfl.crypto.sealed import Identity
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

# isort: split
from codedfl.data.datasets import Dataset
from codedfl.data.problem import Problem, make_problem

# isort: split
from codedfl.protocol import Agreement, Device, Parameters, Server
from codedfl.schemes import (
    CodedFedL,
    CodedKeys,
    CodedPadded,
    Conditions,
    Conventional,
    ConventionalFullBatch,
    DropSlowest,
    OneShot,
)
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, Nesterov, StepSchedule
from codedfl.solve.krylov import ConjugateGradient

# isort: split
from codedfl.fleet.fleet import Fleet
from codedfl.run.in_process import run_in_process
from codedfl.run.parties import make_parties
from codedfl.run.simulator import simulate

# isort: split
from codedfl.data.model import TrainedModel

if TYPE_CHECKING:
    from codedfl.run.estimators import CodedRidge, CodedRidgeClassifier

__version__ = "0.1.0"

__all__ = [  # noqa: RUF022 (data-flow order, not the alphabet)
    "Dataset",
    "Problem",
    "make_problem",
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
    "CodedPadded",
    "CodedKeys",
    "OneShot",
    "Conventional",
    "ConventionalFullBatch",
    "DropSlowest",
    "CodedFedL",
    "GradientDescent",
    "Nesterov",
    "ConjugateGradient",
    "ClosedForm",
    "StepSchedule",
    "Fleet",
    "Conditions",
    "run_in_process",
    "make_parties",
    "simulate",
    "TrainedModel",
    "CodedRidge",
    "CodedRidgeClassifier",
    "CodedFLError",
    "InvalidInput",
    "MessageRefused",
    "NotEnoughDevices",
    "RangeExceeded",
    "SolverFailed",
    "WrongAnswers",
]


def __getattr__(name: str) -> Any:
    """The estimators on demand: scikit-learn takes a second, and a node on Flower starts a process for every call."""
    if name in ("CodedRidge", "CodedRidgeClassifier"):
        from codedfl.run import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'codedfl' has no attribute {name!r}")
