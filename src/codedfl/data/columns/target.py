"""The column that is predicted: a number, or one of some classes. Every row must have it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from codedfl.data.columns.column import BaseColumn, ColumnReport
from codedfl.data.columns.grid import LEVEL, Grid, Units, as_used
from codedfl.data.columns.number import Number
from codedfl.data.columns.values import as_levels, gaps, without_codes
from codedfl.data.labels import ClassLabels, TargetLabels
from codedfl.errors import InvalidInput
from codedfl.typing import Integers, JsonObject, Rows


@dataclass(frozen=True)
class NumberTarget(Number):
    """A number to predict, on a public grid as every number column is.

    name: the column's name.
    range: public, [low, high]; values beyond are clipped to it and counted.
    step: its unit of record at the site that writes coarsest.
    missing_codes: numbers and texts that the tables have in place of a missing value.
    function: of what tables have, such as "log", which is then predicted; range and step are the function's.

    >>> NumberTarget("days", (0.0, 60.0), 1.0).codes(np.array([7.0]), "t.csv")[0].tolist()
    [7]
    >>> NumberTarget("cost", (0.0, 20.0), 1.0, function="log2").codes(np.array([8.0]), "t.csv")[0].tolist()
    [3]
    """

    range: tuple[float, float] = field()
    step: float = field()
    function: str = ""

    def __post_init__(self) -> None:
        self.labels()

    @property
    def title(self) -> str:
        """What is predicted: the column, or the function of it."""
        return f"{self.function}({self.name})" if self.function else self.name

    @property
    def _what(self) -> str:
        return f"the target {self.name!r}"

    @property
    def grid(self) -> Grid:
        """Its public grid."""
        return Grid(f"range of the target {self.title!r}", self.range, self.step)

    def labels(self) -> TargetLabels:
        """How numbers become Y, and scores numbers."""
        low, high = self.range
        return TargetLabels(float(low), float(high), self.function)

    def codes(self, values: Rows, table: str) -> tuple[Integers, ColumnReport]:
        """The place of each row's value on the grid, and how many were clipped. Missing values are refused."""
        _check_no_gaps(self.name, without_codes(values, self.missing_codes), table)
        numbers = self.read(values, table)
        found = self.labels().measured(numbers)
        if not np.isfinite(found).all():
            row = int(np.flatnonzero(~np.isfinite(found))[0])
            raise InvalidInput(
                f"{self.title} of {table} must be defined in all rows, got {numbers[row]:g} in row {row + 1}: leave"
                " such rows out (missing_codes), or take log1p"
            )
        codes, clipped = self.grid.codes(found)
        return codes, ColumnReport(self.name, n_clipped=clipped)

    def values(self, codes: Integers) -> Rows:
        return self.grid.values(codes)

    def design(self, codes: Integers) -> Integers:
        return codes[:, None] - self.grid.offset

    def used(self, codes: Integers) -> Rows:
        return as_used(self.grid, codes)

    @property
    def units(self) -> list[Units]:
        return [Units.on(self.grid)]

    def to_dict(self) -> JsonObject:
        codes = {"missing_codes": self.missing_codes} if self.missing_codes else {}
        function = {"function": self.function} if self.function else {}
        return {"name": self.name, "range": self.range, "step": self.step, **codes, **function}


@dataclass(frozen=True)
class ClassTarget(BaseColumn):
    """One of some public classes to predict.

    name: the column's name.
    classes: all there may be, text or whole numbers, in the file's order: of two the second is the one modelled.
    missing_codes: texts or numbers that the tables have in place of a missing value.

    >>> ClassTarget("sick", ("no", "yes")).codes(np.array(["yes", "no"]), "t.csv")[0].tolist()
    [1, 0]
    """

    classes: tuple[str, ...] | tuple[int, ...]
    missing_codes: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        self.labels()

    def labels(self) -> ClassLabels:
        return ClassLabels(self.classes)

    @property
    def modelled(self) -> str:
        """Of two classes the one whose odds a model tells; "" of more.

        >>> ClassTarget("sick", ("yes", "no")).modelled
        'no'
        """
        return str(self.classes[1]) if len(self.classes) == 2 else ""

    def codes(self, values: Rows, table: str) -> tuple[Integers, ColumnReport]:
        """The place of each row's class. Missing values and unknown classes are refused."""
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
        return self.labels().places(named), ColumnReport(self.name)

    def values(self, codes: Integers) -> Rows:
        return np.array(self.classes)[codes]

    def design(self, codes: Integers) -> Integers:
        """0 or 1 for each class."""
        return np.equal(codes[:, None], np.arange(len(self.classes))).astype(np.int64)

    def used(self, codes: Integers) -> Rows:
        return np.array([str(one) for one in self.classes])[codes]

    @property
    def units(self) -> list[Units]:
        return [LEVEL] * len(self.classes)

    def to_dict(self) -> JsonObject:
        codes = {"missing_codes": self.missing_codes} if self.missing_codes else {}
        return {"name": self.name, "classes": self.classes, **codes}


Target = NumberTarget | ClassTarget


def _check_no_gaps(name: str, values: Rows, table: str) -> None:
    gap = gaps(values)
    if gap.any():
        raise InvalidInput(
            f"the target {name!r} of {table} must have no missing values, got {int(gap.sum())}: leave those rows out"
        )
