"""Findings: sets of few of a device's rows that a combination of its sums shows (``judgement`` looks for them)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what is found needs no rows
    from codedfl.contract.seen import SeenRows


KINDS = {
    "rows": "few rows are in one study and not in another",
    "columns": "columns depend on each other in all but few rows",
    "dominance": "one person has nearly all of a column's sum",
    "marks": "few rows lie between the knots, cuts or times of two studies",
    "groups": "the disclosure group is another than before",
    "former": "few rows were recoded by 0.3",
    "points": "the server chooses many points over the same rows",
    "features": "the server learns more directions than the study has rows for",
    "combinations": "few rows have a combination of columns that a model iterates over",
}
MOST_LEVELS = 256  # of a study's categories that are compared one by one


@dataclass(frozen=True)
class DisclosureFinding:
    """One set of few rows, and by what it could be distinguished.

    kind: one of ``KINDS``. words: what the operator reads, in one line.

    >>> DisclosureFinding("rows", "3 rows are in 'table 1' and not in this study").kind
    'rows'
    """

    kind: str
    words: str


@dataclass(frozen=True)
class Past:
    """An approved study whose sums are exact: its name and the rows as its sums see them."""

    name: str
    rows: SeenRows
