"""Numbers: the ring Z_M, how it travels, and which entries of a symmetric matrix travel where.

A ring number is a Python integer modulo M = p_1 p_2 (or p_1 p_2 p_3), primes just under 2^24. Matrices are lists of
rows; of a symmetric one the upper triangle travels, by pairs of row blocks; a single block has all rows.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate, islice
from math import isqrt, prod

Matrix = list[list[int]]
Pair = tuple[int, int]  # of row blocks, the smaller first


def primes_for(divisor: int, count: int = 2) -> list[int]:
    """The ``count`` largest primes below 2^24 that are 1 modulo ``divisor``."""
    candidates = range((2**24 - 2) // divisor * divisor + 1, 1, -divisor)
    primes = (one for one in candidates if all(one % q for q in range(2, isqrt(one) + 1)))
    return list(islice(primes, count))


def from_residues(planes: list[list[int]], primes: list[int]) -> list[int]:
    """The numbers modulo M with these residues, one list of them per prime (Chinese remainders)."""
    modulus = prod(primes)
    units = [modulus // p * pow(modulus // p, -1, p) for p in primes]  # 1 modulo its prime, 0 modulo the others
    return [sum(r * u for r, u in zip(one, units, strict=True)) % modulus for one in zip(*planes, strict=True)]


def pack(numbers: list[int], primes: list[int]) -> bytes:
    """All residues modulo the first prime, then modulo the next: three bytes each, little endian."""
    return b"".join((x % p).to_bytes(3, "little") for p in primes for x in numbers)


def unpack(data: bytes, primes: list[int], count: int) -> list[int]:
    """Undo ``pack``. A wrong length and a residue that is not below its prime are refused."""
    assert len(data) == 3 * count * len(primes), "a packed number takes three bytes per prime"
    residues = [int.from_bytes(data[at : at + 3], "little") for at in range(0, len(data), 3)]
    planes = pieces(residues, [count] * len(primes))
    assert all(x < p for plane, p in zip(planes, primes, strict=True) for x in plane), "a residue is below its prime"
    return from_residues(planes, primes)


def pieces(numbers: list[int], lengths: list[int]) -> list[list[int]]:
    """The numbers cut into pieces of these lengths."""
    assert len(numbers) == sum(lengths), "no number is left over"
    return [numbers[end - length : end] for length, end in zip(lengths, accumulate(lengths), strict=True)]


def add(left: list[int], right: list[int], factor: int = 1) -> list[int]:
    """left + factor * right, number by number."""
    return [a + factor * b for a, b in zip(left, right, strict=True)]


def product(matrix: Matrix, e: Matrix, modulus: int) -> list[int]:
    """matrix e modulo M, row by row in one list."""
    columns = list(zip(*e, strict=True))
    return [sum(a * b for a, b in zip(row, column, strict=True)) % modulus for row in matrix for column in columns]


# -- the triangle of a symmetric d x d matrix, by pairs of row blocks


def block_rows(d: int, blocks: int) -> list[range]:
    """d rows in this number of blocks."""
    return [range(k * d // blocks, (k + 1) * d // blocks) for k in range(blocks)]


def entries(d: int, blocks: int, kept: Collection[int]) -> dict[Pair, list[Pair]]:
    """Which entries (row, column) stand in each pair of row blocks, in the order in which they travel.

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
