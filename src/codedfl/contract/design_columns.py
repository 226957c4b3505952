"""What design columns do on one table's training rows: for the screen that asks its owner, and the author's check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from codedfl.contract.cells import StudyCells
from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.relations import MOST_COLUMNS
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn
from codedfl.typing import Integers

_MOST_SEEN = 10  # pairs of columns that are named
_DEPENDENT = 1e-9
_P = 0.1


@dataclass(frozen=True)
class DesignCheck:
    """One design column on this table's training rows.

    differs: how many rows have another value than the commonest one. leverage: the largest share that one row has of
    the column's squared deviations: near 1, the column is about that row.
    """

    name: str
    differs: int
    leverage: float


def check_design(study: Study, rows: Snapshot) -> tuple[DesignCheck, ...]:
    """Each design column on the training rows."""
    design = study.design(rows.part(held_out=False).codes)
    return tuple(_design_check(name, design[:, place]) for place, name in enumerate(study.design_names))


def copied_columns(study: Study, rows: Snapshot) -> Iterator[str]:
    """Design columns of two columns of the study that are the same but for their unit in all training rows here."""
    design = study.design(rows.part(held_out=False).codes).astype(np.float64)
    if len(design) <= design.shape[1] or study.features != "linear":
        return
    centred = design - design.mean(axis=0)
    sizes = np.sqrt(np.square(centred).sum(axis=0))
    alike = np.abs(centred.T @ centred) > (1.0 - _DEPENDENT) * np.outer(sizes, sizes)
    owner = np.repeat(np.arange(len(study.columns)), [one.width for one in study.columns])
    there = np.outer(sizes > 0, sizes > 0) & (owner[:, None] < owner)
    for first, second in np.argwhere(alike & there)[:_MOST_SEEN].tolist():
        names = f"{study.design_names[first]!r} and {study.design_names[second]!r}"
        yield (
            f"{names} are the same but for their unit in all rows here: where they are so everywhere there is no"
            " inference; leave one out"
        )


def dominated_sums(study: Study, rows: Snapshot) -> Iterator[DisclosureFinding]:
    """Columns of which one person has nearly all that differs from the middle, over all rows or in one level.

    Rows to train on are a sum, and held-out rows another. The p % rule of output checkers: a sum tells the largest part
    to within ``_P`` of itself to whoever has the second largest. Fewer people than ``smallest_cell`` are counted by the
    census; what is not summed by itself is left out.
    """
    parts = [rows.part(held_out=False), *([rows.part(held_out=True)] if study.holds_out_gram else [])]
    found = list(dict.fromkeys(name for part in parts for name in _dominated(study, part)))
    if found:
        more = f" and of {len(found) - _MOST_SEEN} more" if len(found) > _MOST_SEEN else ""
        yield DisclosureFinding(
            "dominance",
            f"one person has nearly all of what differs from the middle here, of {', '.join(found[:_MOST_SEEN])}{more}:"
            " the sum tells that value; clip it by the range, or take a fill within it",
        )


def _dominated(study: Study, part: Snapshot) -> Iterator[str]:
    k, summed = study.smallest_cell, StudyCells(study).counted
    if not 1 < k < len(part) or study.width > MOST_COLUMNS:  # a smallest cell of 1 hides nobody
        return
    people = np.arange(len(part)) if part.one_row_each else np.unique(part.persons, return_inverse=True)[1]
    cells = [("", np.ones(len(part), dtype=np.bool_))]
    for one, codes in zip(study.columns, part.codes.T, strict=True):
        if isinstance(one, CategoryColumn) and one.name in summed:
            cells += [(f" among {level!r}", codes == number) for number, level in enumerate(one.levels)]
    owners = np.repeat([one.name for one in study.columns], [one.width for one in study.columns])
    for name, owner, values in zip(study.design_names, owners, study.design(part.codes).T, strict=True):
        away = np.abs(values - np.median(values)) if str(owner) in summed else np.zeros(len(values))
        for where, chosen in cells:
            sizes = np.sort(np.bincount(people[chosen], weights=away[chosen]))[::-1]
            if np.count_nonzero(sizes) >= k and sizes[2:].sum() < _P * sizes[0]:
                yield f"{name!r}{where}"
                break  # one cell is enough to look at the column


def largest_leverage(study: Study, rows: Snapshot) -> float:
    """The most that one training row has of any combination of the design columns.

    At 1 some combination is zero on every other row of this table: two columns that begin at 90 and at 91 years have
    the people of 90 for their difference.
    """
    design = study.design(rows.part(held_out=False).codes).astype(np.float64)
    design = np.hstack([np.ones((len(design), 1)), design / study.units.limit])
    left, sizes, _ = np.linalg.svd(design, full_matrices=False)
    spanned = left[:, sizes > _DEPENDENT * sizes.max(initial=0.0)]
    return float(np.square(spanned).sum(axis=1).max(initial=0.0))


def _design_check(name: str, values: Integers) -> DesignCheck:
    _, counts = np.unique(values, return_counts=True)
    squares = np.square(values - values.mean()) if len(values) else np.zeros(0)
    spread = float(squares.sum())
    return DesignCheck(name, len(values) - int(counts.max(initial=0)), float(squares.max()) / spread if spread else 0.0)
