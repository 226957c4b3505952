"""Gaussian elimination modulo a prime below 2^24, vectorised over the columns.

Exact in int64: products of two residues stay below 2^48. For rank arguments (``privacy``) and attacks only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.int64]


def reduced(matrix: Residues, prime: int, pivot_columns: int | None = None) -> tuple[Residues, list[int]]:
    """The reduced row echelon form without its zero rows, and the pivots' columns.

    pivot_columns: how many of the first columns may hold pivots; None is all. Rows that are zero there but not behind
        are kept, at the end (an inconsistent system has such rows).
    """
    rest = np.array(matrix, dtype=np.int64) % prime
    pivots: list[int] = []
    for column in range(rest.shape[1] if pivot_columns is None else pivot_columns):
        row = len(pivots)
        candidates = np.flatnonzero(rest[row:, column])
        if not len(candidates):
            continue
        chosen = row + int(candidates[0])
        rest[[row, chosen]] = rest[[chosen, row]]
        rest[row] = rest[row] * pow(int(rest[row, column]), -1, prime) % prime
        others = np.flatnonzero(rest[:, column])
        others = others[others != row]
        rest[others] = (rest[others] - rest[others, column][:, None] * rest[row]) % prime
        pivots.append(column)
        if len(pivots) == len(rest):
            break
    return rest[np.any(rest != 0, axis=1)], pivots
