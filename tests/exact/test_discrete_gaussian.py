"""The sampler of discrete Gaussians: its distribution, its arithmetic, and that no word is thrown away."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from codedfl.crypto import noise
from codedfl.errors import InvalidInput
from codedfl.exact import gaussian_loops
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


# -- the arithmetic, against fractions: the compiled loops are run as plain Python


def replayed(function: Callable[..., object], words: list[int], *arguments: int) -> tuple[object, int]:
    """What a loop says to these words, and how many it has taken."""
    at = np.zeros(1, dtype=np.int64)
    found = function(*map(np.uint64, arguments), np.array(words, dtype=np.uint64), at)
    return found, int(at[0])


@pytest.mark.parametrize("limit", [2, 3, 10, 2**57 - 1, 2**63 - 25])
def test_a_uniform_integer_passes_over_the_incomplete_run(limit: int):
    whole_runs = 2**64 // limit * limit
    assert replayed(gaussian_loops._below, [whole_runs - 1], limit) == (limit - 1, 1)
    if whole_runs < 2**64:
        assert replayed(gaussian_loops._below, [whole_runs, 2**64 - 1, limit + 1], limit) == (1, 3)
    assert replayed(gaussian_loops._below, [], limit) == (-1, 0)


def chance_of_yes(p: int, q: int, depth: int) -> Fraction:
    """Exact, of ``_coin`` up to ``depth`` throws a part, by its own rule: an odd first "no" says yes."""

    def part(g: Fraction) -> Fraction:
        chance, reached = Fraction(0), Fraction(1)
        for i in range(1, depth):
            no = 1 - g / i
            chance += reached * no * (i % 2)
            reached *= g / i
        return chance

    return part(Fraction(1)) ** (p // q) * part(Fraction(p % q, q))


@pytest.mark.parametrize(("p", "q"), [(0, 5), (1, 2), (3, 4), (7, 3), (2**60, 2**57 + 1)])
def test_the_rule_of_the_coin_is_the_exponential(p: int, q: int):
    assert float(chance_of_yes(p, q, 30)) == pytest.approx(math.exp(-p / q), rel=1e-12)


@pytest.mark.parametrize(("p", "q"), [(0, 3), (1, 2), (1, 4), (2, 3)])
def test_the_coin_follows_its_rule_word_by_word(p: int, q: int):
    """Every word sequence below a small modulus: the weights of those that say yes add up to the rule's."""
    yes = rest = Fraction(0)

    def walk(words: list[int], weight: Fraction) -> None:
        nonlocal yes, rest
        found, used = replayed(gaussian_loops._coin, words, p, q)
        if found == 2:  # it wants another word: i decides how many values that has
            if len(words) == 4:
                rest += weight
                return
            for value in range(12):  # 12 is a multiple of 1..4, 6, 12, and so are all limits this short
                walk([*words, value], weight / 12)
            return
        assert used == len(words)
        yes += weight if found == 1 else 0

    walk([], Fraction(1))
    assert yes <= Fraction(math.exp(-p / q)) <= yes + rest
    assert rest < Fraction(1, 6)


def test_numbers_do_not_depend_on_how_the_words_arrive():
    """A number whose words run out goes on with the same ones: no draw is thrown away."""
    stream = np.random.default_rng(5).integers(0, 2**64, 60_000, dtype=np.uint64)

    def served_by(portion: int) -> Callable[[int], Words]:
        place = [0]

        def more_words(wanted: int) -> Words:
            del wanted
            place[0] += portion
            return stream[place[0] - portion : place[0]]

        return more_words

    whole = sample(50, 500, served_by(30_000))
    assert len(np.unique(whole)) > 50
    for portion in (1, 7, 1000):
        assert np.array_equal(sample(50, 500, served_by(portion)), whole)


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
