"""Wrong answers found by the code itself: the coded answers of a group are a Reed-Solomon codeword (beyond II-B).

Answer i is the value at y_i = w^(-i) of a polynomial of degree D - alpha (``gradient_code``), masks and pads included.
With n answers there are n - (D - alpha + 1) spare ones: one detects a wrong answer, 2t locate up to t of them.

An answer has d c numbers, and the decoder needs only one of each. So every answer is projected on one random vector of
the server's own, modulo each prime: codewords stay codewords, and a wrong answer looks right with probability 2/p,
about 1e-7, whatever the device does, since it never learns the vector. Primes of 16 bits would leave 3e-5, so there it
is four vectors: 1e-18. Decoding n such numbers takes syndromes, Berlekamp-Massey and a search for roots.

More malicious devices than half the spare answers can pass for honest ones if they agree among themselves on another
codeword.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codedfl_lab.code.gradient_code import GradientCode
from codedfl_lab.code.roles import AnswerCode, Replication
from codedfl_lab.primes import kernels, pads
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import Ring

Scalars = list[int]  # a residue modulo each prime, and again for every further vector

_WIDTH = 128  # a float64 holds the sum of this number of products of centred 24-bit residues exactly
_VECTORS_OF_SHORT_PRIMES = 4
_ROWS_AT_ONCE = 256  # rows of the scratch array: 256 KB, which stay in the cache


class Projection:
    """A random linear map from an answer of ``count`` numbers to one number modulo each prime, or to four of them.

    The answer is laid out in rows of 128; each is multiplied by one random vector, the results by another. So only few
    random numbers are needed, and BLAS makes every product; it may add in any order, since nothing is rounded.
    Invariant: the seed is drawn for one epoch and known to nobody.
    """

    def __init__(self, ring: Ring, seed: bytes, count: int) -> None:
        rows = -(-count // _WIDTH)
        vectors = _VECTORS_OF_SHORT_PRIMES if kernels.residue_bytes(min(ring.primes)) == 2 else 1
        numbers = pads.expand(ring, seed, "answer check", vectors * (_WIDTH + rows))
        numbers = numbers.reshape(len(ring.primes), vectors, _WIDTH + rows)
        self._primes = ring.primes
        self._across = numbers[:, :, :_WIDTH].astype(np.float64)
        self._down = numbers[:, :, _WIDTH:].astype(np.int64)
        self._scratch = np.zeros((min(rows, _ROWS_AT_ONCE), _WIDTH))

    def __call__(self, answers: Sequence[Planes]) -> list[Scalars]:
        """Per answer one residue modulo each prime, vector after vector."""
        columns = [
            self._of_planes(k, vector, [answer[k] for answer in answers])
            for vector in range(self._across.shape[1])
            for k in range(len(self._primes))
        ]
        return [list(scalars) for scalars in zip(*columns, strict=True)]

    def _of_planes(self, k: int, vector: int, planes: Sequence[NDArray[np.float32]]) -> list[int]:
        prime, across, down = self._primes[k], self._across[k, vector], self._down[k, vector]
        sums = np.empty((len(planes), len(down)))
        flat = self._scratch.reshape(-1)
        for plane, row_sums in zip(planes, sums, strict=True):
            for start in range(0, len(plane), flat.size):
                numbers = plane[start : start + flat.size]
                flat[: len(numbers)] = numbers
                flat[len(numbers) :] = 0
                part = row_sums[start // _WIDTH :][: len(self._scratch)]
                np.dot(self._scratch[: len(part)], across, out=part)
        sums -= prime * np.rint(sums / prime)  # within p of zero: the next sum fits 64 bits by far
        return [int(total) % prime for total in sums.astype(np.int64) @ down]


@dataclass(frozen=True)
class AnswerVerdict:
    """What the answers say about each other.

    ``liars`` are the devices whose answers are wrong. ``agreed`` is False when some answers are wrong and nobody can
    say whose; ``undecided`` are then the devices among which the malicious ones are.
    """

    liars: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()

    @property
    def agreed(self) -> bool:
        """Whether nothing is left that the answers could not decide."""
        return not self.undecided


def judge(code: AnswerCode, projected: Mapping[int, Mapping[int, Scalars]]) -> AnswerVerdict:
    """What the projected answers, by device and block of rows, say about each other.

    Every group, and every cell, is a codeword of its own; block 0 is the only one where no rows are dealt out.
    """
    liars: list[int] = []
    undecided: list[int] = []
    for part, members in code.parts:
        here = {index: projected[i][part.block] for index, i in enumerate(members) if i in projected}
        found = locate(part, here)
        if found is None:
            undecided += [members[index] for index in here]
        else:
            liars += [members[index] for index in found]
    return AnswerVerdict(tuple(sorted(liars)), tuple(sorted(undecided)))


def locate(code: GradientCode | Replication, projected: Mapping[int, Scalars]) -> list[int] | None:
    """The fewest positions without which the answers lie on the code; None when they are too many to be sure.

    An answer may be wrong modulo one prime only, or look right on one vector, so each is decoded on its own.
    """
    positions = sorted(projected)
    values = np.array([projected[i] for i in positions], dtype=np.int64).T
    vectors = len(values) // len(code.primes)
    points = np.array([[plane[i] for i in positions] for plane in code.points] * vectors, dtype=np.int64)
    primes = tuple(code.primes) * vectors
    spare = len(positions) - code.answers_needed
    liars: set[int] = set()
    for k, syndromes in enumerate(_syndromes(points, values, spare, np.array(primes))):
        if not any(syndromes):
            continue
        prime = primes[k]
        recurrence = _shortest_recurrence(syndromes, prime)
        errors = len(recurrence) - 1
        # sum_m c_m x^m = prod (1 - y_i x) over the wrong answers; turned round it vanishes at the points themselves.
        at_points = np.zeros_like(points[k])
        for coefficient in recurrence:
            at_points = (at_points * points[k] + coefficient) % prime
        roots = np.flatnonzero(at_points == 0)
        if 2 * errors > spare or len(roots) != errors:
            return None
        liars |= {positions[root] for root in roots}
    return sorted(liars) if len(positions) - len(liars) >= code.answers_needed else None


def _syndromes(
    points: NDArray[np.int64], values: NDArray[np.int64], count: int, primes: NDArray[np.int64]
) -> list[list[int]]:
    """For each prime sum_i v_i value_i y_i^m, m < count, with v_i = 1 / prod_{l != i} (y_i - y_l).

    These are divided differences of order n - 1 of the polynomial times y^m, whose degree is smaller: all are zero on
    the code, and there only.
    """
    if count == 0:
        return [[] for _ in primes]
    n_answers = points.shape[1]
    factors = (points[:, :, None] - points[:, None, :]) % primes[:, None, None]
    factors[:, np.arange(n_answers), np.arange(n_answers)] = 1
    while factors.shape[2] > 1:  # pairwise: a product modulo p along the rows in log2 n steps
        odd = factors[:, :, -1:] if factors.shape[2] % 2 else factors[:, :, :0]
        pairs = factors[:, :, : factors.shape[2] - odd.shape[2]]
        factors = np.concatenate([pairs[:, :, ::2] * pairs[:, :, 1::2] % primes[:, None, None], odd], axis=2)
    inverses = [
        [pow(int(factor), -1, int(p)) for factor in row] for row, p in zip(factors[:, :, 0], primes, strict=True)
    ]
    weighted = values * np.array(inverses) % primes[:, None]
    syndromes = []
    for _ in range(count):
        syndromes.append(weighted.sum(axis=1) % primes)
        weighted = weighted * points % primes[:, None]
    return [[int(s) for s in row] for row in np.array(syndromes).T]


def _shortest_recurrence(sequence: list[int], prime: int) -> list[int]:
    """Berlekamp-Massey: c_0 = 1, .., c_L with sum_m c_m s_(n-m) = 0 for n >= L, and L as small as can be."""
    current, previous = [1], [1]
    length, gap, last = 0, 1, 1
    for n, value in enumerate(sequence):
        terms = zip(current[1 : length + 1], reversed(sequence[n - length : n]), strict=False)
        discrepancy = (value + sum(c * s for c, s in terms)) % prime
        if discrepancy == 0:
            gap += 1
            continue
        factor = discrepancy * pow(last, -1, prime) % prime
        shifted = [0] * gap + [factor * c % prime for c in previous]
        width = max(len(current), len(shifted))
        padded = current + [0] * (width - len(current))
        changed = [(c - s) % prime for c, s in zip(padded, shifted + [0] * (width - len(shifted)), strict=True)]
        if 2 * length <= n:
            current, previous, length, gap, last = changed, current, n + 1 - length, 1, discrepancy
        else:
            current, gap = changed, gap + 1
    return (current + [0] * (length + 1 - len(current)))[: length + 1]
