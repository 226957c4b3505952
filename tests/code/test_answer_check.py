"""Wrong answers against brute force: every small code, every set of liars, and words that are nobody's codeword."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

import oracle
from codedfl_lab.code.answer_check import AnswerVerdict, Projection, judge, locate
from codedfl_lab.code.gradient_code import GradientCode, GroupedCode
from codedfl_lab.code.roles import RoleCode
from codedfl_lab.primes.ring import NARROW, Ring, ring_primes

SEED = bytes(range(32))


def codeword(code: GradientCode | GroupedCode, rng: random.Random) -> dict[int, list[int]]:
    """B g for random g: one number a device and prime, as projected answers are."""
    hidden = [[rng.randrange(p) for _ in range(code.n_devices)] for p in code.primes]
    answers = [
        [sum(int(b) * g for b, g in zip(row, numbers, strict=True)) % p for row in matrix]
        for matrix, numbers, p in zip(code.matrix(), hidden, code.primes, strict=True)
    ]
    return {i: [plane[i] for plane in answers] for i in range(code.n_devices)}


def in_one_block(projected: dict[int, list[int]]) -> dict[int, dict[int, list[int]]]:
    return {i: {0: scalars} for i, scalars in projected.items()}


def with_lies(code: GradientCode | GroupedCode, word: dict[int, list[int]], liars, rng: random.Random, planes=None):
    spoilt = {i: list(numbers) for i, numbers in word.items()}
    for i in liars:
        for k in planes or range(len(code.primes)):
            spoilt[i][k] = (spoilt[i][k] + rng.randrange(1, code.primes[k])) % code.primes[k]
    return spoilt


@pytest.mark.parametrize("n_devices", [2, 3, 4, 5, 6])
def test_every_set_of_liars_among_every_set_of_answers(n_devices: int):
    rng = random.Random(n_devices)
    for alpha in range(1, n_devices + 1):
        code = GradientCode(n_devices, alpha, ring_primes(n_devices, 2))
        word = codeword(code, rng)
        for count in range(code.answers_needed, n_devices + 1):
            spare = count - code.answers_needed
            for answered in combinations(range(n_devices), count):
                here = {i: word[i] for i in answered}
                for lies in range(spare + 1):
                    for liars in combinations(answered, lies):
                        found = locate(code, with_lies(code, here, liars, rng))
                        if lies <= spare // 2:
                            assert found == list(liars)
                        elif lies <= spare - spare // 2:  # an odd spare answer: too many to name, never mistaken
                            assert found is None
                        else:
                            assert found != []  # up to ``spare`` lies are noticed


@pytest.mark.parametrize(("n_devices", "prime"), [(3, 7), (4, 5), (4, 13), (6, 7), (6, 13)])
def test_any_word_over_a_tiny_field_is_decoded_as_brute_force_does(n_devices: int, prime: int):
    """Small fields are full of coincidences; brute force tries every set of at most half the spare answers."""
    rng = random.Random(prime)
    outcomes = set()
    for alpha in range(1, n_devices + 1):
        code = GradientCode(n_devices, alpha, [prime])
        matrix = [[int(b) for b in row] for row in code.matrix()[0]]
        for _ in range(60):
            answered = sorted(rng.sample(range(n_devices), rng.randint(code.answers_needed, n_devices)))
            word = codeword(code, rng) if rng.random() < 0.3 else {i: [rng.randrange(prime)] for i in answered}
            word = {i: word[i] for i in answered}
            word = with_lies(code, word, rng.sample(answered, rng.randint(0, len(answered) // 2)), rng)
            expected = brute_force(matrix, {i: numbers[0] for i, numbers in word.items()}, code.answers_needed, prime)
            assert locate(code, word) == expected
            outcomes.add(None if expected is None else len(expected))
    assert {None, 0} <= outcomes


def brute_force(matrix: list[list[int]], word: dict[int, int], needed: int, prime: int) -> list[int] | None:
    for lies in range((len(word) - needed) // 2 + 1):
        for liars in combinations(word, lies):
            rest = [i for i in word if i not in liars]
            checks = oracle.left_null_space([matrix[i] for i in rest], prime)
            if all(sum(c * word[i] for c, i in zip(row, rest, strict=True)) % prime == 0 for row in checks):
                return list(liars)
    return None


def test_a_lie_modulo_one_prime_only_is_found():
    rng = random.Random(5)
    code = GradientCode(7, 5, ring_primes(7, 2))
    word = codeword(code, rng)
    for plane in (0, 1):
        assert locate(code, with_lies(code, word, [4], rng, [plane])) == [4]
    # One liar modulo each prime: two in all, each located where it lied.
    both = with_lies(code, with_lies(code, word, [2], rng, [0]), [6], rng, [1])
    assert locate(code, both) == [2, 6]


def test_groups_are_judged_each_on_its_own():
    rng = random.Random(6)
    code = GroupedCode(11, 4, ring_primes(30, 2), groups=2)  # groups of 6 and 5: 3 and 3 spare answers
    word = codeword(code, rng)
    assert judge(code, in_one_block(word)) == AnswerVerdict()
    assert judge(code, in_one_block(with_lies(code, word, [4, 7], rng))) == AnswerVerdict(liars=(4, 7))
    torn = judge(code, in_one_block(with_lies(code, word, [0, 4, 7], rng)))
    assert torn == AnswerVerdict(liars=(7,), undecided=(0, 2, 4, 6, 8, 10))
    assert not torn.agreed


@pytest.mark.parametrize("count", [1, 5, 128, 300, 128 * 8192 + 3])
def test_a_projection_is_the_bilinear_form_of_the_expanded_seed(count: int):
    ring = Ring.for_group_sizes([5])
    project = Projection(ring, SEED, count)
    rng = np.random.default_rng(count)
    halves = np.array([p // 2 for p in ring.primes])[:, None]
    answer = rng.integers(-halves, halves + 1, (2, count)).astype(np.float32)
    answer[:, ::2] = halves  # as large as they come
    expected = []
    for k, prime in enumerate(ring.primes):
        stream = oracle.pad_residues(SEED, "answer check", k, prime)
        across = [next(stream) for _ in range(128)]
        down = [next(stream) for _ in range(-(-count // 128))]
        numbers = [int(a) for a in answer[k]]
        expected.append(sum(across[i % 128] * down[i // 128] * a for i, a in enumerate(numbers)) % prime)
    other = rng.integers(-5, 5, (2, count)).astype(np.float32)
    assert project([answer, other])[0] == expected
    assert project([other, answer])[1] == expected


def test_a_projection_hides_a_lie_from_nobody_but_by_chance():
    """A lie in one number shows unless one of its two random factors is zero modulo p: 1 in 8 million."""
    ring = Ring.for_group_sizes([5])
    project = Projection(ring, SEED, 64)
    answer = ring.zeros(64)
    for place in range(64):
        lie = answer.copy()
        lie[1, place] = 1
        ((first, second),) = project([lie])
        assert first == 0
        assert second != 0


def test_with_short_primes_four_vectors_look_at_every_answer():
    """Each is a bilinear form of its own piece of the stream, and one that shows the lie is enough."""
    project = Projection(NARROW, SEED, 130)
    rng = np.random.default_rng(0)
    answer = rng.integers(-32000, 32000, (2, 130)).astype(np.float32)
    expected = []
    streams = [oracle.pad_residues(SEED, "answer check", k, prime) for k, prime in enumerate(NARROW.primes)]
    for _ in range(4):
        for stream, prime, plane in zip(streams, NARROW.primes, answer, strict=True):
            across, down = [next(stream) for _ in range(128)], [next(stream) for _ in range(2)]
            expected.append(sum(across[i % 128] * down[i // 128] * int(a) for i, a in enumerate(plane)) % prime)
    assert project([answer]) == [expected]
    code = RoleCode([0, 0, 0, 1], 2, NARROW.primes)
    for seen_by in range(8):
        lie = list(expected)
        lie[seen_by] ^= 1
        projected = {0: expected, 1: lie, 2: expected, 3: [0] * 8}
        assert judge(code, in_one_block(projected)) == AnswerVerdict(liars=(1,))
