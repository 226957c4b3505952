"""The public grid of a number: every value is a whole number before anything is summed.

Sums of whole numbers are exact, so moving a row from one device to another changes no bit of a total. The step is the
unit of record (whole years, 0.1 kg) of the site that writes coarsest: a finer one would tell who wrote the finer value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Integers, Rows

GAP = -1  # the code of a missing number
MOST_STEPS = 1 << 24


@dataclass(frozen=True)
class Grid:
    """Code k stands for low + k * step, k = 0 .. n_steps; ``offset`` is the code that becomes the integer 0.

    >>> ages = Grid("range of 'age'", (0.0, 110.0), 1.0)
    >>> ages.n_steps, ages.offset, ages.codes(np.array([61.2, -5.0, np.nan]))[0].tolist()
    (110, 55, [61, 0, -1])
    """

    what: str
    range: tuple[float, float]
    step: float

    def __post_init__(self) -> None:
        low, high = self.range
        if not -np.inf < low < high < np.inf or high - low == np.inf:
            raise InvalidInput(f"{self.what} must be [low, high] with low < high, got {[low, high]}")
        if not 0 < self.step <= high - low:
            raise InvalidInput(f"{self.what} must be at least one step wide, got {[low, high]} and step {self.step:g}")
        if (high - low) / self.step > MOST_STEPS:
            raise InvalidInput(
                f"{self.what} must have at most {MOST_STEPS} steps, got {(high - low) / self.step:.3g}: take a coarser"
                " step or a narrower range"
            )

    @property
    def n_steps(self) -> int:
        return round((self.range[1] - self.range[0]) / self.step)

    @property
    def offset(self) -> int:
        return self.n_steps // 2

    @property
    def zero(self) -> float:
        """The real number that the integer 0 stands for."""
        return self.range[0] + self.offset * self.step

    @property
    def limit(self) -> int:
        """The largest integer in size."""
        return self.n_steps - self.offset

    def codes(self, values: Floats) -> tuple[Integers, int]:
        """Clipped to the range and rounded to the grid, with ``GAP`` for NaN; and how many were clipped."""
        low, high = self.range
        with np.errstate(invalid="ignore"):
            clipped = int(((values < low) | (values > high)).sum())
            steps = np.rint((np.clip(values, low, high) - low) / self.step)
        return np.where(np.isnan(values), GAP, np.nan_to_num(steps)).astype(np.int64), clipped

    def values(self, codes: Integers) -> Floats:
        """Real numbers of codes that are no missing values."""
        return self.range[0] + codes.astype(np.float64) * self.step

    def decimals(self, codes: Integers) -> Floats:
        """The same as people write them: 0.3, where ``values`` may have a sum that is above it in its last bit.

        What is made of a column, such as x > 0.3, is then what it is of the table.

        >>> grid = Grid("range of 'x'", (0.0, 1.0), 0.1)
        >>> grid.values(np.array([3])) > 0.3, grid.decimals(np.array([3])) > 0.3
        (array([ True]), array([False]))
        """
        reach, finest = max(abs(self.range[0]), abs(self.range[1])), math.ceil(-math.log10(self.step)) + 4
        return np.round(self.values(codes), min(max(11 - math.floor(math.log10(reach)), finest), 20))


class WithUnits(Protocol):
    """A column, as far as its design columns go."""

    @property
    def units(self) -> list[Units]: ...


class Units(NamedTuple):
    """What the integers of a design column stand for, real = zero + step * integer; or arrays of that, for several.

    limit: the largest integer in size. low, high: the range in reals.
    by_moments: whether the penalty weighs it by its deviation.
    measured: whether it is a number of the table; levels and marks of missing values are not.
    """

    step: Any
    zero: Any
    limit: Any
    low: Any
    high: Any
    by_moments: Any = False
    measured: Any = True

    @classmethod
    def on(cls, grid: Grid, by_moments: bool = False) -> Units:
        """Of a number on its grid."""
        return cls(grid.step, grid.zero, grid.limit, *grid.range, by_moments)

    @classmethod
    def of(cls, *columns: WithUnits) -> Units:
        """Of all design columns that these become, as arrays."""
        return cls(*map(np.array, zip(*(one for column in columns for one in column.units), strict=True)))

    def unscaling(self) -> Floats:
        """The matrix that takes coefficients of a constant and of columns divided by ``limit`` to those of reals."""
        size = self.step * self.limit
        change = np.diag(np.append(1.0, 1.0 / size))
        change[0, 1:] = -self.zero / size
        return change


LEVEL = Units(1.0, 0.0, 1, 0.0, 1.0, measured=False)


def no_step(what: str) -> str:
    """Why a number without a unit of record is refused: a finer grid than the others' unit tells who wrote finer."""
    return (
        f"step of {what} must be said, got nothing: the unit that every site records, such as step = 1 for whole"
        " numbers or step = 0.1 for one decimal"
    )


def as_used(grid: Grid, codes: Integers) -> Rows:
    """The numbers of codes as texts to twelve digits: grids that put a value at the same place differ in its last."""
    different, places = np.unique(codes, return_inverse=True)
    return np.array([f"{value:.12g}" for value in grid.values(different).tolist()], dtype=np.str_)[places]
