"""The compiled loops behind ``codedfl.exact.discrete_gaussian``, which says what they compute and why it is exact."""

# numba's decorators are not typed:
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_MOST_K = 60  # sigma^2 (2 k + 1) stays below 2^63

# What a coin says when there are no words left; the number is then drawn again from its first word on.
_NO, _YES, _DRY = 0, 1, 2


@njit(error_model="numpy")
def _below(limit: np.uint64, words: Words, at: NDArray[np.int64]) -> np.int64:
    """A uniform integer below ``limit``, or -1 when the words are used up.

    Words in the incomplete last run of ``limit`` are passed over: the others are divided into whole runs.
    """
    last = np.uint64(0xFFFFFFFFFFFFFFFF)
    surplus = (last % limit + np.uint64(1)) % limit  # 2^64 mod limit
    while at[0] < len(words):
        word = words[at[0]]
        at[0] += 1
        if word <= last - surplus:
            return np.int64(word % limit)
    return np.int64(-1)


@njit(error_model="numpy")
def _coin(p: np.uint64, q: np.uint64, words: Words, at: NDArray[np.int64]) -> int:
    """Yes with probability exp(-p/q).

    exp(-1) for each whole part of p/q. For the rest g in [0, 1): count coins of probability g/1, g/2, g/3, ... until
    one says no; the count is even with probability exp(-g) (von Neumann; Canonne, Kamath, Steinke, algorithm 1). A coin
    of g/i is one of g and one of 1/i, so that no product i q can overflow.
    """
    whole, rest = p // q, p % q
    for part in range(whole + np.uint64(1)):
        numerator = q if np.uint64(part) < whole else rest
        i = np.uint64(1)
        while True:
            drawn = _below(q, words, at)
            if drawn < 0:
                return _DRY
            if np.uint64(drawn) >= numerator:
                break
            drawn = _below(i, words, at) if i > np.uint64(1) else np.int64(0)
            if drawn < 0:
                return _DRY
            if drawn != 0:
                break
            i += np.uint64(1)
        if i % np.uint64(2) == np.uint64(0):
            return _NO
    return _YES


@njit(error_model="numpy")
def _whole_part(words: Words, at: NDArray[np.int64]) -> int:
    """k >= 0 with probability proportional to exp(-k^2/2); -1 when the words are used up."""
    while True:
        k = 0
        kept = _YES
        while kept == _YES:
            kept = _coin(np.uint64(1), np.uint64(2), words, at)
            if kept == _YES:
                k += 1
        if kept == _NO:
            kept = _coin(np.uint64(k * max(k - 1, 0)), np.uint64(2), words, at)
        if kept == _DRY:
            return -1
        if kept == _YES and k <= _MOST_K:
            return k


@njit(error_model="numpy")
def _number(sigma: np.int64, words: Words, at: NDArray[np.int64]) -> tuple[bool, np.int64]:
    """One sample, and whether there were words enough for it."""
    while True:
        k = _whole_part(words, at)
        if k < 0:
            return False, np.int64(0)
        sign = _below(np.uint64(2), words, at)
        j = _below(np.uint64(sigma), words, at)
        if sign < 0 or j < 0:
            return False, np.int64(0)
        if sign == 1 and k == 0 and j == 0:
            continue
        kept = _coin(np.uint64(j * (2 * k * sigma + j)), np.uint64(2 * sigma * sigma), words, at)
        if kept == _DRY:
            return False, np.int64(0)
        if kept == _YES:
            return True, k * sigma + j if sign == 0 else -(k * sigma + j)


def fill(sigma: np.int64, words: Any, word_count: int, out: Any, count: int, used: Any) -> int:
    """Fill ``out``; return how many samples it then holds, with ``used`` words from 0 on."""
    stream, samples, at = carray(words, word_count), carray(out, count), carray(used, 1)
    for place in range(count):
        begun = at[0]  # invariant: words before ``begun`` belong to finished samples, and to these alone
        enough, number = _number(sigma, stream, at)
        if not enough:
            at[0] = begun
            return place
        samples[place] = number
    return count
