"""A table's values as columns read them: missing ones and what stands for them, numbers, and names of levels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.tables.table import FALSE, TRUE
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def without_codes(values: Rows, codes: tuple[Any, ...]) -> Rows:
    """Values with missing values where a code stands for one.

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
    """Cells as numbers; NaN for missing values, and for text that is none.

    >>> as_numbers(np.array(["2.13", "<5", ""]))
    array([2.13,  nan,  nan])
    """
    if values.dtype.kind != "U":
        return values
    different, places = np.unique(values, return_inverse=True)
    return np.array([float(one) if _NUMBER.fullmatch(one) else np.nan for one in different.tolist()])[places]


def all_numbers(values: Rows, what: str) -> Floats:
    """Cells as numbers, with NaN for missing ones; refuses other text, and names the first such cell: ``what`` has it.

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


def as_texts(values: Rows) -> Rows:
    """Values as levels are written: numbers without a needless point, missing values as ""."""
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


def gaps(values: Rows) -> NDArray[np.bool_]:
    """Which values are missing.

    >>> gaps(np.array(["a", ""])).tolist(), gaps(np.array([1.0, np.nan])).tolist()
    ([False, True], [False, True])
    """
    missing: NDArray[np.bool_] = values == "" if values.dtype.kind == "U" else np.isnan(values)
    return missing
