"""Exact linear algebra over a prime field: what is left of equations once the unknown pads are eliminated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

P = 2_147_483_647
Row = Mapping[int, int]
"""Coefficients by column."""


def left_over(rows: NDArray[np.int64], hidden: int) -> NDArray[np.int64]:
    """Eliminate the first ``hidden`` columns; the rows that are left, over the other columns."""
    matrix, top = rows % P, 0
    for column in range(hidden):
        top += _eliminated(matrix, top, column)
        if top == len(matrix):
            break
    rest = matrix[top:, hidden:]
    return rest[rest.any(axis=1)]


def rank(rows: NDArray[np.int64]) -> int:
    """Of a matrix over the field."""
    matrix, top = rows % P, 0
    for column in range(matrix.shape[1]):
        if top == len(matrix):
            break
        top += _eliminated(matrix, top, column)
    return top


def _eliminated(matrix: NDArray[np.int64], top: int, column: int) -> bool:
    """Clear a column below a pivot in row ``top``; false if there is none."""
    below = np.nonzero(matrix[top:, column])[0]
    if not len(below):
        return False
    pivot = top + below[0]
    matrix[[top, pivot]] = matrix[[pivot, top]]
    matrix[top] = matrix[top] * pow(int(matrix[top, column]), P - 2, P) % P
    others = top + 1 + np.nonzero(matrix[top + 1 :, column])[0]
    if len(others):
        matrix[others] = (matrix[others] - matrix[others, column][:, None] * matrix[top][None, :]) % P
    return True


def dense(rows: Sequence[tuple[Row, Row]], hidden: int, known: int) -> NDArray[np.int64]:
    """Equations as one matrix: the hidden columns first."""
    matrix = np.zeros((len(rows), hidden + known), dtype=np.int64)
    for place, (left, right) in enumerate(rows):
        for column, factor in left.items():
            matrix[place, column] = factor % P
        for column, factor in right.items():
            matrix[place, hidden + column] = factor % P
    return matrix
