"""The columns of a table, in order, and the X that a recipe makes of them: real numbers, on no grid.

Everything here is public and the same on all devices: a category's levels, what a missing value becomes. A number stays
one column; a category becomes one column of 0 and 1 for each level but the first, which is the reference (so that
together with a constant the columns are independent); where numbers may be missing, one more column marks
them.

How numbers are scaled is not said here (``preprocessing``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.columns.column import ColumnReport
from codedfl.data.columns.number import DerivedColumn, NumberColumn
from codedfl.data.columns.said import Column, column_of
from codedfl.data.tables.table import RawTable
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject, Rows, Unchecked

_OF_STUDIES = ("range", "step", "scale")  # a recipe's preprocessing has the ranges


@dataclass(frozen=True)
class Columns:
    """All columns that a model uses, in the order in which X has them."""

    columns: tuple[Column, ...]
    design_names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = self.names
        if not names:
            raise InvalidInput("columns must be at least one, got none")
        if len(set(names)) < len(names):
            raise InvalidInput(f"columns must have different names, got {max(names, key=names.count)!r} twice")
        before: set[str] = set()
        for one in self.columns:
            for factor in one.factors if isinstance(one, DerivedColumn) else ():
                if factor.column not in before:
                    raise InvalidInput(
                        f"the column {one.name!r} must be made of columns of the table that are listed before it, got"
                        f" {factor.column!r}"
                    )
            before |= set() if isinstance(one, DerivedColumn) else {one.name}
        design = tuple(name for column in self.columns for name in column.design_names)
        object.__setattr__(self, "design_names", design)

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> Columns:
        """Plain numbers without missing values."""
        return cls(tuple(NumberColumn(name) for name in names))

    def __iter__(self) -> Iterator[str]:
        """The names, as the table has them."""
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """In the table."""
        return tuple(column.name for column in self.columns)

    @property
    def width(self) -> int:
        """Columns of X."""
        return len(self.design_names)

    def encode(self, table: RawTable) -> tuple[Floats, tuple[ColumnReport, ...]]:
        """X, with NaN where a value is refused, and what was odd. Columns are found by name, in any order."""
        X = np.empty((len(table), self.width))
        reports = []
        start = 0
        seen: dict[str, Rows] = {}
        for column, values in zip(self.columns, self._values(table), strict=True):
            place = slice(start, start + column.width)
            values = column.product(seen) if isinstance(column, DerivedColumn) else values
            X[:, place], report = column.encode(values, table.name)
            seen[column.name] = column.made_of(values)
            reports.append(report)
            start = place.stop
        return X, tuple(reports)

    def matrix(self, table: RawTable) -> Floats:
        """X; a table that cannot be used is refused with the first reason."""
        X, reports = self.encode(table)
        for report in reports:
            objection = report.objection(table.name)
            if objection is not None:
                raise InvalidInput(objection)
        return X

    def usable(self, table: RawTable) -> NDArray[np.bool_]:
        """Which rows have no missing value and no unknown name that is refused."""
        usable = np.ones(len(table), dtype=np.bool_)
        for column, values in zip(self.columns, self._values(table), strict=True):
            if not isinstance(column, DerivedColumn):
                encoded, _ = replace(column, in_model=True).encode(values, table.name)
                usable &= ~np.isnan(encoded).any(axis=1)
        return usable

    def _values(self, table: RawTable) -> list[Rows]:
        if table.positional and not set(self.names) <= set(table.names):
            numbers = [values for name, values in table.columns.items() if re.fullmatch(r"x\d+", name)]
            if len(numbers) != len(self.columns):
                raise InvalidInput(f"X of {table.name} must have {len(self.columns)} columns, got {len(numbers)}")
            return numbers
        nothing = np.zeros(0)
        return [nothing if isinstance(one, DerivedColumn) else table.column(one.name) for one in self.columns]

    def to_list(self) -> list[JsonObject]:
        """What a recipe needs of them: all but the grid."""
        plain = (column.to_dict() for column in self.columns)
        return [{key: value for key, value in one.items() if key not in _OF_STUDIES} for one in plain]

    @classmethod
    def from_list(cls, saved: Any) -> Columns:
        """What ``to_list`` described; plain names are numbers."""
        if not isinstance(saved, list) or not all(isinstance(one, str | dict) for one in saved):
            raise InvalidInput(f"saved columns must be a list, got {saved!r:.80}")
        return cls(tuple(NumberColumn(one) if isinstance(one, str) else _saved(one) for one in saved))


def _saved(said: Unchecked) -> Column:
    """With what no file of people says: levels that a census merged."""
    return column_of({key: value for key, value in said.items() if value is not None}, more=("merged",))
