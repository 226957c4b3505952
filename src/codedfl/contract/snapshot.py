"""The rows of a device as its operator approved them: frozen as whole numbers, read by every run of the study.

Which rows are held out for the score follows from a keyed hash of the row alone (of its id, or of everything that the
table says about it), so that it depends neither on the columns that a study uses nor on the order of rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from codedfl.contract.study import Study
from codedfl.data.clipped import Clipped
from codedfl.data.columns import as_texts
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.typing import Integers, Rows

FORMAT = "codedfl-snapshot-2"
Tags = NDArray[np.uint64]


@contextmanager
def as_saved(what: str) -> Iterator[None]:
    """What a device reads back from its own disk is as it was saved, or is refused in one line.

    >>> with as_saved("a note"): raise MessageRefused("it is truncated")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: a note must be as it was saved, got something else (it is truncated)
    """
    try:
        yield
    except (MessageRefused, msgspec.MsgspecError, ValueError) as error:
        raise InvalidInput(f"{what} must be as it was saved, got something else ({error})") from None


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The frozen rows of one device for one study.

    study: the digest of the study.
    codes: n x n_columns, as the columns' ``codes`` have them. target: n codes. held_out: which rows are kept for the
        score. persons: a number for each row, the same for rows of one id; () where every row is somebody else.
    clipped: how many values of each column of the table, and targets, lay beyond their ranges.
    left_out: how many rows of the table had missing values, in a study that takes complete cases only.

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
        return self.those(self.held_out == held_out)

    def those(self, chosen: NDArray[np.bool_]) -> Snapshot:
        """Some of the rows, with whose they are."""
        return replace(
            self,
            codes=self.codes[chosen],
            target=self.target[chosen],
            held_out=self.held_out[chosen],
            persons=self.persons if self.one_row_each else self.persons[chosen],
        )

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

    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.data.tables import as_raw_table
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> take_snapshot(study, as_raw_table({"age": [61.4], "days": [7]}), bytes(32)).codes.tolist()
    [[61]]
    """
    left_out, table = len(table), study.complete(table)
    left_out -= len(table)
    if objection := study.count_objection(table):
        raise InvalidInput(objection)
    held_out = _held_out(study, table, key)
    codes, clipped = study.codes(table)
    target, report = study.target.codes(table.column(study.target.name, "the target"), table.name)
    counts = Clipped(clipped, report.n_clipped)
    persons = _persons(table.column(study.id, "id")) if study.id is not None else np.zeros(0, dtype=np.int64)
    return Snapshot(study.digest(), codes, target, held_out, counts, left_out, persons)


def _persons(ids: Rows) -> Integers:
    """A number for each row, the same for the same id; () where every id is in one row."""
    _, places, times = np.unique(as_texts(ids), return_inverse=True, return_counts=True)
    return places.astype(np.int64) if times.max(initial=1) > 1 else np.zeros(0, dtype=np.int64)


def _held_out(study: Study, table: RawTable, key: bytes) -> NDArray[np.bool_]:
    """Which rows are held out: it follows from each row alone."""
    if not study.held_out:  # then nobody reads the rows to hash them
        return np.zeros(len(table), dtype=np.bool_)
    names = table.names if study.id is None else (study.id,)
    tags = np.zeros(len(table), dtype=np.uint64)
    for name in names:
        tags += tags_of(f"held out {name}", table.column(name, "id"), as_texts, key)
    mask: NDArray[np.bool_] = tags < np.uint64(int(study.held_out * 2.0**64))
    return mask


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
