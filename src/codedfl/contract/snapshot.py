"""The rows of a device as its operator approved them: frozen as whole numbers, read by every run of the study.

Which rows are held out for the score follows from a keyed hash of the row alone (of its id, or of everything that the
table says about it), so that it depends neither on the columns that a study uses nor on the order of rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import as_texts
from codedfl.data.recipe import Clipped
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.typing import Integers, Rows

FORMAT = "codedfl-snapshot-2"
Tags = NDArray[np.uint64]


@contextmanager
def as_saved(what: str) -> Iterator[None]:
    """What a device reads back from its own disk is as it was saved, or is refused in one line.

    >>> with as_saved("a note"): raise MessageRefused("it is cut short")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: a note must be as it was saved, got something else (it is cut short)
    """
    try:
        yield
    except (MessageRefused, msgspec.MsgspecError, ValueError) as error:
        raise InvalidInput(f"{what} must be as it was saved, got something else ({error})") from None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The frozen rows of one device for one study.

    study: the digest of the study.
    codes: n x n_columns, as ``StudyColumn.codes`` has them. target: n codes. held_out: which rows are kept for the
        score. persons: a number for each row, the same for rows of one id; () where every row is somebody else.
    clipped: how many values of each column of the table, and targets, lay beyond their ranges.
    left_out: how many rows of the table had gaps, in a study that takes complete cases only.

    >>> rows = Snapshot(bytes(32), np.array([[61]]), np.array([7]), np.array([False]))
    >>> Snapshot.decode(rows.encode()).codes.tolist()
    [[61]]
    """

    study: bytes
    codes: Integers
    target: Integers
    held_out: NDArray[np.bool_]
    clipped: Clipped = field(default_factory=lambda: Clipped(np.zeros(0, dtype=np.int64)))
    left_out: int = 0
    persons: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.target)

    @property
    def one_row_each(self) -> bool:
        """Whether every row is taken for another person."""
        return not len(self.persons)

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} rows, {int(self.held_out.sum())} held out, for {self.study.hex()[:16]}>"

    def part(self, held_out: bool) -> Snapshot:
        """The rows held out, or the rows to train on."""
        chosen = self.held_out == held_out
        codes, target, held = (one[chosen] for one in (self.codes, self.target, self.held_out))
        persons = self.persons if self.one_row_each else self.persons[chosen]
        return replace(self, codes=codes, target=target, held_out=held, persons=persons)

    def encode(self) -> bytes:
        arrays = (
            self.codes.astype("<i8"),
            self.target.astype("<i8"),
            self.held_out.astype("u1"),
            self.persons.astype("<i8"),
        )
        counts = [int(one) for one in (*self.clipped.columns, self.clipped.targets, self.left_out)]
        return msgspec.msgpack.encode(
            [FORMAT, self.study, *self.codes.shape, *(one.tobytes() for one in arrays), counts]
        )

    @classmethod
    def decode(cls, data: bytes) -> Snapshot:
        """What ``encode`` made; anything else is refused."""
        with as_saved("a snapshot"):
            types = tuple[str, bytes, int, int, bytes, bytes, bytes, bytes, list[int]]
            said, study, n, width, codes, target, held_out, persons, counts = msgspec.msgpack.decode(data, type=types)
            lengths = (len(codes), len(target), len(held_out))
            if said != FORMAT or lengths != (8 * n * width, 8 * n, n) or min(n, width) < 0 or len(counts) < 2:
                raise MessageRefused("the sizes do not fit")
            if len(persons) not in (0, 8 * n):
                raise MessageRefused("the sizes do not fit")
        return cls(
            study,
            np.frombuffer(codes, dtype="<i8").reshape(n, width).astype(np.int64),
            np.frombuffer(target, dtype="<i8").astype(np.int64),
            np.frombuffer(held_out, dtype="u1") != 0,
            Clipped(np.array(counts[:-2], dtype=np.int64), counts[-2]),
            counts[-1],
            np.frombuffer(persons, dtype="<i8").astype(np.int64),
        )


def take_snapshot(study: Study, table: RawTable, key: bytes) -> Snapshot:
    """The rows of a table for a study; a table that cannot be used is refused with the reason.

    key: 16 to 64 bytes, the device's own and always the same.

    >>> from codedfl.contract.study_columns import NumberTarget, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.data.tables import as_raw_table
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> take_snapshot(study, as_raw_table({"age": [61.4], "days": [7]}), bytes(32)).codes.tolist()
    [[61]]
    """
    left_out, table = len(table), study.complete(table)
    left_out -= len(table)
    if objection := study.count_objection(table):
        raise InvalidInput(objection)
    table, held_out = _drawn(study, table, key)
    codes, clipped = study.codes(table)
    target, clipped_targets = study.target.codes(table.column(study.target.name, "the target"), table.name)
    counts = Clipped(clipped, clipped_targets)
    persons = _persons(table.column(study.id, "id")) if study.id is not None else np.zeros(0, dtype=np.int64)
    return Snapshot(study.digest(), codes, target, held_out, counts, left_out, persons)


def _persons(ids: Rows) -> Integers:
    """A number for each row, the same for the same id; () where every id is in one row."""
    _, places, times = np.unique(as_texts(ids), return_inverse=True, return_counts=True)
    return places.astype(np.int64) if times.max(initial=1) > 1 else np.zeros(0, dtype=np.int64)


def _drawn(study: Study, table: RawTable, key: bytes) -> tuple[RawTable, NDArray[np.bool_]]:
    """The rows that the study takes, and which of them are held out: it follows from the rows alone."""
    names = table.names if study.id is None else (study.id,)
    tags = np.zeros(len(table), dtype=np.uint64)
    for name in names:
        tags += tags_of(f"held out {name}", table.column(name, "id"), as_texts, key)
    mask: NDArray[np.bool_] = tags < np.uint64(int(study.held_out * 2.0**64))
    return table, mask


@dataclass(frozen=True, eq=False)
class RowTags:
    """Keyed hashes of every value that a study uses of a table: rows can be compared, and nobody else can read them.

    columns: names of the raw columns, the target's included.
    raw: n x n_columns hashes of the values as the table has them; they show whether two studies see a value alike.
    used: hashes of the values as the study reads them, clipped and on the grid.
    told: hashes of the values as the sums see them; of totals of 0.3, which recoded what was rare, other than ``used``.
    id: the name of the id column, "" without one; ids: a hash of each row's id.
    held_out: which rows are held out. sums_held_out: whether those have a Gram matrix of their own.
    """

    columns: tuple[str, ...]
    raw: Tags
    used: Tags
    told: Tags
    id: str
    ids: Tags
    held_out: NDArray[np.bool_]
    sums_held_out: bool = False

    def of(self, columns: tuple[str, ...], by_id: bool) -> tuple[Tags, Tags]:
        """The tags of the training rows and of those held out (``keys``)."""
        tags = self.keys(columns, by_id)
        return tags[~self.held_out], tags[self.held_out]

    def keys(self, columns: tuple[str, ...], by_id: bool) -> Tags:
        """One tag per row on some columns; ``by_id`` tells rows apart."""
        wanted = set(columns)
        places = [place for place, name in enumerate(self.columns) if name in wanted]
        others = [place for place, name in enumerate(self.columns) if name not in wanted]
        if len(others) < len(places):  # all columns but one are asked for as often as there are columns
            tags: Tags = self._sums - self.used[:, others].sum(axis=1, dtype=np.uint64)
        else:
            tags = self.used[:, places].sum(axis=1, dtype=np.uint64)
        return tags + self.ids if by_id else tags

    @cached_property
    def _sums(self) -> Tags:
        total: Tags = self.used.sum(axis=1, dtype=np.uint64)
        return total

    def same_as(self, other: RowTags) -> bool:
        """Whether these are the same rows on the same columns, seen alike, in any order."""
        if (self.columns, self.id) != (other.columns, other.id):
            return False
        tags, others = (map(np.sort, one.of(one.columns, True)) for one in (self, other))
        return all(map(np.array_equal, tags, others))

    def others_than(self, other: RowTags) -> bool:
        """Whether no row is in both, by an id that both have."""
        return bool(self.id) and self.id == other.id and not np.isin(self.ids, other.ids).any()

    def encode(self) -> bytes:
        arrays = [one.astype("<u8").tobytes() for one in (self.raw, self.used, self.told, self.ids)]
        held_out = self.held_out.astype("u1").tobytes()
        return msgspec.msgpack.encode([list(self.columns), self.id, *arrays, held_out, self.sums_held_out])

    @classmethod
    def decode(cls, data: bytes) -> RowTags:
        """What ``encode`` made; anything else is refused."""
        with as_saved("the tags of rows"):
            types = tuple[list[str], str, bytes, bytes, bytes, bytes, bytes, bool]
            columns, name, *values, ids, held_out, sums = msgspec.msgpack.decode(data, type=types)
            n = len(held_out)
            if len(ids) != 8 * n or {len(one) for one in values} != {8 * n * len(columns)}:
                raise MessageRefused("the sizes do not fit")
        raw, used, told = (_tags(one).reshape(n, len(columns)) for one in values)
        return cls(tuple(columns), raw, used, told, name, _tags(ids), np.frombuffer(held_out, dtype="u1") != 0, sums)


class OwnRows(NamedTuple):
    """A device's rows as they are frozen, and their tags."""

    snapshot: Snapshot
    tags: RowTags


def own_rows(study: Study, table: RawTable, key: bytes) -> OwnRows:
    """The rows of a table for a study, and their tags. key: as for ``take_snapshot``.

    >>> from codedfl.contract.study_columns import NumberTarget, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.data.tables import as_raw_table
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> len(own_rows(study, as_raw_table({"age": [61.4], "days": [7]}), bytes(32)).snapshot)
    1
    """
    return OwnRows(take_snapshot(study, table, key), row_tags(study, table, key))


def _tags(data: bytes) -> Tags:
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def row_tags(study: Study, table: RawTable, key: bytes) -> RowTags:
    """The tags of a table's rows for the row rule (``ledger``); the table must be one that ``take_snapshot`` takes.

    >>> from codedfl.contract.study_columns import NumberTarget, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.data.tables import as_raw_table
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> tags = row_tags(study, as_raw_table({"age": [61.4, 61], "days": [7, 7]}), bytes(32))
    >>> [len(set(map(tuple, one.tolist()))) for one in (tags.raw, tags.used)]
    [2, 1]
    """
    table, held_out = _drawn(study, study.complete(table), key)
    names = (*study.table_columns.names, study.target.title)
    raw = _raw_tags(study, table, key)
    target, _ = study.target.codes(table.column(study.target.name, "the target"), table.name)
    columns = zip(names, (*study.columns, study.target), (*study.codes(table)[0].T, target), strict=True)
    used = np.stack([tags_of(name, of_column, one.used, key) for name, one, of_column in columns], axis=1)
    ids = np.zeros(len(table), dtype=np.uint64)
    if study.id is not None:
        ids = tags_of(f"id {study.id}", table.column(study.id, "id"), as_texts, key)
    return RowTags(names, np.stack(raw, axis=1), used, used, study.id or "", ids, held_out, study.holds_out_gram)


def _raw_tags(study: Study, table: RawTable, key: bytes) -> list[Tags]:
    """Of each column and the target; a derived value is as the table has it where all that it is made of is."""
    tags: dict[str, Tags] = {}
    for one in study.columns:
        name, factors = one.column.name, factors_of(one)
        if factors:
            tags[name] = np.stack([tags[one.column] for one in factors]).sum(axis=0, dtype=np.uint64)
        else:
            tags[name] = tags_of(name, table.column(name), as_texts, key)
    return [*tags.values(), tags_of(study.target.name, table.column(study.target.name), as_texts, key)]


def tags_of(name: str, values: Rows, texts: Callable[[Any], Rows], key: bytes) -> Tags:
    """A keyed hash of each value's text under the column's name; every different value is hashed once.

    >>> len(set(tags_of("age", np.array([61, 55, 61]), lambda ages: ages.astype(str), bytes(16)).tolist()))
    2
    """
    if not 16 <= len(key) <= 64:
        raise InvalidInput(f"key must have 16 to 64 bytes, got {len(key)}")
    different, places = np.unique(values, return_inverse=True)
    begun = hashlib.blake2b(name.encode(errors="replace") + b"\x00", digest_size=8, key=key)
    tags = np.empty(len(different), dtype=np.uint64)
    for place, text in enumerate(texts(different).tolist()):
        one = begun.copy()
        one.update(text.encode(errors="replace"))
        tags[place] = int.from_bytes(one.digest(), "little")
    return tags[places]
