"""What a server and z devices compute by any requests is a sum over disclosure groups, and every rule is needed for it.

``CODEDFL_LIAR_SCHEDULES`` says how many worlds the random adversary tries (``make liars``: 12 000).
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from unittest import mock

import pytest
from asks_at_random import Random
from asks_everything import Complete
from requests_adversary import Verdict
from rules_left_out import HARMLESS, NEEDED, LeftOut
from small_worlds import Choice, World

from codedfl.sum.in_memory import InMemory
from codedfl.sum.memory import Generation

WORLDS = int(os.environ.get("CODEDFL_LIAR_SCHEDULES", "64"))
BLOCKS = 8
MOST_TRIES = 400  # worlds in which a rule that is left out has to be found


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of refusals are logged otherwise."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def at_random(seed: str, rule: LeftOut | None = None) -> Verdict:
    rng = random.Random(seed)
    world = World(rng, Choice() if rule is None else rule.choice)
    with world.watched():
        adversary = Random(world, rng)
        adversary.play(rng.randint(5, 60), rule is None or rule.answers)
        return adversary.verdict()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_nothing_below_a_group_can_be_computed_whatever_is_asked(block: int) -> None:
    computed = 0
    for seed in range(block, WORLDS, BLOCKS):
        found = at_random(f"world {seed}")
        assert not found.leaks, f"world {seed}"
        assert found.computed <= found.allowed, f"world {seed}"
        computed += found.computed > 0
    assert computed > WORLDS / BLOCKS / 3, "schedules that compute nothing would test little"


@pytest.mark.parametrize("fixed", [False, True], ids=["any groups", "fixed groups"])
@pytest.mark.parametrize("block", range(BLOCKS))
def test_whoever_asks_for_everything_computes_exactly_the_sums_over_groups(block: int, fixed: bool) -> None:
    for seed in range(block, max(BLOCKS, WORLDS // 10), BLOCKS):
        rng = random.Random(f"complete {seed}")
        world = World(rng, Choice(complete=True, fixed=fixed))
        with world.watched():
            adversary = Complete(world, rng)
            adversary.play()
            found = adversary.verdict()
        assert not found.leaks, f"world {seed}"
        assert found.computed == found.allowed, f"world {seed}"


@pytest.mark.parametrize("rule", NEEDED, ids=lambda rule: rule.name)
def test_a_rule_that_is_left_out_is_found(rule: LeftOut) -> None:
    with rule.left_out():
        assert any(at_random(f"{rule.name} {seed}", rule).leaks for seed in range(MOST_TRIES))


@pytest.mark.parametrize("rule", HARMLESS, ids=lambda rule: rule.name)
def test_what_looks_like_a_leak_and_is_none_is_not_found(rule: LeftOut) -> None:
    with rule.left_out():
        for seed in range(max(12, WORLDS // 20)):
            assert not at_random(f"{rule.name} {seed}", rule).leaks, seed


def seized_disks(seed: int, closed: bool) -> Verdict:
    """A world whose requests were all recorded, and whose disks are all read afterwards."""
    rng = random.Random(f"disks {seed}")
    world = World(rng, Choice())
    with world.watched():
        adversary = Random(world, rng)
        adversary.play(20)
        if closed:
            adversary.close()
        adversary.seizes_disks = True
        return adversary.verdict()


def test_disks_that_are_read_after_the_generation_was_closed_open_nothing() -> None:
    assert all(not seized_disks(seed, closed=True).leaks for seed in range(20))
    assert all(seized_disks(seed, closed=False).leaks for seed in range(5)), "while it lasts, they open everything"


def test_a_generation_that_is_closed_but_kept_is_found() -> None:
    keep = InMemory.keep

    def kept(memory: InMemory, generation: Generation) -> None:
        if generation.root:
            keep(memory, generation)

    with mock.patch.object(InMemory, "keep", kept):
        assert seized_disks(0, closed=True).leaks
