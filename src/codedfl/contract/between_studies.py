"""What few rows the difference of the sums of two studies tells of: rows in one alone, and rows between their knots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.findings import MOST_LEVELS, DisclosureFinding, Past
from codedfl.contract.matching import same_columns
from codedfl.contract.seen import SeenRows
from codedfl.contract.snapshot import Tags
from codedfl.data.columns import GAP
from codedfl.typing import Integers


def rows_between(new: SeenRows, others: Sequence[Past], k: int) -> Iterator[DisclosureFinding]:
    """Few rows in one study and not in another, and few of a level among those that came or left.

    Examples
    --------
    See ``codedfl.contract.judgement.judged``, which asks for it.
    """
    family = [one for one in others if same_columns(new, one.rows)]
    yield from _in_few(new, family, k)
    yield from _of_few_levels(new, family, k)


def _in_few(new: SeenRows, family: Sequence[Past], k: int) -> Iterator[DisclosureFinding]:
    studies = [*((one.name, one.rows) for one in family), ("this study", new)]
    sums, names, held_out = _memberships(studies)
    if len(family) == 0:
        return
    classes, of_row = np.unique(sums, axis=0, return_inverse=True)
    # Invariant: people are counted, not rows: one patient with many visits is one.
    pairs = np.unique(np.stack([of_row.reshape(-1).astype(np.uint64), _people(studies, len(sums))]), axis=1)
    counts = np.bincount(pairs[0].astype(np.int64), minlength=len(classes))
    inside = classes.any(axis=1)
    classes, counts = classes[inside], counts[inside]
    many = classes[counts >= k]
    for place in np.flatnonzero(counts < k).tolist():
        # A sum of training rows that has nobody else of this device is that sum itself, counted by its census; what is
        # left of the others must not tell of it either.
        itself = (classes.sum(axis=0) == 1) & classes[place].astype(np.bool_) & ~np.array(held_out)
        left = classes[place] * ~itself
        alone = not left.any() or (itself.any() and _in_span(left, many * ~itself))
        if not alone and not _in_span(classes[place], many):
            in_these = ", ".join(name for name, there in zip(names, classes[place], strict=True) if there)
            yield DisclosureFinding(
                "rows",
                f"{counts[place]} row(s) of this table are in the sums of {in_these} and of no other: sums could be"
                f" subtracted until they alone are left (fewer than {k})",
            )


def _people(studies: Sequence[tuple[str, SeenRows]], size: int) -> Tags:
    """Of each row ever seen whose it is: its id, or a number of its own."""
    found = np.arange(size, dtype=np.uint64)
    for _, rows in studies:
        if len(rows.ids):
            found[rows.rows] = rows.ids
    return found


def _count(people: NDArray[Any]) -> int:
    return len(np.unique(people))


def _indicators(rows: SeenRows) -> list[tuple[int, str, NDArray[np.bool_]]]:
    """All that a sum has as 0 and 1, with its column: levels, missing values, numbers of two values."""
    found = []
    for place, title in enumerate(rows.columns):
        codes = rows.codes[:, place]
        if rows.categories[place]:
            levels = np.unique(rows.values[:, place])[:MOST_LEVELS]
            found += [(place, title, rows.values[:, place] == level) for level in levels]
            continue
        gap = codes == GAP
        found.append((place, f"missing {title}", gap))
        if len(there := np.unique(codes[~gap])) == 2:
            found.append((place, title, codes == there[1]))
    return found


def _of_few_levels(new: SeenRows, family: Sequence[Past], k: int) -> Iterator[DisclosureFinding]:
    """Levels that few of those have who came or left since: the difference of two sums has them."""
    for past in family:
        train = new.rows[~new.held_out]
        before = past.rows.rows[~past.rows.held_out]
        parts = (
            ("came since", new, ~new.held_out & ~np.isin(new.rows, before)),
            ("left since", past.rows, ~past.rows.held_out & ~np.isin(past.rows.rows, train)),
        )
        pairs = same_columns(new, past.rows)
        for what, rows, chosen in parts:
            shared = {place if rows is new else other for place, other in pairs}
            people = rows.ids if len(rows.ids) else rows.rows
            for place, title, there in _indicators(rows):
                few = _count(people[there & chosen])
                if place in shared and 0 < few < k <= _count(people[chosen]):  # fewer in all are a finding as rows
                    yield DisclosureFinding(
                        "rows",
                        f"{few} people of those that {what} {past.name} have {title!r} alike: the difference of the"
                        f" sums is about these (fewer than {k})",
                    )


def _memberships(studies: Sequence[tuple[str, SeenRows]]) -> tuple[NDArray[np.int64], list[str], list[bool]]:
    """For each row ever seen in which sums it is: of training rows, and of those held out, which sums are said."""
    size = 1 + max(int(rows.rows.max(initial=-1)) for _, rows in studies)
    columns, names, kinds = [], [], []
    for name, rows in studies:
        for held_out in (False, True):
            here = rows.rows[rows.held_out == held_out]
            if held_out and (not rows.summed or not len(here)):
                continue
            kinds.append(held_out)
            member = np.zeros(size, dtype=np.int64)
            member[here] = 1
            columns.append(member)
            names.append(f"{name}'s held-out rows" if held_out else name)
    return np.stack(columns, axis=1), names, kinds


def _in_span(pattern: Integers, many: NDArray[np.int64]) -> bool:
    """Whether every combination of sums that leaves out the large classes leaves out this one."""
    if not len(many):
        return False
    rank = np.linalg.matrix_rank(many.astype(np.float64))
    return bool(np.linalg.matrix_rank(np.vstack((many, pattern)).astype(np.float64)) == rank)


def marks_between(new: SeenRows, others: Sequence[Past]) -> Iterator[DisclosureFinding]:
    """Where two studies divide the values of one column at different numbers.

    Examples
    --------
    See ``codedfl.contract.judgement.judged``, which asks for it.
    """
    for past in others:
        if not np.isin(new.rows, past.rows.rows).any():  # of other people nothing can be subtracted
            continue
        for place, other in same_columns(new, past.rows):
            mine, theirs = new.marks[place], past.rows.marks[other]
            if mine and theirs and mine != theirs:
                yield DisclosureFinding(
                    "marks",
                    f"{new.columns[place]!r} is divided at other numbers than by {past.name}: differences of their sums"
                    f" are about the rows between {_shown(mine)} and {_shown(theirs)}",
                )


def _shown(marks: Sequence[float]) -> str:
    text = ", ".join(f"{one:g}" for one in marks[:6])
    return f"({text}{', ...' if len(marks) > 6 else ''})"
