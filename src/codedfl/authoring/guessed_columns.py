"""What a table itself suggests its columns are: for whoever drafts a study, or tries a table without one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from codedfl.data.columns import OTHER, CategoryColumn, Column, Columns, NumberColumn, as_numbers
from codedfl.data.tables.table import FALSE, TRUE, RawTable
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows

_ID_NAME = re.compile(
    r"(^|[_ .-])(id|ID|Id)$|[a-z](ID|Id)$|[_ .-](?i:nr|no|number)$|(?i:nummer)$|^(pid|PID|mrn|MRN|patient|Patient)$"
)
_DATE = re.compile(r"(\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./](\d{4}|\d{2}))([ T]\d{1,2}:.*)?")


@dataclass(frozen=True)
class Guess:
    """Columns guessed from a table, and what was noticed on the way, one line per remark.

    left_out: which columns were left out, and why.
    gaps: what becomes of missing values; these lines hold numbers of the table.
    """

    columns: Columns
    left_out: tuple[str, ...]
    gaps: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """All lines, for whoever has the table."""
        return self.left_out + self.gaps


MOST_LEVELS = 200
_CODES = (-9999.0, -999.0, -99.0, -9.0, -8.0, -7.0, -1.0, 99.0, 999.0, 9999.0)  # that tables write for missing values
_FEW_LEVELS = 10  # up to this number all texts are levels, however rare
_LEVEL_ROWS = 5  # of many texts, those with fewer rows count as "other"
_MOSTLY = 0.5  # the share of numbers from which on a column of text is taken for numbers
_MISSING = "missing"


def guess_columns(table: RawTable, *, keep: Iterable[str] | None = None, drop: Iterable[str] = ()) -> Guess:
    """What each column of a table is.

    Numbers are numbers, also where a few cells are not; text is a category whose levels are those seen, or of many the
    frequent ones, with a level "other" for the rest. Missing numbers become the median, with an indicator; missing
    texts become a level "missing". What cannot be learned from is left out and named: a column that only numbers the
    rows, dates, missing values only, text that is everywhere the same or different in almost every row.

    keep: exactly these, in this order, or the reason why not; None takes all but ``drop``.
    """
    dropped = list(drop)
    for name in dropped:
        table.column(name, "a column to drop")
    names = list(keep) if keep is not None else [name for name in table.names if name not in dropped]
    found: list[Column] = []
    left_out, gaps = [], []
    for name in names:
        values = table.column(name)
        if keep is None and not table.positional and numbers_the_rows(name, values):
            left_out.append(f"column {name!r} of {table.name} only numbers the rows: left out")
        elif (why := _unlearnable(values)) and keep is None:
            people = f', and if it tells people apart say id = "{name}" in the study: rows of one are then one person'
            left_out.append(f"column {name!r} of {table.name} {why}: left out{people * bool(_ID_NAME.search(name))}")
        elif why:
            raise InvalidInput(f"column {name!r} of {table.name} {why}: leave it out")
        else:
            column, note = _guess(name, values)
            found.append(column)
            gaps += [note] if note else []
    if not found:
        raise InvalidInput(f"{table.name} must have at least one column to learn from, got {table.listed()}")
    return Guess(Columns(tuple(found)), tuple(left_out), tuple(gaps))


def numbers_the_rows(name: str, values: Rows) -> bool:
    """Under a name (or none) that such columns have: 0, 1, 2, ... or 1, 2, 3, ... in order, or an id.

    An id ("id", "patient_id", "PatientID", "case no", "Patienten-Nr", "mrn") has another whole number,
    or another text, in every row.
    """
    if len(values) < 2:
        return False
    whole = values.dtype.kind == "U" or bool((values == np.round(values)).all())
    if _ID_NAME.search(name) and whole and len(np.unique(values)) == len(values):
        return True
    usual = name.lower() in ("index", "row", "rownames", "row_names", "nr", "no", "") or name.startswith(
        ("unnamed", "Unnamed")
    )
    return bool(usual and values.dtype.kind == "f" and values[0] in (0, 1) and (np.diff(values) == 1).all())


def _unlearnable(values: Rows) -> str:
    """Why a model cannot use a column; "" if it can. It says no value that few rows have."""
    if values.dtype.kind != "U":
        return "has missing values only" if np.isnan(values).all() else ""
    present = values[values != ""]
    if not len(present):
        return "has missing values only"
    if all(map(_DATE.fullmatch, present[:100].tolist())):
        return "has dates, not numbers such as days since a fixed day"
    different, counts = np.unique(present, return_counts=True)
    if len(different) == len(values):
        return "is different in every row, as an id is" if len(values) > _FEW_LEVELS else ""
    if len(different) == 1 and len(present) == len(values) and different[0] not in (FALSE, TRUE):
        return f"is {str(different[0])!r} everywhere"
    few = len(different) > _FEW_LEVELS and (counts >= _LEVEL_ROWS).sum() < 2 and not _mostly_numbers(values)
    return f"has {len(different)} different texts in {len(present)} rows, nearly all of them rare" if few else ""


def _mostly_numbers(values: Rows) -> bool:
    """Whether a column of text is one of numbers in which some cells are none, such as "<5".

    Numbers alone that come as text are meant as names: a reader of tables would have made numbers of them.
    """
    present = values[values != ""]
    return bool(len(present)) and bool(_MOSTLY < np.isfinite(as_numbers(present)).mean() < 1)


def _guess(name: str, values: Rows) -> tuple[Column, str | None]:
    if values.dtype.kind != "U" or _mostly_numbers(values):
        gaps = int(np.isnan(as_numbers(values)).sum())
        if not gaps:
            return NumberColumn(name), None
        fill = float(np.nanmedian(as_numbers(values)))
        remark = f"column {name!r} has {gaps} missing, which become its median {fill:g} and are marked"
        return NumberColumn(name, missing=fill), remark
    present = values[values != ""]
    different, counts = np.unique(present, return_counts=True)
    levels, other = different.tolist(), None
    if len(levels) > _FEW_LEVELS:
        frequent = sorted(np.argsort(-counts, kind="stable")[:MOST_LEVELS].tolist())
        kept = [levels[place] for place in frequent if counts[place] >= _LEVEL_ROWS]
        if len(kept) < len(levels):
            levels, other = [one for one in kept if one != OTHER] + [OTHER], OTHER
    gaps = len(values) - len(present)
    if set(levels) <= {FALSE, TRUE}:
        levels = [FALSE, TRUE]  # another table has the other
    if gaps:
        levels = [one for one in levels if one != _MISSING] + [_MISSING]
    note = f"column {name!r} has {gaps} missing, which become a level {_MISSING!r}" if gaps else None
    return CategoryColumn(name, tuple(levels), _MISSING if gaps else None, other), note


def codes_of_gaps(values: Floats) -> tuple[float, ...]:
    """Numbers such as -9 and 999 that are below 0 where no other is, or farther from the others than these spread.

    >>> codes_of_gaps(np.array([31.0, 64.0, -9.0, 999.0]))
    (-9.0, 999.0)
    """
    values = values[np.isfinite(values)]
    rest, found = values[~np.isin(values, _CODES)], list[float]()
    for code in _CODES if len(rest) else ():
        outside = code < 0 <= rest.min() or max(rest.min() - code, code - rest.max()) > np.ptp(rest) > 0
        found += [code] if outside and (values == code).any() else []
    return tuple(found)
