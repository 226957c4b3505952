"""Columns of numbers: on the study's public grid, or as a table has them; and those made of other columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from codedfl.data.columns.column import BaseColumn, ColumnReport
from codedfl.data.columns.grid import GAP, LEVEL, Grid, Units, as_used, no_step
from codedfl.data.columns.values import all_numbers, as_numbers, without_codes
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Integers, JsonObject, Rows

if TYPE_CHECKING:
    from codedfl.data.derived import Factor


@dataclass(frozen=True)
class Number(BaseColumn):
    """A number of a table, on a public grid where it has one."""

    range: tuple[float, float] | None = None
    step: float | None = None
    missing_codes: tuple[float | str, ...] = ()

    @property
    def _what(self) -> str:
        return f"column {self.name!r}"

    @property
    def grid(self) -> Grid:
        """Its public grid; a column without one is in no study."""
        if self.range is None:
            raise InvalidInput(f"range of {self._what} must be said, got nothing: what is possible, [low, high]")
        if self.step is None:
            raise InvalidInput(no_step(self._what))
        return Grid(f"range of {self._what}", self.range, self.step)

    def read(self, values: Rows, table: str) -> Floats:
        """The numbers of a table, NaN where there is a missing value."""
        found = all_numbers(without_codes(values, self.missing_codes), f"{self._what} of {table}")
        infinite = np.isinf(found)
        if infinite.any():
            row = int(np.flatnonzero(infinite)[0])
            raise InvalidInput(f"{self._what} of {table} must hold finite numbers, got {found[row]} in row {row + 1}")
        return found


@dataclass(frozen=True)
class NumberColumn(Number):
    """A column of numbers.

    name: the column's name in every table.
    range: what is possible, public, [low, high]. Values beyond are clipped to it and counted.
    step: the unit of record at the site that writes coarsest.
    missing_codes: numbers and texts, such as -9 and "<5", that the tables have in place of a missing value.
    missing: what a missing value becomes; None refuses rows with missing values.
    indicator: with ``missing``, one more column that is 1 where a value was missing. With linear features the model
        then learns what a missing value means, and ``missing`` itself has no effect.
    in_model: false for a column that only others are made of.
    scale: how the penalty weighs a number: "moments" by its deviation over all devices, "range" by its range.

    A study needs range and step. Without them it is a column of one's own tables, which a recipe reads as they are.

    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> codes, _ = age.codes(np.array([61.0, 200.0]), "t.csv")
    >>> codes.tolist(), age.values(codes).tolist()
    ([61, 110], [61.0, 110.0])
    """

    missing: float | None = None
    indicator: bool = True
    in_model: bool = True
    scale: str = "moments"

    def __post_init__(self) -> None:
        what = self._what
        if self.missing is not None and not np.isfinite(self.missing):
            raise InvalidInput(f"missing of {what} must be a finite number, got {self.missing}")
        if self.range is None and self.step is None:
            return
        grid = self.grid
        if self.scale not in ("range", "moments"):
            raise InvalidInput(f"scale of {what} must be range or moments, got {self.scale!r}")
        low, high = grid.range
        if self.missing is not None and not low <= self.missing <= high:
            raise InvalidInput(f"missing of {what} must lie within its range, got {self.missing:g}")
        if inside := [one for one in self.missing_codes if not isinstance(one, str) and low <= one <= high]:
            raise InvalidInput(
                f"missing_codes of {what} must lie outside its range, got {inside[0]:g}: narrow the range"
            )

    @property
    def design_names(self) -> tuple[str, ...]:
        """The columns of X that it becomes: the number, and the mark of its missing values."""
        marked = self.missing is not None and self.indicator
        return ((self.name, f"{self.name} missing") if marked else (self.name,)) if self.in_model else ()

    @property
    def width(self) -> int:
        return len(self.design_names)

    @property
    def units(self) -> list[Units]:
        """Of the number and the mark of its missing values."""
        return [Units.on(self.grid, self.scale == "moments"), LEVEL][: self.width]

    def encode(self, values: Rows, table: str) -> tuple[Floats, ColumnReport]:
        """X's columns as real numbers of no grid, and what was odd."""
        values = self.read(values, table)
        gap = np.isnan(values)
        filled = values if self.missing is None else np.where(gap, self.missing, values)
        encoded = np.column_stack((filled, gap))[:, : self.width]
        return encoded, ColumnReport(self.name, int(gap.sum()), refused=self.missing is None)

    def made_of(self, values: Rows) -> Rows:
        """What derived columns are made of: the numbers of a table with their missing values filled."""
        numbers = as_numbers(without_codes(values, self.missing_codes))
        return numbers if self.missing is None else np.where(np.isnan(numbers), self.missing, numbers)

    def codes(self, values: Rows, table: str) -> tuple[Integers, ColumnReport]:
        """The place of each row on the grid, -1 for a missing value, and what was odd."""
        numbers = self.read(values, table)
        codes, clipped = self.grid.codes(numbers)
        gaps = int(np.isnan(numbers).sum())
        return codes, ColumnReport(self.name, gaps, refused=self.missing is None, n_clipped=clipped)

    def values(self, codes: Integers) -> Rows:
        """Real numbers; missing values take ``missing``."""
        fill = np.nan if self.missing is None else self.missing
        return np.where(codes == GAP, fill, self.grid.decimals(codes))

    def design(self, codes: Integers) -> Integers:
        """The number less its offset, and the mark of its missing values, which take the code of ``missing``."""
        fill = 0.0 if self.missing is None else self.missing
        filled = np.where(codes == GAP, self.grid.codes(np.array([fill]))[0], codes) - self.grid.offset
        return np.stack([filled, codes == GAP], axis=1)[:, : self.width].astype(np.int64)

    def used(self, codes: Integers) -> Rows:
        """A missing value is what fills it, also where it is marked: the census may drop the mark."""
        gap = "gap" if self.missing is None else f"gap {self.missing}"
        return np.where(codes == GAP, gap, as_used(self.grid, codes))

    def beside(self) -> Self:
        """The column out of the model: others are made of it, or it weighs rows."""
        return replace(self, in_model=False)

    def coarser(self, gone: tuple[int, ...]) -> tuple[Self | None, Integers]:
        """The column, for (0,) without its mark of missing, and no new codes; None for (1,), which picks out people."""
        if gone not in ((), (0,), (1,)):
            raise InvalidInput(f"merged of {self._what} must be (), (0,) or (1,), being a number, got {gone}")
        left = None if gone == (1,) else replace(self, indicator=False) if gone else self
        return left, np.arange(0)

    def to_dict(self) -> JsonObject:
        said = {"kind": "number", "name": self.name, "missing": self.missing, "indicator": self.indicator}
        codes = {"missing_codes": [*self.missing_codes]} if self.missing_codes else {}
        return {**said, **codes, **self._rarely_said()}

    def _rarely_said(self) -> JsonObject:
        beside = {} if self.in_model else {"in_model": False}
        return {**beside, **({"range": self.range, "step": self.step, "scale": self.scale} if self.range else {})}


@dataclass(frozen=True)
class DerivedColumn(NumberColumn):
    """A number that follows from other columns of the same row: the product of factors (``data.derived``).

    name: what coefficients are called by.
    factors: what it is the product of: tables with a column, and level, function, power, knots (with weights for
        natural splines), minus and per (another zero and unit), or above, least, below and upto (1 within
        these ends, else 0).
    in_model: false for one that is there for an offset alone.
    """

    factors: tuple[Factor, ...] = ()

    def product(self, seen: Mapping[str, Rows]) -> Floats:
        """Its numbers, of what the other columns of the same rows have."""
        from codedfl.data.derived import product  # most studies derive no column

        return product(self.factors, seen)

    def reach(self, ends: Mapping[str, tuple[float, float] | None]) -> tuple[float, float]:
        """The least and the largest that the factors give where columns lie within these ends."""
        from codedfl.data.derived import interval

        return interval(self.factors, ends)

    @property
    def base(self) -> int:
        """The code of 0: products with a level and splines are 0 wherever they have nothing to say."""
        return int(self.grid.codes(np.zeros(1))[0][0])

    def to_dict(self) -> JsonObject:
        factors = [one.to_dict() for one in self.factors]
        return {"kind": "derived", "name": self.name, "factors": factors, **self._rarely_said()}
