"""What every column does: read a table's values as whole numbers, and say what these are and become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from codedfl.data.columns.grid import Units
from codedfl.typing import Integers, JsonObject, Rows

OTHER = "other"  # what rare levels become where a column has no such level of its own


@dataclass(frozen=True)
class BaseColumn(ABC):
    """One column of every device's table, as the study file says it: a feature or the target, a number or names."""

    name: str

    @property
    def title(self) -> str:
        """What sums are of: the column, or a function of it."""
        return self.name

    @property
    def base(self) -> int:
        """The code that most rows may have in common."""
        return 0

    @abstractmethod
    def codes(self, values: Rows, table: str) -> tuple[Integers, ColumnReport]:
        """The whole number of each row, and what was odd."""

    @abstractmethod
    def values(self, codes: Integers) -> Rows:
        """What codes stand for: real numbers, or the names of levels and classes."""

    @abstractmethod
    def design(self, codes: Integers) -> Integers:
        """n x width integers, of which totals are made."""

    @abstractmethod
    def used(self, codes: Integers) -> Rows:
        """What a total sees of each row, as text that another study's column of this name can be compared with."""

    @property
    @abstractmethod
    def units(self) -> list[Units]:
        """Of each design column."""

    @property
    def width(self) -> int:
        """Design columns that it becomes."""
        return len(self.units)

    @abstractmethod
    def to_dict(self) -> JsonObject:
        """The whole meaning in plain values."""


@dataclass(frozen=True)
class ColumnReport:
    """What was odd about one column: missing values, names that are no level, numbers beyond a public range."""

    name: str
    n_missing: int = 0
    refused: bool = True
    unknown: tuple[str, ...] = ()
    n_unknown: int = 0
    unknown_refused: bool = True
    n_clipped: int = 0

    def objection(self, table: str) -> str | None:
        """Why the table cannot be used, in one line with what to do; None if it can."""
        if self.n_missing and self.refused:
            return (
                f"column {self.name!r} of {table} must have no missing values, got {self.n_missing}:"
                " say what a missing value becomes, or leave those rows out"
            )
        if self.n_unknown and self.unknown_refused:
            return (
                f"column {self.name!r} of {table} must hold its levels only, got {self.unknown[0]!r}"
                f" ({self.n_unknown} such rows): add the level, or say which one others count as"
            )
        return None
