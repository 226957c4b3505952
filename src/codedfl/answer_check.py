"""Wrong answers found by the code itself: the coded answers of a group are a Reed-Solomon codeword (beyond II-B).

Answer i is the value at y_i = w^(-i) of a polynomial of degree D - alpha (``gradient_code``), masks and pads included.
With n answers there are n - (D - alpha + 1) spare ones: one detects a wrong answer, 2t locate up to t of them.

An answer has d c numbers, the decoder wants one. So every answer is projected on one random vector of the server's own,
modulo each prime: codewords stay codewords, and a wrong answer looks right with probability 1/p, about 6e-8, whatever
the liar does, since it never learns the vector. Decoding then is syndromes, Berlekamp-Massey and a search for the roots
on n numbers.

More liars than half the spare answers can pass for honest ones if they agree among themselves on another codeword.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codedfl import pads
from codedfl.gradient_code import GradientCode, GroupedCode
from codedfl.ring import Planes, Ring

Scalars = list[int]  # one residue modulo each prime

_SPLIT = 4096  # centred residues are below 2^23: high and low part of the random numbers stay below 2^11 + 1
_BLOCK = 1 << 17  # 2^17 products below 2^35 sum up exactly in a float64


class Projection:
    """A random linear map from an answer of ``count`` numbers to one number modulo each prime."""

    def __init__(self, ring: Ring, seed: bytes, run: bytes, count: int) -> None:
        self._primes = ring.primes
        vector = pads.expand(ring, seed, run, "answer check", count).astype(np.float64)
        high = np.rint(vector / _SPLIT)
        self._parts = np.stack([high, vector - _SPLIT * high], axis=1)  # (P, 2, count)

    def __call__(self, answer: Planes) -> Scalars:
        """Exact: every partial sum is an integer below 2^53, so BLAS may add in any order."""
        totals = [0] * len(self._primes)
        for start in range(0, answer.shape[1], _BLOCK):
            block = slice(start, start + _BLOCK)
            for k in range(len(totals)):
                high, low = self._parts[k, :, block] @ answer[k, block].astype(np.float64)
                totals[k] += _SPLIT * int(high) + int(low)
        return [total % prime for total, prime in zip(totals, self._primes, strict=True)]


@dataclass(frozen=True)
class Verdict:
    """``liars``: whose answers are wrong. ``agreed`` is False when some are but nobody can say whose.

    ``undecided`` are then the devices among which they are.
    """

    liars: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()

    @property
    def agreed(self) -> bool:
        return not self.undecided


def judge(code: GradientCode | GroupedCode, projected: Mapping[int, Scalars]) -> Verdict:
    """What the projected answers, by device, say about each other; every group is a codeword of its own."""
    liars: list[int] = []
    undecided: list[int] = []
    for part, members in code.parts:
        here = {index: projected[i] for index, i in enumerate(members) if i in projected}
        found = locate(part, here)
        if found is None:
            undecided += [members[index] for index in here]
        else:
            liars += [members[index] for index in found]
    return Verdict(tuple(sorted(liars)), tuple(sorted(undecided)))


def locate(code: GradientCode, projected: Mapping[int, Scalars]) -> list[int] | None:
    """The fewest positions without which the answers lie on the code; None when they are too many to be sure.

    An answer may be wrong modulo one prime only, so each is decoded on its own.
    """
    positions = sorted(projected)
    liars: set[int] = set()
    for k, prime in enumerate(code.primes):
        points = np.array([code.points[k][i] for i in positions], dtype=np.int64)
        values = np.array([projected[i][k] for i in positions], dtype=np.int64)
        syndromes = _syndromes(points, values, len(positions) - code.answers_needed, prime)
        if not any(syndromes):
            continue
        recurrence = _shortest_recurrence(syndromes, prime)
        errors = len(recurrence) - 1
        # sum_m c_m x^m = prod (1 - y_i x) over the wrong answers; turned round it vanishes at the points themselves.
        at_points = np.zeros_like(points)
        for coefficient in recurrence:
            at_points = (at_points * points + coefficient) % prime
        roots = np.flatnonzero(at_points == 0)
        if 2 * errors > len(syndromes) or len(roots) != errors:
            return None
        liars |= {positions[root] for root in roots}
    return sorted(liars) if len(positions) - len(liars) >= code.answers_needed else None


def _syndromes(points: NDArray[np.int64], values: NDArray[np.int64], count: int, prime: int) -> list[int]:
    """sum_i v_i value_i y_i^m for m < count, v_i = 1 / prod_{l != i} (y_i - y_l): all zero on the code, and there only.

    The divided difference of order n - 1 of a polynomial times y^m, whose degree is below n - 1.
    """
    derivative = np.ones_like(points)
    for index, point in enumerate(points):
        others = np.arange(len(points)) != index
        derivative[others] = derivative[others] * ((points[others] - point) % prime) % prime
    weighted = np.array(
        [int(v) * pow(int(n), -1, prime) % prime for v, n in zip(values, derivative, strict=True)], dtype=np.int64
    )
    syndromes = []
    for _ in range(count):
        syndromes.append(int(weighted.sum() % prime))
        weighted = weighted * points % prime
    return syndromes


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
