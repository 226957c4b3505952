"""Fixed point: the public parameters of a run, the grids that follow from them, and the proof that no sum overflows.

Every true sum stays at or below M/8. The spare factor of four makes an overflow or a wrong answer visible.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt, prod

from spec.numbers import Matrix, Pair, primes_for

Reals = list[list[float]]
TWO = Fraction(2)


@dataclass(frozen=True)
class Parameters:
    """In the order in which they travel. Where a value is given here, this specification has that one only.

    |x| <= features, |y| <= labels; at most ``rows`` rows in all and ``per_device`` on one device. recipe: a digest of
    how rows become X and Y. owners: for how many the grids are made, 0 for those that take part.
    """

    scheme: str
    alpha: int  # 1 for role keys
    d: int  # columns of X
    outputs: int  # columns of Y
    features: float
    labels: float
    rows: int  # in all, at most
    per_device: int  # rows, at most
    precision: int = -1  # not asked for
    samples: int = -1  # not public: the number of rows is summed too
    masks: bool = True
    groups: int = 1
    reveals_gram: bool = False
    epochs: int = 1  # most updates that are answered, the one for the constant included
    recipe: bytes = b""
    colluders: int = 0  # z
    owners: int = 0
    total_limit: bytes = bytes(9)  # of totals of whole numbers, big endian; zero for rows
    narrow: bool = False  # the ring of 32 bits


@dataclass(frozen=True)
class Scales:
    """The ring of a run, fraction bits of its grids, and the largest entries that its totals can have."""

    primes: list[int]
    feature_bits: int
    label_bits: int
    gram_bits: int
    constant_bits: int
    gram_limit: int
    cross_limit: int


def floor_log2(value: Fraction) -> int:
    """The largest k with 2^k <= value."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if TWO**k <= value else k - 1


def on_grid(value: float | Fraction, bits: int) -> int:
    """The nearest integer of 2^-bits; halves go to the even one."""
    return round(Fraction(value) * TWO**bits)


def scales(p: Parameters, owners: int) -> Scales:
    """By integers and fractions, from what is public.

    Whole numbers up to a limit have no grid, and a third prime where two do not hold eight times as much.
    """
    if limit := int.from_bytes(p.total_limit):
        return Scales(primes_for(1, 2 + (8 * limit > prod(primes_for(1)))), 0, 0, 0, 0, limit, limit)
    primes, x, y = primes_for(owners), Fraction(p.features), Fraction(p.labels)
    eighth = Fraction(prod(primes), 8)
    # X and Y have 20 significant bits, fewer where the sum of n_i products could pass 2^53.
    significant = min(20, (53 - (p.per_device - 1).bit_length()) // 2)
    feature_bits, label_bits = (significant - 1 - floor_log2(bound) for bound in (x, y))
    # X'X has half of the bits that the ring leaves for X'X e with an e of natural size; that size is:
    norm = isqrt(p.d) * y / x
    gram_bits = min(-(-floor_log2(eighth / (p.rows * x**2 * norm)) // 2), 2 * feature_bits)
    # X'Y has half of the room, so that rounding up cannot break the proof.
    constant_bits = min(floor_log2(eighth / (p.rows * x * y) / 2), feature_bits + label_bits)
    # The largest sums: every number at its bound, and every owner's own sum rounded up by at most one.
    most_x, most_y = ceil(x * TWO**feature_bits), ceil(y * TWO**label_bits)
    gram_limit = ceil(p.rows * most_x**2 * TWO ** (gram_bits - 2 * feature_bits)) + owners
    cross_limit = ceil(p.rows * most_x * most_y * TWO ** (constant_bits - feature_bits - label_bits)) + owners
    return Scales(primes, feature_bits, label_bits, gram_bits, constant_bits, gram_limit, cross_limit)


def statistics(p: Parameters, s: Scales, X: Reals, Y: Reals, places: list[Pair]) -> tuple[list[int], list[int]]:
    """A device's X'X at these places, and its constant part: G^(1) = -X'Y row by row, then its number of rows.

    Rows beyond ``per_device`` are left out and values beyond a bound are put on it: the proof must hold for any rows.
    Whole numbers, in the place of Y, are the constant part as they are, beside an X'X of one zero.
    """
    if any(p.total_limit):
        return [0], [*map(int, *Y)]
    x = [[on_grid(max(-p.features, min(p.features, v)), s.feature_bits) for v in row] for row in X[: p.per_device]]
    y = [[on_grid(max(-p.labels, min(p.labels, v)), s.label_bits) for v in row] for row in Y[: p.per_device]]
    gram = [sum(row[i] * row[j] for row in x) for i, j in places]
    cross = [sum(a[i] * b[c] for a, b in zip(x, y, strict=True)) for i in range(p.d) for c in range(p.outputs)]
    shift = s.constant_bits - s.feature_bits - s.label_bits
    return [on_grid(v, s.gram_bits - 2 * s.feature_bits) for v in gram], [-on_grid(v, shift) for v in cross] + [len(x)]


def column_norm(e: Matrix | Reals) -> Fraction:
    """|e|_1: the largest sum of sizes in a column."""
    return max(sum((abs(Fraction(v)) for v in column), Fraction(0)) for column in zip(*e, strict=True))


def rounded_update(s: Scales, e: Reals) -> tuple[Matrix, int]:
    """e as integers, and how many fraction bits they have: then |X'X e| <= gram_limit |e|_1 <= M/8."""
    room = prod(s.primes) // 8 // s.gram_limit
    bits = floor_log2(room / column_norm(e))
    while column_norm(found := [[on_grid(v, bits) for v in row] for row in e]) > room:
        bits -= 1
    return found, bits


def to_reals(total: list[int], bits: int, limits: list[int], modulus: int) -> list[float]:
    """A decoded total; beyond its proven limit (one per column) it is wrong, and is not used."""
    centred = [(x + modulus // 2) % modulus - modulus // 2 for x in total]
    assert all(abs(x) <= limits[i % len(limits)] for i, x in enumerate(centred)), "a total stays within its bound"
    return [float(x / TWO**bits) for x in centred]
