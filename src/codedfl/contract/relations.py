"""Which combinations of columns single few people of a table out: found by linear algebra, for any number of columns.

X'X has the sums of every combination of its columns. One that is zero in all rows but those of few people is a sum over
these people alone: two parts and their total, wrong for one patient; the same number on three coarse grids; powers of a
number that has few values; one column that was recorded twice and corrected in between.

In the words of codes, combinations are the code words of the space that the columns span, and wanted are those of low
weight, counted in people. A set of rows as many as the rank, each independent of those before it, is an *information
set*: one combination is 1 on one of them and 0 on all others. A combination that is zero but on some set of people is
one of these wherever just one of the set's rows is among them. Of one person that is always so, hence all combinations
that single out one are found. Of several it is so unless the other rows together with some of theirs fall short of the
rank when these come: orders are drawn several times, common rows first.

Arithmetic is modulo primes below 2^22, in float64 exactly: what is not zero modulo one of them is not zero; what is
zero modulo both is taken for zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codedfl.typing import Floats, Integers

MOST_COLUMNS = 256  # that are looked at together
_PRIMES = (4194301, 4194287)  # Invariant: MOST_COLUMNS times a square of them is below 2^53, so sums are exact
_ORDERS = 12
_SOME, _BLOCK = 2048, 64  # rows that are looked at together
_WORK = 1 << 29  # multiplications, after which orders are not drawn again
_FEW_SHARE = 0.1  # of the people: what more of them do not keep to is no relation of the columns
_Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Relation:
    """Some columns that depend on each other in all rows but those of few people.

    columns: their places. people: how many there are.

    >>> Relation((0, 2, 3), 1).people
    1
    """

    columns: tuple[int, ...]
    people: int


def broken_relations(columns: Integers, people: Integers, k: int) -> Iterator[Relation]:
    """Relations of columns that all but fewer than k people keep, and nine of ten at least.

    columns: a row per row of the table; a constant column is always taken along. people: a number for each row, the
    same for rows of one person. What rests on few people itself is no relation: in a table of twelve rows any twelve
    columns depend on each other. So the others must show it, each direction of them by k people at least.

    >>> a, b = np.arange(40) % 7, np.arange(40) % 5
    >>> total = a + b + (np.arange(40) == 3)
    >>> [(one.columns, one.people) for one in broken_relations(np.stack((a, b, total), axis=1), np.arange(40), 5)]
    [((0, 1, 2), 1)]
    """
    _, people = np.unique(people, return_inverse=True)
    n = int(people.max(initial=-1)) + 1
    if n < 2 * k or not 0 < columns.shape[1] < MOST_COLUMNS:
        return
    # Invariant: the constant is the first of the independent columns, so no other column stands for it.
    table = np.hstack((np.ones((len(columns), 1), dtype=np.int64), columns))
    told: set[tuple[int, ...]] = set()
    for places, few in _light(table, people, k):
        used = tuple(place - 1 for place in places if place)
        if used in told or len(used) < 2 or len(used) + k > n:
            continue
        told.add(used)
        if _is_kept(columns[:, used], people, few, k):
            yield Relation(used, _count(people, few))


def _is_kept(columns: Integers, people: Integers, few: _Mask, k: int) -> bool:
    """Whether the rows without these show the relation, and would without any other few people.

    Invariant: who is singled out beside these is left aside too: several values that one person has each, say.
    """
    n, aside = int(people.max()) + 1, few.copy()
    table = np.hstack((np.ones((len(columns), 1), dtype=np.int64), columns))
    while n - _count(people, aside) >= 2 * k and _count(people, aside) <= _FEW_SHARE * n:
        left = ~aside
        if (np.ptp(columns[left], axis=0) == 0).any():
            return False
        others = [more for _, more in _light(table[left], people[left], k)]
        if not others:
            return True
        aside[np.flatnonzero(left)[np.logical_or.reduce(others)]] = True
    return False


def _count(people: Integers, rows: _Mask) -> int:
    return len(np.unique(people[rows]))


def _light(table: Integers, people: Integers, k: int) -> Iterator[tuple[tuple[int, ...], _Mask]]:
    """Combinations that are zero but for fewer than k people: of which columns, and on which rows they are not."""
    _, people = np.unique(people, return_inverse=True)
    prime, other = _PRIMES
    residues = [(table % one).astype(np.float64) for one in _PRIMES]
    draw, found, rank = np.random.default_rng(len(table)), set[bytes](), table.shape[1]
    common = _times(table)
    for tried in range(max(2, min(_ORDERS, _WORK // max(1, len(table) * rank**2)))):
        # Invariant: an order decides what is looked at, and never what is a finding.
        order = np.lexsort((draw.random(len(table)), *((-common,) if tried % 2 == 0 else ())))
        rows, places = _information_set(residues[0], order, rank, prime)
        rank = len(rows)
        chosen = [one[:, places] for one in residues]
        inverses = [_inverse(one[rows], p) for one, p in zip(chosen, _PRIMES, strict=True)]
        if inverses[0] is None or inverses[1] is None:
            continue
        some = order[:_SOME]  # where this many have enough people, all rows have
        maybe = np.flatnonzero(_weights(_mod(chosen[0][some] @ inverses[0], prime) != 0, people[some]) < k)
        words = _mod(chosen[0] @ inverses[0][:, maybe], prime) != 0
        words |= _mod(chosen[1] @ inverses[1][:, maybe], other) != 0
        for at in np.flatnonzero(_weights(words, people) < k).tolist():
            if (key := np.flatnonzero(words[:, at]).tobytes()) not in found:
                found.add(key)
                used = (inverses[0][:, maybe[at]] != 0) | (inverses[1][:, maybe[at]] != 0)
                yield tuple(np.array(places)[used].tolist()), words[:, at]


def _times(table: Integers) -> Integers:
    """How many rows are the same as each."""
    factors = np.random.default_rng(0).integers(1 << 62, size=table.shape[1])
    _, places, counts = np.unique(table @ factors, return_inverse=True, return_counts=True)  # wraps, as hashes may
    return np.asarray(counts[places])


def _weights(words: _Mask, people: Integers) -> Integers:
    """In how many people each column of marks has one."""
    ordered = np.argsort(people, kind="stable")
    begins = np.flatnonzero(np.diff(people[ordered], prepend=-1))
    if len(begins) == len(people):
        return np.asarray(words.sum(axis=0))
    return np.asarray(np.logical_or.reduceat(words[ordered], begins, axis=0).sum(axis=0))


def _mod(numbers: Floats, prime: int) -> Floats:
    """Of whole numbers below 2^53; the division of floats may be off by one, and only by one."""
    found: Floats = numbers - np.floor(numbers * (1.0 / prime)) * prime
    found += prime * (found < 0)
    found -= prime * (found >= prime)
    return found


def _information_set(table: Floats, order: Integers, most: int, prime: int) -> tuple[list[int], list[int]]:
    """Rows independent of those before them in this order, and the first columns that are independent on all rows.

    most: how many there are at most.
    """
    basis, pivots, rows = np.zeros((0, table.shape[1])), list[int](), list[int]()
    start, block = 0, _BLOCK
    while start < len(order) and len(rows) < most:
        taken = order[start : start + block]
        start, block, before = start + block, 2 * block, len(rows)
        left = _mod(table[taken] - _mod(table[taken][:, pivots] @ basis, prime), prime)
        while len(open_rows := np.flatnonzero(left.any(axis=1))):
            at = int(open_rows[0])
            place = int(np.flatnonzero(left[at])[0])
            pivot = _mod(left[at] * pow(int(left[at, place]), -1, prime), prime)
            basis = np.vstack((_mod(basis - basis[:, [place]] * pivot, prime), pivot))
            left = _mod(left - left[:, [place]] * pivot, prime)
            pivots.append(place)
            rows.append(int(taken[at]))
        block = block if len(rows) == before else _BLOCK
    return rows, _reduced(basis, basis.shape[1], prime)[1]


def _reduced(matrix: Floats, width: int, prime: int) -> tuple[Floats, list[int]]:
    """By Gauss and Jordan over the first ``width`` columns; and the columns at which the rank of those before grows."""
    found: list[int] = []
    matrix = matrix.copy()
    for place in range(width):
        to, left = len(found), np.flatnonzero(matrix[len(found) :, place])
        if not len(left):
            continue
        matrix[[to, to + left[0]]] = matrix[[to + left[0], to]]
        matrix[to] = _mod(matrix[to] * pow(int(matrix[to, place]), -1, prime), prime)
        others = np.arange(len(matrix)) != to
        matrix[others] = _mod(matrix[others] - matrix[others][:, [place]] * matrix[to], prime)
        found.append(place)
    return matrix, found


def _inverse(square: Floats, prime: int) -> Floats | None:
    """The inverse modulo a prime; None where there is none."""
    size = len(square)
    found, places = _reduced(np.hstack((square, np.eye(size))), size, prime)
    return found[:, size:] if len(places) == size else None
