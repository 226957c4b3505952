"""The row rule: over everything that a device ever approved, rows with the same history are none or many.

Totals are exact, so they can be added and subtracted. Rows that were in exactly the same totals always stay together,
and rows that were not can be told apart: T4 - T3 - T2 + T1 may be one row although no two of the totals differ by one.
So the *classes* of rows by history are counted, whatever the order of studies and the number of them.

Rows that were in every total with training rows, or in every one with held-out rows, may be fewer: the rows of other
devices were in all of them too, so that no combination leaves the ones without the others. (That a class is all of one
set does not help: P of {P and Q, P, Q} is the first total less the third.)

Rows are compared as the totals see them, clipped and on the grid, and on several sets of columns, since the Gram matrix
of some columns is a part of the Gram matrix of all. With an id, every column is compared by itself: a table in which
one column was corrected for everybody still shows the one row that changed in another. Without an id rows cannot be
told apart on few columns; then all common columns are compared, all but one of them, and those that were not corrected
throughout, as far as they tell rows apart.

All studies must see the same value alike. Two ranges that begin at 90 and at 91 years make totals whose difference is
the people of 90, however many are above: many rows that are seen differently hide nobody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from codedfl.contract.snapshot import RowTags, Tags

_TELLS_APART = 0.9  # the share of rows that must differ from all others
_SAME = 0.5  # the share of a column's values that stay, unless it was written anew
_MIXER = np.uint64(0x9E3779B97F4A7C15)


def history_classes(sets: Sequence[Tags]) -> dict[tuple[bool, ...], int]:
    """How many rows have each history: in which of the sets they are.

    A tag that is m_i times in set i stands for rows j = 1, 2, ..., of which row j is in the sets with m_i >= j.

    >>> sorted(history_classes([np.array([7, 7, 8], dtype=np.uint64), np.array([7, 9], dtype=np.uint64)]).items())
    [((False, True), 1), ((True, False), 2), ((True, True), 1)]
    """
    tags, places = np.unique(np.concatenate(sets), return_inverse=True)
    ends = np.cumsum([0, *map(len, sets)])
    counts = [np.bincount(places[ends[i] : ends[i + 1]], minlength=len(tags)) for i in range(len(sets))]
    table = np.stack(counts, axis=1).astype(np.uint64)
    # Equal rows of the table by a number each, which is a hundred times faster than np.unique of rows.
    keys = table @ (_MIXER ** np.arange(1, len(sets) + 1, dtype=np.uint64))
    _, first, times = np.unique(keys, return_index=True, return_counts=True)
    classes: Counter[tuple[bool, ...]] = Counter()
    for pattern, repeated in zip(table[first].tolist(), times.tolist(), strict=True):
        below = 0
        for count in sorted(set(pattern) - {0}):
            classes[tuple(one >= count for one in pattern)] += (count - below) * repeated
            below = count
    return dict(classes)


def fewest_alike(training: Sequence[Tags], held_out: Sequence[Tags]) -> int:
    """Rows of the smallest class that totals can be combined to; 0 if there is none.

    training, held_out: the rows of the two totals of each study.

    >>> table, one_more, none = (np.arange(n, dtype=np.uint64) for n in (20, 21, 0))
    >>> fewest_alike([table, table], [none, none]), fewest_alike([table, one_more], [none, none])
    (0, 1)
    """
    n = len(training)
    never_alone = {(True,) * n + (False,) * n, (False,) * n + (True,) * n}
    found = [
        min((rows for history, rows in classes.items() if history not in never_alone), default=0)
        for classes in _histories(training, held_out)
    ]
    return min(found, key=lambda alone: (alone > 0, -alone))


def _histories(training: Sequence[Tags], held_out: Sequence[Tags]) -> Iterator[Counter[tuple[bool, ...]]]:
    """Rows by history, in two ways: totals see rows with one tag alike, so that any way to tell them apart will do.

    First those held out are others than those that are trained on, in all studies; then those that one study
    holds out follow on those that it trains on, as where another study holds out none.
    """
    n = len(training)
    classes: Counter[tuple[bool, ...]] = Counter()
    for history, rows in history_classes([*training, *held_out]).items():
        trained, kept = history[:n], history[n:]
        both = any(a and b for a, b in zip(trained, kept, strict=True))
        for one in ((*trained, *[False] * n), (*[False] * n, *kept)) if both else (history,):
            classes[one] += rows
    yield classes
    classes = Counter()
    whole = [np.concatenate(both) for both in zip(training, held_out, strict=True)]
    for history, rows in history_classes([*training, *whole]).items():
        trained, there = history[:n], history[n:]
        classes[(*trained, *(b and not a for a, b in zip(trained, there, strict=True)))] += rows
    yield classes


def row_objection(new: RowTags, earlier: Sequence[RowTags], least: int) -> str:
    """Why rows would stand alone if this table were approved after those; empty when none would.

    least: k, how many rows must have the same history.

    >>> tags = np.arange(40, dtype=np.uint64).reshape(20, 2)
    >>> rows = RowTags(("age", "days"), tags, tags, tags, "", tags[:, 0] * 0, np.zeros(20, dtype=bool))
    >>> row_objection(rows, [rows], least=10)
    ''
    """
    earlier = [one for one in earlier if not new.same_as(one)]  # the same rows on the same columns tell nothing new
    tried = set()
    for past in earlier:
        common = tuple(name for name in new.columns if name in past.columns)
        for name in common:
            if differently := _seen_differently(new, past, name):
                return (
                    f"column {name!r} must be seen as in the studies approved before, got {differently} value(s) that"
                    " this study clips, rounds or fills differently: take the same range, step, levels and missing,"
                    " withdraw an approval that was not used (codedfl site withdraw), or ask for a study with noise"
                )
        for columns, by_id in _column_sets(new, past, common):
            if (columns, by_id) in tried:
                continue
            tried.add((columns, by_id))
            wanted = set(columns)
            family = [one for one in (*earlier, new) if wanted <= set(one.columns) and (not by_id or one.id == new.id)]
            training, held_out = zip(*(one.of(columns, by_id) for one in family), strict=True)
            alone = fewest_alike(training, held_out)
            if 0 < alone < least:
                return _sentence(alone, least, columns)
    return ""


def _seen_differently(new: RowTags, past: RowTags, name: str) -> int:
    """How many different values of a column, as both tables have them, the two studies see differently."""
    seen = [
        np.unique(np.stack([one.raw[:, place], one.used[:, place]], axis=1), axis=0)
        for one, place in ((one, one.columns.index(name)) for one in (past, new))
    ]
    _, before, after = np.intersect1d(seen[0][:, 0], seen[1][:, 0], return_indices=True)
    return int((seen[0][before, 1] != seen[1][after, 1]).sum())


def _column_sets(new: RowTags, past: RowTags, common: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The columns on which rows are compared, and whether the id tells them apart."""
    if not common:
        return
    yield common, False
    if new.id and new.id == past.id:
        yield common, True
        yield from (((name,), True) for name in common)
        return
    same = tuple(name for name in common if stayed(new, past, name))
    fewer = [tuple(name for name in common if name != left_out) for left_out in common]
    yield from ((columns, False) for columns in (same, *fewer) if columns and _tell_apart(new, columns))


def stayed(new: RowTags, past: RowTags, name: str) -> bool:
    """Whether at least half of a column's values are as they were: it was not written anew.

    >>> tags = np.arange(8, dtype=np.uint64).reshape(4, 2)
    >>> rows = RowTags(("age", "days"), tags, tags, tags, "", tags[:, 0] * 0, np.zeros(4, dtype=bool))
    >>> stayed(rows, rows, "age")
    True
    """
    (before, after) = (np.concatenate(one.of((name,), False)) for one in (past, new))
    kept = sum(rows for history, rows in history_classes([before, after]).items() if all(history))
    return kept >= _SAME * min(len(before), len(after))


def _tell_apart(rows: RowTags, columns: tuple[str, ...]) -> bool:
    tags = np.concatenate(rows.of(columns, False))
    return len(np.unique(tags)) >= _TELLS_APART * len(tags)


def _sentence(alone: int, least: int, columns: tuple[str, ...]) -> str:
    shown = ", ".join(repr(name) for name in columns[:5]) + (f" and {len(columns) - 5} more" if columns[5:] else "")
    return (
        f"rows with the same history must number none or at least {least}, got {alone} on {shown}: the totals of this"
        f" study and of those approved before could be combined to them; wait until at least {least} rows came, left or"
        " changed alike since then, approve the same rows as before with the same held_out, withdraw an approval that"
        " was not used (codedfl site withdraw), or ask for a study with noise"
    )
