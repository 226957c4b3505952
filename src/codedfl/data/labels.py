"""Labels to the matrix Y of the paper (section III) and the model's scores back to labels.

Classes become one-hot rows of {0, 1} and come back by the largest score; a regression target becomes one
column in [-1, 1]. Either way |Y| <= 1 is public, from which the exact ring gets its range (paper II-A, IV-A).
A third kind only predicts (``saved_labels``).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codedfl.checks import check_vector
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject


class Labels(ABC):
    """The common face of both kinds; make one by `for_classes` or `for_targets`."""

    # Public bound on |Y|, of both kinds.
    bound = 1.0

    @staticmethod
    def for_classes(classes: ArrayLike) -> "ClassLabels":
        """classes: the public list of classes (whole numbers or text), in any order, repetitions allowed."""
        values = np.asarray(classes)
        if values.dtype.kind in "bu":
            values = values.astype(np.int64)
        if values.ndim != 1 or values.dtype.kind not in "iU":
            raise InvalidInput(f"classes must be a list of whole numbers or of text, got an array of {values.dtype}")
        return ClassLabels(tuple(np.unique(values).tolist()))

    @staticmethod
    def for_targets(low: float, high: float) -> "TargetLabels":
        """low, high: the public range of the target."""
        return TargetLabels(float(low), float(high))

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """c in the paper: columns of Y."""

    @abstractmethod
    def encode(self, y: NDArray[Any]) -> Floats:
        """One row of Y per label."""

    @abstractmethod
    def decode(self, scores: Floats) -> NDArray[Any]:
        """One label per row of scores."""

    def measured(self, y: NDArray[Any]) -> NDArray[Any]:
        """Labels as a table has them, as the model predicts them."""
        return y

    def count_clipped(self, y: NDArray[Any]) -> int:  # noqa: ARG002
        """How many labels `encode` clips to the public range; 0 where there is none."""
        return 0

    @abstractmethod
    def to_dict(self) -> JsonObject:
        """Numbers, text and lists only, so that JSON carries it."""

    def _check_scores(self, scores: Floats) -> None:
        if scores.ndim != 2 or scores.shape[1] != self.n_outputs:
            raise InvalidInput(f"scores must be a matrix with {self.n_outputs} columns, got shape {scores.shape}")


@dataclass(frozen=True)
class ClassLabels(Labels):
    """classes: different, all whole numbers or all text, at least two, in the order that gives them their places.

    Two classes make two columns.
    """

    classes: tuple[int, ...] | tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.classes) < 2:
            raise InvalidInput(f"classes must be at least two, got {list(self.classes)}")
        if {type(one) for one in self.classes} not in ({int}, {str}):
            raise InvalidInput(f"classes must be all whole numbers or all text, got {self.classes[:5]}")
        if len(set(self.classes)) < len(self.classes):
            raise InvalidInput(f"classes must be different, got {self.classes[:5]}")

    @property
    def n_outputs(self) -> int:
        return len(self.classes)

    def encode(self, y: NDArray[Any]) -> Floats:
        """One-hot rows. A label that is none of the classes is refused."""
        known = np.asarray(self.classes)
        if y.ndim != 1 or (y.dtype.kind == "U") != (known.dtype.kind == "U"):
            raise InvalidInput(
                f"y must be a vector of classes such as {self.classes[0]!r}, got {y.ndim} dimension(s) of {y.dtype}"
            )
        places = self.places(y)
        unknown = known[places] != y
        if unknown.any():
            raise InvalidInput(f"y must hold the {self.n_outputs} classes only, got {y[unknown].tolist()[0]!r}")
        return np.eye(len(known))[places]

    def places(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Which class each label is; any place for one that is none of them.

        >>> ClassLabels(("no", "yes", "maybe")).places(np.array(["maybe", "no"])).tolist()
        [2, 0]
        """
        known = np.asarray(self.classes)
        order = np.argsort(known)
        found: NDArray[np.int64] = order[np.searchsorted(known, y, sorter=order) % len(known)]
        return found

    def decode(self, scores: Floats) -> NDArray[Any]:
        """The class of the largest score; of equal ones the first."""
        self._check_scores(scores)
        labels: NDArray[Any] = np.asarray(self.classes)[np.argmax(scores, axis=1)]
        return labels

    def to_dict(self) -> JsonObject:
        return {"kind": "classes", "classes": list(self.classes)}


@dataclass(frozen=True)
class TargetLabels(Labels):
    """A number to predict; low and high, its public range, become -1 and 1.

    function: of what tables have, such as "log": the number is then the logarithm. "" is the number itself.
    """

    low: float
    high: float
    function: str = ""

    def __post_init__(self) -> None:
        if self.function:
            from codedfl.data.derived import FUNCTIONS  # of few targets

            if self.function not in FUNCTIONS:
                raise InvalidInput(
                    f"function of the target must be one of {', '.join(FUNCTIONS)}, got {self.function!r:.40}"
                )
        if not -np.inf < self.low < self.high < np.inf:
            raise InvalidInput(f"low must be below high, both finite, got {self.low} and {self.high}")

    @property
    def n_outputs(self) -> int:
        return 1

    def encode(self, y: NDArray[Any]) -> Floats:
        """Scaled to [-1, 1]; what lies beyond the public range is clipped, see `count_clipped`."""
        check_vector("y", y)
        return np.clip(2.0 * ((y - self.low) / (self.high - self.low)) - 1.0, -1.0, 1.0).reshape(-1, 1)

    def decode(self, scores: Floats) -> NDArray[Any]:
        """Back to the target's own scale. Predictions may lie beyond the public range."""
        self._check_scores(scores)
        return self.low + (scores[:, 0] + 1.0) / 2.0 * (self.high - self.low)

    def measured(self, y: NDArray[Any]) -> NDArray[Any]:
        """The function of what tables have.

        >>> TargetLabels(0.0, 5.0, "log2").measured(np.array([8.0])).tolist()
        [3.0]
        """
        if not self.function:
            return y
        from codedfl.data.derived import FUNCTIONS

        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            found: NDArray[Any] = FUNCTIONS[self.function][0](y)
        return found

    def count_clipped(self, y: NDArray[Any]) -> int:
        check_vector("y", y)
        return int(((y < self.low) | (y > self.high)).sum())

    def to_dict(self) -> JsonObject:
        said = {"function": self.function} if self.function else {}
        return {"kind": "targets", "low": self.low, "high": self.high, **said}
