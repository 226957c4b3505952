"""What design columns do on one table's training rows: for the screen that asks its owner, and the author's check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.typing import Integers

_MOST_SEEN = 10  # pairs of columns that are named
_DEPENDENT = 1e-9


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
