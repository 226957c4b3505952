"""X'X of one device as a packed upper triangle, summed up over blocks of rows (paper eq. 7, before padding).

The rows are integers whose products sum up below 2^53 (``fixed_point``), so float64 is exact in any order, with any
BLAS and any number of threads. Strips of the triangle are kept instead of the square: d^2/2 doubles and two strips
more, and as many again when ``triangle`` copies them. It needs numpy alone, so a device imports nothing else for it.
"""

from __future__ import annotations

import numpy as np

from codedfl.typing import Floats

STRIP = 128  # columns at a time: wide enough for BLAS to run at full speed, narrow enough to skip the lower triangle


class GramSum:
    """The sum of block' block over blocks of rows with ``n_features`` columns; without blocks it is zero.

    ``rows`` are those of X'X that are wanted; None is all of them.
    """

    def __init__(self, n_features: int, rows: slice | None = None) -> None:
        first, last = (0, n_features) if rows is None else (rows.start, rows.stop)
        self._first = first
        self._strips = [np.zeros((min(STRIP, last - start), n_features - start)) for start in range(first, last, STRIP)]
        self._product = np.empty(STRIP * (n_features - first))

    def add(self, block: Floats) -> None:
        """Add X'X of some rows."""
        for number, strip in enumerate(self._strips):
            start = self._first + number * STRIP
            product = self._product[: strip.size].reshape(strip.shape)
            np.matmul(block[:, start : start + len(strip)].T, block[:, start:], out=product)
            strip += product

    def triangle(self) -> Floats:
        """The upper triangle, row by row from the diagonal on: d (d + 1) / 2 numbers, or those of the rows wanted."""
        return np.concatenate([strip[row, row:] for strip in self._strips for row in range(len(strip))])


def symmetric(triangle: Floats, n_features: int) -> Floats:
    """The whole matrix of a packed upper triangle."""
    upper = np.zeros((n_features, n_features))
    upper[np.triu_indices(n_features)] = triangle
    return np.asarray(upper + np.triu(upper, 1).T)
