"""Cyclic gradient codes with A B = 1 exactly (paper II-B, eq. 1).

The paper draws Tandon's random real code and rounds it, so A B = 1 holds only approximately. Here, modulo a prime
p = 1 mod D with w of order D: b(x) = prod_{t=alpha}^{D-1} (x - w^t) and B[i][j] = b(w^(j-i)).

* Support: b(w^s) = 0 exactly for s = alpha .. D-1, so row i has its alpha non-zeros at i, i+1, .., i+alpha-1.
* Decoding: b(x) = sum_k beta_k x^k has degree D - alpha, so the coded answer of device i,
  sum_j b(w^(j-i)) g_j = sum_k beta_k y^k (sum_j w^(jk) g_j) at y = w^(-i), is a polynomial of degree D - alpha in y.
  Its value at y = 0 is beta_0 sum_j g_j. Hence any D - alpha + 1 answers give the total by Lagrange interpolation at
  zero, and the decoding coefficients are a_i = L_i(0) / beta_0. The answers are a Reed-Solomon codeword.

It does not mask answers (``masks``), nor judge whether they are true (``answer_check``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl_lab.code.quorum import Quorum, QuorumPart

Residues = NDArray[np.int64]


def check_alpha(alpha: int, n_devices: int) -> None:
    """Refuse an alpha that no code of D devices has."""
    if n_devices < 2:
        raise InvalidInput(f"the number of devices must be at least 2, got {n_devices}")
    if not 1 <= alpha <= n_devices:
        raise InvalidInput(f"alpha must be between 1 and the number of devices ({n_devices}), got {alpha}")


def _prime_factors(n: int) -> set[int]:
    factors, q = set(), 2
    while n > 1:
        if n % q == 0:
            factors.add(q)
            n //= q
        else:
            q += 1
    return factors


def root_of_unity(order: int, prime: int) -> int:
    """An element of multiplicative order exactly ``order`` modulo ``prime`` (which is 1 mod order)."""
    if (prime - 1) % order:
        raise InvalidInput(f"the prime must be 1 modulo {order}, got {prime}")
    factors = _prime_factors(order)
    for base in range(2, prime):
        w = pow(base, (prime - 1) // order, prime)
        if all(pow(w, order // q, prime) != 1 for q in factors):
            return w
    raise AssertionError("a prime field has elements of every order that divides p - 1")


class GradientCode:
    """The circulant code for D devices modulo each of ``primes``.

    Paper: II-B, eq. 1. Shown by ``pytest tests/code/test_gradient_code.py -k survivor_set``.

    Parameters
    ----------
    n_devices : int
        D >= 2.
    alpha : int
        How many devices' data each device can answer for. 1 is uncoded (every answer is needed); D is replication
        (one answer is enough).
    primes : sequence of int
        Each 1 modulo D (``Ring.primes``).

    Examples
    --------
    Each of five devices can answer for three; any three answers give the total:

    >>> from codedfl_lab import GradientCode, Ring
    >>> code = GradientCode(5, alpha=3, primes=Ring.for_group_sizes([5]).primes)
    >>> code
    <GradientCode alpha=3 of D=5, tolerates 2 stragglers>
    >>> answered = [0, 1, 4]
    >>> total = code.decoding_vector(answered)[0] @ code.matrix()[0][answered]
    >>> (total % code.primes[0]).tolist()  # every device's data once
    [1, 1, 1, 1, 1]
    """

    block: ClassVar[int] = 0  # its answers have all rows

    def __init__(self, n_devices: int, alpha: int, primes: Sequence[int]) -> None:
        check_alpha(alpha, n_devices)
        self.n_devices = n_devices
        self.alpha = alpha
        self.primes = tuple(primes)
        self.points: list[list[int]] = []  # w^(-i), where answer i evaluates its polynomial
        self._row: list[list[int]] = []  # b(w^s), s = 0 .. alpha-1: every row is this, rotated
        self._inverse_beta_0: list[int] = []
        for p in self.primes:
            w = root_of_unity(n_devices, p)
            powers = [pow(w, s, p) for s in range(n_devices)]
            roots = powers[alpha:]  # invariant: b vanishes at these and at no other power of w, so beta_0 is not 0
            row = []
            for s in range(alpha):
                value = 1
                for root in roots:
                    value = value * (powers[s] - root) % p
                row.append(value)
            beta_0 = 1
            for root in roots:
                beta_0 = beta_0 * -root % p
            self.points.append([powers[-i % n_devices] for i in range(n_devices)])
            self._row.append(row)
            self._inverse_beta_0.append(pow(beta_0, -1, p))
        self._decode = lru_cache(maxsize=1024)(self._decoding_coefficients)

    def __repr__(self) -> str:
        return f"<GradientCode alpha={self.alpha} of D={self.n_devices}, tolerates {self.alpha - 1} stragglers>"

    @property
    def answers_needed(self) -> int:
        """D - alpha + 1."""
        return self.n_devices - self.alpha + 1

    @cached_property
    def quorum(self) -> Quorum:
        """Which answers decode: any D - alpha + 1."""
        return coded_quorum(self.n_devices, self.alpha)

    @property
    def parts(self) -> list[tuple[GradientCode, list[int]]]:
        """Each code with the devices that answer under it, in its order: here one code, with all devices."""
        return [(self, list(range(self.n_devices)))]

    def row_support(self, i: int) -> list[int]:
        """Whose data device i answers for: i, i+1, .., i+alpha-1 modulo D."""
        return [(i + s) % self.n_devices for s in range(self.alpha)]

    def column_support(self, j: int) -> list[int]:
        """Who answers for device j's data (the paper's IV-B says row i; it must be column i).

        Paper: IV-B. Shown by ``pytest tests/code/test_gradient_code.py -k cyclic_supports``.
        """
        return [(j - s) % self.n_devices for s in range(self.alpha)]

    def coefficients(self, i: int) -> list[list[int]]:
        """For each prime the coefficients b_ij along ``row_support(i)``; equal for every i, because B is circulant."""
        if not 0 <= i < self.n_devices:
            raise InvalidInput(f"the device's position must be between 0 and {self.n_devices - 1}, got {i}")
        return self._row

    def matrix(self) -> Residues:
        """B modulo each prime, shape (P, D, D); for tests and experiments."""
        full = np.zeros((len(self.primes), self.n_devices, self.n_devices), dtype=np.int64)
        for i in range(self.n_devices):
            full[:, i, self.row_support(i)] = self._row
        return full

    def decoding_vector(self, survivors: Sequence[int]) -> Residues:
        """a with a B[survivors] = 1 modulo each prime, shape (P, len(survivors)).

        Any D - alpha + 1 or more distinct survivors in any order; beyond the first D - alpha + 1 the entries
        are zero. Computed on demand and cached: there are far too many survivor sets for a table.
        """
        if len(set(survivors)) != len(survivors) or not set(survivors) <= set(range(self.n_devices)):
            raise InvalidInput(f"survivors must be distinct positions below {self.n_devices}, got {list(survivors)}")
        if not self.quorum.complete(survivors):
            raise InvalidInput(f"decoding needs {self.answers_needed} answers (D - alpha + 1), got {len(survivors)}")
        return self._decode(tuple(survivors))

    def _decoding_coefficients(self, survivors: tuple[int, ...]) -> Residues:
        # Invariant: the points y_i of distinct devices differ and none is 0, so every denominator has an inverse.
        used = list(survivors[: self.answers_needed])
        vector = np.zeros((len(self.primes), len(survivors)), dtype=np.int64)
        for k, p in enumerate(self.primes):
            y = np.array([self.points[k][i] for i in used], dtype=np.int64)
            numerator = np.ones_like(y)  # prod_{l != i} -y_l
            denominator = np.ones_like(y)  # prod_{l != i} (y_i - y_l)
            for index, point in enumerate(y):
                others = np.arange(len(y)) != index
                numerator[others] = numerator[others] * (p - point) % p
                denominator[others] = denominator[others] * ((y[others] - point) % p) % p
            inverse = [pow(int(value), -1, p) for value in denominator]
            scale = self._inverse_beta_0[k]
            vector[k, : len(used)] = [int(n) * v % p * scale % p for n, v in zip(numerator, inverse, strict=True)]
        vector.flags.writeable = False  # it is shared by every caller that hits the cache
        return vector


class GroupedCode:
    """A code for each of several groups (the journal version): device i belongs to group i mod ``groups``.

    Device i then answers for alpha devices of its own group, and every group must send its own size - alpha + 1
    answers. For D in the hundreds this keeps each device's work at alpha pads. One group is a plain ``GradientCode``.

    Examples
    --------
    >>> from codedfl_lab import GroupedCode, Ring
    >>> code = GroupedCode(6, alpha=2, primes=Ring.for_group_sizes([3]).primes, groups=2)
    >>> code
    <GroupedCode alpha=2 of D=6 in 2 groups, tolerates 1 stragglers in each>
    >>> code.row_support(0), code.answers_needed  # device 0 answers for members of its own group
    ([0, 2], 4)
    """

    def __init__(self, n_devices: int, alpha: int, primes: Sequence[int], groups: int) -> None:
        self.n_devices = n_devices
        self.alpha = alpha
        self.primes = tuple(primes)
        self.groups = groups
        self._codes = [GradientCode(size, alpha, primes) for size in group_sizes(n_devices, alpha, groups)]

    def __repr__(self) -> str:
        return (
            f"<GroupedCode alpha={self.alpha} of D={self.n_devices} in {self.groups} groups,"
            f" tolerates {self.alpha - 1} stragglers in each>"
        )

    @property
    def answers_needed(self) -> int:
        """The least number of answers that can be enough: the sum over the groups."""
        return self.quorum.answers_needed

    @cached_property
    def quorum(self) -> Quorum:
        """Which answers decode: size - alpha + 1 of every group."""
        return coded_quorum(self.n_devices, self.alpha, self.groups)

    @property
    def parts(self) -> list[tuple[GradientCode, list[int]]]:
        """Each group's code with the group's members, in its order."""
        return [(code, list(range(group, self.n_devices, self.groups))) for group, code in enumerate(self._codes)]

    def row_support(self, i: int) -> list[int]:
        """Whose data device i answers for, all of its own group."""
        group, index = i % self.groups, i // self.groups
        return [j * self.groups + group for j in self._codes[group].row_support(index)]

    def column_support(self, j: int) -> list[int]:
        """Who answers for device j's data."""
        group, index = j % self.groups, j // self.groups
        return [i * self.groups + group for i in self._codes[group].column_support(index)]

    def coefficients(self, i: int) -> list[list[int]]:
        """For each prime the coefficients b_ij along ``row_support(i)``."""
        return self._codes[i % self.groups].coefficients(i // self.groups)

    def matrix(self) -> Residues:
        """The whole B modulo each prime, shape (P, D, D): zero between groups."""
        full = np.zeros((len(self.primes), self.n_devices, self.n_devices), dtype=np.int64)
        for i in range(self.n_devices):
            full[:, i, self.row_support(i)] = self.coefficients(i)
        return full

    def decoding_vector(self, survivors: Sequence[int]) -> Residues:
        """The groups' decoding vectors, each at the places of its own survivors."""
        vector = np.zeros((len(self.primes), len(survivors)), dtype=np.int64)
        for group, code in enumerate(self._codes):
            places = [place for place, i in enumerate(survivors) if i % self.groups == group]
            vector[:, places] = code.decoding_vector([survivors[place] // self.groups for place in places])
        return vector


def group_sizes(n_devices: int, alpha: int, groups: int) -> list[int]:
    """Sizes of the groups i mod ``groups``; alpha must fit the smallest."""
    check_alpha(alpha, n_devices)  # first: with one device or none, groups are not what is wrong
    if not 1 <= groups <= n_devices // 2:
        raise InvalidInput(f"groups must be between 1 and half the number of devices ({n_devices}), got {groups}")
    sizes = [len(range(group, n_devices, groups)) for group in range(groups)]
    check_alpha(alpha, min(sizes))
    return sizes


def coded_quorum(n_devices: int, alpha: int, groups: int = 1) -> Quorum:
    """Which answers decode, without making the code: any size - alpha + 1 of each group i mod ``groups``."""
    sizes = group_sizes(n_devices, alpha, groups)
    members = (tuple(range(group, n_devices, groups)) for group in range(groups))
    return Quorum(tuple(QuorumPart(part, size - alpha + 1) for part, size in zip(members, sizes, strict=True)))


Code = GradientCode | GroupedCode


@lru_cache(maxsize=16)
def make_code(n_devices: int, alpha: int, primes: tuple[int, ...], groups: int = 1) -> Code:
    """Make one code for all devices, or one per group.

    Parties in one process share it: it never changes, and a thousand of them need it.
    """
    return GradientCode(n_devices, alpha, primes) if groups == 1 else GroupedCode(n_devices, alpha, primes, groups)
