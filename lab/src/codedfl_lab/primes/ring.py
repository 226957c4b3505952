"""The exact ring Z_M, M a product of two or three primes (replaces the paper's Z_<k>, IV-A).

The paper truncates products of padded numbers, which fails whenever a padded number wraps (``codedfl lab reproduce
arithmetic`` counts how often). Here nothing is truncated before it is unpadded: numbers are integers modulo M, kept as
one float32 plane of centred residues per prime. A ring array of shape (a, b) is therefore a float32 array of shape
(P, a, b). The primes lie just under 2^24, each 1 modulo the number of devices, so that the gradient code exists modulo
each (``gradient_code``): 48 or 72 bits. ``NARROW`` has two primes just under 2^16 for what needs no code: 32 bits.

This module knows nothing of reals (``fixed_point``) or of randomness (``pads``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput, MessageRefused
from codedfl_lab.primes import kernels
from codedfl_lab.primes.planes import Planes

PRIME_CEILING = 2**24


def is_prime(n: int) -> bool:
    """Trial division: n is below 2^24, so at most 4096 candidates."""
    return n >= 2 and all(n % q for q in range(2, math.isqrt(n) + 1))


@lru_cache(maxsize=256)
def ring_primes(divisor: int, count: int) -> tuple[int, ...]:
    """The ``count`` largest primes below 2^24 that are 1 modulo ``divisor``, largest first."""
    if not 1 <= divisor < 2**16:
        raise InvalidInput(f"the number of devices must be between 1 and {2**16 - 1}, got {divisor}")
    primes: list[int] = []
    candidate = (PRIME_CEILING - 2) // divisor * divisor + 1
    while len(primes) < count and candidate > PRIME_CEILING // 2:
        if is_prime(candidate):
            primes.append(candidate)
        candidate -= divisor
    if len(primes) < count:
        raise InvalidInput(f"no {count} primes between 2^23 and 2^24 are 1 modulo {divisor}: use smaller groups")
    return tuple(primes)


@dataclass(frozen=True)
class Ring:
    """Integers modulo the product of ``primes``; an element is a tuple of centred residues.

    Examples
    --------
    Numbers that add up to more than 2^24 stay exact, and so do products:

    >>> import numpy as np
    >>> from codedfl_lab import Ring
    >>> ring = Ring.for_group_sizes([5])  # five devices
    >>> ring
    <Ring of 16777141 * 16777121, 48.00 bits>
    >>> left, right = ring.from_integers(np.array([2**40, -3])), ring.from_integers(np.array([1, 1]))
    >>> ring.to_integers(ring.add(left, right)).tolist()
    [1099511627777, -2]
    """

    primes: tuple[int, ...]

    @classmethod
    def for_group_sizes(cls, sizes: Sequence[int], planes: int = 2) -> Ring:
        """The ring whose primes are 1 modulo every size (one size, D, unless devices form groups)."""
        return cls(ring_primes(math.lcm(*sizes), planes))

    @cached_property
    def modulus(self) -> int:
        """M, the product of the primes."""
        return math.prod(self.primes)

    @property
    def bytes_per_number(self) -> int:
        """Size of one number on the wire: 6 bytes (48 bits) for two primes, 9 for three, 4 for two short ones."""
        return sum(map(kernels.residue_bytes, self.primes))

    def __repr__(self) -> str:
        return f"<Ring of {' * '.join(map(str, self.primes))}, {math.log2(self.modulus):.2f} bits>"

    def zeros(self, *shape: int) -> Planes:
        """A ring array of zeros, aligned for the kernels."""
        return kernels.aligned_zeros((len(self.primes), *shape))

    # -- integers <-> residues

    def from_integers(self, values: NDArray[Any]) -> Planes:
        """Residues of an array of integers: int64 below 2^53, or integer-valued float64 of any size."""
        floats = np.ascontiguousarray(values, dtype=np.float64)
        planes = self.zeros(*floats.shape)
        for plane, prime in zip(planes, self.primes, strict=True):
            kernels.reduce(floats.reshape(-1), prime, plane.reshape(-1))
        return planes

    def to_integers(self, planes: Planes) -> NDArray[Any]:
        """The representative in (-M/2, M/2): int64 for two primes, Python integers (dtype object) for three.

        Garner's mixed-radix form with centred digits: x = r1 + p1 (t2 + p2 t3), |t| <= (p - 1)/2, is itself
        centred, so no final comparison with M/2 is needed.
        """
        residues = planes.astype(np.int64)
        value: NDArray[Any] = residues[0]
        radix = self.primes[0]
        for residue, prime in zip(residues[1:], self.primes[1:], strict=True):
            # Invariant: ``value`` is congruent to the number modulo every prime so far, and |value| < radix / 2.
            # It is reduced modulo the next prime first, so the difference and its product with an inverse fit int64.
            difference = (residue - (value % prime).astype(np.int64)) % prime
            digit = difference * pow(radix, -1, prime) % prime
            digit -= np.where(digit > prime // 2, prime, 0)
            if radix > PRIME_CEILING:  # two long primes are used up: the third digit no longer fits 64 bits
                value, digit = value.astype(object), digit.astype(object)
            value = value + radix * digit
            radix *= prime
        return value

    # -- arithmetic

    def add(self, left: Planes, right: Planes, sign: int = 1) -> Planes:
        """left + sign * right."""
        total = kernels.aligned_zeros(left.shape)
        total[...] = left
        self.add_scaled(total, [[sign]] * len(self.primes), [right])
        return total

    def add_scaled(self, total: Planes, coefficients: Sequence[Sequence[int]], terms: Sequence[Planes]) -> None:
        """total += sum_j coefficients[prime][j] * terms[j], in place; each plane of the total must be contiguous."""
        _check_in_place(total)
        for k, prime in enumerate(self.primes):
            kernels.add_product(
                total[k].reshape(-1),
                [int(x) % prime for x in coefficients[k]],
                [term[k].reshape(-1) for term in terms],
                prime,
            )

    def add_scaled_packed(
        self, total: Planes, coefficients: Sequence[Sequence[int]], packed: Sequence[bytes | memoryview]
    ) -> None:
        """``add_scaled`` for terms in their wire form (``pack``), which are unpacked on the fly."""
        _check_in_place(total)
        count = total[0].size
        for k, prime in enumerate(self.primes):
            slices = [self._plane_bytes(data, k, count) for data in packed]
            kernels.add_packed_product(total[k].reshape(-1), [int(x) % prime for x in coefficients[k]], slices, prime)

    def product(self, matrix: Planes, update: Planes) -> Planes:
        """matrix (P, rows, d) times update (P, d, c) -> (P, rows, c); the device's whole work in an epoch."""
        result = self.zeros(matrix.shape[1], update.shape[2])
        for k, prime in enumerate(self.primes):
            columns = kernels.aligned_zeros((update.shape[2], update.shape[1]))
            columns[...] = update[k].T
            kernels.product(matrix[k], columns, prime, result[k])
        return result

    def symmetric(self, triangle: Planes, size: int) -> Planes:
        """The full symmetric matrix (P, size, size) of its row-major upper triangle (P, size(size+1)/2)."""
        square = self.zeros(size, size)
        for k in range(len(self.primes)):
            kernels.square_from_triangle(triangle[k], square[k])
        return square

    # -- wire form

    def pack(self, planes: Planes) -> bytes:
        """All residues of the first prime, then of the next: 24 or 16 bits each, little endian, in [0, p)."""
        return b"".join(
            kernels.pack(plane.reshape(-1), prime).tobytes() for plane, prime in zip(planes, self.primes, strict=True)
        )

    def pack_into(self, packed: bytearray, planes: Planes, start: int, count: int) -> None:
        """Write numbers to where ``pack`` has them that are those from ``start`` on of ``count``.

        >>> ring, packed = NARROW, bytearray(12)
        >>> ring.pack_into(packed, ring.from_integers(np.array([7, 9])), 1, 3)
        >>> packed == ring.pack(ring.from_integers(np.array([0, 7, 9])))
        True
        """
        first = 0
        for plane, prime in zip(planes, self.primes, strict=True):
            width = kernels.residue_bytes(prime)
            at = first + width * start
            packed[at : at + width * plane.size] = kernels.pack(plane.reshape(-1), prime).data
            first += width * count

    def add_packed(self, planes: Planes, packed: bytearray, start: int, count: int) -> None:
        """``planes`` (P, n) += the n numbers that ``pack_into`` wrote there.

        >>> ring, packed, planes = NARROW, bytearray(12), NARROW.from_integers(np.array([1, 1]))
        >>> ring.pack_into(packed, ring.from_integers(np.array([7, 9])), 1, 3)
        >>> ring.add_packed(planes, packed, 1, 3)
        >>> ring.to_integers(planes).tolist()
        [8, 10]
        """
        for k, prime in enumerate(self.primes):
            width, plane = kernels.residue_bytes(prime), self._plane_bytes(packed, k, count)
            there = plane[width * start :][: width * planes.shape[1]]
            kernels.add_packed_product(planes[k], [1], [there], prime)

    def unpack(self, data: bytes | memoryview, *shape: int) -> Planes:
        """Undo ``pack``; a wrong length and residues outside [0, p) are refused."""
        count = math.prod(shape)
        self.check_packed_length(data, count)
        planes = self.zeros(*shape)
        for k, prime in enumerate(self.primes):
            if not kernels.unpack(self._plane_bytes(data, k, count), prime, planes[k].reshape(-1)):
                raise MessageRefused(f"ring numbers must be residues below {prime}, got a larger one")
        return planes

    def check_packed_length(self, data: bytes | memoryview, count: int) -> None:
        """Refuse bytes that are not ``count`` numbers in their wire form."""
        if len(data) != count * self.bytes_per_number:
            raise MessageRefused(
                f"{count} ring numbers must take {count * self.bytes_per_number} bytes, got {len(data)}"
            )

    def _plane_bytes(self, data: bytes | bytearray | memoryview, plane: int, count: int) -> NDArray[np.uint8]:
        widths = [kernels.residue_bytes(prime) * count for prime in self.primes]
        return np.frombuffer(data, dtype=np.uint8, count=widths[plane], offset=sum(widths[:plane]))


NARROW = Ring((65521, 65519))
"""32 bits, for a target with random features: the two largest primes below 2^16, whatever the number of devices."""


def _check_in_place(total: Planes) -> None:
    """Refuse a total that ``reshape`` would copy, such as a slice of rows: what is added to the copy would be lost."""
    if not total[0].flags.c_contiguous:
        raise InvalidInput(f"the total must have contiguous planes to be added to, got a slice of shape {total.shape}")
