"""The integer Gram matrix of [1, design columns, target columns]: everything linear follows from its total."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.exact.gram import GramSum
from codedfl.exact.scales import FLOAT64_EXACT_BITS
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Integers, Wholes

_BLOCK = 4096  # rows that are in float64 at once


@register_statistic
class Gram(Statistic):
    """Upper triangles, row by row: over the training rows, and for a number to predict over the held-out rows too.

    Classes are scored by ``score`` instead, so nothing of their held-out rows goes in here. With site effects the
    columns are less the device's means (Frisch-Waugh-Lovell), in parts of a step (``Study.gram_scales``); the sums of
    the columns as they are and a 1 per device with rows come behind. Who holds which row then matters: it is the model.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.gram import Gram
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> found = Gram(Study("stays", (age,), days, 5000, 1000, 3))
    >>> found.length, found.limit == 5000 * 60**2
    (12, True)
    """

    name: ClassVar[str] = "gram"
    tells: ClassVar[frozenset[str] | None] = frozenset({"rows", "columns", "classes"})
    shows: ClassVar[str] = (
        "Over few rows it is the rows themselves, hence least_rows. It shows how many people have two levels together,"
        " even if few."
    )
    no_noise: ClassVar[str] = "the sums of products are exact, and no bound on one row's part in them is stated"

    @classmethod
    def leaves(cls, study: Study) -> str:
        """Two triangles where rows are held out."""
        again = ", and the same over the rows held out" if study.holds_out_gram else ""
        return (
            "the products of the columns with each other and with the target, summed over the rows to train on"
            f"{again}: every covariance, every linear model ({cls(study).length} numbers, once)"
        )

    @property
    def width(self) -> int:
        """Columns of the matrix: the constant, the design columns, the target columns."""
        return 1 + self.study.width + len(self.study.target.units)

    @property
    def length(self) -> int:
        """One triangle, or two; with site effects the sums and the number of devices."""
        triangle = self.width * (self.width + 1) // 2
        return (1 + self.study.holds_out_gram) * triangle + (self.width if self.study.site_effects else 0)

    @property
    def limit(self) -> int:
        """max_rows times the largest square."""
        return self.study.max_rows * max(self.study.gram_limits) ** 2

    def vector(self, rows: Snapshot) -> Wholes:
        """Training rows first."""
        if self.study.site_effects:
            return self._within_site(rows)
        triangles = [self._of_rows(rows, ~rows.held_out)]
        if self.study.holds_out_gram:
            triangles.append(self._of_rows(rows, rows.held_out))
        return np.concatenate(triangles)

    def _of_rows(self, rows: Snapshot, chosen: NDArray[np.bool_]) -> Wholes:
        return gram_triangle(_with_constant(self._columns(rows, chosen)))

    def _columns(self, rows: Snapshot, chosen: NDArray[np.bool_]) -> Integers:
        return np.hstack((self.study.design(rows.codes[chosen]), self.study.target.design(rows.target[chosen])))

    def _within_site(self, rows: Snapshot) -> Wholes:
        columns = self._columns(rows, ~rows.held_out)
        sums, n = columns.sum(axis=0), max(1, len(columns))
        # To the nearest part of a step, in whole numbers: floor(scale (n x - s) / n + 1/2).
        within = (2 * self.study.gram_scales * (n * columns - sums) + n) // (2 * n)
        behind = np.append(sums, len(columns) > 0).astype(np.int64)
        return np.concatenate((gram_triangle(_with_constant(within)), behind))


def _with_constant(columns: Integers) -> Integers:
    return np.hstack((np.ones((len(columns), 1), dtype=np.int64), columns))


def gram_triangle(Z: NDArray[np.int64]) -> Wholes:
    """The upper triangle of Z'Z, row by row, exactly.

    Invariant: rows are summed up in float64 only while no entry can pass 2^53, and the parts in 64 bits only if no
    entry of the whole can pass 2^63. So nothing is ever rounded, whatever the sizes and the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.gram import gram_triangle
    >>> gram_triangle(np.array([[1, 2], [1, -5]])).tolist()
    [2, -3, 29]
    """
    n_rows, width = Z.shape
    largest = max(1, int(np.abs(Z).max(initial=0)))
    room = 2**FLOAT64_EXACT_BITS // largest**2
    if not room:
        raise InvalidInput(f"columns must be below 2^26 in size, got {largest}")
    fits = n_rows * largest**2 < 1 << 63
    total: Wholes = np.zeros(width * (width + 1) // 2, dtype=np.int64 if fits else object)
    for start in range(0, n_rows, room):
        part = GramSum(width)
        for first in range(start, min(start + room, n_rows), _BLOCK):
            part.add(Z[first : min(first + _BLOCK, start + room)].astype(np.float64))
        total += part.triangle().astype(np.int64)
    return total
