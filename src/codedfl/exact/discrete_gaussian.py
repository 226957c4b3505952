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

A coin of probability exp(-p/q) is made of coins of rational probability, and such a coin of a uniform
integer below its denominator. The largest denominator is 2 sigma^2: hence ``MOST_SIGMA``. The loops are in
``gaussian_loops``.

It does not know where its words come from (``codedfl.crypto.noise``) nor what the noise hides (``codedfl.privacy``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.exact import machine_code
from codedfl.typing import Integers

Words = NDArray[np.uint64]

MOST_SIGMA = 2**28  # then 2 sigma^2 and j (2 k sigma + j) stay below 2^63
_WORDS_A_NUMBER = 40  # about twice what one takes on average


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
        used = np.zeros(1, dtype=np.int64)
        done += machine_code.call("fill", sigma, words, len(words), out[done:], count - done, used)
        words = words[used[0] :]
    return out
