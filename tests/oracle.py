"""What the tests compare with: plain Python integers and fractions, nothing of codedfl.

Slow and short on purpose. Matrices are lists of rows; the modulus is a Python integer.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

IntMatrix = list[list[int]]


# -- integers modulo something ----------------------------------------------------------------------------------


def centred(value: int, modulus: int) -> int:
    """The representative in (-modulus/2, modulus/2) of an odd modulus."""
    residue = value % modulus
    return residue - modulus if 2 * residue > modulus else residue


def from_residues(residues: Sequence[int], primes: Sequence[int]) -> int:
    """Chinese remainders in the textbook form, centred."""
    modulus = math.prod(primes)
    total = 0
    for residue, prime in zip(residues, primes, strict=True):
        rest = modulus // prime
        total += int(residue) * rest * pow(rest, -1, prime)
    return centred(total, modulus)


def product(left: IntMatrix, right: IntMatrix) -> IntMatrix:
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left]


def transposed(matrix: IntMatrix) -> IntMatrix:
    return [list(column) for column in zip(*matrix, strict=True)]


def reduced(matrix: IntMatrix, prime: int) -> IntMatrix:
    """The non-zero rows of the reduced row echelon form modulo a prime."""
    rows = [[x % prime for x in row] for row in matrix]
    done = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        inverse = pow(rows[done][column], -1, prime)
        rows[done] = [x * inverse % prime for x in rows[done]]
        for i, row in enumerate(rows):
            if i != done and row[column]:
                factor = row[column]
                rows[i] = [(x - factor * y) % prime for x, y in zip(row, rows[done], strict=True)]
        done += 1
    return rows[:done]


def left_null_space(matrix: IntMatrix, prime: int) -> IntMatrix:
    """A basis of all v with v matrix = 0: eliminate [matrix | 1] and keep the rows whose left part vanished."""
    width = len(matrix[0])
    augmented = [[*row, *(int(i == j) for j in range(len(matrix)))] for i, row in enumerate(matrix)]
    return [row[width:] for row in reduced(augmented, prime) if not any(row[:width])]


# -- reals to integers --------------------------------------------------------------------------------------------


def rounded(value: Fraction) -> int:
    """To the nearest integer, halves to even (what Python's round does with a fraction)."""
    return round(value)


def on_grid(values: Iterable[Iterable[float]], bits: int) -> IntMatrix:
    """round(v 2^bits): floats are fractions, so this is exact up to the one rounding it is meant to do."""
    scale = Fraction(2) ** bits
    return [[rounded(Fraction(float(v)) * scale) for v in row] for row in values]


def rescaled(matrix: IntMatrix, from_bits: int, to_bits: int) -> IntMatrix:
    scale = Fraction(2) ** (to_bits - from_bits)
    return [[rounded(v * scale) for v in row] for row in matrix]


def column_norm(matrix: IntMatrix) -> int:
    """The largest column 1-norm."""
    return max(sum(map(abs, column)) for column in zip(*matrix, strict=True))


# -- pads ---------------------------------------------------------------------------------------------------------


def hkdf_sha256(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """RFC 5869 for one block of output (32 bytes)."""
    extracted = hmac.digest(salt or bytes(32), secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439, section 2.3."""

    def words(data: bytes) -> list[int]:
        return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) & 0xFFFFFFFF
            mixed = state[z] ^ state[x]
            state[z] = (mixed << turn | mixed >> (32 - turn)) & 0xFFFFFFFF

    start = [*words(b"expand 32-byte k"), *words(key), counter, *words(nonce)]
    state = list(start)
    for _ in range(10):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return b"".join(((x + y) & 0xFFFFFFFF).to_bytes(4, "little") for x, y in zip(start, state, strict=True))


def pad_residues(seed: bytes, label: str, plane: int, prime: int, segment: int = 0) -> Iterator[int]:
    """The residues of one segment of a pad, in [0, p), without end."""
    key = hkdf_sha256(seed, b"", b"codedfl pad v2|" + f"{label}|{plane}".encode())
    counter, left, width = 0, b"", 2 if prime < 2**16 else 3
    while True:
        left += chacha20_block(key, counter, segment.to_bytes(12, "little"))
        counter += 1
        whole = len(left) // width * width
        for i in range(0, whole, width):
            candidate = int.from_bytes(left[i : i + width], "little")
            if candidate < prime:
                yield candidate
        left = left[whole:]


# -- the same training, in one place, in integers -------------------------------------------------------------------


class Totals:
    """sum_i X_i'X_i and sum_i G_i^(1) in ring units, from each device's quantised features and labels.

    The bits are decisions of codedfl (``FixedPoint``, tested on its own) and are given; everything after them is
    integers: one rounding per device of X'X and of X'Y, none afterwards.
    """

    def __init__(
        self,
        data: Sequence[tuple[Iterable[Iterable[float]], Iterable[Iterable[float]]]],
        *,
        feature_bits: int,
        label_bits: int,
        gram_bits: int,
        constant_bits: int,
        initial: Iterable[Iterable[float]],
    ) -> None:
        self.gram_bits, self.constant_bits = gram_bits, constant_bits
        initial_scale = Fraction(2) ** (constant_bits - gram_bits)
        exact = [[Fraction(float(v)) * initial_scale for v in row] for row in initial]
        assert all(v.denominator == 1 for row in exact for v in row), "Theta^(1) must be on its grid"
        theta = [[int(v) for v in row] for row in exact]
        self.grams: list[IntMatrix] = []
        self.constants: list[IntMatrix] = []
        for X, Y in data:
            x, y = on_grid(X, feature_bits), on_grid(Y, label_bits)
            gram = rescaled(product(transposed(x), x), 2 * feature_bits, gram_bits)
            cross = rescaled(product(transposed(x), y), feature_bits + label_bits, constant_bits)
            self.grams.append(gram)
            self.constants.append(difference(product(gram, theta), cross))
        self.gram = total(self.grams)
        self.constant = total(self.constants)


def total(matrices: Sequence[IntMatrix]) -> IntMatrix:
    return [[sum(entries) for entries in zip(*rows, strict=True)] for rows in zip(*matrices, strict=True)]


def difference(left: IntMatrix, right: IntMatrix) -> IntMatrix:
    return [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(left, right, strict=True)]


def reals(matrix: IntMatrix, bits: int) -> list[list[float]]:
    """v 2^-bits, rounded once to a double."""
    scale = Fraction(1, 2**bits) if bits >= 0 else Fraction(2**-bits)
    return [[float(v * scale) for v in row] for row in matrix]


def update_on_grid(update: Iterable[Iterable[float]], room: int) -> tuple[IntMatrix, int]:
    """e with the most fraction bits that keep its largest column 1-norm, before and after rounding, within ``room``.

    Searched one bit after the other: no logarithm, no estimate.
    """
    rows = [[Fraction(float(v)) for v in row] for row in update]
    norm = max(sum(map(abs, column)) for column in zip(*rows, strict=True))
    bits = 0
    while norm and norm * 2 ** (bits + 1) <= room:
        bits += 1
    while bits >= 0:
        integers = [[rounded(v * 2**bits) for v in row] for row in rows]
        if column_norm(integers) <= room:
            return integers, bits
        bits -= 1
    raise OverflowError("not even whole numbers fit")
