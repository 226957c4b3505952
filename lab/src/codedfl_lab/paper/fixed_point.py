"""The paper's datatype Q<k,f> with its addition and its truncating multiplication (II-A, IV-A).

Nothing in codedfl trains with it: a product is truncated, which does not commute with the wrap-around of a padded
number, so that the "Retrieval" proposition fails now and then. ``codedfl lab reproduce arithmetic`` counts how often.

>>> import numpy as np
>>> q = PaperFixedPoint()
>>> x, r, c = (q.from_reals(np.array([value])) for value in (1.5, -1000.25, 0.75))
>>> q.to_reals(q.add(q.multiply(c, q.add(x, r)), -q.multiply(c, r))).tolist()
[1.125]

That is c x, retrieved from c (x + r) and c r. With a key so large that x + r wraps around, it is not:

>>> r = np.array([2**47 - 1])
>>> q.to_reals(q.add(q.multiply(c, q.add(x, r)), -q.multiply(c, r))).tolist()
[4194305.125]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Floats

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class PaperFixedPoint:
    """Q<k,f>: multiples of 2^-f stored as integers in [-2^(k-1), 2^(k-1) - 1]. The paper takes k = 48, f = 24.

    Paper: II-A. Shown by ``codedfl lab reproduce arithmetic``.
    """

    k: int = 48
    f: int = 24

    def __post_init__(self) -> None:
        if not 2 <= self.k <= 62:
            raise InvalidInput(f"k must be between 2 and 62 (wrapped sums must fit 64 bits), got {self.k}")
        if not 0 <= self.f <= min(31, self.k - 1):
            raise InvalidInput(f"f must be between 0 and {min(31, self.k - 1)}, got {self.f}")

    def __str__(self) -> str:
        return f"Q<{self.k},{self.f}>"

    def wrap(self, integers: Integers) -> Integers:
        """The map onto Z_<k>: the residue modulo 2^k in [-2^(k-1), 2^(k-1) - 1]."""
        half = np.int64(1) << np.int64(self.k - 1)
        mask = (half << np.int64(1)) - np.int64(1)
        wrapped: Integers = ((integers + half) & mask) - half
        return wrapped

    def from_reals(self, values: Floats) -> Integers:
        """The nearest numbers of the datatype; refused (InvalidInput) where a value is out of its range."""
        scaled = np.rint(np.ldexp(values, self.f))
        if not np.all(np.abs(scaled) < 2.0 ** (self.k - 1)):
            raise InvalidInput(f"values must be below 2^{self.k - self.f - 1} in size, got {np.abs(values).max():g}")
        return scaled.astype(np.int64)

    def to_reals(self, integers: Integers) -> Floats:
        return np.ldexp(integers.astype(np.float64), -self.f)

    def draw(self, rng: np.random.Generator, *shape: int) -> Integers:
        """Keys, uniform on Z_<k>. Numpy's generator will do here: nothing is hidden from anybody, only counted."""
        half = 1 << (self.k - 1)
        return rng.integers(-half, half, size=shape)

    def add(self, a: Integers, b: Integers) -> Integers:
        """(a + b) mapped onto Z_<k>.

        Paper: IV-A. Shown by ``pytest tests/paper/test_paper_fixed_point.py -k addition``.
        """
        return self.wrap(a + b)

    def multiply(self, a: Integers, b: Integers) -> Integers:
        """floor(a b 2^-f) mapped onto Z_<k>, without ever forming the 2k-bit product.

        With a = a1 2^f + a0 and b = b1 2^f + b0, 0 <= a0, b0 < 2^f:
        floor(a b 2^-f) = a1 b + a0 b1 + floor(a0 b0 2^-f). Each term is needed modulo 2^k only, and int64 wraps
        modulo 2^64, so no precision is lost; a0 b0 < 2^62 fits.

        Paper: IV-A. Shown by ``pytest tests/paper/test_paper_fixed_point.py -k addition``.
        """
        shift, low = np.int64(self.f), (np.int64(1) << np.int64(self.f)) - np.int64(1)
        a1, a0 = a >> shift, a & low
        b1, b0 = b >> shift, b & low
        return self.wrap(a1 * b + a0 * b1 + ((a0 * b0) >> shift))

    def matmul(self, a: Integers, b: Integers) -> Integers:
        """The paper's product of matrices: every single product truncated, sums wrapped."""
        total: Integers = np.empty((len(a), b.shape[1]), dtype=np.int64)
        _multiply_matrices(np.ascontiguousarray(a), np.ascontiguousarray(b.T), self.f, total)
        return self.wrap(total)

    def add_multiple(self, total: Integers, weight: int, numbers: Integers) -> None:
        """total += weight numbers, in place: ``add`` and ``multiply`` in one pass over two long vectors."""
        _add_multiple(total, np.int64(weight), numbers, self.f)
        total[...] = self.wrap(total)


@njit(cache=True, nogil=True)
def _multiply_matrices(a: Integers, b_transposed: Integers, f: int, total: Integers) -> None:
    low = (1 << f) - 1
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            s = np.int64(0)
            for t in range(a.shape[1]):
                x, y = a[i, t], b_transposed[j, t]
                s += (x >> f) * y + (x & low) * (y >> f) + (((x & low) * (y & low)) >> f)
            total[i, j] = s


@njit(cache=True, nogil=True)
def _add_multiple(total: Integers, weight: np.int64, numbers: Integers, f: int) -> None:
    low = (1 << f) - 1
    high, rest = weight >> f, weight & low
    for i in range(total.size):
        x = numbers[i]
        total[i] += (x >> f) * weight + (x & low) * high + (((x & low) * rest) >> f)
