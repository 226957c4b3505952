"""Columns of names from a public list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from codedfl.data.columns.column import OTHER, BaseColumn, ColumnReport
from codedfl.data.columns.grid import GAP, LEVEL, Grid, Units
from codedfl.data.columns.values import as_levels, without_codes
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Integers, JsonObject, Rows


@dataclass(frozen=True)
class CategoryColumn(BaseColumn):
    """A column of names from a public list.

    name: the column's name in every table.
    levels: all names there are, at least two; the first is the reference, and is all zeros in X. Truth values are the
        levels "false" and "true"; whole numbers are written without a point.
    missing: the level that a missing value counts as; None refuses rows with missing values.
    other: the level that an unknown name counts as; None refuses rows with unknown names.
    missing_codes: names, such as "-9" and "unknown", that the tables have in place of a missing value.
    in_model: false for a column that only others are made of.
    merged: names of rare levels, which count as the level ``other``, or "other" where the column has none.

    >>> ward = CategoryColumn("ward", ("eye", "ear", "skin"))
    >>> codes, _ = ward.codes(np.array(["skin", "eye"]), "t.csv")
    >>> codes.tolist(), ward.values(codes).tolist(), ward.design(codes).tolist()
    ([2, 0], ['skin', 'eye'], [[0, 1], [0, 0]])
    """

    name: str
    levels: tuple[str, ...]
    missing: str | None = None
    other: str | None = None
    missing_codes: tuple[str, ...] = ()
    in_model: bool = True
    merged: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.levels) < 2 or len(set(self.levels)) < len(self.levels) or "" in self.levels:
            raise InvalidInput(
                f"levels of column {self.name!r} must be at least two different names, got {list(self.levels)}"
            )
        for role, level in (("missing", self.missing), ("other", self.other)):
            if level is not None and level not in self.levels:
                raise InvalidInput(f"{role} of column {self.name!r} must be one of its levels, got {level!r}")
        if codes := set(self.missing_codes) & set(self.levels):
            raise InvalidInput(f"missing_codes of column {self.name!r} must be no levels, got {min(codes)!r}")

    @property
    def range(self) -> None:
        """Names have none."""

    @property
    def step(self) -> None:
        """Names have none."""

    @property
    def grid(self) -> Grid:
        """Names have none: asked for one, it says so."""
        raise InvalidInput(f"column {self.name!r} must be a number with a range and a step, got a category")

    @property
    def design_names(self) -> tuple[str, ...]:
        """The columns of X that it becomes: one for each level but the first."""
        return tuple(f"{self.name} = {level}" for level in self.levels[1:]) if self.in_model else ()

    @property
    def units(self) -> list[Units]:
        return [LEVEL] * (len(self.levels) - 1 if self.in_model else 0)

    def encode(self, values: Rows, table: str) -> tuple[Floats, ColumnReport]:
        """X's columns, with NaN where a value is refused, and what was odd."""
        del table
        texts, report = self.named(values)
        encoded = np.equal(texts[:, None], np.array(self.levels[1:])[None, :]).astype(np.float64)
        encoded[texts == ""] = np.nan
        return encoded[:, : self.width], report

    def made_of(self, values: Rows) -> Rows:
        """What derived columns are made of: the level of each row."""
        return self.named(values)[0]

    def named(self, values: Rows) -> tuple[Rows, ColumnReport]:
        """The level of each row, "" where the value is refused, and what was odd."""
        texts = given = without_codes(as_levels(values, (*self.levels, *self.merged)), self.missing_codes)
        texts = np.where(np.isin(texts, self.merged), self.other or OTHER, texts)
        gap = texts == ""
        if self.missing is not None:
            texts = np.where(gap, self.missing, texts)
        unknown = ~gap & ~np.isin(texts, self.levels)
        texts = np.where(unknown, self.other or "", texts)
        report = ColumnReport(
            self.name,
            int(gap.sum()),
            refused=self.missing is None,
            unknown=tuple(sorted(set(given[unknown].tolist()))),
            n_unknown=int(unknown.sum()),
            unknown_refused=self.other is None,
        )
        return texts, report

    def codes(self, values: Rows, table: str) -> tuple[Integers, ColumnReport]:
        """The place of each row's level, -1 for a value that the report refuses, and what was odd."""
        del table
        texts, report = self.named(values)
        order = np.argsort(self.levels)
        places = order[np.searchsorted(self.levels, texts, sorter=order) % len(order)]
        return np.where(texts == "", GAP, places).astype(np.int64), report

    def values(self, codes: Integers) -> Rows:
        """The names of levels."""
        return np.array(self.levels)[codes]

    def design(self, codes: Integers) -> Integers:
        """0 or 1 for each level but the first."""
        return np.equal(codes[:, None], np.arange(1, 1 + self.width)).astype(np.int64)

    def used(self, codes: Integers) -> Rows:
        return np.array(self.levels)[codes]

    def beside(self) -> Self:
        """The column out of the model: others are made of it."""
        return replace(self, in_model=False)

    def coarser(self, gone: tuple[int, ...]) -> tuple[Self | None, Integers]:
        """The column with rare levels counted as "other", and the new code of each old; None if one level is left."""
        levels = self.levels
        if gone != tuple(sorted({one for one in gone if 0 <= one < len(levels)})):
            raise InvalidInput(f"merged of column {self.name!r} must be ascending places of its levels, got {gone}")
        if not gone:
            return self, np.arange(len(levels))
        other = self.other or OTHER
        taken = {levels[one] for one in gone}
        kept = tuple(level for level in levels if level not in taken or level == other)
        kept = kept if other in kept else (*kept, other)
        codes = np.array([kept.index(level if level not in taken else other) for level in levels])
        if len(kept) < 2:
            return None, codes
        missing = other if self.missing in taken else self.missing
        rare = tuple(level for level in levels if level in taken and level != other)
        return replace(self, levels=kept, missing=missing, merged=rare), codes

    def to_dict(self) -> JsonObject:
        said = {"name": self.name, "levels": list(self.levels), "missing": self.missing, "other": self.other}
        rarely = {"missing_codes": [*self.missing_codes], "merged": [*self.merged]}
        beside = {} if self.in_model else {"in_model": False}
        return {"kind": "category", **said, **{name: value for name, value in rarely.items() if value}, **beside}
