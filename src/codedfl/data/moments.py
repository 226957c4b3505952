"""Mean and variance of each column over all devices, by two secure sums: who sums learns nothing of a device.

Two sums and not one of x and x^2 together: E[x^2] - E[x]^2 loses all digits where the mean is large against the
deviation (timestamps), the more so when the secure sum rounds. What is revealed is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.checks import check_matrix
from codedfl.data.preprocessing import Moments
from codedfl.errors import InvalidInput
from codedfl.typing import Floats

# Sums one vector per device so that nobody sees a single one of them.
SecureSum = Callable[[list[Floats]], Floats]

_BLOCK = 4096


def column_sums(X: NDArray[Any], weights: Floats | None = None) -> Floats:
    """What a device puts into the first secure sum: its number of rows, then the sum of each column.

    weights: how much each row weighs; their sum then comes first. None weighs every row alike.
    """
    check_matrix("X", X)
    if weights is not None:
        return np.concatenate(([weights.sum()], weights @ X))
    return np.concatenate(([len(X)], X.sum(axis=0, dtype=np.float64)))


def centred_squares(X: NDArray[Any], mean: Floats, weights: Floats | None = None) -> Floats:
    """What a device puts into the second secure sum: the sum of squared deviations from the common mean, per column."""
    check_matrix("X", X, len(mean))
    total = np.zeros(len(mean))
    for start in range(0, len(X), _BLOCK):
        squares = np.square(X[start : start + _BLOCK] - mean)
        total += squares.sum(axis=0) if weights is None else weights[start : start + _BLOCK] @ squares
    return total


def secure_moments(parts: list[NDArray[Any]], secure_sum: SecureSum, weights: list[Floats] | None = None) -> Moments:
    """Mean and variance of each column over all devices, from two secure sums; ``weights`` of each device's rows.

    Two sums and not one of x and x^2 together: E[x^2] - E[x]^2 loses all digits where the mean is large
    against the deviation (timestamps), the more so when the secure sum rounds. What is revealed is the same.
    """
    if not parts:
        raise InvalidInput("parts must hold the rows of at least one device, got none")
    of_rows = [None] * len(parts) if weights is None else weights
    sums = _summed(secure_sum, [column_sums(X, one) for X, one in zip(parts, of_rows, strict=True)])
    count = float(sums[0]) if weights is not None else round(float(sums[0]))
    if not count > 0:
        raise InvalidInput(f"secure_sum must return the number of rows first, got {sums[0]}")
    mean = sums[1:] / count
    squares = _summed(secure_sum, [centred_squares(X, mean, one) for X, one in zip(parts, of_rows, strict=True)])
    # A sum that rounds can come out just below zero for a constant column.
    return Moments(count, mean, np.maximum(squares / count, 0.0))


def _summed(secure_sum: SecureSum, vectors: list[Floats]) -> Floats:
    if any(len(vector) != len(vectors[0]) for vector in vectors):
        raise InvalidInput(f"all devices must have the same columns, got sums of {sorted({len(v) for v in vectors})}")
    total = np.asarray(secure_sum(vectors), dtype=np.float64)
    if total.shape != vectors[0].shape or not np.isfinite(total).all():
        raise InvalidInput(f"secure_sum must return {len(vectors[0])} finite numbers, got shape {total.shape}")
    return total
