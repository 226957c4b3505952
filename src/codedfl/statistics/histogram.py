"""Histograms of number columns on public bins, with their sums: what Table 1 and the ranges of a study are made of."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import GAP, ClassTarget, Grid, NumberColumn
from codedfl.statistics.gram import gram_triangle
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Integers, Wholes

_FINE = 256  # steps either side of the anchor that are bins of their own; then as many halves per doubling


@register_statistic
class Histogram(Statistic):
    """Of every number column of a model, and of a number to predict: rows, sum, sum of squares, and rows per bin.

    Training rows without a missing value count. Levels, missing values and clipped values are counted by ``cells``.

    Examples
    --------
    >>> from codedfl.contract.models import TableOne
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.histogram import Histogram
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> days, table = NumberTarget("days", (0.0, 60.0), 1.0), TableOne("table 1", ("age",))
    >>> study = Study("stays", (age,), days, 5000, 1000, 3, features="none", held_out=0.0, models=(table,))
    >>> Histogram(study, model=table).length
    188
    """

    name: ClassVar[str] = "histogram"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns"})
    of_model: ClassVar[bool] = True
    shows: ClassVar[str] = (
        "In which bin each value of a column lies, over all devices, so that the server sees the largest value of"
        " anybody to within a bin, and how many are missing, also where they are few; not whose it is, and nothing of"
        " two columns together."
    )

    @classmethod
    def leaves(cls, study: Study) -> str:
        """Numbers, once."""
        del study
        return (
            "for every number column rows, so also its missing values, few or many, sum, sum of squares and a histogram"
            " on public bins, which are single steps near 0, or near the middle of a range without 0, and wider far"
            " from it (once)"
        )

    @property
    def grids(self) -> dict[str, Grid]:
        """The columns that have a histogram, in order."""
        numbers = {
            one.name: one.grid
            for one in self.study.columns
            if one.name in self.model.columns and isinstance(one, NumberColumn)
        }
        target = self.study.target
        return numbers if isinstance(target, ClassTarget) else {**numbers, target.name: target.grid}

    @property
    def length(self) -> int:
        """Three sums and the bins of every column."""
        return sum(3 + len(bin_starts(grid)) for grid in self.grids.values())

    @property
    def limit(self) -> int:
        """max_rows times the largest square."""
        return self.study.max_rows * max(1, *(grid.limit**2 for grid in self.grids.values()))

    def vector(self, rows: Snapshot) -> Wholes:
        """Column by column."""
        places = {one.name: place for place, one in enumerate(self.study.columns)}
        train = rows.part(held_out=False)
        parts = []
        for name, grid in self.grids.items():
            codes = train.codes[:, places[name]] if name in places else train.target
            codes = codes[codes != GAP]
            sums = gram_triangle(np.column_stack((np.ones_like(codes), codes - grid.offset)))
            starts = bin_starts(grid)
            bins = np.bincount(np.searchsorted(starts, codes, side="right") - 1, minlength=len(starts))
            parts += [sums, bins.astype(np.int64)]
        return np.concatenate(parts)


def bin_starts(grid: Grid) -> Integers:
    """The first code of every bin, ascending: single steps near the anchor, then 128 bins per doubling of the distance.

    So whole years and other short scales are counted exactly, and a cost is known to a hundredth wherever it lies.

    Examples
    --------
    >>> from codedfl.data.columns import Grid
    >>> from codedfl.statistics.histogram import bin_starts
    >>> bin_starts(Grid("range of 'cost'", (0.0, 300.0), 1.0))[-4:].tolist()
    [294, 296, 298, 300]
    """
    anchor = anchor_code(grid)
    up, down = anchor + _distances(grid.n_steps - anchor), anchor - _distances(anchor)[1:]
    below = np.append(down + 1, 0) if anchor else np.zeros(0, dtype=np.int64)  # each ends where the one nearer begins
    return np.unique(np.concatenate((below[below < anchor], up)))


def anchor_code(grid: Grid) -> int:
    """The code from which bins grow: that of 0, or of the middle of a range that has no 0.

    Examples
    --------
    >>> from codedfl.data.columns import Grid
    >>> from codedfl.statistics.histogram import anchor_code
    >>> anchor_code(Grid("range of 'change'", (-10.0, 30.0), 1.0))
    10
    """
    low, high = grid.range
    return int(grid.codes(np.zeros(1))[0][0]) if low <= 0 <= high else grid.offset


def _distances(furthest: int) -> Integers:
    """0, 1, ..., 255, 256, 258, ..., 510, 512, 516, ..., up to ``furthest``."""
    starts, step = [np.arange(_FINE)], 2
    while starts[-1][-1] < furthest:
        begin = int(starts[-1][-1]) + step // 2
        starts.append(begin + step * np.arange(_FINE // 2))
        step *= 2
    return np.concatenate(starts)[np.concatenate(starts) <= furthest]
