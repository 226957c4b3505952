"""Sums of 0.3, which recoded on each device what few of its rows had: their differences to new sums are those rows.

Its ledger is read and keeps counting; the hashes of rows that stand beside it say what each row was recoded as.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.snapshot import Snapshot, Tags, as_saved, tags_of
from codedfl.contract.study import Study
from codedfl.data.columns import BaseColumn, as_texts
from codedfl.data.tables import RawTable
from codedfl.errors import MessageRefused
from codedfl.typing import Integers


@dataclass(frozen=True, eq=False)
class FormerRows:
    """Hashes of the rows of a study of 0.3: of values under their columns' names, as its sums saw them.

    used, recoded: n x n_columns, before and after recoding. id: the name of the id column; ids: a hash of each row's.

    >>> FormerRows.decode(b"")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the hashes of rows of 0.3 must be as it was saved, got something else (Input data was \
truncated)
    """

    columns: tuple[str, ...]
    used: Tags
    recoded: Tags
    id: str
    ids: Tags

    @classmethod
    def decode(cls, data: bytes) -> FormerRows:
        """What 0.3 wrote; anything else is refused."""
        with as_saved("the hashes of rows of 0.3"):
            types = tuple[list[str], str, bytes, bytes, bytes, bytes, bytes, bool]
            columns, name, *values, ids, held_out, _ = msgspec.msgpack.decode(data, type=types)
            n = len(held_out)
            if len(ids) != 8 * n or {len(one) for one in values} != {8 * n * len(columns)}:
                raise MessageRefused("the sizes do not fit")
        _, used, recoded = (np.frombuffer(one, dtype="<u8").reshape(n, len(columns)) for one in values)
        return cls(tuple(columns), used, recoded, name, np.frombuffer(ids, dtype="<u8"))


def former_findings(
    study: Study, rows: Snapshot, table: RawTable, key: bytes, earlier: Mapping[str, FormerRows]
) -> Iterable[DisclosureFinding]:
    """Rows that were recoded, came, left or were changed since a study of 0.3, by its name, where they are few.

    rows: as they are frozen now; ``table``, of which they are, only has their ids.
    """
    k = study.smallest_cell
    for name, past in earlier.items():
        columns, ids = _as_before(study, rows, table, key, past)
        common = [one for one in columns if one in past.columns]
        if not common:
            continue
        used = np.stack([columns[one] for one in common], axis=1)
        places = [past.columns.index(one) for one in common]
        mine, theirs = _matched(used, ids, past.used[:, places], past.ids)
        if len(mine) < k:
            continue
        for what, few in (
            ("came since then", len(used) - len(mine)),
            ("left since then", len(past.used) - len(theirs)),
            *(
                (f"have another {one!r} in its sums", int((used[mine, i] != past.recoded[theirs, places[i]]).sum()))
                for i, one in enumerate(common)
            ),
        ):
            if 0 < few < k:
                yield DisclosureFinding(
                    "former",
                    f"{few} row(s) {what} than in {name}, a study of 0.3 that recoded what was rare: differences of"
                    f" sums are about these (fewer than {k})",
                )


def _as_before(
    study: Study, rows: Snapshot, table: RawTable, key: bytes, past: FormerRows
) -> tuple[dict[str, Tags], Tags]:
    listed: list[BaseColumn] = [*study.columns, study.target]
    codes = zip(listed, (*rows.codes.T, rows.target), strict=True)
    ids = np.zeros(len(rows), dtype=np.uint64)
    if past.id and past.id in table.names:
        ids = tags_of(f"id {past.id}", study.complete(table).column(past.id, "id"), as_texts, key)
    return {one.title: tags_of(one.title, of_column, one.used, key) for one, of_column in codes}, ids


def _matched(
    mine: NDArray[np.uint64], ids: Tags, theirs: NDArray[np.uint64], other_ids: Tags
) -> tuple[Integers, Integers]:
    """Places of the rows that both have, by id where there is one, else by all common values."""
    by_id = bool(ids.any()) and bool(other_ids.any())
    keys = [ids, other_ids] if by_id else [one.sum(axis=1, dtype=np.uint64) for one in (mine, theirs)]
    _, first, second = np.intersect1d(keys[0], keys[1], return_indices=True)
    return first, second
