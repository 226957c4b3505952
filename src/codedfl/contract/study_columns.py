"""The columns of a study on their public grids: every value is a whole number before anything is summed.

Sums of whole numbers are exact, so moving a row from one device to another changes no bit of a total. The step is the
unit of record (whole years, 0.1 kg) of the site that writes coarsest: a finer one would tell who wrote the finer value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.data.columns import (
    OTHER,
    CategoryColumn,
    ColumnReport,
    DerivedColumn,
    NumberColumn,
    all_numbers,
    as_levels,
    without_codes,
)
from codedfl.data.labels import ClassLabels, TargetLabels
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Integers, JsonObject, Rows

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
        """Real numbers of codes that are no gaps."""
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


class Units(NamedTuple):
    """What the integers of a design column stand for, real = zero + step * integer; or arrays of that, for several.

    limit: the largest integer in size. low, high: the range in reals.
    by_moments: whether the penalty weighs it by its deviation.
    measured: whether it is a number of the table; levels and marks of gaps are not.
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
    def of(cls, *columns: StudyColumn | NumberTarget | ClassTarget) -> Units:
        """Of all design columns that these become, as arrays."""
        return cls(*map(np.array, zip(*(one for column in columns for one in column.units), strict=True)))

    def unscaling(self) -> Floats:
        """The matrix that takes coefficients of a constant and of columns divided by ``limit`` to those of reals."""
        size = self.step * self.limit
        change = np.diag(np.append(1.0, 1.0 / size))
        change[0, 1:] = -self.zero / size
        return change


_LEVEL = Units(1.0, 0.0, 1, 0.0, 1.0, measured=False)


@dataclass(frozen=True)
class StudyColumn:
    """One column of every device's table.

    column: its name, and what its gaps and levels become.
    range: the public range of a number, [low, high]. Values beyond are clipped to it and counted. None for a category.
    step: the unit of record of a number at the site that writes coarsest. None for a category.
    scale: how the penalty weighs a number: "moments" by its deviation over all devices, "range" by its range.

    >>> age = StudyColumn(NumberColumn("age"), (0.0, 110.0), 1.0)
    >>> codes, _ = age.codes(np.array([61.0, 200.0]), "t.csv")
    >>> codes.tolist(), age.values(codes).tolist()
    ([61, 110], [61.0, 110.0])
    """

    column: NumberColumn | CategoryColumn
    range: tuple[float, float] | None = None
    step: float | None = None
    scale: str = "moments"

    def __post_init__(self) -> None:
        name = self.column.name
        if isinstance(self.column, CategoryColumn):
            if self.range is not None or self.step is not None or self.scale != "moments":
                raise InvalidInput(f"column {name!r} must have no range, step or scale, being a category")
            return
        if self.range is None:
            raise InvalidInput(f"range of column {name!r} must be said, got nothing: what is possible, [low, high]")
        if self.step is None:
            raise InvalidInput(no_step(f"column {name!r}"))
        if self.scale not in ("range", "moments"):
            raise InvalidInput(f"scale of column {name!r} must be range or moments, got {self.scale!r}")
        low, high = self.grid.range
        if self.column.missing is not None and not low <= self.column.missing <= high:
            raise InvalidInput(f"missing of column {name!r} must lie within its range, got {self.column.missing:g}")
        if inside := [one for one in self.column.missing_codes if not isinstance(one, str) and low <= one <= high]:
            raise InvalidInput(
                f"missing_codes of column {name!r} must lie outside its range, got {inside[0]:g}: narrow the range"
            )

    @property
    def base(self) -> int:
        """The code that most rows may have in common: the lowest of a number, that of 0 of a derived column.

        Products with a level and splines are 0 wherever they have nothing to say.
        """
        if not isinstance(self.column, DerivedColumn):
            return 0
        return int(self.grid.codes(np.zeros(1))[0][0])

    @property
    def grid(self) -> Grid:
        """The grid of a number column."""
        assert self.range is not None and self.step is not None
        return Grid(f"range of column {self.column.name!r}", self.range, self.step)

    @property
    def width(self) -> int:
        """Design columns that it becomes."""
        return len(self.column.design_names)

    def codes(self, values: Rows, table: str) -> tuple[Integers, ColumnReport]:
        """The whole number of each row, and what was odd: a number's place on the grid, a category's level.

        A gap of a number is -1; so is, in a category, a value that the report refuses.
        """
        if isinstance(self.column, CategoryColumn):
            texts, report = self.column.named(values)
            order = np.argsort(self.column.levels)
            places = order[np.searchsorted(self.column.levels, texts, sorter=order) % len(order)]
            return np.where(texts == "", GAP, places).astype(np.int64), report
        plain = NumberColumn(self.column.name, missing_codes=self.column.missing_codes)
        numbers, report = plain.encode(values, table)
        codes, clipped = self.grid.codes(numbers[:, 0])
        return codes, replace(report, refused=self.column.missing is None, n_clipped=clipped)

    def values(self, codes: Integers) -> Rows:
        """The names of levels, or the real numbers of a number column, whose gaps take ``column.missing``."""
        if isinstance(self.column, CategoryColumn):
            return np.array(self.column.levels)[codes]
        fill = np.nan if self.column.missing is None else self.column.missing
        return np.where(codes == GAP, fill, self.grid.decimals(codes))

    def design(self, codes: Integers) -> Integers:
        """n x width integers: a number less its offset and the mark of its gaps; 0 or 1 for each level but the first.

        A gap takes the code of ``missing``.
        """
        if isinstance(self.column, CategoryColumn):
            return np.equal(codes[:, None], np.arange(1, 1 + self.width)).astype(np.int64)
        fill = 0.0 if self.column.missing is None else self.column.missing
        filled = np.where(codes == GAP, self.grid.codes(np.array([fill]))[0], codes) - self.grid.offset
        return np.stack([filled, codes == GAP], axis=1)[:, : self.width].astype(np.int64)

    def used(self, codes: Integers) -> Rows:
        """What a total sees of each row, as text that another study's column of this name can be compared with.

        A missing value is what fills it, also where it is marked: the census may drop the mark.
        """
        if isinstance(self.column, CategoryColumn):
            return np.array(self.column.levels)[codes]
        gap = "gap" if self.column.missing is None else f"gap {self.column.missing}"
        return np.where(codes == GAP, gap, _used(self.grid, codes))

    @property
    def units(self) -> list[Units]:
        """Of each design column: the number and the mark of its gaps, or levels."""
        if isinstance(self.column, CategoryColumn):
            return [_LEVEL] * self.width
        return [Units.on(self.grid, self.scale == "moments"), _LEVEL][: self.width]

    def beside(self) -> StudyColumn:
        """The column out of the model: others are made of it, or it weighs rows."""
        return replace(self, column=replace(self.column, in_model=False))

    def merged(self, gone: tuple[int, ...]) -> tuple[StudyColumn | None, Integers]:
        """The column with rare levels counted as "other", or without its mark of gaps; and the new code of each old.

        None if fewer than two levels are left, or for (1,) of a number: it would pick out people.
        """
        name = self.column.name
        if isinstance(self.column, NumberColumn):
            if gone not in ((), (0,), (1,)):
                raise InvalidInput(f"merged of column {name!r} must be (), (0,) or (1,), being a number, got {gone}")
            if gone == (1,):
                return None, np.arange(0)
            column = replace(self.column, indicator=False) if gone else self.column
            return replace(self, column=column), np.arange(0)
        levels = self.column.levels
        if gone != tuple(sorted({one for one in gone if 0 <= one < len(levels)})):
            raise InvalidInput(f"merged of column {name!r} must be ascending places of its levels, got {gone}")
        if not gone:
            return self, np.arange(len(levels))
        other = self.column.other or OTHER
        taken = {levels[one] for one in gone}
        kept = tuple(level for level in levels if level not in taken or level == other)
        kept = kept if other in kept else (*kept, other)
        codes = np.array([kept.index(level if level not in taken else other) for level in levels])
        if len(kept) < 2:
            return None, codes
        missing = other if self.column.missing in taken else self.column.missing
        rare = tuple(level for level in levels if level in taken and level != other)
        return StudyColumn(replace(self.column, levels=kept, missing=missing, merged=rare)), codes

    def to_dict(self) -> JsonObject:
        of_number = {"range": self.range, "step": self.step, "scale": self.scale} if self.range else {}
        return {**self.column.to_dict(), **of_number}


@dataclass(frozen=True)
class NumberTarget:
    """A number to predict, on a public grid as every number column is.

    name: the column's name.
    range: public, [low, high]; values beyond are clipped to it and counted.
    step: its unit of record at the site that writes coarsest.
    missing_codes: numbers and texts that the tables have in place of a gap.
    function: of what tables have, such as "log", which is then predicted; range and step are the function's.

    >>> NumberTarget("days", (0.0, 60.0), 1.0).codes(np.array([7.0]), "t.csv")[0].tolist()
    [7]
    >>> NumberTarget("cost", (0.0, 20.0), 1.0, function="log2").codes(np.array([8.0]), "t.csv")[0].tolist()
    [3]
    """

    name: str
    range: tuple[float, float]
    step: float
    missing_codes: tuple[float | str, ...] = ()
    function: str = ""

    def __post_init__(self) -> None:
        self.labels()

    @property
    def title(self) -> str:
        """What is predicted: the column, or the function of it."""
        return f"{self.function}({self.name})" if self.function else self.name

    @property
    def grid(self) -> Grid:
        return Grid(f"range of the target {self.title!r}", self.range, self.step)

    def labels(self) -> TargetLabels:
        low, high = self.range
        return TargetLabels(float(low), float(high), self.function)

    def codes(self, values: Rows, table: str) -> tuple[Integers, int]:
        """The place of each row's value on the grid, and how many were clipped. Gaps are refused."""
        values = without_codes(values, self.missing_codes)
        _check_no_gaps(self.name, values, table)
        values = all_numbers(values, f"the target {self.name!r} of {table}")
        if np.isinf(values).any():
            raise InvalidInput(f"the target {self.name!r} of {table} must hold finite numbers, got an infinite one")
        found = self.labels().measured(values)
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found))[0])
            raise InvalidInput(
                f"{self.title} of {table} must be defined in all rows, got {values[row]:g} in row {row + 1}: leave such"
                " rows out (missing_codes), or take log1p"
            )
        return self.grid.codes(found)

    def values(self, codes: Integers) -> Rows:
        return self.grid.values(codes)

    def design(self, codes: Integers) -> Integers:
        return codes[:, None] - self.grid.offset

    def used(self, codes: Integers) -> Rows:
        return _used(self.grid, codes)

    @property
    def units(self) -> list[Units]:
        return [Units.on(self.grid)]

    def to_dict(self) -> JsonObject:
        codes = {"missing_codes": self.missing_codes} if self.missing_codes else {}
        function = {"function": self.function} if self.function else {}
        return {"name": self.name, "range": self.range, "step": self.step, **codes, **function}


@dataclass(frozen=True)
class ClassTarget:
    """One of some public classes to predict.

    name: the column's name.
    classes: all there may be, text or whole numbers, in the file's order: of two the second is the one modelled.
    missing_codes: texts or numbers that the tables have in place of a gap.

    >>> ClassTarget("sick", ("no", "yes")).codes(np.array(["yes", "no"]), "t.csv")[0].tolist()
    [1, 0]
    """

    name: str
    classes: tuple[str, ...] | tuple[int, ...]
    missing_codes: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        self.labels()

    def labels(self) -> ClassLabels:
        return ClassLabels(self.classes)

    @property
    def title(self) -> str:
        """What is predicted: the column."""
        return self.name

    @property
    def modelled(self) -> str:
        """Of two classes the one whose odds a model tells; "" of more.

        >>> ClassTarget("sick", ("yes", "no")).modelled
        'no'
        """
        return str(self.classes[1]) if len(self.classes) == 2 else ""

    def codes(self, values: Rows, table: str) -> tuple[Integers, int]:
        """The place of each row's class, and 0: none is clipped. Gaps and unknown classes are refused."""
        values = without_codes(values, self.missing_codes)
        _check_no_gaps(self.name, values, table)
        classes = self.classes
        named = as_levels(values, [str(one) for one in classes]) if isinstance(classes[0], str) else values
        unknown = ~np.isin(named, classes)
        if unknown.any():
            raise InvalidInput(
                f"the target {self.name!r} of {table} must hold its classes only, got {named[unknown][0].item()!r}"
                f" ({int(unknown.sum())} such rows): add the class, or leave those rows out"
            )
        return self.labels().places(named), 0

    def values(self, codes: Integers) -> Rows:
        return np.array(self.classes)[codes]

    def design(self, codes: Integers) -> Integers:
        return np.equal(codes[:, None], np.arange(len(self.classes))).astype(np.int64)

    def used(self, codes: Integers) -> Rows:
        return np.array([str(one) for one in self.classes])[codes]

    @property
    def units(self) -> list[Units]:
        return [_LEVEL] * len(self.classes)

    def to_dict(self) -> JsonObject:
        codes = {"missing_codes": self.missing_codes} if self.missing_codes else {}
        return {"name": self.name, "classes": self.classes, **codes}


def no_step(what: str) -> str:
    """Why a number without a unit of record is refused: a finer grid than the others' unit tells who wrote finer."""
    return (
        f"step of {what} must be said, got nothing: the unit that every site records, such as step = 1 for whole"
        " numbers or step = 0.1 for one decimal"
    )


def _used(grid: Grid, codes: Integers) -> Rows:
    """To twelve digits: grids that put a value at the same place differ in its last bits."""
    different, places = np.unique(codes, return_inverse=True)
    return np.array([f"{value:.12g}" for value in grid.values(different).tolist()], dtype=np.str_)[places]


def gaps(values: Rows) -> NDArray[np.bool_]:
    """Which values are missing.

    >>> gaps(np.array(["a", ""])).tolist(), gaps(np.array([1.0, np.nan])).tolist()
    ([False, True], [False, True])
    """
    missing: NDArray[np.bool_] = values == "" if values.dtype.kind == "U" else np.isnan(values)
    return missing


def _check_no_gaps(name: str, values: Rows, table: str) -> None:
    gap = gaps(values)
    if gap.any():
        raise InvalidInput(
            f"the target {name!r} of {table} must have no gaps, got {int(gap.sum())}: leave those rows out"
        )
