"""One joint judgement at approval, over everything ever approved on the same rows: what could be learnt of few of them.

Sums are exact, so they can be subtracted. A *finding* is a set of few of this device's rows that a combination of its
sums shows: rows that are in one study and not in another, rows on which two columns disagree, rows between the knots of
two studies. Who decides is the operator: a policy says for each kind whether it is refused, asked about or allowed, and
what was accepted is recorded with who and why.

Whether a *cell of one study* has few people is not looked at here: the census asks all devices (``contract.cells``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.relations import broken_relations
from codedfl.contract.seen import SeenRows, same_columns
from codedfl.contract.snapshot import Tags
from codedfl.data.columns import GAP
from codedfl.typing import Integers

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
_MOST_LEVELS = 256  # of a study's categories that are compared one by one


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


def judged(
    new: SeenRows, earlier: Sequence[Past], k: int, counted: Sequence[str] = ()
) -> tuple[DisclosureFinding, ...]:
    """What few rows the sums of all these studies together could tell of.

    new: with the numbers of ``recognised``. k: how many rows are enough. counted: for each column with which others the
    census counts it (``counted_with``); () is each by itself.

    >>> tags = np.arange(40, dtype=np.uint64).reshape(20, 2)
    >>> rows = SeenRows(("age", "days"), (False, False), tags, tags.astype(int), tags[:0, 0], np.zeros(20, dtype=bool),
    ...     rows=np.arange(20), marks=((), ()))
    >>> judged(rows, [Past("before", rows)], k=5)
    ()
    """
    others = [one for one in earlier if not new.same_as(one.rows)]
    family = [one for one in others if same_columns(new, one.rows)]
    found = [*_of_rows(new, family, k), *_of_levels(new, family, k), *_of_columns(new, others, k, counted)]
    return tuple(dict.fromkeys([*found, *_of_marks(new, family)]))


# -- rows in one study and not in another


def _of_rows(new: SeenRows, family: Sequence[Past], k: int) -> Iterator[DisclosureFinding]:
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
            levels = np.unique(rows.values[:, place])[:_MOST_LEVELS]
            found += [(place, title, rows.values[:, place] == level) for level in levels]
            continue
        gap = codes == GAP
        found.append((place, f"missing {title}", gap))
        if len(there := np.unique(codes[~gap])) == 2:
            found.append((place, title, codes == there[1]))
    return found


def _of_levels(new: SeenRows, family: Sequence[Past], k: int) -> Iterator[DisclosureFinding]:
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


# -- columns that depend on each other but in few rows


@dataclass(frozen=True, eq=False)
class _Summed:
    """One column as sums have it. title: as people read it. counted: with what the census counts its values apart."""

    title: str
    counted: str
    values: Integers


def _of_columns(new: SeenRows, earlier: Sequence[Past], k: int, counted: Sequence[str]) -> Iterator[DisclosureFinding]:
    """Columns of this study by themselves, and beside those of earlier studies on the rows that are the same."""
    beside: list[Sequence[Past]] = [(), *((past,) for past in earlier)]
    together = [past for past in earlier if 2 * int(np.isin(new.rows, past.rows.rows).sum()) >= len(new)]
    if len(together) > 1:
        beside.append(together)
    told = set[str]()
    for pasts in beside:
        there = np.ones(len(new), dtype=np.bool_)
        for past in pasts:
            there &= np.isin(new.rows, past.rows.rows)
        rows = np.flatnonzero(there)
        held_out = new.held_out[rows]
        # Invariant: rows to train on and held-out rows are summed apart, so each part has relations of its own.
        parts = [rows, *([rows[~held_out]] if held_out.any() else []), *([rows[held_out]] if new.summed else [])]
        for part in parts:
            for words in _relations(new, pasts, part, k, counted):
                if words not in told:
                    told.add(words)
                    yield DisclosureFinding("columns", words)


def _relations(new: SeenRows, pasts: Sequence[Past], rows: Integers, k: int, counted: Sequence[str]) -> Iterator[str]:
    _, people = np.unique(new.ids[rows] if len(new.ids) else rows, return_inverse=True)
    for hashed in (False, True):
        columns = {one.values.tobytes(): one for one in _summed(new, rows, people, k, "", counted, hashed)}
        own = len(columns)
        for past in pasts:
            order = np.argsort(past.rows.rows)
            theirs = order[np.searchsorted(past.rows.rows[order], new.rows[rows])]
            for one in _summed(past.rows, theirs, people, k, f" of {past.name}", (), hashed):
                columns.setdefault(one.values.tobytes(), one)
        listed = list(columns.values())
        table = np.stack([one.values for one in listed], axis=1) if listed else np.zeros((len(rows), 0), dtype=np.int64)
        for found in broken_relations(table, people, k):
            used = [listed[place] for place in found.columns]
            # What the census counts apart it merges, or passes; and what was approved before was judged then.
            if len({one.counted for one in used}) > 1 and found.columns[0] < own:
                names = list(dict.fromkeys(one.title for one in used))
                yield (
                    f"{names[0]} follows from {', '.join(names[1:]) or 'itself'} in all rows of this table but those of"
                    f" {found.people} people: a combination of the sums is about these (fewer than {k})"
                )


def _summed(
    rows: SeenRows, places: Integers, people: Integers, k: int, of: str, counted: Sequence[str], hashed: bool
) -> Iterator[_Summed]:
    """The columns that are not the same but for few people: those the census counts.

    hashed: categories as one number each, which tells of levels that are rare here; else level by level.
    """
    for place, name in enumerate(rows.columns):
        codes, tags = rows.codes[places, place], rows.values[places, place]
        if rows.categories[place]:
            levels, sizes = np.unique(tags, return_counts=True)
            # Invariant: the commonest stands with what is rare, or the others would tell who is rare by themselves.
            levels = levels[np.argsort(-sizes, kind="stable")][1 : _MOST_LEVELS * (not hashed)]
            found = [(tags >> np.uint64(43)).astype(np.int64)] if hashed else []
            found += [(tags == one).astype(np.int64) for one in levels]
        else:
            # Invariant: two fills are two numbers, and none keeps a relation by chance, as a code of 0 would with sums.
            fill = (tags >> np.uint64(43)).astype(np.int64)
            found = [np.where(codes == GAP, fill, codes), (codes == GAP).astype(np.int64)]
        for values in found:
            common, counts = np.unique(values, return_counts=True)
            if len(common) and len(np.unique(people[values != common[counts.argmax()]])) >= k:
                yield _Summed(f"{name!r}{of}", counted[place] if counted else f"{name}{of}", values)


# -- rows between the knots of two studies


def _of_marks(new: SeenRows, family: Sequence[Past]) -> Iterator[DisclosureFinding]:
    """Where two studies divide the values of one column at different numbers."""
    for past in family:
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
