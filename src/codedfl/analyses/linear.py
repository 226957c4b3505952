"""Every linear model of a study from one total: moments, ridge, lasso, ordinary least squares, held-out scores.

The total is a Gram matrix in exact integers. Sums of squares about the mean are made in exact integers too,
n G - g g', and only then become floats: however far a column's mean lies from its deviation, no digit is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.analyses.heads import ClassSums
from codedfl.analyses.inference import CONSTANT, Inference
from codedfl.analyses.lasso import LassoPath
from codedfl.analyses.least_squares import LeastSquaresFit
from codedfl.analyses.penalised import elastic_net_path, gcv_choice, weights_of_path
from codedfl.analyses.scoring import NumberScore
from codedfl.contract.study import GCV, Study, factors_of
from codedfl.data.columns import CategoryColumn, Column, NumberTarget
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
_DEPEND = "depend on each other (one clipped value would hide it)"
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

    >>> from codedfl.analyses.linear import LinearTotal
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
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
        behind = statistic.width if study.site_effects else 0
        split = len(self.integers) - behind
        parts = np.array_split(np.array(self.integers[:split], dtype=object), 1 + study.holds_out_gram)
        self._parts = [_Part(part, place) for part in parts]
        self._behind = self.integers[split:]
        scales = study.gram_scales
        self._scales, self._target_scales = np.split(scales, [len(study.design_names)])
        if behind:  # means as they are, in the units of the matrix
            self._parts[0].sums = np.array([*self._behind[:-1]], dtype=object) * scales.astype(object)
        self._training = self._parts[0]
        if self._training.rows < 1:
            raise InvalidInput(f"a total must have at least one training row, got {self._training.rows}")

    def __repr__(self) -> str:
        return f"<LinearTotal of {self.rows} rows, {len(self.study.design_names)} columns>"

    def counts(self) -> list[list[int]]:
        """The matrix of [1, X, Y] in whole numbers: of columns of 0 and 1, how many rows have both."""
        return [[int(one) for one in row] for row in self._training.gram]

    @property
    def rows(self) -> int:
        """Training rows."""
        return self._training.rows

    @property
    def held_out(self) -> int:
        """Held-out rows that are in the total."""
        return self._parts[1].rows if len(self._parts) > 1 else 0

    @property
    def constants(self) -> int:
        """Constants of the model: 1, or with site effects the devices that have rows."""
        return self._behind[-1] if self._behind else 1

    @property
    def _design_units(self) -> tuple[Floats, Floats]:
        """(step, zero): a mean in reals is zero + step * integer, for each design column of the matrix."""
        return self.study.units.step / self._scales, self.study.units.zero

    @property
    def _target_units(self) -> tuple[Floats, Floats]:
        return self.study.target_units.step / self._target_scales, self.study.target_units.zero

    def only(self, columns: Iterable[str]) -> LinearTotal:
        """The total of these columns of the table alone: the sub-model's, with a study of its own."""
        names = tuple(columns)
        known = [one.name for one in self.study.columns]
        for name in names:
            if name not in known:
                raise InvalidInput(f"columns must be of the study ({', '.join(known)}), got {name!r}")
        chosen = [one.name in names for one in self.study.columns]
        widths = [len(one.design_names) for one in self.study.columns]
        return self._of(self.study.only(names), np.repeat(chosen, widths))

    def without_empty(self) -> LinearTotal:
        """Without levels that no training row has, and products with such: they have no coefficients.

        The first level that is there is the reference.
        """
        columns: list[Column] = []
        kept: list[bool] = []
        # Less a device's means sums are about 0: those of the columns as they are come behind.
        sums = np.array(self._behind[:-1], dtype=object) if self._behind else self._training.gram[0, 1:]
        varies = self._training.variance > 0
        for one in self.study.columns:
            at = slice(len(kept), len(kept) + one.width)
            if isinstance(one, CategoryColumn) and one.width:
                there = [self.rows > sum(sums[at]), *(sums[at] > 0)]
                levels = tuple(level for level, some in zip(one.levels, there, strict=True) if some)
                kept += [some and level != levels[0] for level, some in zip(one.levels, there, strict=True)][1:]
                if len(levels) > 1:
                    columns.append(CategoryColumn(one.name, levels))
                elif one.name in self.study.inputs:
                    columns.append(one.beside())
            elif any(factor.marks for factor in factors_of(one)) and not varies[at].any():
                kept += [False] * one.width
            else:
                columns.append(one)
                kept += [True] * one.width
        return self if all(kept) else self._of(replace(self.study, columns=tuple(columns), models=()), kept)

    def _of(self, study: Study, chosen: Sequence[bool] | NDArray[np.bool_]) -> LinearTotal:
        """The part of the total of some design columns, which are those of ``study``."""
        kept = np.flatnonzero([True, *chosen, *[True] * len(self.study.target.units)])
        place = np.triu_indices(len(kept))
        triangles = [one for part in self._parts for one in part.gram[np.ix_(kept, kept)][place]]
        behind = [*(self._behind[one - 1] for one in kept[1:]), self._behind[-1]] if self._behind else []
        return LinearTotal(study, [*triangles, *behind])

    @property
    def scaled_gram(self) -> Floats:
        """Products of a constant, the design columns and the target, each divided by its largest size."""
        limits = np.concatenate(([1], self.study.units.limit, self.study.target_units.limit))
        return np.asarray(self._training.gram.astype(np.float64) / np.outer(limits, limits))

    @property
    def scatter(self) -> NDArray[Any]:
        """n^2 times the covariance of the design columns and the target, in exact integers of their steps."""
        return self._training.scatter

    # -- moments

    def moments(self) -> Moments:
        """Means and variances of the design columns over all training rows, in their own units."""
        step, zero = self._design_units
        mean = zero + step * self._training.mean[: len(step)]
        return Moments(self.rows, mean, np.square(step) * self._training.variance[: len(step)])

    def covariance(self) -> Floats:
        """The covariance of the design columns over all training rows, in their own units."""
        step, _ = self._design_units
        d = len(step)
        return self._training.scatter[:d, :d].astype(np.float64) / self.rows**2 * np.outer(step, step)

    # -- penalised models

    @cached_property
    def recipe(self) -> Recipe:
        """How raw rows become features: by the public ranges, so that a model shows nothing but its coefficients."""
        return self.study.recipe()

    def ridge(self, regularisation: float | str | None = None) -> Floats:
        """Theta of the features of ``recipe``; the constant is not penalised.

        It minimises the mean squared error plus lambda times |Theta|^2, of columns centred and scaled as the study says
        for the penalty. A column without variance gets 0.

        regularisation: lambda, or "gcv" (``chosen``); None is the study's.
        """
        weight = self.chosen(regularisation)
        used, scale, gram, cross = self._scaled
        slopes = np.zeros((len(scale), cross.shape[1]))
        if len(used):
            _refuse_singular(gram, weight)
            slopes[used] = ridge_solution(gram, cross, weight) / scale[used, None]
        return self._theta(slopes)

    def chosen(self, regularisation: float | str | None = None) -> float:
        """Lambda of the ridge as a number: "gcv" takes the one with the least generalised cross-validation."""
        said = self.study.regularisation if regularisation is None else regularisation
        if said == GCV:
            used, _, gram, cross = self._scaled
            units, _ = self._labels(self._training)
            squares = float(np.square(units) @ self._training.variance[len(self.study.design_names) :])
            return gcv_choice(gram, cross, squares, self.rows) if len(used) else 0.0
        if isinstance(said, str) or not 0 <= said < np.inf:
            raise InvalidInput(f"regularisation must be {GCV!r}, or at least 0 and finite, got {said}")
        return said

    def model(self, regularisation: float | str | None = None, **provenance: Any) -> TrainedModel:
        """The ridge as a model that predicts from raw tables; ``provenance`` is kept in its file."""
        weight = self.chosen(regularisation)
        return self._model(self.ridge(weight), regularisation=weight, **provenance)

    def lasso(self, l1_ratio: float = 1.0, weights: Sequence[float] | None = None) -> LassoPath:
        """The lasso, or with ``l1_ratio`` below 1 the elastic net, for every weight of a path.

        It minimises half the mean squared error, in the target's unit, plus weight (l1_ratio |b|_1 + (1 - l1_ratio)
        |b|^2 / 2), of columns scaled as for the ridge: scikit-learn's ``ElasticNet``, whose alpha is the weight.

        weights: None takes a hundred, from where all coefficients are zero down to a thousandth.
        """
        if not isinstance(self.study.target, NumberTarget):
            raise InvalidInput("a lasso must have a number to predict, got classes")
        used, scale, gram, cross = self._scaled
        towards = cross[:, 0] * self._half_range
        path = weights_of_path(towards, l1_ratio) if weights is None else np.sort(np.array(weights, float))[::-1]
        if not (path >= 0).all():
            raise InvalidInput(f"weights must be at least 0, got {path.min():g}")
        slopes = np.zeros((len(path), len(scale)))
        slopes[:, used] = elastic_net_path(gram, towards, path, l1_ratio) / scale[used]
        thetas = [self._theta(one[:, None] / self._half_range) for one in slopes]
        (step,), (zero,) = self._target_units
        constants = zero + step * self._training.mean[-1] - slopes @ self.moments().mean
        held_out = [self.score(theta) for theta in thetas]
        judged = [one.r_squared for one in held_out if one is not None] or [self._bic(one) for one in slopes]
        best = int(np.argmax(judged) if self.held_out else np.argmin(judged))
        names = (CONSTANT, *self.study.design_names)
        model = self._model(thetas[best], weight=float(path[best]), l1_ratio=l1_ratio)
        criterion = "R^2 on held-out rows" if self.held_out else "BIC"
        table = np.column_stack((constants, slopes))
        return LassoPath(l1_ratio, names, path, table, np.array(judged), criterion, best, model)

    def _bic(self, slopes: Floats) -> float:
        """Of normal residuals, but for a constant; each coefficient that is not zero counts."""
        step, _ = self._design_units
        (unit,), _ = self._target_units
        errors = np.append(-step * slopes, unit)
        left = errors @ self._training.scatter.astype(np.float64) @ errors / self.rows**2
        return float(self.rows * np.log(left) + np.log(self.rows) * (1 + np.count_nonzero(slopes)))

    @cached_property
    def _scaled(self) -> tuple[Integers, Floats, Floats, Floats]:
        """Columns that vary, the scale of all for the penalty, and X'X/n and X'Y/n of the former, centred."""
        step, _ = self._design_units
        d, n = len(step), self.rows
        of_columns = self.study.units
        deviation = step * np.sqrt(self._training.variance[:d])
        scale = np.where(of_columns.by_moments, deviation, of_columns.high - of_columns.low)
        used = np.flatnonzero(self._training.variance[:d] > 0)
        units = step[used] / (n * scale[used])
        label_units, _ = self._labels(self._training)
        scatter = self._training.scatter[used].astype(np.float64)
        gram = scatter[:, used] * np.outer(units, units)
        return used, scale, gram, scatter[:, d:] * np.outer(units, label_units / n)

    def _theta(self, slopes: Floats) -> Floats:
        """Theta of ``recipe`` for slopes of the labels per unit of the columns, through the means of all."""
        _, label_means = self._labels(self._training)
        scaling = self.recipe.preprocessing
        constant = (label_means - (self.moments().mean - scaling.shift) @ slopes) / self._constant
        return np.vstack((constant, slopes * scaling.scale[:, None]))

    def _model(self, theta: Floats, **provenance: Any) -> TrainedModel:
        about = {"study": self.study.name, "label": self.study.target.name, "rows": self.rows, **provenance}
        return TrainedModel(theta, self.recipe, about)

    def class_sums(self) -> ClassSums:
        """What heads are made of, in the columns' own units: shares, means and the covariance, over training rows."""
        step, _ = self._design_units
        d, part = len(step), self._training
        counts = np.array([int(one) for one in part.sums[d:]], dtype=np.float64)
        # n sum_ik - sum_i n_k in exact integers: n n_k times the mean of a class less the mean of all.
        cross = part.scatter[:d, d:].astype(np.float64)
        means = step[:, None] * cross / (self.rows * np.maximum(counts, 1.0))
        return ClassSums(self.rows, counts, self.moments().mean, self.covariance(), means.T)

    def head_theta(self, slopes: Floats, constants: Floats) -> Floats:
        """Theta of ``recipe`` for scores = constants + x slopes of the columns in their own units."""
        scaling = self.recipe.preprocessing
        constant = (constants + scaling.shift @ slopes) / self._constant
        return np.vstack((constant, slopes * scaling.scale[:, None]))

    def trained(self, theta: Floats, **provenance: Any) -> TrainedModel:
        """A Theta of ``recipe`` as a model that says which study it is of."""
        return self._model(theta, digest=self.study.digest().hex(), **provenance)

    def on_design(self, theta: Floats) -> Floats:
        """Theta for a constant and the design columns divided by their largest size: as ``score`` takes it."""
        scaling = self.recipe.preprocessing
        step, zero = self._design_units
        weights = theta[1:] / np.where(scaling.scale > 0, scaling.scale, np.inf)[:, None]
        constant = self._constant * theta[0] + (zero - scaling.shift) @ weights
        return np.vstack((constant, weights * (step * self.study.units.limit)[:, None]))

    def score(self, theta: Floats) -> NumberScore | None:
        """How good a Theta of ``recipe`` is on the held-out rows, for a number to predict; None if there are none."""
        if not self.held_out:
            return None
        part, d = self._parts[1], len(self.study.design_names)
        (unit,), (mean,) = self._labels(part)
        scaling = self.recipe.preprocessing
        step, zero = self._design_units
        weights = theta[1:, 0] / np.where(scaling.scale > 0, scaling.scale, np.inf)
        predicted = self._constant * theta[0, 0] + (zero + step * part.mean[:d] - scaling.shift) @ weights
        errors = np.append(-step * weights, unit)
        about_mean = errors @ part.scatter.astype(np.float64) @ errors / part.rows
        half = self._half_range
        squares = max(0.0, about_mean + part.rows * (mean - predicted) ** 2)
        return NumberScore.of(part.rows, half**2 * squares, half**2 * unit**2 * part.rows * part.variance[d])

    # -- ordinary least squares

    def coefficients(self) -> Floats:
        """Of least squares, in the columns' units, the constant first; they exist where no error is left, too."""
        d, part = len(self.study.design_names), self._training
        if self.rows <= d + self.constants:
            raise InvalidInput(f"rows must be more than the coefficients ({d + self.constants}), got {self.rows}")
        _refuse_if(part.variance[:d] == 0, self.study.design_names, "are constant")
        (step_y,), (zero_y,) = self._target_units
        step, zero = self._design_units
        _, weights, _ = self._least_squares
        slopes = weights * step_y / step
        means = zero + step * part.mean[:d]
        return np.append(zero_y + step_y * part.mean[d] - means @ slopes, slopes)

    def ols(self, level: float = 0.95) -> Inference:
        """Coefficients in the columns' units with standard errors and p values, without a penalty.

        level: the level of the confidence intervals.
        """
        if not isinstance(self.study.target, NumberTarget):
            raise InvalidInput("inference must have a number to predict, got classes")
        names, d, n = self.study.design_names, len(self.study.design_names), self.rows
        coefficients, part = self.coefficients(), self._training
        if part.variance[d] == 0:
            raise InvalidInput(f"the target {self.study.target.name!r} must vary for inference, got a constant")
        inverse, _, left = self._least_squares
        if left <= _NO_RESIDUAL:
            raise InvalidInput(
                f"the target {self.study.target.name!r} must not be a sum of columns for inference, got one that is"
                " without error: leave out what it is made of"
            )
        (step_y,), _ = self._target_units
        step, zero = self._design_units
        variance = step_y**2 * part.variance[d] * left * n / (n - d - self.constants)
        means = zero + step * part.mean[:d]
        of_slopes = n * variance * inverse / np.outer(step, step)
        with_constant = -means @ of_slopes
        corner = variance / n - with_constant @ means
        covariance = np.block([[np.array([[corner]]), with_constant[None, :]], [with_constant[:, None], of_slopes]])
        fit = LeastSquaresFit(self.study.target.title, n, d, 1.0 - left, float(variance**0.5), self.constants)
        about = (self.references, level, self.spreads)
        return Inference((CONSTANT, *names), coefficients, covariance, fit.freedom, fit, *about)

    @property
    def spreads(self) -> tuple[float, ...]:
        """Of the constant and each design column: its deviation to two digits, which show no counts.

        1 of a level, and of a number that is one of two.
        """
        rough = (float(f"{one:.1e}") for one in np.sqrt(self.moments().variance))
        known = zip(rough, self.study.units.measured, self._of_two(), strict=True)
        return (1.0, *(one if flag and one and not two else 1.0 for one, flag, two in known))

    def _of_two(self) -> Iterator[bool]:
        for one in self.study.columns:
            two = not isinstance(one, CategoryColumn) and one.grid.n_steps == 1
            yield from [two] * one.width

    @property
    def references(self) -> tuple[tuple[str, str], ...]:
        """Each category with the level that its others are compared with, after rare ones were merged."""
        return tuple((one.name, one.levels[0]) for one in self.study.columns if isinstance(one, CategoryColumn))

    def vif(self) -> dict[str, float]:
        """How many times the variance of each coefficient is what it would be if no column depended on others."""
        names = self.study.design_names
        _refuse_if(self._training.variance[: len(names)] == 0, names, "are constant")
        inverse, _, _ = self._least_squares
        spread = self.rows**2 * self._training.variance[: len(names)]
        return dict(zip(names, (np.diag(inverse) * spread).tolist(), strict=True))

    @cached_property
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
        return inverse, weights, (total - int(explained)) / total if total else 0.0

    def _inverse(self, correlation: Floats) -> Floats:
        """By eigenvectors, which say which columns depend on each other: where a direction's variance is rounding."""
        values, vectors = np.linalg.eigh(correlation)
        lost = values <= _SINGULAR * values[-1]
        if lost.any():
            parts = np.abs(vectors[:, lost]).max(axis=1)
            _refuse_if(parts >= _NAMED * parts.max(), self.study.design_names, _DEPEND)
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
        step, zero = self._target_units
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
        self.sums = self.gram[0, 1:]

    @cached_property
    def scatter(self) -> NDArray[Any]:
        """n G - g g' in Python's integers: n^2 times the covariance of the columns behind the constant."""
        sums = self.gram[0, 1:]
        return np.asarray(self.rows * self.gram[1:, 1:] - np.outer(sums, sums))

    @cached_property
    def mean(self) -> Floats:
        """In integers' units, each rounded once."""
        return np.array([one / self.rows for one in self.sums])

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


def by_level_of(study: Study, found: Inference) -> Inference:
    """With a constant for each level of the category that the study names for it, if it names one.

    Examples
    --------
    See ``Inference.by_level``, which does it.
    """
    columns = (one for one in study.columns if one.name == study.constant_by)
    levels = next((one.levels for one in columns if isinstance(one, CategoryColumn)), ())
    return found.by_level(study.constant_by, levels) if levels else found


def _refuse_if(wrong: NDArray[np.bool_], names: tuple[str, ...], what: str) -> None:
    if wrong.any():
        named = ", ".join(repr(name) for name, is_wrong in zip(names, wrong, strict=True) if is_wrong)
        raise InvalidInput(f"columns must be independent for inference, got some that {what}: {named}; leave some out")
