"""Which rows and columns of two studies are the same: for whoever has approved another before.

Rows are known by their ids or by their values, columns by their values, whatever they are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.seen import SeenRows
from codedfl.contract.snapshot import Tags
from codedfl.data.columns import GAP
from codedfl.typing import Integers

_SAME = 0.5  # of the values of two columns, or of the rows of two tables: then they are the same with changes
_TELL_APART = 0.9  # the share of rows that differ from all others: then equal rows are the same person
_MOST_COLUMNS = 64  # that are compared by values; of wider tables those of one name are
_MOST_ROWS = 4000  # that are looked for by nearly equal values


def same_columns(new: SeenRows, past: SeenRows) -> list[tuple[int, int]]:
    """Pairs of columns that have mostly the same values, whatever they are called; of one name first."""
    found = []
    taken_by: set[int] = set()
    names = {name: place for place, name in enumerate(past.columns)}
    for place, name in enumerate(new.columns):
        other = names.get(name)
        if other is not None and _alike(new, place, past, other):
            found.append((place, other))
            taken_by.add(other)
    if max(len(new.columns), len(past.columns)) > _MOST_COLUMNS:
        return found
    left = set(range(len(new.columns))) - {place for place, _ in found}
    for place in sorted(left):
        for other in range(len(past.columns)):
            if other not in taken_by and _alike(new, place, past, other):
                found.append((place, other))
                taken_by.add(other)
                break
    return sorted(found)


def _alike(new: SeenRows, place: int, past: SeenRows, other: int) -> bool:
    least = max(1.0, _SAME * min(len(new), len(past)))
    if _in_common(new.values[:, place], past.values[:, other]) >= least:
        return True
    if new.categories[place] or past.categories[other]:
        return False
    mine, theirs = _shape(new.codes[:, place]), _shape(past.codes[:, other])
    return _in_common(mine, theirs) >= least


def _shape(codes: Integers) -> Tags:
    """Places between the quartiles, which another unit or another zero does not change."""
    there = np.sort(codes[codes != GAP])
    if not len(there):
        return codes.astype(np.uint64)
    low, high = int(there[len(there) // 4]), int(there[(3 * len(there)) // 4])
    found = np.where(codes == GAP, np.nan, (codes - low) / max(1, high - low))
    return np.round(found, 9).view(np.uint64)


def _in_common(mine: Tags, theirs: Tags) -> int:
    """How many entries two bags have in common."""
    tags, places = np.unique(np.concatenate((mine, theirs)), return_inverse=True)
    counts = [np.bincount(part, minlength=len(tags)) for part in (places[: len(mine)], places[len(mine) :])]
    return int(np.minimum(*counts).sum())


def recognised(new: SeenRows, earlier: Sequence[SeenRows]) -> SeenRows:
    """With numbers of rows under which the same rows are known from earlier studies; others get new ones.

    >>> tags = np.arange(20, dtype=np.uint64).reshape(10, 2)
    >>> rows = SeenRows(("age", "days"), (False, False), tags, tags.astype(int), tags[:, 0], np.zeros(10, dtype=bool),
    ...     rows=np.arange(10), marks=((), ()))
    >>> recognised(replace(rows, ids=rows.ids[::-1], values=tags[::-1]), [rows]).rows.tolist()
    [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    """
    found = np.full(len(new), -1, dtype=np.int64)
    for past in reversed(earlier):
        if len(past) and (found < 0).any():
            found = np.where(found < 0, _known(new, past, found), found)
    first = 1 + max((int(one.rows.max(initial=-1)) for one in earlier), default=-1)
    unknown = found < 0
    found[unknown] = np.arange(first, first + int(unknown.sum()))
    return replace(new, rows=found)


def _known(new: SeenRows, past: SeenRows, before: Integers) -> Integers:
    """The number of each row by its id, else by equal values, else by nearly equal ones; -1 where it is unknown."""
    found = np.full(len(new), -1, dtype=np.int64)
    free = ~np.isin(past.rows, before)
    pairs = same_columns(new, past)
    mine = new.values[:, [place for place, _ in pairs]].sum(axis=1, dtype=np.uint64)
    theirs = past.values[:, [other for _, other in pairs]].sum(axis=1, dtype=np.uint64)
    if len(new.ids) and len(past.ids):
        _match(found, free, new.ids * np.uint64(3) + mine, past.ids * np.uint64(3) + theirs, past.rows)
        _match(found, free, new.ids, past.ids, past.rows)
    if not pairs:
        return found
    different = min(len(np.unique(one)) / len(one) for one in (mine, theirs))
    # Few columns that do not tell rows apart are the same in any two tables, unless they are all there is.
    telling = different >= _SAME or len(pairs) == min(len(new.columns), len(past.columns))
    same = telling and _in_common(mine, theirs) >= _SAME * min(len(new), len(past))
    if same or different >= _TELL_APART:
        _match(found, free, mine, theirs, past.rows)
    if same and len(pairs) > 2:
        _match_nearly(found, free, new, past, pairs)
    return found


def _match(found: Integers, free: NDArray[np.bool_], mine: Tags, theirs: Tags, numbers: Integers) -> None:
    """Give equal entries the same number, each of theirs once; what is found already stays."""
    by_tag: dict[int, list[int]] = {}
    for place in np.flatnonzero(free).tolist():
        by_tag.setdefault(int(theirs[place]), []).append(place)
    for place in np.flatnonzero(found < 0).tolist():
        if places := by_tag.get(int(mine[place])):
            other = places.pop(0)
            found[place], free[other] = numbers[other], False


def _match_nearly(
    found: Integers, free: NDArray[np.bool_], new: SeenRows, past: SeenRows, pairs: list[tuple[int, int]]
) -> None:
    """Rows of which all columns but two are equal, and that are left on both sides, are the same: they were changed."""
    mine, theirs = np.flatnonzero(found < 0), np.flatnonzero(free)
    if not 0 < len(mine) <= _MOST_ROWS or not 0 < len(theirs) <= _MOST_ROWS:
        return
    equal = np.zeros((len(mine), len(theirs)), dtype=np.int32)
    for place, other in pairs:
        equal += new.values[mine, place][:, None] == past.values[theirs, other][None, :]
    for place in range(len(mine)):
        best = int(np.argmax(equal[place]))
        if equal[place, best] >= max(1, len(pairs) - 2):
            found[mine[place]], free[theirs[best]] = past.rows[theirs[best]], False
            equal[:, best] = -1
