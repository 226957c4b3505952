"""How good a model is on held-out rows, from totals alone: for a number by a Gram matrix, for classes by counts."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from codedfl.analyses.cells import joined
from codedfl.contract.merging import Merged
from codedfl.contract.study import ClassTarget, Study
from codedfl.errors import InvalidInput
from codedfl.statistics.score import BINS
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, Integers, JsonObject


class Band(NamedTuple):
    """A part of the score of the second of two classes, from ``low`` to ``high``: rows, and those of the second class.

    Examples
    --------
    >>> from codedfl.analyses.scoring import Band
    >>> Band(0.2, 0.5, rows=20, second=5)
    Band(low=0.2, high=0.5, rows=20, second=5)
    """

    low: float
    high: float
    rows: int
    second: int


@dataclass(frozen=True, eq=False)
class ClassScore:
    """The score of a classification.

    confusion: rows are the true classes, columns the predicted ones.
    auc: area under the ROC curve, for two classes, else None; scores in the same tenth count as ties.
    calibration: for two classes, how often the score of the second one is right, in tenths of the score; tenths with
        fewer rows than the smallest cell are joined with the next. None for more classes.
    smallest_cell: people are not shown smaller counts: ``shown_confusion``, ``shown_calibration`` and ``to_dict`` hide
        them.

    Examples
    --------
    >>> from codedfl.analyses import ClassScore
    >>> first, second = [30, 10, 0, 0, 0, 0, 0, 0, 3, 0], [0, 0, 0, 0, 0, 0, 0, 0, 30, 27]
    >>> found = ClassScore.of([40, 3, 0, 57, *first, *second], 2, smallest_cell=5)
    >>> found.accuracy, found.shown_confusion()
    (0.97, [['40', '<5'], ['0', '57']])
    >>> found.shown_calibration()
    [('0.0 to 0.1', '30', '0 %'), ('0.1 to 0.2', '10', '0 %'), ('0.2 to 0.9', '33', '-'), ('0.9 to 1.0', '27', '100 %')]
    """

    rows: int
    accuracy: float
    confusion: Integers
    auc: float | None
    calibration: tuple[Band, ...] | None
    smallest_cell: int = 1

    name: ClassVar[str] = "accuracy"

    @classmethod
    def of(cls, counts: Sequence[int], n_classes: int, smallest_cell: int = 1) -> ClassScore:
        """What the total of ``score`` says."""
        expected = n_classes**2 + (2 * BINS if n_classes == 2 else 0)
        if len(counts) != expected or min(counts) < 0:
            raise InvalidInput(f"a total of score must be {expected} counts, got {len(counts)}")
        numbers = np.array(counts, dtype=np.int64)
        confusion = numbers[: n_classes**2].reshape(n_classes, n_classes)
        rows = int(confusion.sum())
        accuracy = float(np.trace(confusion) / rows) if rows else 0.0
        if n_classes != 2:
            return cls(rows, accuracy, confusion, None, None, smallest_cell)
        first, second = numbers[4 : 4 + BINS], numbers[4 + BINS :]
        bands = tuple(_bands((first + second).tolist(), second.tolist(), smallest_cell))
        return cls(rows, accuracy, confusion, _area(first, second), bands, smallest_cell)

    @property
    def value(self) -> float:
        """The one number to compare models by."""
        return self.accuracy

    def shown_confusion(self) -> list[list[str]]:
        """The confusion matrix for people, without counts below the smallest cell."""
        return [[self._shown(count) for count in row] for row in self.confusion.tolist()]

    def shown_calibration(self) -> list[tuple[str, str, str]] | None:
        """Each band, its rows, and the share of the second class in per cent where both classes may be counted."""
        if self.calibration is None:
            return None
        return [
            (f"{one.low:.1f} to {one.high:.1f}", self._shown(one.rows), self._shown_share(one))
            for one in self.calibration
        ]

    def roc(self) -> list[tuple[float, float]]:
        """False and true positive rates, at ends of bands between which each class has no row or enough of them."""
        bands = self.calibration or ()
        counts = np.array([(one.rows - one.second, one.second) for one in reversed(bands)]).reshape(-1, 2).T
        if not counts.sum(axis=1).all():
            return []
        kept = np.flatnonzero(joined(counts, self.smallest_cell))
        rates = np.cumsum(counts, axis=1)[:, kept] / counts.sum(axis=1, keepdims=True)
        return [(0.0, 0.0), *map(tuple, rates.T.tolist()), (1.0, 1.0)]

    def to_dict(self) -> JsonObject:
        """For JSON; what is not shown to people is not in it."""
        known: JsonObject = {"rows": self.rows, "accuracy": self.accuracy, "auc": self.auc}
        shown = {"confusion": self.shown_confusion(), "calibration": self.shown_calibration()}
        return {**known, **shown, "roc": self.roc()}

    def _shown(self, count: int) -> str:
        return f"<{self.smallest_cell}" if 0 < count < self.smallest_cell else str(count)

    def _shown_share(self, band: Band) -> str:
        hidden = any(0 < count < self.smallest_cell for count in (band.second, band.rows - band.second))
        return "-" if hidden or not band.rows else f"{100 * band.second / band.rows:.0f} %"


@dataclass(frozen=True)
class NumberScore:
    """The score of a regression, in the target's own unit. r_squared is 0 where the target is constant.

    Examples
    --------
    >>> from codedfl.analyses import NumberScore
    >>> NumberScore.of(100, squared_errors=50.0, spread=200.0)
    NumberScore(rows=100, r_squared=0.75, root_mean_square_error=0.7071067811865476)
    """

    rows: int
    r_squared: float
    root_mean_square_error: float

    name: ClassVar[str] = "R^2"

    @classmethod
    def of(cls, rows: int, squared_errors: float, spread: float) -> NumberScore:
        """``spread`` is the sum of squares of the target about its mean."""
        return cls(rows, 1.0 - squared_errors / spread if spread > 0 else 0.0, (squared_errors / rows) ** 0.5)

    @property
    def value(self) -> float:
        """The one number to compare models by."""
        return self.r_squared

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return asdict(self)


Score = ClassScore | NumberScore


def ask_score(study: Study, merged: Merged, point: Floats) -> Generator[Ask, Any, tuple[Score | None, str]]:
    """Ask for the score of a model, which ``point`` describes; or say why there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.scoring import ask_score
    >>> from codedfl.contract.study import ClassTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), ClassTarget("ill", ("a", "b", "c")), 5000, 1000, 3)
    >>> next(ask_score(study, (), np.zeros(6)))
    <Ask for score at 6 numbers>
    """
    total = yield Ask("score", merged, point)
    if isinstance(study.target, ClassTarget):
        found = ClassScore.of(total, len(study.target.classes), study.smallest_cell)
        return (found, "") if found.rows else (None, _NO_ROWS)
    rows, sum_y, _, squares, _, errors = total
    if not rows:
        return None, _NO_ROWS
    (step,), _ = study.target_units
    return NumberScore.of(rows, step**2 * errors, step**2 * ((rows * squares - sum_y**2) / rows)), ""


_NO_ROWS = "no rows were held out"


def _bands(rows: list[int], second: list[int], smallest: int) -> Iterator[Band]:
    """Bins of equal width, joined from the low end until each band has enough rows; what is left joins the last."""
    begin = 0
    for end in range(1, BINS + 1):
        enough = sum(rows[begin:end]) >= smallest and sum(rows[end:]) >= smallest
        if enough or end == BINS:
            yield Band(begin / BINS, end / BINS, sum(rows[begin:end]), sum(second[begin:end]))
            begin = end


def _area(first: Integers, second: Integers) -> float | None:
    """How often a row of the second class scores above one of the first; ties count half."""
    pairs = int(first.sum()) * int(second.sum())
    if not pairs:
        return None
    below = np.cumsum(first) - first
    return float((second * (below + first / 2)).sum() / pairs)
