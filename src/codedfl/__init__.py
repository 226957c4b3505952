"""codedfl: federated learning that does not wait for its slowest devices.

Exact gradients from the fastest D - alpha + 1 devices; the server sees nothing but the total, no device sees another's
data. DESIGN.md draws the data flow; the names below follow it.
"""

from typing import TYPE_CHECKING, Any

from codedfl.errors import (
    CodedFLError,
    InvalidInput,
    MessageRefused,
    NotEnoughDevices,
    RangeExceeded,
    WrongAnswers,
)
from codedfl.fixed_point import Bounds, FixedPoint
from codedfl.gradient_code import GradientCode, GroupedCode
from codedfl.ring import Ring
from codedfl.sealed import Identity

# isort: split
from codedfl.datasets import Dataset
from codedfl.problem import Problem, make_problem

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
from codedfl.solvers import ClosedForm, ConjugateGradient, GradientDescent, Nesterov, StepSchedule

# isort: split
from codedfl.fleet import Fleet
from codedfl.in_process import run_in_process
from codedfl.simulator import make_parties, simulate

# isort: split
from codedfl.model import TrainedModel

if TYPE_CHECKING:
    from codedfl.estimators import CodedRidge, CodedRidgeClassifier

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
    "WrongAnswers",
]


def __getattr__(name: str) -> Any:
    """The estimators on demand: scikit-learn takes a second, and a node on Flower starts a process for every call."""
    if name in ("CodedRidge", "CodedRidgeClassifier"):
        from codedfl import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'codedfl' has no attribute {name!r}")
