"""From the columns of a table to the numbers of X: what each column is, and what a gap becomes.

Everything here is public and the same on all devices: a category's levels, what a missing value becomes. A number stays
one column; a category becomes one column of 0 and 1 for each level but the first, which is the reference (so that
together with a constant the columns are independent); where gaps are allowed in numbers, one more column marks them.

How numbers are scaled is not said here (``preprocessing``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.derived import Factor, product
from codedfl.data.tables.table import FALSE, TRUE, RawTable
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject, Rows

OTHER = "other"  # what rare levels become where a column has no such level of its own
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers.

    name: the column's name in every table.
    missing: what a gap becomes; None refuses rows with gaps.
    indicator: with ``missing``, one more column that is 1 where there was a gap. With linear features the model then
        learns what a gap means, and ``missing`` itself has no effect.
    missing_codes: numbers and texts, such as -9 and "<5", that the tables have in place of a gap.
    in_model: false for a column that only others are made of.
    """

    name: str
    missing: float | None = None
    indicator: bool = True
    missing_codes: tuple[float | str, ...] = ()
    in_model: bool = True

    def __post_init__(self) -> None:
        if self.missing is not None and not np.isfinite(self.missing):
            raise InvalidInput(f"missing of column {self.name!r} must be a finite number, got {self.missing}")

    @property
    def design_names(self) -> tuple[str, ...]:
        """The columns of X that it becomes."""
        marked = self.missing is not None and self.indicator
        return ((self.name, f"{self.name} missing") if marked else (self.name,)) if self.in_model else ()

    def encode(self, values: Rows, table: str) -> tuple[Floats, ColumnReport]:
        """X's columns, and what was odd."""
        values = all_numbers(without_codes(values, self.missing_codes), f"column {self.name!r} of {table}")
        gap = np.isnan(values)
        infinite = np.isinf(values)
        if infinite.any():
            row = int(np.flatnonzero(infinite)[0])
            raise InvalidInput(
                f"column {self.name!r} of {table} must hold finite numbers, got {values[row]} in row {row + 1}"
            )
        filled = values if self.missing is None else np.where(gap, self.missing, values)
        encoded = np.column_stack((filled, gap))[:, : len(self.design_names)]
        return encoded, ColumnReport(self.name, int(gap.sum()), refused=self.missing is None)

    def to_dict(self) -> JsonObject:
        said = {"kind": "number", "name": self.name, "missing": self.missing, "indicator": self.indicator}
        return {**said, **_rarely_said(self)}


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

    def to_dict(self) -> JsonObject:
        beside = {} if self.in_model else {"in_model": False}
        return {"kind": "derived", "name": self.name, "factors": [one.to_dict() for one in self.factors], **beside}


@dataclass(frozen=True)
class CategoryColumn:
    """A column of names from a public list.

    name: the column's name in every table.
    levels: all names there are, at least two; the first is the reference, and is all zeros in X. Truth values are the
        levels "false" and "true"; whole numbers are written without a point.
    missing: the level that a gap counts as; None refuses rows with gaps.
    other: the level that an unknown name counts as; None refuses rows with unknown names.
    missing_codes: names, such as "-9" and "unknown", that the tables have in place of a gap.
    in_model: false for a column that only others are made of.
    merged: names of rare levels, which count as the level ``other``, or "other" where the column has none.
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
    def design_names(self) -> tuple[str, ...]:
        return tuple(f"{self.name} = {level}" for level in self.levels[1:]) if self.in_model else ()

    def encode(self, values: Rows, table: str) -> tuple[Floats, ColumnReport]:
        """X's columns, with NaN where a value is refused, and what was odd."""
        del table
        texts, report = self.named(values)
        encoded = np.equal(texts[:, None], np.array(self.levels[1:])[None, :]).astype(np.float64)
        encoded[texts == ""] = np.nan
        return encoded[:, : len(self.design_names)], report

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

    def to_dict(self) -> JsonObject:
        said = {"name": self.name, "levels": list(self.levels), "missing": self.missing, "other": self.other}
        return {"kind": "category", **said, **_rarely_said(self)}


def _rarely_said(column: NumberColumn | CategoryColumn) -> JsonObject:
    """What a plain column does not have."""
    said = {name: [*getattr(column, name, ())] for name in ("missing_codes", "merged")}
    return {
        **{name: value for name, value in said.items() if value},
        **({} if column.in_model else {"in_model": False}),
    }


def without_codes(values: Rows, codes: tuple[Any, ...]) -> Rows:
    """Values with gaps where a code stands for one.

    >>> without_codes(np.array([3.0, -9.0]), (-9.0,))
    array([ 3., nan])
    """
    if not codes:
        return values
    numbers = np.isin(as_numbers(values), [one for one in codes if not isinstance(one, str)])
    if values.dtype.kind == "U":
        return np.where(numbers | np.isin(values, [as_text(one) for one in codes]), "", values)
    return np.where(numbers, np.nan, values)


def as_numbers(values: Rows) -> Floats:
    """Cells as numbers; NaN for gaps, and for text that is none.

    >>> as_numbers(np.array(["2.13", "<5", ""]))
    array([2.13,  nan,  nan])
    """
    if values.dtype.kind != "U":
        return values
    different, places = np.unique(values, return_inverse=True)
    return np.array([float(one) if _NUMBER.fullmatch(one) else np.nan for one in different.tolist()])[places]


def all_numbers(values: Rows, what: str) -> Floats:
    """Cells as numbers, with NaN for gaps; refuses other text, and names the first such cell: ``what`` has it.

    >>> all_numbers(np.array(["2.13", "<5"]), "column 'crp' of t.csv")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: column 'crp' of t.csv must hold numbers, got '<5' in row 2: write a number, or leave \
the cell empty, or list it in missing_codes
    """
    numbers = as_numbers(values)
    odd = np.flatnonzero((as_texts(values) != "") & np.isnan(numbers))
    if not len(odd):
        return numbers
    more = f" and in {len(odd) - 1} more" if len(odd) > 1 else ""
    raise InvalidInput(
        f"{what} must hold numbers, got {str(values[odd[0]])!r} in row {odd[0] + 1}{more}: write a number, or leave the"
        " cell empty, or list it in missing_codes"
    )


@dataclass(frozen=True)
class ColumnReport:
    """What was odd about one column of a table: gaps, names that are no level, numbers beyond a public range."""

    name: str
    n_missing: int
    refused: bool
    unknown: tuple[str, ...] = ()
    n_unknown: int = 0
    unknown_refused: bool = True
    n_clipped: int = 0

    def objection(self, table: str) -> str | None:
        """Why the table cannot be used, in one line with what to do; None if it can."""
        if self.n_missing and self.refused:
            return (
                f"column {self.name!r} of {table} must have no gaps, got {self.n_missing}:"
                " say what a missing value becomes, or leave those rows out"
            )
        if self.n_unknown and self.unknown_refused:
            return (
                f"column {self.name!r} of {table} must hold its levels only, got {self.unknown[0]!r}"
                f" ({self.n_unknown} such rows): add the level, or say which one others count as"
            )
        return None


Column = NumberColumn | CategoryColumn


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
        """Plain numbers without gaps."""
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
            place = slice(start, start + len(column.design_names))
            values = product(column.factors, seen) if isinstance(column, DerivedColumn) else values
            X[:, place], report = column.encode(values, table.name)
            seen[column.name] = _seen(column, values)
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
        """Which rows have no gap and no unknown name that is refused."""
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
        return [column.to_dict() for column in self.columns]

    @classmethod
    def from_list(cls, saved: Any) -> Columns:
        """What ``to_list`` described; plain names are numbers."""
        if not isinstance(saved, list):
            raise InvalidInput(f"saved columns must be a list, got {saved!r}")
        return cls(tuple(_column_from_dict(one) for one in saved))


def _column_from_dict(saved: Any) -> Column:
    if isinstance(saved, str):
        return NumberColumn(saved)
    try:
        name, kind = saved["name"], saved["kind"]
        if isinstance(name, str) and kind == "derived":
            factors = tuple(map(Factor.from_dict, saved["factors"]))
            return DerivedColumn(name, in_model=bool(saved.get("in_model", True)), factors=factors)
        missing, rest = saved["missing"], (tuple(saved.get("missing_codes", ())), bool(saved.get("in_model", True)))
        if isinstance(name, str) and kind == "number" and (missing is None or isinstance(missing, int | float)):
            codes = tuple(one if isinstance(one, str) else float(one) for one in rest[0])
            filled = None if missing is None else float(missing)
            return NumberColumn(name, filled, bool(saved["indicator"]), codes, rest[1])
        if (
            isinstance(name, str)
            and kind == "category"
            and all(isinstance(one, str) for one in (*saved["levels"], *rest[0]))
        ):
            merged = tuple(map(str, saved.get("merged", ())))
            return CategoryColumn(name, tuple(saved["levels"]), missing, saved["other"], *rest, merged)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"a saved column must be complete, got {error!r}") from error
    raise InvalidInput(f"a saved column must be a number or a category, got {saved!r}")


def _seen(column: Column, values: Rows) -> Rows:
    """What derived columns are made of: numbers with their gaps filled, or names of levels."""
    if isinstance(column, CategoryColumn):
        return column.named(values)[0]
    numbers = as_numbers(without_codes(values, column.missing_codes))
    return numbers if column.missing is None else np.where(np.isnan(numbers), column.missing, numbers)


def as_texts(values: Rows) -> Rows:
    """Values as levels are written: numbers without a needless point, gaps as ""."""
    if values.dtype.kind == "U":
        return values
    known: Mapping[float, str] = {value: as_text(value) for value in np.unique(values[np.isfinite(values)]).tolist()}
    return np.array([known.get(value, "") for value in values.tolist()], dtype=np.str_)


def as_text(value: float | str) -> str:
    """One value as a level is written.

    >>> as_text(-9.0), as_text("unknown")
    ('-9', 'unknown')
    """
    return value if isinstance(value, str) else str(int(value)) if value == int(value) else repr(value)


def as_levels(values: Rows, levels: Sequence[str]) -> Rows:
    """The values as texts; where false and true are levels, 0 and 1 stand for them, since tables have it both ways."""
    texts = as_texts(values)
    if values.dtype.kind == "f" and {FALSE, TRUE} <= set(levels):
        return np.select([texts == "0", texts == "1"], [FALSE, TRUE], texts)
    return texts
