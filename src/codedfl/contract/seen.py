"""The rows of an approved study as its sums see them, under a key: so that later studies can be compared with it.

Values are compared as they are summed, not by the names of their columns, and rows by their ids or by their values: a
column with another header, or a table with fresh pseudonyms, is found again. The hashes are keyed by the device, so
that nobody else can read anything in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from codedfl.contract.snapshot import Snapshot, Tags, as_saved, tags_of
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import GAP, BaseColumn, CategoryColumn, ClassTarget, as_texts
from codedfl.data.tables import RawTable
from codedfl.errors import MessageRefused
from codedfl.typing import Integers

FORMAT = "codedfl-rows-4"
_SAME = 0.5  # of the values of two columns, or of the rows of two tables: then they are the same with changes
_TELL_APART = 0.9  # the share of rows that differ from all others: then equal rows are the same person
_MOST_COLUMNS = 64  # that are compared by values; of wider tables those of one name are
_HELD_OUT = np.uint64(0x9E3779B97F4A7C15)
_MOST_ROWS = 4000  # that are looked for by nearly equal values


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Keyed hashes of what the sums of one study see of a device's rows.

    columns: titles, the target's last. categories: which of them have names for values.
    values: n x n_columns hashes of the values as they are summed. codes: the numbers themselves, on their grids.
    ids: a hash of each row's id; empty without. held_out: which rows are held out; summed: whether these are summed.
    rows: a number for each row, the same for the same row of an earlier study (``recognised``).
    marks: for each column the numbers at which sums tell its values apart: knots, cuts, times.
    """

    columns: tuple[str, ...]
    categories: tuple[bool, ...]
    values: Tags
    codes: Integers
    ids: Tags
    held_out: NDArray[np.bool_]
    summed: bool = False
    rows: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    marks: tuple[tuple[float, ...], ...] = ()

    def __len__(self) -> int:
        return len(self.held_out)

    @cached_property
    def signatures(self) -> Tags:
        """One hash of all values of a row."""
        found: Tags = self.values.sum(axis=1, dtype=np.uint64)
        return found

    def same_as(self, other: SeenRows) -> bool:
        """Whether these are the same rows on the same columns, held out and divided alike, in any order."""
        if (self.columns, len(self), len(self.ids)) != (other.columns, len(other), len(other.ids)):
            return False
        if (self.summed, self.marks) != (other.summed, other.marks):
            return False
        mine, theirs = (
            np.sort(one.signatures + (one.ids if len(one.ids) else 0) + one.held_out * _HELD_OUT)
            for one in (self, other)
        )
        return bool(np.array_equal(mine, theirs))

    def encode(self) -> bytes:
        """As it is kept beside the ledger."""
        arrays = (
            self.values.astype("<u8"),
            self.codes.astype("<i8"),
            self.ids.astype("<u8"),
            self.held_out.astype("u1"),
        )
        said = (FORMAT, self.columns, self.categories, *(one.tobytes() for one in arrays), self.summed)
        return msgspec.msgpack.encode((*said, self.rows.astype("<i8").tobytes(), self.marks))

    @staticmethod
    def wrote(data: bytes) -> bool:
        """Whether hashes were written by ``encode``; those of 0.3 begin with a list of columns."""
        found = msgspec.msgpack.decode(data)
        return isinstance(found, list) and bool(found) and found[0] == FORMAT

    @classmethod
    def decode(cls, data: bytes) -> SeenRows:
        """What ``encode`` made; anything else is refused."""
        with as_saved("the hashes of rows"):
            found = msgspec.msgpack.decode(data, type=_SAVED)
            said, columns, categories, values, codes, ids, held_out, summed, rows, marks = found
            n, width = len(held_out), len(columns)
            sizes = (len(values), len(codes), len(rows), len(categories), len(marks))
            if (
                said != FORMAT
                or sizes != (8 * n * width, 8 * n * width, 8 * n, width, width)
                or len(ids) not in (0, 8 * n)
            ):
                raise MessageRefused("the sizes do not fit")
        return cls(
            columns,
            categories,
            _tags(values).reshape(n, width),
            np.frombuffer(codes, dtype="<i8").astype(np.int64).reshape(n, width),
            _tags(ids),
            np.frombuffer(held_out, dtype="u1") != 0,
            summed,
            np.frombuffer(rows, dtype="<i8").astype(np.int64),
            marks,
        )


_SAVED = tuple[
    str,
    tuple[str, ...],
    tuple[bool, ...],
    bytes,
    bytes,
    bytes,
    bytes,
    bool,
    bytes,
    tuple[tuple[float, ...], ...],
]


def _tags(data: bytes) -> Tags:
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def seen_rows(study: Study, rows: Snapshot, table: RawTable, key: bytes) -> SeenRows:
    """The hashes of the rows that a snapshot froze, of its very numbers; ``table``, of which it is, only has their ids.

    >>> from codedfl.contract.snapshot import take_snapshot
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.data.tables import as_raw_table
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> table = as_raw_table({"age": [61.4, 61], "days": [7, 7]})
    >>> seen = seen_rows(study, take_snapshot(study, table, bytes(32)), table, bytes(32))
    >>> seen.columns, len(set(seen.signatures.tolist()))
    (('age', 'days'), 1)
    """
    listed: list[BaseColumn] = [*study.columns, study.target]
    codes = np.column_stack((rows.codes, rows.target))
    values = np.stack(
        [tags_of("", of_column, one.used, key) for one, of_column in zip(listed, codes.T, strict=True)], 1
    )
    ids = np.zeros(0, dtype=np.uint64)
    if study.id is not None:
        ids = tags_of("an id", study.complete(table).column(study.id, "id"), as_texts, key)
    names = tuple(one.title for one in listed)
    categories = tuple(isinstance(one, CategoryColumn | ClassTarget) for one in listed)
    numbers = np.arange(len(rows), dtype=np.int64)
    return SeenRows(names, categories, values, codes, ids, rows.held_out, study.held_out > 0, numbers, _marks(study))


def _marks(study: Study) -> tuple[tuple[float, ...], ...]:
    """Where sums tell the values of a column apart."""
    found: dict[str, set[float]] = {}
    for one in study.columns:
        for factor in factors_of(one):
            found.setdefault(factor.column, set()).update(factor.divides)
    for model in study.models:
        if begin := getattr(model, "begin", ""):
            found.setdefault(begin, set()).update(study.time_grid)
    names = (*study.table_columns.names, study.target.title)
    return tuple(
        tuple(sorted(study.time_grid if name == study.target.title else found.get(name, ()))) for name in names
    )


def counted_with(study: Study) -> tuple[str, ...]:
    """For each column and the target the name of what the census counts its values with.

    Intervals between the knots and cuts of one column, and its levels, are cells: combinations of what divides it are
    sums over cells. Powers, functions and products are not.

    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> counted_with(Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4))
    ('age', 'days')
    """
    found = []
    for name, one in zip(study.table_columns.names, study.columns, strict=True):
        factors = factors_of(one)
        divided = len(factors) == 1 and (factors[0].divides or factors[0].level)
        found.append(factors[0].column if divided else name)
    return (*found, study.target.title)


# -- the same rows, the same columns


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
