"""Exact samples of the discrete Gaussian: integers n with probability proportional to exp(-n^2 / (2 sigma^2)).

Karney's algorithm D (Sampling exactly from the normal distribution, 2016) for a centre of 0 and a whole ``sigma``, with
the coins of Canonne, Kamath and Steinke (The discrete Gaussian for differential privacy, 2020). All of it is integer
arithmetic on random words: no exponential, no logarithm and no float is computed, so the distribution has no holes by
which a floating-point sampler gives the hidden number away (Mironov 2012). Given uniform words it is exact, except that
a k (below) beyond 60 is never drawn. That changes probabilities by less than exp(-1800), which no delta will notice.

Write n = s (k sigma + j) with 0 <= j < sigma. Then n^2 / (2 sigma^2) = k^2/2 + j (2 k sigma + j) / (2 sigma^2), and

1. k is drawn with probability proportional to exp(-k^2/2);
2. s and j are uniform; -0 is drawn again, or zero would count twice;
3. all is kept with probability exp(-j (2 k sigma + j) / (2 sigma^2)), else drawn again.

Step 1 and the whole parts of the exponent in step 3 compare a uniform number with fixed irrational ones. Each of these
is known between two integers that are 2^-4000 apart; one word decides, and where it does not (once in 2^60 times) the
number gets more words until it does. What is left of the exponent is a rational g = p/q in [0, 1): coins of probability
g/1, g/2, g/3, ... are thrown until one says no, and the first "no" is an odd one with probability exp(-g) (von
Neumann). The largest q is 2 sigma^2: hence ``MOST_SIGMA``.

Samples are drawn side by side, each until it is kept, so a word belongs to one sample and none is thrown away: samples
that take few words would otherwise come up too often.

It does not know where its words come from (``codedfl.crypto.noise``) nor what the noise hides (``codedfl.privacy``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Integers

Words = NDArray[np.uint64]
MoreWords = Callable[[int], Words]
Between = tuple[int, int]
"""A real number in units of 2^-4096: at least the first, at most the second."""

MOST_SIGMA = 2**28  # then 2 sigma^2 and j (2 k sigma + j) stay below 2^63
MOST_K = 60
_BITS = 4096
_TERMS = 600  # of the series of exp(-1/2): the next is below 2^-4096
_SIDE_BY_SIDE = 1 << 15  # samples at a time: they stay in the cache


def sample(sigma: int, count: int, more_words: MoreWords) -> Integers:
    """``count`` independent samples.

    Parameters
    ----------
    sigma : int
        The parameter of the distribution, from 1 to ``MOST_SIGMA``: its deviation up to a part of exp(-2 pi^2 sigma^2).
    count : int
        How many samples are wanted. 0 gives an empty array and asks for no words.
    more_words : callable
        Takes a number n and returns n uniform 64-bit words, new ones at each call.
    """
    if not 1 <= sigma <= MOST_SIGMA:
        raise InvalidInput(f"sigma must be between 1 and {MOST_SIGMA} units of the grid, got {sigma}")
    found = np.empty(count, dtype=np.int64)
    for start in range(0, count, _SIDE_BY_SIDE):
        _fill(sigma, found[start : start + _SIDE_BY_SIDE], more_words)
    return found


def _fill(sigma: int, found: Integers, more_words: MoreWords) -> None:
    left = np.arange(len(found))
    while len(left):
        numbers, kept = _drawn(sigma, len(left), more_words)
        found[left[kept]] = numbers[kept]
        left = left[~kept]


def _drawn(sigma: int, count: int, more_words: MoreWords) -> tuple[Integers, NDArray[np.bool_]]:
    """One try of each sample, and which are kept."""
    k = _whole_parts(more_words(count), more_words)
    signed = _below(2 * sigma, count, more_words)
    negative, j = (signed & np.uint64(1)).astype(np.bool_), signed >> np.uint64(1)
    numbers = (k * np.uint64(sigma) + j).astype(np.int64)
    kept = ~(negative & (numbers == 0))
    exponent, unit = j * (k * np.uint64(2 * sigma) + j), np.uint64(2 * sigma * sigma)
    alive = np.flatnonzero(kept)
    kept[alive] = _exp_coins(exponent[alive] // unit, exponent[alive] % unit, int(unit), more_words)
    return np.where(negative, -numbers, numbers), kept


def _below(limit: int, count: int, more_words: MoreWords) -> Words:
    """Uniform integers below ``limit``.

    Invariant: words in the incomplete last run of ``limit`` are drawn again: the others are whole runs.
    """
    if limit == 1:
        return np.zeros(count, dtype=np.uint64)
    found, last = more_words(count), np.uint64((1 << 64) // limit * limit - 1)
    while len(beyond := np.flatnonzero(found > last)):
        found[beyond] = more_words(len(beyond))
    return found % np.uint64(limit)


# -- coins


def _exp_coins(whole: Words, rest: Words, unit: int, more_words: MoreWords) -> NDArray[np.bool_]:
    """Yes with probability exp(-(whole + rest / unit)), each by itself; 0 <= rest < unit."""
    yes = np.ones(len(whole), dtype=np.bool_)
    several = np.flatnonzero(whole)
    yes[several] = _whole_coins(whole[several], more_words)
    alive = np.flatnonzero(yes)
    yes[alive] = _rest_coins(rest[alive], unit, more_words)
    return yes


def _whole_coins(whole: Words, more_words: MoreWords) -> NDArray[np.bool_]:
    """Yes with probability exp(-whole), for 1 <= whole <= ``MOST_K``."""
    words = more_words(len(whole))
    bound = _whole_bounds()[whole.astype(np.int64) - 1]
    yes = words < bound
    for i in np.flatnonzero(words == bound):
        yes[i] = _place([_exp_of(2 * int(whole[i]))], int(words[i]), more_words) == 0
    return yes


def _rest_coins(rest: Words, unit: int, more_words: MoreWords) -> NDArray[np.bool_]:
    """Yes with probability exp(-rest / unit). A coin of g/i is one of g and one of 1/i: no product can overflow."""
    yes = np.zeros(len(rest), dtype=np.bool_)
    going, i = np.arange(len(rest)), 1
    while len(going):
        went_on = _below(unit, len(going), more_words) < rest[going]
        went_on[went_on] = _below(i, int(went_on.sum()), more_words) == 0
        yes[going[~went_on]] = i % 2 == 1
        going, i = going[went_on], i + 1
    return yes


def _whole_parts(words: Words, more_words: MoreWords) -> Words:
    """k with probability proportional to exp(-k^2/2), up to ``MOST_K``."""
    bounds = _part_bounds()
    k = np.searchsorted(bounds, words, side="left")  # how many are below
    for i in np.flatnonzero(bounds[np.minimum(k, len(bounds) - 1)] == words):
        k[i] = _place(_cumulative(), int(words[i]), more_words)
    return k.astype(np.uint64)


# -- numbers that are known between two integers


def _first_words(bounds: Sequence[Between]) -> Words:
    """The first 64 bits of each: a uniform number whose first word is another is below or above it."""
    return np.array([low >> (_BITS - 64) for low, _ in bounds], dtype=np.uint64)


@cache
def _whole_bounds() -> Words:
    return _first_words([_exp_of(2 * m) for m in range(1, MOST_K + 1)])


@cache
def _part_bounds() -> Words:
    return _first_words(_cumulative())


def _place(bounds: Sequence[Between], word: int, more_words: MoreWords) -> int:
    """How many of these are at most a uniform number that begins with this word; it gets words until that is known."""
    for bits in range(64, _BITS, 64):
        shift = _BITS - bits
        above = [word << shift >= high for _, high in bounds]
        if all(one or (word + 1) << shift <= low for one, (low, _) in zip(above, bounds, strict=True)):
            return sum(above)
        word = word << 64 | int(more_words(1)[0])
    raise ArithmeticError("4096 random bits must decide a comparison, got ones that do not: the words are not random")


@cache
def _exp_of(halves: int) -> Between:
    """exp(-halves / 2)."""
    if halves == 0:
        return 1 << _BITS, 1 << _BITS
    if halves == 1:  # an alternating series: the sum lies between two partial sums
        terms = [Fraction((-1) ** n, 2**n * math.factorial(n)) for n in range(_TERMS)]
        two = sum(terms[:-1]), sum(terms)
        return math.floor(min(two) * 2**_BITS), math.ceil(max(two) * 2**_BITS)
    (low, high), (other_low, other_high) = _exp_of(halves // 2), _exp_of(halves - halves // 2)
    return low * other_low >> _BITS, -(-high * other_high >> _BITS)


@cache
def _cumulative() -> tuple[Between, ...]:
    """The probability of at most k, for k = 0, 1, ..., MOST_K - 1."""
    lows, highs = zip(*(_exp_of(k * k) for k in range(MOST_K + 1)), strict=True)
    low_sums, high_sums = list(accumulate(lows)), list(accumulate(highs))
    return tuple(
        ((low << _BITS) // high_sums[-1], -(-(high << _BITS) // low_sums[-1]))
        for low, high in zip(low_sums[:-1], high_sums[:-1], strict=True)
    )
