"""The sampler of discrete Gaussians: its distribution, and its arithmetic word for word."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import chain

import numpy as np
import pytest
from scipy import stats

from codedfl.crypto import noise
from codedfl.errors import InvalidInput
from codedfl.exact import discrete_gaussian
from codedfl.exact.discrete_gaussian import MOST_SIGMA, Words, sample
from wording import exactly

SEED = bytes(range(32))
COUNT = 200_000


def probabilities(sigma: int, reach: int) -> np.ndarray:
    """Of -reach .. reach, with terms far beyond them summed up."""
    weights = np.array([math.exp(-(n**2) / (2 * sigma**2)) for n in range(-reach, reach + 1)])
    total = 1 + 2 * math.fsum(math.exp(-(n**2) / (2 * sigma**2)) for n in range(1, 40 * sigma))
    return weights / total


@pytest.mark.parametrize("sigma", [1, 2, 5, 13])
def test_its_frequencies_are_those_of_the_distribution(sigma: int):
    drawn = noise.draw(SEED, f"chi square {sigma}", sigma, COUNT)
    reach = 3 * sigma
    expected = probabilities(sigma, reach) * COUNT
    counts = np.array([np.count_nonzero(drawn == n) for n in range(-reach, reach + 1)])
    beyond = COUNT - counts.sum(), COUNT - expected.sum()
    found = stats.chisquare([*counts, beyond[0]], [*expected, beyond[1]])
    assert found.pvalue > 1e-4


@pytest.mark.parametrize("sigma", [337_890, MOST_SIGMA])
def test_large_ones_are_normal_to_the_eye(sigma: int):
    """By the distance of distributions, over whole range and tail; a deviation 1 % off is rejected."""
    drawn = noise.draw(SEED, f"large {sigma}", sigma, COUNT) / sigma
    assert stats.kstest(drawn, "norm").pvalue > 1e-4
    assert stats.kstest(drawn * 1.02, "norm").pvalue < 1e-4
    tail = np.count_nonzero(np.abs(drawn) > 3)
    assert abs(tail - COUNT * 2 * stats.norm.sf(3)) < 5 * math.sqrt(COUNT * 2 * stats.norm.sf(3))


# -- the arithmetic, against a sampler of one number at a time in Python's integers and decimals


class Taken:
    """Words one after the other, which the two samplers take in the same order."""

    def __init__(self, words: Iterable[int]) -> None:
        self._words, self.used = iter(words), 0

    def one(self) -> int:
        self.used += 1
        return next(self._words)

    def __call__(self, count: int) -> Words:
        return np.array([self.one() for _ in range(count)], dtype=np.uint64)


def random_words(seed: int) -> Iterator[int]:
    rng = random.Random(seed)
    while True:
        yield rng.getrandbits(64)


def below(limit: int, count: int, words: Taken) -> list[int]:
    whole_runs = 2**64 // limit * limit
    found = [words.one() for _ in range(count)] if limit > 1 else [0] * count
    while any(one >= whole_runs for one in found):
        found = [words.one() if one >= whole_runs else one for one in found]
    return [one % limit for one in found]


def place(word: int, chances: list[Decimal], words: Taken) -> int:
    """How many of these a uniform number that begins with this word is at least, by as many words as that takes."""
    low, width = Decimal(word) / 2**64, Decimal(2) ** -64
    while any(low < chance < low + width for chance in chances):
        width /= 2**64
        low += words.one() * width
    return sum(chance <= low for chance in chances)


@cache
def chances_of_parts() -> list[Decimal]:
    weights = [(-Decimal(k * k) / 2).exp() for k in range(61)]
    return [sum(weights[: k + 1], Decimal(0)) / sum(weights, Decimal(0)) for k in range(60)]


def rest_coins(rests: list[int], unit: int, words: Taken) -> list[bool]:
    yes, going, i = [False] * len(rests), list(range(len(rests))), 1
    while going:
        went = [place for place, u in zip(going, below(unit, len(going), words), strict=True) if u < rests[place]]
        went = [place for place, u in zip(went, below(i, len(went), words), strict=True) if u == 0]
        for place in set(going) - set(went):
            yes[place] = i % 2 == 1
        going, i = went, i + 1
    return yes


def plainly(sigma: int, count: int, words: Taken) -> list[int]:
    found, left = [0] * count, list(range(count))
    chances = chances_of_parts()
    while left:
        first = [words.one() for _ in left]
        k = [place(one, chances, words) for one in first]
        signed = below(2 * sigma, len(left), words)
        tries = [(part * sigma + one // 2, one % 2, part, one // 2) for part, one in zip(k, signed, strict=True)]
        alive = [i for i, (size, negative, _, _) in enumerate(tries) if not (negative and size == 0)]
        exponents = {i: Fraction(tries[i][3] * (2 * tries[i][2] * sigma + tries[i][3]), 2 * sigma**2) for i in alive}
        several = [i for i in alive if exponents[i] >= 1]
        thrown = {i: words.one() for i in several}
        no = [i for i in several if place(thrown[i], [(-Decimal(math.floor(exponents[i]))).exp()], words)]
        alive = [i for i in alive if i not in no]
        rests = [int(exponents[i] % 1 * 2 * sigma**2) for i in alive]
        kept = [i for i, yes in zip(alive, rest_coins(rests, 2 * sigma**2, words), strict=True) if yes]
        for i in kept:
            found[left[i]] = -tries[i][0] if tries[i][1] else tries[i][0]
        left = [place for i, place in enumerate(left) if i not in kept]
    return found


@pytest.mark.parametrize("sigma", [1, 2, 3, 1000, 2**27 + 1, MOST_SIGMA])
def test_the_sampler_is_that_of_plain_integers_word_for_word(sigma: int):
    ours, plain = Taken(random_words(sigma)), Taken(random_words(sigma))
    with localcontext(prec=150):
        expected = plainly(sigma, 300, plain)
    assert sample(sigma, 300, ours).tolist() == expected
    assert ours.used == plain.used


def test_words_that_do_not_decide_are_followed_by_more():
    """A first word as that of a bound, and one of all ones: the tail beyond every bound of 64 bits."""
    with localcontext(prec=150):
        chances = chances_of_parts()
        bound = int(chances[1] * 2**64)
        for first in (bound, bound + 1, 2**64 - 1):
            for seed in range(2):
                ours, plain = (Taken(chain([first], random_words(seed))) for _ in range(2))
                assert sample(5, 1, ours).tolist() == plainly(5, 1, plain)
                assert ours.used == plain.used
        ones, plain = (Taken([2**64 - 1] * 3 + [0]) for _ in range(2))
        assert discrete_gaussian._whole_parts(ones(1), ones).tolist() == [place(plain.one(), chances, plain)]
        assert ones.used == plain.used == 4


@pytest.mark.parametrize("limit", [2, 3, 10, 2**57 - 1, 2**63 - 25])
def test_a_uniform_integer_passes_over_the_incomplete_run(limit: int):
    whole_runs = 2**64 // limit * limit
    assert discrete_gaussian._below(limit, 1, Taken([whole_runs - 1])).tolist() == [limit - 1]
    if whole_runs < 2**64:
        assert discrete_gaussian._below(limit, 1, Taken([whole_runs, 2**64 - 1, limit + 1])).tolist() == [1]


def chance_of_yes(g: Fraction, depth: int) -> Fraction:
    """Exact, up to ``depth`` throws, by the rule of the coin: an odd first "no" says yes."""
    chance, reached = Fraction(0), Fraction(1)
    for i in range(1, depth):
        chance += reached * (1 - g / i) * (i % 2)
        reached *= g / i
    return chance


@pytest.mark.parametrize("g", [Fraction(0), Fraction(1, 2), Fraction(3, 4), Fraction(2**57 - 1, 2**57)])
def test_the_rule_of_the_coin_is_the_exponential(g: Fraction):
    assert float(chance_of_yes(g, 30)) == pytest.approx(math.exp(-g), rel=1e-12)


@pytest.mark.parametrize(("p", "q"), [(0, 3), (1, 2), (1, 4), (2, 3)])
def test_the_coin_follows_its_rule_word_by_word(p: int, q: int):
    """Every word sequence below a small modulus: the weights of those that say yes add up to the rule's."""
    yes = rest = Fraction(0)

    def walk(words: list[int], weight: Fraction) -> None:
        nonlocal yes, rest
        try:
            found = discrete_gaussian._rest_coins(np.array([p], dtype=np.uint64), q, Taken(words))
        except StopIteration:  # it wants another word: i decides how many values that has
            if len(words) == 4:
                rest += weight
                return
            for value in range(12):  # 12 is a multiple of 1..4, 6, 12, and so are all limits this short
                walk([*words, value], weight / 12)
            return
        yes += weight if found[0] else 0

    walk([], Fraction(1))
    assert yes <= Fraction(math.exp(-p / q)) <= yes + rest
    assert rest < Fraction(1, 6)


def test_seed_and_label_decide():
    drawn = noise.draw(SEED, "a", 100, 50)
    assert np.array_equal(noise.draw(SEED, "a", 100, 50), drawn)
    for other in ((bytes(32), "a"), (SEED, "b")):
        assert not np.array_equal(noise.draw(*other, 100, 50), drawn)
    assert len(noise.draw(SEED, "a", 100, 0)) == 0


@pytest.mark.parametrize("sigma", [0, MOST_SIGMA + 1])
def test_sigma_must_fit_the_arithmetic(sigma: int):
    message = f"sigma must be between 1 and 268435456 units of the grid, got {sigma}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        noise.draw(SEED, "a", sigma, 1)
