"""How good a model is on held-out rows, from totals alone: for a number by a Gram matrix, for classes by counts."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from codedfl.analyses.cells import enough, joined
from codedfl.contract.merging import Merged
from codedfl.contract.study import Study
from codedfl.data.columns import ClassTarget
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

    accuracy: the share of right predictions; where the matrix is withheld, a share that it is not below: errors are
        counted in whole ``smallest_cell``, rounded up, so that no number of errors is shown, a small one least of all.
    confusion: rows are the true classes, columns the predicted ones; people see ``shown_confusion``.
    auc: area under the ROC curve that is shown, for two classes, else None: it tells no more than the curve.
    calibration: for two classes, how often the score of the second one is right, in tenths of the score, which are
        joined until each class has no row or at least ``smallest_cell`` of them. None for more classes.
    withheld: why neither the confusion matrix nor calibration nor ROC curve may be shown: where one count of the matrix
        is small, the others and any rates by class would give it back. Empty where they may.
    held_out: whether the rows were kept out of training; on rows of the fit itself a score flatters.

    Examples
    --------
    >>> from codedfl.analyses.scoring import ClassScore
    >>> first, second = [30, 8, 0, 0, 2, 0, 0, 2, 3, 0], [0, 0, 0, 0, 0, 0, 0, 0, 28, 27]
    >>> found = ClassScore.of([40, 5, 0, 55, *first, *second], 2, smallest_cell=5)
    >>> found.accuracy, found.shown_confusion()
    (0.95, [['40', '5'], ['0', '55']])
    >>> found.shown_calibration()[1:]
    [('0.1 to 0.5', '10', '0 %'), ('0.5 to 0.9', '33', '85 %'), ('0.9 to 1.0', '27', '100 %')]
    >>> few = ClassScore.of([40, 5, 0, 55, *first, *second], 2, smallest_cell=6)
    >>> few.shown_accuracy(), few.shown_confusion()
    ('at least 94.0 %', None)
    """

    rows: int
    accuracy: float
    confusion: Integers
    calibration: tuple[Band, ...] | None
    withheld: str = ""
    held_out: bool = True

    name: ClassVar[str] = "accuracy"

    @classmethod
    def of(cls, counts: Sequence[int], n_classes: int, smallest_cell: int = 1, *, held_out: bool = True) -> ClassScore:
        """What the total of ``score`` says."""
        expected = n_classes**2 + (2 * BINS if n_classes == 2 else 0)
        if len(counts) != expected or min(counts) < 0:
            raise InvalidInput(f"a total of score must be {expected} counts, got {len(counts)}")
        numbers = np.array(counts, dtype=np.int64)
        confusion = numbers[: n_classes**2].reshape(n_classes, n_classes)
        rows = int(confusion.sum())
        bins = numbers[n_classes**2 :].reshape(2, -1)
        # The matrix divides the score at a half, and so must bands, or what is between both could be few. Scores of
        # just a half are in the lower class and in the upper bin: these too must be none or enough.
        halves = bins.reshape(2, 2, -1).sum(axis=2) if n_classes == 2 else confusion
        few = not enough(np.stack((confusion, halves, np.abs(confusion - halves))), smallest_cell)
        errors = rows - int(np.trace(confusion))
        if few:  # Whole cells of errors; right answers fewer than a cell count as none.
            errors = -(-errors // smallest_cell) * smallest_cell
            errors = errors if rows - errors >= smallest_cell else rows
        accuracy = 1.0 - errors / rows if rows else 0.0
        bands = tuple(_bands(bins, smallest_cell)) if n_classes == 2 and not few else None
        return cls(rows, accuracy, confusion, bands, _WITHHELD.format(smallest_cell) if few else "", held_out)

    @property
    def value(self) -> float:
        """The one number to compare models by."""
        return self.accuracy

    @property
    def auc(self) -> float | None:
        """The area under ``roc``; None where there is none."""
        corners = self.roc()
        steps = pairwise(corners)
        return sum((x - left) * (low + high) / 2 for (left, low), (x, high) in steps) if corners else None

    @property
    def auc_interval(self) -> tuple[float, float] | None:
        """Of 95 %, by DeLong's variance over the bands, within which scores are tied; None where there is no area."""
        area = self.auc
        if area is None:
            return None
        counts = np.array([(one.rows - one.second, one.second) for one in self.calibration or ()], dtype=np.float64).T
        first, second = counts
        below, above = np.cumsum(first) - first / 2, np.cumsum(second[::-1])[::-1] - second / 2
        variance = 0.0
        for mine, placed, others in ((second, below, first.sum()), (first, above, second.sum())):
            n = mine.sum()
            variance += float(mine @ (placed / others - area) ** 2) / max(1.0, n - 1) / n
        reach = 1.959963984540054 * variance**0.5
        return max(0.0, area - reach), min(1.0, area + reach)

    def shown_auc(self) -> str:
        """The area with its interval; "" where there is none."""
        if self.auc is None or self.auc_interval is None:
            return ""
        low, high = self.auc_interval
        return f"area under the ROC curve {self.auc:.4f} [{low:.4f}, {high:.4f}]"

    def shown_accuracy(self) -> str:
        """The accuracy for people, in per cent."""
        return f"{'at least ' * bool(self.withheld)}{100 * self.accuracy:.1f} %"

    def shown_confusion(self) -> list[list[str]] | None:
        """The confusion matrix for people; None where it is withheld."""
        return None if self.withheld else [[str(count) for count in row] for row in self.confusion.tolist()]

    def shown_calibration(self) -> list[tuple[str, str, str]] | None:
        """Each band that has rows, how many, and the share of the second class in per cent."""
        if self.calibration is None:
            return None
        return [
            (f"{one.low:.1f} to {one.high:.1f}", str(one.rows), f"{100 * one.second / one.rows:.0f} %")
            for one in self.calibration
            if one.rows
        ]

    def roc(self) -> list[tuple[float, float]]:
        """False and true positive rates at the ends of bands."""
        bands = self.calibration or ()
        counts = np.array([(one.rows - one.second, one.second) for one in reversed(bands)]).reshape(-1, 2).T
        if not counts.sum(axis=1).all():
            return []
        rates = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
        return [(0.0, 0.0), *map(tuple, rates.T.tolist())]

    def to_dict(self) -> JsonObject:
        """For JSON; what is not shown to people is not in it."""
        known: JsonObject = {
            "rows": self.rows,
            "accuracy": self.accuracy,
            "auc": self.auc,
            "auc_interval": self.auc_interval,
        }
        shown = {"confusion": self.shown_confusion(), "calibration": self.shown_calibration()}
        return {**known, **shown, "roc": self.roc(), "withheld": self.withheld, "held_out": self.held_out}


@dataclass(frozen=True)
class NumberScore:
    """The score of a regression, in the target's own unit. r_squared is 0 where the target is constant.

    Examples
    --------
    >>> from codedfl.analyses.scoring import NumberScore
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
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
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
    (step,) = study.target_units.step
    return NumberScore.of(rows, step**2 * errors, step**2 * ((rows * squares - sum_y**2) / rows)), ""


_NO_ROWS = "no rows were held out"


_WITHHELD = (
    "confusion matrix, calibration and ROC curve are withheld, and accuracy counts errors in steps of {0}: a count by"
    " class is below {0} (smallest_cell), and others would give it back; hold out more rows"
)


def _bands(bins: Integers, smallest: int) -> Iterator[Band]:
    """Bins by class, joined in each half until each class has no row or enough; what is left joins the last."""
    begin, half = 0, BINS // 2
    kept = np.array([*joined(bins[:, :half], smallest), True, *joined(bins[:, half:], smallest), True])
    for end in np.flatnonzero(kept) + 1:
        first, second = bins[:, begin:end].sum(axis=1).tolist()
        yield Band(begin / BINS, int(end) / BINS, first + second, second)
        begin = int(end)
