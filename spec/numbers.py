"""Numbers: the ring Z_M, how it travels, the gradient code, and reals to and from the ring with a proof of range.

A ring number is a Python integer modulo M = p_1 p_2 (or p_1 p_2 p_3), primes just under 2^24. Matrices are lists of
rows; a symmetric one travels as its upper triangle: row by row, or by pairs of row blocks where rows are dealt out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt, prod

Matrix = list[list[int]]
Pair = tuple[int, int]  # of row blocks, the smaller first
Reals = list[list[float]]


# -- the ring


def primes_for(divisor: int, count: int = 2) -> tuple[int, ...]:
    """The ``count`` largest primes below 2^24 that are 1 modulo ``divisor``."""
    found: list[int] = []
    candidate = (2**24 - 2) // divisor * divisor + 1
    while len(found) < count:
        if all(candidate % q for q in range(2, isqrt(candidate) + 1)):
            found.append(candidate)
        candidate -= divisor
    return tuple(found)


def from_residues(residues: tuple[int, ...], primes: tuple[int, ...]) -> int:
    """The number modulo M with these residues (Chinese remainders)."""
    modulus = prod(primes)
    return sum(r * (modulus // p) * pow(modulus // p, -1, p) for r, p in zip(residues, primes, strict=True)) % modulus


def centred(number: int, modulus: int) -> int:
    """The representative between -M/2 and M/2."""
    return (number + modulus // 2) % modulus - modulus // 2


def pack(numbers: list[int], primes: tuple[int, ...]) -> bytes:
    """All residues modulo the first prime, then modulo the next: three bytes each, little endian."""
    return b"".join((x % p).to_bytes(3, "little") for p in primes for x in numbers)


def unpack(data: bytes, primes: tuple[int, ...], count: int) -> list[int]:
    """Undo ``pack``. A wrong length and a residue that is not below its prime are refused."""
    assert len(data) == 3 * count * len(primes), "a packed number takes three bytes per prime"
    planes = [
        [int.from_bytes(data[3 * (k * count + i) :][:3], "little") for i in range(count)] for k in range(len(primes))
    ]
    assert all(x < p for plane, p in zip(planes, primes, strict=True) for x in plane), "a residue is below its prime"
    return [from_residues(found, primes) for found in zip(*planes, strict=True)]


def add(left: list[int], right: list[int], factor: int = 1) -> list[int]:
    """left + factor * right, number by number."""
    return [a + factor * b for a, b in zip(left, right, strict=True)]


def square(triangle: list[int], d: int) -> Matrix:
    """The symmetric d x d matrix of its packed upper triangle."""
    starts = [i * d - i * (i - 1) // 2 for i in range(d)]
    return [[triangle[starts[min(i, j)] + abs(i - j)] for j in range(d)] for i in range(d)]


def block_rows(d: int, blocks: int) -> list[range]:
    """d rows in this number of blocks."""
    return [range(k * d // blocks, (k + 1) * d // blocks) for k in range(blocks)]


def entries(d: int, blocks: int, kept: Collection[int]) -> dict[Pair, list[Pair]]:
    """Which entries of a symmetric matrix stand in each pair of row blocks, in the order in which they travel.

    Of all pairs those with a block that is kept: its rows, and by symmetry the columns above them.
    """
    rows = block_rows(d, blocks)
    pairs = [(a, b) for a in range(blocks) for b in range(a, blocks) if a in kept or b in kept]
    return {(a, b): [(i, j) for i in rows[a] for j in rows[b] if i <= j] for a, b in pairs}


def rows_from(numbers: list[int], d: int, blocks: int, kept: Collection[int]) -> Matrix:
    """The rows of the blocks that are kept, from the numbers that ``entries`` names."""
    places = [place for pair in entries(d, blocks, kept).values() for place in pair]
    found = dict(zip(places, numbers, strict=True))
    return [[found[min(i, j), max(i, j)] for j in range(d)] for k in kept for i in block_rows(d, blocks)[k]]


def product(matrix: Matrix, e: Matrix, modulus: int) -> list[int]:
    """matrix e modulo M, row by row in one list."""
    return [
        sum(a * row[c] for a, row in zip(one, e, strict=True)) % modulus for one in matrix for c in range(len(e[0]))
    ]


# -- the gradient code (paper II-B, eq. 1): A B = 1 exactly


def root_of_unity(order: int, p: int) -> int:
    """The first power base^((p - 1)/order), base = 2, 3, ..., whose order modulo p is exactly ``order``."""
    for base in range(2, p):
        w = pow(base, (p - 1) // order, p)
        if all(pow(w, s, p) != 1 for s in range(1, order)):
            return w
    raise AssertionError("a prime field has elements of every order that divides p - 1")


def code_row(n_devices: int, alpha: int, primes: tuple[int, ...]) -> list[int]:
    """b(w^s) for s = 0 .. D - 1, where b(x) = prod_{t = alpha}^{D - 1} (x - w^t): B[i][j] = row[(j - i) mod D]."""
    planes = []
    for p in primes:
        w = root_of_unity(n_devices, p)
        roots = [pow(w, t, p) for t in range(alpha, n_devices)]
        planes.append([prod(pow(w, s, p) - root for root in roots) % p for s in range(n_devices)])
    return [from_residues(residues, primes) for residues in zip(*planes, strict=True)]


def decoding_vector(survivors: list[int], n_devices: int, alpha: int, primes: tuple[int, ...]) -> list[int]:
    """a with a B[survivors] = 1, for D - alpha + 1 survivors: Lagrange's formula at 0, at the points y_i = w^-i."""
    planes = []
    for p in primes:
        w = root_of_unity(n_devices, p)
        y = [pow(w, -i, p) for i in survivors]
        beta = prod(-pow(w, t, p) for t in range(alpha, n_devices)) % p  # b(0)
        lagrange = [prod(-v for v in y if v != u) * pow(prod(u - v for v in y if v != u), -1, p) for u in y]
        planes.append([value * pow(beta, -1, p) % p for value in lagrange])
    return [from_residues(residues, primes) for residues in zip(*planes, strict=True)]


# -- fixed point: every true sum stays at or below M/8, by integers


def floor_log2(value: Fraction) -> int:
    """The largest k with 2^k <= value."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1


def on_grid(value: float | Fraction, bits: int) -> int:
    """The nearest integer of 2^-bits; halves go to the even one."""
    return round(Fraction(value) * Fraction(2) ** bits)


@dataclass(frozen=True)
class Scales:
    """The grids of a run over rows with |x| <= ``features`` and |y| <= ``labels``, all of them public.

    samples, per_device: at most this number of rows in all, and on one device.
    primes: those of the ring; d: columns of X; owners: devices with rows.
    """

    features: float
    labels: float
    samples: int
    per_device: int
    d: int
    owners: int
    primes: tuple[int, ...]

    @property
    def limit(self) -> int:
        """M/8. The spare factor of four makes an overflow or a wrong answer visible."""
        return prod(self.primes) // 8

    @property
    def feature_bits(self) -> int:
        """Grid of X: 20 significant bits, fewer where n_i products could pass 2^53."""
        return min(20, (53 - (self.per_device - 1).bit_length()) // 2) - 1 - floor_log2(Fraction(self.features))

    @property
    def label_bits(self) -> int:
        """Grid of Y, likewise."""
        return min(20, (53 - (self.per_device - 1).bit_length()) // 2) - 1 - floor_log2(Fraction(self.labels))

    @property
    def gram_bits(self) -> int:
        """Fraction bits of X'X: half of what the ring leaves for X'X e with an e of natural size."""
        norm = isqrt(self.d) * Fraction(self.labels) / Fraction(self.features)
        room = Fraction(prod(self.primes), 8) / (self.samples * Fraction(self.features) ** 2 * norm)
        return min(-(-floor_log2(room) // 2), 2 * self.feature_bits)

    @property
    def constant_bits(self) -> int:
        """Fraction bits of X'Y: half of the room, so that rounding up cannot break the proof."""
        largest = self.samples * Fraction(self.features) * Fraction(self.labels)
        room = Fraction(prod(self.primes), 8) / largest / 2
        return min(floor_log2(room), self.feature_bits + self.label_bits)

    @property
    def gram_limit(self) -> int:
        """The largest entry that the sum of all rounded X'X can have."""
        grid = ceil(Fraction(self.features) * Fraction(2) ** self.feature_bits)
        return ceil(self.samples * grid**2 * Fraction(2) ** (self.gram_bits - 2 * self.feature_bits)) + self.owners

    @property
    def cross_limit(self) -> int:
        """The largest entry that the sum of all rounded X'Y can have."""
        x = ceil(Fraction(self.features) * Fraction(2) ** self.feature_bits)
        y = ceil(Fraction(self.labels) * Fraction(2) ** self.label_bits)
        shift = self.constant_bits - self.feature_bits - self.label_bits
        return ceil(self.samples * x * y * Fraction(2) ** shift) + self.owners

    def statistics(self, X: Reals, Y: Reals) -> tuple[list[int], list[int]]:
        """A device's X'X (a triangle), and its constant part: G^(1) = -X'Y row by row, then its number of rows."""
        x = [[on_grid(v, self.feature_bits) for v in row] for row in X]
        y = [[on_grid(v, self.label_bits) for v in row] for row in Y]
        exact = [sum(row[i] * row[j] for row in x) for i in range(self.d) for j in range(i, self.d)]
        cross = [sum(a[i] * b[c] for a, b in zip(x, y, strict=True)) for i in range(self.d) for c in range(len(Y[0]))]
        gram = [on_grid(v, self.gram_bits - 2 * self.feature_bits) for v in exact]
        return gram, [-on_grid(v, self.constant_bits - self.feature_bits - self.label_bits) for v in cross] + [len(X)]

    def update(self, e: Reals) -> tuple[Matrix, int]:
        """e as integers, and how many fraction bits they have: then |X'X e| <= gram_limit |e|_1 <= M/8."""
        norm = max(_sum(abs(row[c]) for row in e) for c in range(len(e[0])))
        room = self.limit // self.gram_limit
        bits = floor_log2(room / Fraction(norm))
        while True:
            integers = [[on_grid(v, bits) for v in row] for row in e]
            if max(sum(abs(row[c]) for row in integers) for c in range(len(e[0]))) <= room:
                return integers, bits
            bits -= 1


def _sum(values: object) -> float:
    """One after the other, as floats: newer Pythons' ``sum`` corrects its rounding."""
    total = 0.0
    for value in values:  # type: ignore[attr-defined]
        total += value
    return total


def to_reals(total: list[int], bits: int, limits: list[int], modulus: int) -> list[float]:
    """A decoded total; beyond its proven limit (one per column) it is wrong, and is not used."""
    integers = [centred(x, modulus) for x in total]
    assert all(abs(x) <= limits[i % len(limits)] for i, x in enumerate(integers)), "a total stays within its bound"
    return [float(Fraction(x) / Fraction(2) ** bits) for x in integers]
