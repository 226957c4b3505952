"""A score without showing rows: what each device counts on its held-out rows, and what follows from the sum of it.

Everything is a sum over rows, so one secure sum of one vector a device is enough: the confusion matrix and, for two
classes, histograms of the score by class, which give the area under the ROC curve and the calibration; for a number the
sums that R^2 and the mean absolute error are made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.data.labels import ClassLabels
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Integers, Rows

BINS = 100  # of the score of the second of two classes, from 0 to 1; what lies beyond counts at the ends


@dataclass(frozen=True, eq=False)
class ClassScore:
    """Of a classification.

    confusion: rows are the true classes, columns the predicted ones.
    auc: area under the ROC curve, for two classes, else None; scores in one bin count as ties.
    calibration: for two classes, of each tenth of the score how many rows it has and the share of the second class
        among them; else None.
    """

    rows: int
    accuracy: float
    confusion: Integers
    auc: float | None
    calibration: tuple[tuple[int, float | None], ...] | None

    name: ClassVar[str] = "accuracy"

    @property
    def value(self) -> float:
        """The one number to compare models by."""
        return self.accuracy


@dataclass(frozen=True)
class NumberScore:
    """Of a regression, in the target's own unit. r_squared: 0 where the target is constant."""

    rows: int
    r_squared: float
    mean_absolute_error: float
    root_mean_square_error: float

    name: ClassVar[str] = "R^2"

    @property
    def value(self) -> float:
        """The one number to compare models by."""
        return self.r_squared


def score_sums(recipe: Recipe, theta: Floats, X: Rows, y: Rows) -> Floats:
    """What a device puts into the secure sum; no rows give zeros."""
    scores, _ = recipe.scores(theta, X)
    labels = recipe.labels
    if not isinstance(labels, ClassLabels):
        # In units of half the target's range around its middle: squares of large numbers would lose their digits.
        truth = _in_half_ranges(recipe, y)
        errors = scores[:, 0] - truth
        return np.array([len(y), truth.sum(), np.square(truth).sum(), np.square(errors).sum(), np.abs(errors).sum()])
    truth = labels.encode(y).argmax(axis=1)
    predicted = scores.argmax(axis=1)
    size = labels.n_outputs
    confusion = np.bincount(truth * size + predicted, minlength=size * size)
    if size != 2:
        return confusion.astype(np.float64)
    # The two scores are one number: the second's share of the margin.
    margin = np.clip((scores[:, 1] - scores[:, 0] + 1) / 2, 0, 1)
    places = np.minimum((margin * BINS).astype(np.int64), BINS - 1)
    histograms = [np.bincount(places[truth == one], minlength=BINS) for one in (0, 1)]
    return np.concatenate((confusion, *histograms)).astype(np.float64)


def score_from_sums(recipe: Recipe, total: Floats) -> ClassScore | NumberScore:
    """What the sum over all devices says."""
    labels = recipe.labels
    if not isinstance(labels, ClassLabels):
        return _number_score(recipe, total)
    size = labels.n_outputs
    counts = np.rint(total).astype(np.int64)
    expected = size * size + (2 * BINS if size == 2 else 0)
    if len(counts) != expected:
        raise InvalidInput(f"total must hold {expected} sums, got {len(counts)}")
    confusion = counts[: size * size].reshape(size, size)
    rows = int(confusion.sum())
    accuracy = float(np.trace(confusion) / rows) if rows else 0.0
    if size != 2:
        return ClassScore(rows, accuracy, confusion, None, None)
    first, second = counts[4 : 4 + BINS], counts[4 + BINS :]
    tenths = [slice(start, start + BINS // 10) for start in range(0, BINS, BINS // 10)]
    calibration = tuple(_share(int(first[tenth].sum()), int(second[tenth].sum())) for tenth in tenths)
    return ClassScore(rows, accuracy, confusion, _area(first, second), calibration)


def _number_score(recipe: Recipe, total: Floats) -> NumberScore:
    if len(total) != 5:
        raise InvalidInput(f"total must hold 5 sums, got {len(total)}")
    rows = round(float(total[0]))
    if not rows:
        return NumberScore(0, 0.0, 0.0, 0.0)
    unit = float(np.diff(recipe.decode(np.array([[0.0], [1.0]])))[0])
    spread = float(total[2] - total[1] ** 2 / rows)
    r_squared = 1.0 - float(total[3]) / spread if spread > 0 else 0.0
    return NumberScore(rows, r_squared, unit * float(total[4]) / rows, unit * (float(total[3]) / rows) ** 0.5)


def _in_half_ranges(recipe: Recipe, y: Rows) -> Floats:
    middle, one = recipe.decode(np.array([[0.0], [1.0]]))
    return np.asarray((y - middle) / (one - middle), dtype=np.float64)


def _area(first: Integers, second: Integers) -> float | None:
    """How often a row of the second class scores above one of the first; ties count half."""
    pairs = int(first.sum()) * int(second.sum())
    if not pairs:
        return None
    below = np.cumsum(first) - first
    return float((second * (below + first / 2)).sum() / pairs)


def _share(first: int, second: int) -> tuple[int, float | None]:
    rows = first + second
    return rows, second / rows if rows else None
