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

import numpy as np

from codedfl.contract.findings import MOST_LEVELS, DisclosureFinding, Past
from codedfl.contract.relations import broken_relations
from codedfl.contract.seen import SeenRows
from codedfl.data.columns import GAP
from codedfl.typing import Integers


def judged(
    new: SeenRows, earlier: Sequence[Past], k: int, counted: Sequence[str] = ()
) -> tuple[DisclosureFinding, ...]:
    """What few rows the sums of all these studies together could tell of.

    new: with the numbers of ``matching.recognised``. k: how many rows are enough. counted: for each column with which
    others the census counts it (``counted_with``); () is each by itself.

    >>> tags = np.arange(40, dtype=np.uint64).reshape(20, 2)
    >>> rows = SeenRows(("age", "days"), (False, False), tags, tags.astype(int), tags[:0, 0], np.zeros(20, dtype=bool),
    ...     rows=np.arange(20), marks=((), ()))
    >>> judged(rows, [Past("before", rows)], k=5)
    ()
    """
    others = [one for one in earlier if not new.same_as(one.rows)]
    columns = list(_of_columns(new, others, k, counted))
    if not others:
        return tuple(dict.fromkeys(columns))
    from codedfl.contract.between_studies import marks_between, rows_between  # for whoever has approved another before

    return tuple(dict.fromkeys([*rows_between(new, others, k), *columns, *marks_between(new, others)]))


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
            levels = levels[np.argsort(-sizes, kind="stable")][1 : MOST_LEVELS * (not hashed)]
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
