"""The paper's own datatype Q<k,f> with its addition and multiplication (II-A, IV-A), as a reference only.

Nothing in codedfl computes with it: its multiplication truncates, which does not commute with the wrap-around of a
padded number, so the "Retrieval" proposition fails now and then. ``experiments/wraparound`` counts how often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class PaperFixedPoint:
    """Q<k,f>: multiples of 2^-f stored as integers in [-2^(k-1), 2^(k-1) - 1]. The paper takes k = 48, f = 24."""

    k: int = 48
    f: int = 24

    def __post_init__(self) -> None:
        if not 2 <= self.k <= 62:
            raise InvalidInput(f"k must be between 2 and 62 (wrapped sums must fit 64 bits), got {self.k}")
        if not 0 <= self.f <= min(31, self.k - 1):
            raise InvalidInput(f"f must be between 0 and {min(31, self.k - 1)}, got {self.f}")

    def wrap(self, integers: Integers) -> Integers:
        """The map onto Z_<k>: the residue modulo 2^k in [-2^(k-1), 2^(k-1) - 1]."""
        half = np.int64(1) << np.int64(self.k - 1)
        mask = (half << np.int64(1)) - np.int64(1)
        wrapped: Integers = ((integers + half) & mask) - half
        return wrapped

    def from_reals(self, values: NDArray[np.float64]) -> Integers:
        scaled = np.rint(np.ldexp(values, self.f))
        if not np.all(np.abs(scaled) < 2.0 ** (self.k - 1)):
            raise InvalidInput(f"values must be below 2^{self.k - self.f - 1} in size, got {np.abs(values).max():g}")
        return scaled.astype(np.int64)

    def to_reals(self, integers: Integers) -> NDArray[np.float64]:
        return np.ldexp(integers.astype(np.float64), -self.f)

    def add(self, a: Integers, b: Integers) -> Integers:
        """(a + b) mapped onto Z_<k>."""
        return self.wrap(a + b)

    def multiply(self, a: Integers, b: Integers) -> Integers:
        """floor(a b 2^-f) mapped onto Z_<k>, without ever forming the 2k-bit product.

        With a = a1 2^f + a0 and b = b1 2^f + b0, 0 <= a0, b0 < 2^f:
        floor(a b 2^-f) = a1 b + a0 b1 + floor(a0 b0 2^-f). Each term is needed modulo 2^k only, and int64 wraps
        modulo 2^64, so no precision is lost; a0 b0 < 2^62 fits.
        """
        shift, low = np.int64(self.f), (np.int64(1) << np.int64(self.f)) - np.int64(1)
        a1, a0 = a >> shift, a & low
        b1, b0 = b >> shift, b & low
        return self.wrap(a1 * b + a0 * b1 + ((a0 * b0) >> shift))

    def matmul(self, a: Integers, b: Integers) -> Integers:
        """The paper's product of matrices: every single product truncated, sums wrapped."""
        total: Integers = np.zeros((a.shape[0], b.shape[1]), dtype=np.int64)
        for column in range(b.shape[1]):
            total[:, column] = self.multiply(a, b[:, column]).sum(axis=1)
        return self.wrap(total)
