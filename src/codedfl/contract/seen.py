"""The rows of an approved study as its sums see them, under a key: so that later studies can be compared with it.

Values are compared as they are summed, not by the names of their columns, and rows by their ids or by their values: a
column with another header, or a table with fresh pseudonyms, is found again. The hashes are keyed by the device, so
that nobody else can read anything in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from codedfl.contract.snapshot import Snapshot, Tags, as_saved, tags_of
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import BaseColumn, CategoryColumn, ClassTarget, as_texts
from codedfl.data.tables import RawTable
from codedfl.errors import MessageRefused
from codedfl.typing import Integers

FORMAT = "codedfl-rows-4"
_HELD_OUT = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class SeenRows:
    """Keyed hashes of what the sums of one study see of a device's rows.

    columns: titles, the target's last. categories: which of them have names for values.
    values: n x n_columns hashes of the values as they are summed. codes: the numbers themselves, on their grids.
    ids: a hash of each row's id; empty without. held_out: which rows are held out; summed: whether these are summed.
    rows: a number for each row, the same for the same row of an earlier study (``matching``).
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
