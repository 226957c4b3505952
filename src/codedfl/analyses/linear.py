"""Every linear model of a study from one total: moments, ridge, ordinary least squares and held-out scores.

The total is a Gram matrix in exact integers. Sums of squares about the mean are made in exact integers too,
n G - g g', and only then become floats: however far a column's mean lies from its deviation, no digit is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.analyses.inference import CONSTANT, Inference
from codedfl.analyses.scoring import NumberScore
from codedfl.contract.study import NumberTarget, Study
from codedfl.data.model import TrainedModel
from codedfl.data.preprocessing import Moments
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.solve.closed_form import ridge_solution
from codedfl.statistics.gram import Gram
from codedfl.typing import Floats, Integers

# Below this part of the largest eigenvalue of the correlations a direction is rounding.
_SINGULAR = 1e-9
_LOST = 1e-13  # below this eigenvalue per column a solution has hardly a digit
_NAMED = 0.2  # a column with at least this part in an unresolved direction is named
_NO_RESIDUAL = 1e-13  # below this part of the target's variance, what is left is rounding
_MOST_EXACT = 128  # columns whose equations are mended in exact integers, which takes their cube


class LinearTotal:
    """What the total of ``gram`` says.

    Parameters
    ----------
    study : Study
        With its levels merged, as they were for the total.
    integers : sequence of int
        The total: a triangle over training rows, and one over held-out rows where the study has it.

    Examples
    --------
    Three rows, of ages 50, 60 and 70 and stays of 20, 30 and 40 days; integers count from the middle of the range.

    >>> from codedfl.analyses import LinearTotal
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    >>> total = LinearTotal(study, [3, 0, 0, 200, 200, 200])
    >>> total.rows, total.moments().mean, total.model(regularisation=0.0).predict([[80.0]])
    (3, array([60.]), array([50.]))
    """

    def __init__(self, study: Study, integers: Sequence[int]) -> None:
        statistic = Gram(study)
        if len(integers) != statistic.length:
            raise InvalidInput(f"a total of gram must be {statistic.length} integers, got {len(integers)}")
        self.study = study
        self.integers = [int(one) for one in integers]
        place = np.triu_indices(statistic.width)
        parts = np.array_split(np.array(self.integers, dtype=object), 1 + study.holds_out_gram)
        self._parts = [_Part(part, place) for part in parts]
        self._training = self._parts[0]
        if self._training.rows < 1:
            raise InvalidInput(f"a total must have at least one training row, got {self._training.rows}")

    def __repr__(self) -> str:
        return f"<LinearTotal of {self.rows} rows, {len(self.study.design_names)} columns>"

    @property
    def rows(self) -> int:
        """Training rows."""
        return self._training.rows

    @property
    def held_out(self) -> int:
        """Held-out rows that are in the total."""
        return self._parts[1].rows if len(self._parts) > 1 else 0

    def only(self, columns: Iterable[str]) -> LinearTotal:
        """The total of these columns of the table alone: the sub-model's, with a study of its own."""
        names = tuple(columns)
        known = [one.column.name for one in self.study.columns]
        for name in names:
            if name not in known:
                raise InvalidInput(f"columns must be of the study ({', '.join(known)}), got {name!r}")
        chosen = [one.column.name in names for one in self.study.columns]
        study = self.study.only(names)
        widths = [len(one.column.design_names) for one in self.study.columns]
        n_targets = len(self.study.target_limits)
        kept = np.flatnonzero([True, *np.repeat(chosen, widths), *[True] * n_targets])
        place = np.triu_indices(len(kept))
        return LinearTotal(study, [one for part in self._parts for one in part.gram[np.ix_(kept, kept)][place]])

    # -- moments

    def moments(self) -> Moments:
        """Means and variances of the design columns over all training rows, in their own units."""
        step, zero = self.study.design_units
        mean = zero + step * self._training.mean[: len(step)]
        return Moments(self.rows, mean, np.square(step) * self._training.variance[: len(step)])

    def covariance(self) -> Floats:
        """The covariance of the design columns over all training rows, in their own units."""
        step, _ = self.study.design_units
        d = len(step)
        return self._training.scatter[:d, :d].astype(np.float64) / self.rows**2 * np.outer(step, step)

    # -- ridge

    @cached_property
    def recipe(self) -> Recipe:
        """How raw rows become features: columns centred, and scaled as the study says for the penalty."""
        return self.study.recipe(self.moments())

    def ridge(self, regularisation: float | None = None) -> Floats:
        """Theta of the features of ``recipe``; the constant is not penalised.

        It minimises the mean squared error plus ``regularisation`` times |Theta|^2. A column without variance gets 0.

        regularisation: None is the study's.
        """
        regularisation = self.study.regularisation if regularisation is None else regularisation
        if not 0 <= regularisation < np.inf:
            raise InvalidInput(f"regularisation must be at least 0 and finite, got {regularisation}")
        step, _ = self.study.design_units
        scale, d, n = self.recipe.preprocessing.scale, len(step), self.rows
        used = np.flatnonzero((scale > 0) & (self._training.variance[:d] > 0))
        units = step[used] / (n * scale[used])
        label_units, label_means = self._labels(self._training)
        scatter = self._training.scatter[used].astype(np.float64)
        gram = scatter[:, used] * np.outer(units, units)
        cross = scatter[:, d:] * np.outer(units, label_units / n)
        theta = np.zeros((self.recipe.n_features, len(label_units)))
        theta[0] = label_means / self._constant
        if len(used):
            _refuse_singular(gram, regularisation)
            theta[1 + used] = ridge_solution(gram, cross, regularisation)
        return theta

    def model(self, regularisation: float | None = None, **provenance: Any) -> TrainedModel:
        """The ridge as a model that predicts from raw tables; ``provenance`` is kept in its file."""
        about = {"study": self.study.name, "label": self.study.target.name, "rows": self.rows, **provenance}
        return TrainedModel(self.ridge(regularisation), self.recipe, about)

    def on_design(self, theta: Floats) -> Floats:
        """Theta for a constant and the design columns divided by their largest size: as ``score`` takes it."""
        scaling = self.recipe.preprocessing
        step, zero = self.study.design_units
        weights = theta[1:] / np.where(scaling.scale > 0, scaling.scale, np.inf)[:, None]
        constant = self._constant * theta[0] + (zero - scaling.shift) @ weights
        return np.vstack((constant, weights * (step * self.study.design_limits)[:, None]))

    def score(self, theta: Floats) -> NumberScore | None:
        """How good a Theta of ``recipe`` is on the held-out rows, for a number to predict; None if there are none."""
        if not self.held_out:
            return None
        part, d = self._parts[1], len(self.study.design_names)
        (unit,), (mean,) = self._labels(part)
        scaling = self.recipe.preprocessing
        step, zero = self.study.design_units
        weights = theta[1:, 0] / np.where(scaling.scale > 0, scaling.scale, np.inf)
        predicted = self._constant * theta[0, 0] + (zero + step * part.mean[:d] - scaling.shift) @ weights
        errors = np.append(-step * weights, unit)
        about_mean = errors @ part.scatter.astype(np.float64) @ errors / part.rows
        half = self._half_range
        squares = max(0.0, about_mean + part.rows * (mean - predicted) ** 2)
        return NumberScore.of(part.rows, half**2 * squares, half**2 * unit**2 * part.rows * part.variance[d])

    # -- ordinary least squares

    def ols(self, level: float = 0.95) -> Inference:
        """Coefficients in the columns' units with standard errors and p values, without a penalty.

        level: the level of the confidence intervals.
        """
        if not isinstance(self.study.target, NumberTarget):
            raise InvalidInput("inference must have a number to predict, got classes")
        names, d, n = self.study.design_names, len(self.study.design_names), self.rows
        if n <= d + 1:
            raise InvalidInput(f"rows must be more than the coefficients ({d + 1}), got {n}")
        part = self._training
        _refuse_if(part.variance[:d] == 0, names, "are constant")
        if part.variance[d] == 0:
            raise InvalidInput(f"the target {self.study.target.name!r} must vary for inference, got a constant")
        inverse, weights, left = self._least_squares()
        if left <= _NO_RESIDUAL:
            raise InvalidInput(
                f"the target {self.study.target.name!r} must not be a sum of columns for inference, got one that is"
                " without error: leave out what it is made of"
            )
        (step_y,), (zero_y,) = self.study.target_units
        step, zero = self.study.design_units
        slopes = weights * step_y / step
        variance = step_y**2 * part.variance[d] * left * n / (n - d - 1)
        means = zero + step * part.mean[:d]
        constant = zero_y + step_y * part.mean[d] - means @ slopes
        of_slopes = n * variance * inverse / np.outer(step, step)
        with_constant = -means @ of_slopes
        corner = variance / n - with_constant @ means
        covariance = np.block([[np.array([[corner]]), with_constant[None, :]], [with_constant[:, None], of_slopes]])
        coefficients = np.concatenate(([constant], slopes))
        return Inference.of((CONSTANT, *names), coefficients, covariance, n, 1.0 - left, float(variance**0.5), level)

    def _least_squares(self) -> tuple[Floats, Floats, float]:
        """Inverse of the scatter, coefficients in units of integers, and the share of the variance that is left.

        Floats make a first solution. Its residuals in exact integers mend it, so that columns that nearly depend on
        each other cost no digits; the sum of squares that is left is that of exact integers, too.
        """
        part, d = self._training, len(self.study.design_names)
        scatter, cross = part.scatter[:d, :d], part.scatter[:d, d:]
        sizes = self.rows * np.sqrt(part.variance[:d])
        first = self._inverse(scatter.astype(np.float64) / np.outer(sizes, sizes))
        first /= np.outer(sizes, sizes)
        right = np.hstack((np.eye(d, dtype=np.int64).astype(object), cross))
        found = first @ right.astype(np.float64)
        for _ in range(2 if d <= _MOST_EXACT else 0):
            integers, bits = _as_integers(found)
            found = found + first @ ((right * 2**bits - scatter @ integers) / 2**bits).astype(np.float64)
        inverse, weights = (found[:, :d] + found[:, :d].T) / 2, found[:, d]
        integers, bits = _as_integers(weights)
        explained = integers @ (2 * 2**bits * cross[:, 0] - scatter @ integers)
        total = int(part.scatter[d, d]) * 4**bits
        return inverse, weights, (total - int(explained)) / total

    def _inverse(self, correlation: Floats) -> Floats:
        """By eigenvectors, which say which columns depend on each other: where a direction's variance is rounding."""
        values, vectors = np.linalg.eigh(correlation)
        lost = values <= _SINGULAR * values[-1]
        if lost.any():
            parts = np.abs(vectors[:, lost]).max(axis=1)
            _refuse_if(parts >= _NAMED * parts.max(), self.study.design_names, "depend on each other")
        return np.asarray((vectors / values) @ vectors.T)

    # -- the target's units

    @property
    def _constant(self) -> float:
        """The constant feature of the recipe."""
        return float(self.recipe.feature_map.transform(np.zeros((1, self.recipe.n_columns)))[0, 0])

    @property
    def _half_range(self) -> float:
        target = self.study.target
        return (target.range[1] - target.range[0]) / 2 if isinstance(target, NumberTarget) else 1.0

    def _labels(self, part: _Part) -> tuple[Floats, Floats]:
        """What one step of each target column is in units of the recipe's labels, and the labels' means."""
        step, zero = self.study.target_units
        means = zero + step * part.mean[-len(step) :]
        target = self.study.target
        if isinstance(target, NumberTarget):
            means = (means - target.range[0]) / self._half_range - 1.0
        return step / self._half_range, means


class _Part:
    """One triangle: the Gram matrix, and the sums of squares about the mean times the number of rows, exactly."""

    def __init__(self, triangle: NDArray[Any], place: tuple[Integers, Integers]) -> None:
        width = int(place[0][-1]) + 1
        self.gram: NDArray[Any] = np.zeros((width, width), dtype=object)
        self.gram[place] = triangle
        self.gram.T[place] = triangle
        self.rows = int(self.gram[0, 0])

    @cached_property
    def scatter(self) -> NDArray[Any]:
        """n G - g g' in Python's integers: n^2 times the covariance of the columns behind the constant."""
        sums = self.gram[0, 1:]
        return np.asarray(self.rows * self.gram[1:, 1:] - np.outer(sums, sums))

    @cached_property
    def mean(self) -> Floats:
        """In integers' units, each rounded once."""
        return np.array([one / self.rows for one in self.gram[0, 1:]])

    @cached_property
    def variance(self) -> Floats:
        """The mean squared deviation, rounded once: it is 0 only for a constant column."""
        return np.array([one / self.rows**2 for one in np.diag(self.scatter)])


def _as_integers(values: Floats) -> tuple[NDArray[Any], int]:
    """``values``, exactly, as Python's integers of 2^-bits; and bits."""
    smallest = float(np.abs(values[values != 0]).min(initial=1.0))
    bits = max(0, 60 - int(np.frexp(smallest)[1]))
    return np.array([int(one) for one in np.ldexp(values, bits).flat], dtype=object).reshape(values.shape), bits


def _refuse_singular(gram: Floats, regularisation: float) -> None:
    """Refuse equations whose solution would be rounding, whatever the units of the columns."""
    penalised = gram + regularisation * np.eye(len(gram))
    sizes = np.sqrt(np.diag(penalised))
    if np.linalg.eigvalsh(penalised / np.outer(sizes, sizes))[0] <= _LOST * len(gram):
        raise InvalidInput(
            f"regularisation must be above {regularisation:g} for these columns, got some that depend on each other"
        )


def _refuse_if(wrong: NDArray[np.bool_], names: tuple[str, ...], what: str) -> None:
    if wrong.any():
        named = ", ".join(repr(name) for name, is_wrong in zip(names, wrong, strict=True) if is_wrong)
        raise InvalidInput(f"columns must be independent for inference, got some that {what}: {named}; leave some out")
