"""What a device answers in both arithmetics: coded padded matrices, and what the server does to the keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.code.gradient_code import GradientCode
from codedfl.exact.ring import Ring
from codedfl.typing import Planes
from experiments.paper_arithmetic import Integers, PaperFixedPoint

Floats = NDArray[np.float64]

# Numbers treated at a time, so that numpy's temporaries stay in the cache.
CACHED = 1 << 15


def blocks(count: int, size: int) -> list[slice]:
    """``count`` numbers, at most ``size`` (at least 1) at a time."""
    step = max(1, size)
    return [slice(start, start + step) for start in range(0, count, step)]


class Triangle:
    """Symmetric d x d matrices as row-major upper triangles, in the order of ``Ring.symmetric``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._indices = np.triu_indices(size)
        self._diagonal = self._indices[0] == self._indices[1]

    def __len__(self) -> int:
        return self.size * (self.size + 1) // 2

    def of(self, square: Floats) -> Floats:
        return square[self._indices]

    def square(self, triangle: NDArray[Any]) -> NDArray[Any]:
        full = np.empty((self.size, self.size), dtype=triangle.dtype)
        full[self._indices] = triangle
        full.T[self._indices] = triangle
        return full

    def total(self, values: NDArray[Any]) -> float:
        """The sum over the whole matrix, where what lies off the diagonal stands twice."""
        return float(2 * values.sum() - values[self._diagonal].sum())


class PaperAnswer:
    """What one device adds up in the paper's sharing phase (eq. 9), what the server does to the keys, and the truth.

    Without a wrap, ``coded`` - ``keys`` is within ``terms`` units of ``plain``: each of the truncated products of a
    padded number differs from that of its key by less than one unit more or less than it should.
    """

    def __init__(self, datatype: PaperFixedPoint, triangle: Triangle) -> None:
        self.datatype = datatype
        self.triangle = triangle
        self.terms = 0
        self.coded: Integers = np.zeros(len(triangle), dtype=np.int64)
        self.keys: Integers = np.zeros(len(triangle), dtype=np.int64)
        self.plain: Floats = np.zeros(len(triangle))  # in units of 2^-f
        self._wraps_of_terms = 0.0

    def add(self, coefficient: float, padded: Integers, key: Integers, secret: Integers) -> None:
        q, b = self.datatype, self.datatype.from_reals(np.array(coefficient))
        for part in blocks(len(self.triangle), CACHED):
            self.coded[part] = q.add(self.coded[part], q.multiply(padded[part], b))
            self.keys[part] = q.add(self.keys[part], q.multiply(key[part], b))
        self.plain += coefficient * secret
        self.terms += 1
        if not float(coefficient).is_integer():  # a whole multiple of 2^k is removed by the map onto Z_<k>
            self._wraps_of_terms += self.triangle.total(np.abs(secret))

    def expected_wrong(self) -> float:
        """Entries with a term that wrapped when it was padded, and entries whose sum wrapped."""
        return self._wraps_of_terms / 2.0**self.datatype.k + self.expected_of_sum()

    def expected_of_sum(self) -> float:
        return self.triangle.total(np.abs(self.plain)) / 2.0**self.datatype.k

    def is_wrong(self) -> NDArray[np.bool_]:
        # Integers, not mapped onto Z_<k>: e is multiplied with coded and with keys, not with their mapped difference.
        difference = (self.coded - self.keys).astype(np.float64)
        wrong: NDArray[np.bool_] = np.abs(difference - self.plain) >= self.terms + 0.5
        return wrong

    def wrong_entries(self) -> int:
        return int(self.triangle.total(self.is_wrong()))

    def retrieve(self, update: Integers) -> Integers:
        """coded e - keys e, as in the Retrieval proposition."""
        q = self.datatype
        coded, keys = self.triangle.square(self.coded), self.triangle.square(self.keys)
        return np.concatenate(
            [
                q.add(q.matmul(coded[rows], update), -q.matmul(keys[rows], update))
                for rows in blocks(self.triangle.size, CACHED // self.triangle.size)
            ]
        )

    def tolerance(self, update: Floats) -> float:
        """What truncation can do to a row: ``terms`` units in each entry before e, one in each of the d products."""
        units = self.terms * np.abs(update).sum(axis=0).max() + self.triangle.size
        return float(np.ldexp(units, -self.datatype.f))


class RingAnswers:
    """The same sums on the exact ring, and the total of the pads, which is all that the server subtracts."""

    def __init__(self, ring: Ring, code: GradientCode, answering: Sequence[int], count: int) -> None:
        self.ring = ring
        self.code = code
        self.coded = {i: ring.zeros(count) for i in answering}
        self.pads = ring.zeros(count)

    def add(self, device: int, padded: Planes, pad: Planes) -> None:
        self.ring.add_scaled(self.pads, [[1]] * len(self.ring.primes), [pad])
        for i, total in self.coded.items():
            if device in self.code.row_support(i):
                place = self.code.row_support(i).index(device)
                self.ring.add_scaled(total, [[row[place]] for row in self.code.coefficients(i)], [padded])

    def decode(self, answers: dict[int, Planes], survivors: Sequence[int]) -> Planes:
        total = self.ring.zeros(*answers[survivors[0]].shape[1:])
        weights = self.code.decoding_vector(survivors).tolist()
        self.ring.add_scaled(total, weights, [answers[i] for i in survivors])
        return total
