"""Exact samples of the discrete Gaussian: integers n with probability proportional to exp(-n^2 / (2 sigma^2)).

Karney's algorithm D (Sampling exactly from the normal distribution, 2016) for a centre of 0 and a whole ``sigma``, with
the coins of Canonne, Kamath and Steinke (The discrete Gaussian for differential privacy, 2020). All of it is integer
arithmetic on random words: no exponential, no logarithm and no float is computed, so the distribution has no holes by
which a floating-point sampler gives the hidden number away (Mironov 2012). Given uniform words it is exact, except that
a k (below) beyond 60 is drawn anew. That changes probabilities by less than exp(-1800), which no delta will notice.

Write n = s (k sigma + j) with 0 <= j < sigma. Then n^2 / (2 sigma^2) = k^2/2 + j (2 k sigma + j) / (2 sigma^2), and

1. k is drawn with probability proportional to exp(-k/2), and kept with probability exp(-k (k - 1)/2);
2. s and j are uniform; -0 is drawn anew, or zero would count twice;
3. all is kept with probability exp(-j (2 k sigma + j) / (2 sigma^2)), else drawn anew.

A coin of probability exp(-p/q) is made of coins of rational probability (``_coin``), and such a coin of a uniform
integer below its denominator. The largest denominator is 2 sigma^2: hence ``MOST_SIGMA``.

It does not know where its words come from (``codedfl.crypto.noise``) nor what the noise hides (``codedfl.privacy``).
"""

# numba's decorators are not typed:
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Integers

Words = NDArray[np.uint64]

MOST_SIGMA = 2**28  # then 2 sigma^2 and j (2 k sigma + j) stay below 2^63
_MOST_K = 60  # sigma^2 (2 k + 1) stays below 2^63
_WORDS_A_NUMBER = 40  # about twice what one takes on average

# What a coin says when there are no words left; the number is then drawn again from its first word on.
_NO, _YES, _DRY = 0, 1, 2


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _fill(sigma: np.int64, words: Words, out: Integers, start: int) -> tuple[int, np.int64]:
    """Fill ``out`` from ``start`` on; return how many samples it then holds, and the first word none of them used."""
    at = np.zeros(1, dtype=np.int64)
    for place in range(start, len(out)):
        begun = at[0]  # invariant: words before ``begun`` belong to finished samples, and to these alone
        enough, number = _number(sigma, words, at)
        if not enough:
            return place, begun
        out[place] = number
    return len(out), at[0]


def sample(sigma: int, count: int, more_words: Callable[[int], Words]) -> Integers:
    """``count`` independent samples.

    Parameters
    ----------
    sigma : int
        The parameter of the distribution, from 1 to ``MOST_SIGMA``: its deviation up to a part of exp(-2 pi^2 sigma^2).
    count : int
        How many samples are wanted. 0 gives an empty array and asks for no words.
    more_words : callable
        Takes a number n and returns n uniform 64-bit words, new ones at each call. A sample whose words run out is
        drawn again from its first word on. No word is ever thrown away: samples that take few words would otherwise
        come up too often.
    """
    if not 1 <= sigma <= MOST_SIGMA:
        raise InvalidInput(f"sigma must be between 1 and {MOST_SIGMA} units of the grid, got {sigma}")
    out = np.empty(count, dtype=np.int64)
    done, words = 0, np.empty(0, dtype=np.uint64)
    while done < count:
        words = np.concatenate([words, more_words(_WORDS_A_NUMBER * min(count - done, 4096))])
        done, used = _fill(np.int64(sigma), words, out, done)
        words = words[used:]
    return out
