"""What one step of Newton's iteration for a generalised linear model needs, at coefficients that the server names.

Each row's terms are rounded to a public grid before anything is added up, by arithmetic that is the same on all
machines, so that moving a row from one device to another changes no bit of a total.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property, lru_cache
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.glm import GlmModel
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import GAP, CategoryColumn, Column, DerivedColumn
from codedfl.errors import InvalidInput
from codedfl.statistics.families import Family, family_of, target_values
from codedfl.statistics.rounded import Rounded, SumOfRows, products
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Integers


@runtime_checkable
class Bounded(Protocol):
    """A model whose linear predictor has a bound.

    Examples
    --------
    >>> from codedfl.contract.models.logistic import LogisticModel
    >>> from codedfl.statistics.newton import Bounded
    >>> isinstance(LogisticModel("ill", ("age",)), Bounded)
    True
    """

    name: str
    bound: float


class Iterated(Rounded):
    """What a step of an iteration needs at coefficients: three sums, a gradient, and the upper triangle of a curvature.

    summed: what leaves, in words. points: what the server chooses. by: what a model's rows belong together by, of it.

    Examples
    --------
    See ``Newton``, which is one.
    """

    no_noise: ClassVar[str] = "no bound on one row's part in the coefficients is stated"
    summed: ClassVar[str]
    points: ClassVar[str] = "points"
    by: ClassVar[str] = ""

    def _begin(self) -> None:
        """Coefficients that lead beyond the model's bound somewhere in the ranges are refused."""
        assert isinstance(self.model, Bounded)
        refuse_beyond(self.study, self.model, self.beta, self.model.bound)
        super()._begin()

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model that is fitted in iterations."""
        most = f"for at most {study.most_points} {cls.points} of the server's choice in all"
        return f"{cls.summed}, {most} ({cls.named(study)})"

    @classmethod
    def named(cls, study: Study) -> str:
        """The models with their bounds."""
        models = (one for one in study.models if cls.name in one.statistics and isinstance(one, Bounded))
        return "; ".join(f"{one.name}{cls.by.format(one)}, linear predictor up to {one.bound:g}" for one in models)

    @property
    def length(self) -> int:
        """Three sums, the gradient, the triangle."""
        d = len(self.point)
        return 3 + d + d * (d + 1) // 2

    @property
    @abstractmethod
    def beta(self) -> Floats:
        """The coefficients of a constant and of the scaled columns."""


@register_statistic
class Newton(Iterated, SumOfRows):
    """Gradient, X'WX and log-likelihood over the training rows, at coefficients of a constant and the scaled columns.

    The vector is: the weights, the log-likelihood, the largest that any coefficients could reach, the gradient, and the
    upper triangle of X'WX row by row. The point is the constant, then one coefficient per design column of the model,
    each column divided by its largest size, so that it lies between -1 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.logistic import LogisticModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> from codedfl.statistics.newton import Newton
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> model = LogisticModel("ill", ("age",))
    >>> study = Study("stays", (age,), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3, models=(model,))
    >>> Newton(study, np.zeros(2), model).length
    8
    >>> Newton(study, np.array([0.0, 11.0]), model)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the linear predictor of 'ill' must lie within -10 and 10 over the ranges, got [-11, 11]
    """

    name: ClassVar[str] = "newton"
    version: ClassVar[int] = 2
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points"})
    shows: ClassVar[str] = (
        "Sums weighted by what the coefficients predict for each row. Iterations of columns with few combinations show"
        " how many rows each has, even if few; for other columns nothing is proven. A malicious server chooses"
        " the coefficients, within the bound and the number of points that the study states."
    )
    summed: ClassVar[str] = (
        "sums of the columns and of their products, weighted by what the model predicts, and its likelihood"
    )
    points: ClassVar[str] = "coefficients"

    def _begin(self) -> None:
        assert isinstance(self.model, GlmModel)
        self._glm = self.model
        super()._begin()

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """The constant and the design columns of the model."""
        return n_coefficients(study, model)

    @cached_property
    def largest(self) -> int:
        """From the bound on the linear predictor."""
        most = self.family.most(self._glm.bound)
        return int(np.ceil(self.study.max_rows * most * max(self.most_weight, 1.0)))

    @property
    def family(self) -> Family:
        """What is predicted follows it."""
        return family_of(self.study, self.model)

    def outcome(self, codes: Integers, target: Integers) -> Floats:
        """What is predicted."""
        del codes
        return target_values(self.study, target)

    @property
    def most_weight(self) -> float:
        """The largest weight of a row."""
        return self._column(self._glm.weights).grid.range[1] if self._glm.weights else 1.0

    def terms(self, codes: Integers, target: Integers) -> Floats:
        """n x length numbers: what each row adds, before it is rounded."""
        X, weight, y = scaled_design(self.study, self._glm, codes), self.weight(codes), self.outcome(codes, target)
        likelihood, best, residual, curvature = self.family.terms(y, self.predictor(codes))
        sums = np.stack((weight, weight * likelihood, weight * best), axis=1)
        return np.hstack((sums, (weight * residual)[:, None] * X, products(X, weight * curvature)))

    def predictor(self, codes: Integers) -> Floats:
        """The linear predictor of each row."""
        found = linear_predictor(scaled_design(self.study, self._glm, codes), self.beta)
        return found + self._values(self._glm.offset, codes) if self._glm.offset else found

    @property
    def beta(self) -> Floats:
        """The coefficients, where a kind's point has more behind them."""
        return self.point[: n_coefficients(self.study, self._glm)]

    def weight(self, codes: Integers) -> Floats:
        """How often each row counts."""
        return self._values(self._glm.weights, codes) if self._glm.weights else np.ones(len(codes))

    def _column(self, name: str) -> Column:
        return next(one for one in self.study.columns if one.name == name)

    def _values(self, name: str, codes: Integers) -> Floats:
        place = self.study.table_columns.names.index(name)
        return self.study.columns[place].grid.values(codes[:, place])


def columns_of(study: Study, model: StudyModel) -> list[Column]:
    """The columns of a model, in the order of the study.

    Examples
    --------
    See ``Newton``, whose columns they are.
    """
    return [one for one in study.columns if one.name in model.columns]


def n_coefficients(study: Study, model: StudyModel) -> int:
    """The constant, and the design columns of a model.

    Examples
    --------
    See ``Newton``, whose point has that length.
    """
    return 1 + sum(one.width for one in columns_of(study, model))


def scaled_design(study: Study, model: StudyModel, codes: Integers) -> Floats:
    """A constant, and the design columns of a model divided by their largest sizes.

    Examples
    --------
    See ``Newton``, which takes coefficients of them.
    """
    parts = [np.ones((len(codes), 1))]
    for place, one in enumerate(study.columns):
        if one.name in model.columns:
            parts.append(one.design(codes[:, place]) / np.array([unit.limit for unit in one.units], dtype=np.float64))
    return np.hstack(parts)


def linear_predictor(X: Floats, coefficients: Floats) -> Floats:
    """X times coefficients, column by column: a product of matrices may round a row differently among other rows.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.newton import linear_predictor
    >>> linear_predictor(np.array([[1.0, 0.5], [1.0, -1.0]]), np.array([2.0, 4.0]))
    array([ 4., -2.])
    """
    found = np.zeros(len(X))
    for column, coefficient in zip(X.T, coefficients, strict=True):
        found = found + column * coefficient
    return found


_MOST_LOOKED_AT = 1 << 16  # codes of a number
MOST_PREDICTION = 64.0  # of a linear model over the ranges, in half ranges of the target


def refuse_beyond(study: Study, model: StudyModel, point: Floats, bound: float) -> None:
    """Refuse coefficients whose linear predictor is beyond the bound somewhere in the ranges.

    Examples
    --------
    See ``Newton``, which begins with it.
    """
    low, high = predictor_range(study, model, point)
    if not -bound <= low <= high <= bound:
        raise InvalidInput(
            f"the linear predictor of {model.name!r} must lie within {-bound:g} and {bound:g} over the ranges, got"
            f" [{low:g}, {high:g}]"
        )


def predictor_range(study: Study, model: StudyModel, point: Floats) -> tuple[float, float]:
    """The least and the largest that the linear predictor can be for anything that the ranges allow.

    Examples
    --------
    See ``Newton``, which refuses a point whose range is too wide.
    """
    ends = [(float(point[0]), float(point[0])), *column_reaches(study, model, point).values()]
    low, high = np.array(ends).sum(axis=0).tolist()
    return low, high


def column_reaches(study: Study, model: StudyModel, point: Floats) -> dict[str, tuple[float, float]]:
    """The least and the largest that each column can add to the linear predictor, an offset among them.

    A number and what is made of it alone, such as its powers and splines, add together, under the number's name.

    Examples
    --------
    See ``Newton``, which refuses a point whose range is too wide.
    """
    parts, place = dict[str, list[tuple[Column, NDArray[np.float64]]]](), 1
    for one in columns_of(study, model):
        base = _number_of(study, one)
        parts.setdefault(base.name, []).append((one, point[place : place + one.width]))
        place += one.width
    bases = {one.name: one for one in study.columns}
    found = {name: _joint_reach(bases[name], some) for name, some in parts.items()}
    if offset := getattr(model, "offset", ""):
        found[offset] = bases[offset].grid.range
    return found


def _number_of(study: Study, one: Column) -> Column:
    """The number that a column is made of, where it is made of one alone whose grid can be looked through; or itself.

    A category is none: rows of a level that was merged keep what was made of their own level.
    """
    made_of = {factor.column for factor in factors_of(one)}
    base = next((of for of in study.columns if of.name in made_of), one)
    looked_through = len(made_of) == 1 and not isinstance(base, CategoryColumn) and base.grid.n_steps <= _MOST_LOOKED_AT
    return base if looked_through else one


def _joint_reach(base: Column, parts: list[tuple[Column, NDArray[np.float64]]]) -> tuple[float, float]:
    """Of columns that a number decides: by every code that it may have, since what a row has is made of its code."""
    if len(parts) == 1:
        return _reach(*parts[0])
    columns, coefficients = zip(*parts, strict=True)
    found = linear_predictor(_over_grid(base, columns), np.concatenate(coefficients))
    return float(found.min()), float(found.max())


@lru_cache(maxsize=16)
def _over_grid(base: Column, columns: tuple[Column, ...]) -> Floats:
    """Scaled design columns at every code of the number, and where it is missing if it may be."""
    codes = np.arange(base.grid.n_steps + 1)
    codes = codes if base.missing is None else np.append(codes, GAP)
    seen, parts = {base.name: base.values(codes)}, []
    for one in columns:
        # Invariant: as ``Study.codes`` makes them of a row, or a device would accept what its rows go beyond.
        of_it = one.codes(one.product(seen), one.name)[0] if isinstance(one, DerivedColumn) else codes
        parts.append(one.design(of_it) / np.array([unit.limit for unit in one.units], dtype=np.float64))
    return np.hstack(parts)


def _reach(one: Column, part: NDArray[np.float64]) -> tuple[float, float]:
    """One level at a time; a number lies between -1 and 1, and the mark of its missing values is 0 or 1."""
    ends = np.append(part if isinstance(one, CategoryColumn) else part[1:], 0.0)
    size = 0.0 if isinstance(one, CategoryColumn) else abs(float(part[0]))
    return float(ends.min()) - size, float(ends.max()) + size
