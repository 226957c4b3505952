"""Lies that protocol 1 has no rule against; each is expected to fail until the rule is there.

On a machine with the rule the attack must not get what it is after. What such a machine needs to be told (policy,
recipe, what it remembers of earlier runs) goes into the functions and constants at the top, nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from adversary import SCHEMES, Adversary, Party, least_participants, world
from mutants import JudgesByRows
from stage import Stage

from codedfl.exact.fixed_point import Bounds

PROTOCOL_1 = pytest.mark.xfail(reason="protocol 1", raises=AssertionError, strict=True)
WITH_PRODUCTS = ("coded-padded", "coded-keys")

# Arguments of a device that limits what the server may read of the total of X'X.
LIMITS_DIRECTIONS: dict[str, Any] = {}


def prepare(party: Party, recipe: str) -> None:
    """Tell a device how its rows become features. Protocol 1 does not ask."""


def asked_honestly(adversary: Adversary, cast: Sequence[Party]) -> None:
    """A whole run with these devices, as an honest server would play it."""
    for party in cast:
        party.new_run()
    face = adversary.started(cast)
    if face.agreement is None:
        return
    d, c = adversary.scenario.d, adversary.scenario.c
    face.ask_all(1, None)
    for column in range(d):
        face.ask_all(2 + column, np.eye(d)[:, [column] * c])
    for name in face.cast:
        adversary.hand_over(face.cast[name], face.finish())


# -- accept or refuse says nothing of the rows (11.2)


def joins(adversary: Adversary, victim: Party, bounds: Bounds) -> bool:
    victim.new_run()
    face = adversary.face(bounds=bounds)
    face.invite()
    face.deliver([letter.receiver for letter in face.tray].index(victim.name))
    return victim.name in face.server.joined


def bisected_rows(adversary: Adversary, victim: Party) -> int:
    """The least bound on a device's rows at which it joins."""
    low, high = 0, 1024
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if joins(adversary, victim, Bounds(1.0, 1.0, 1024, middle)) else (middle, high)
    return high


def bisected_largest(adversary: Adversary, victim: Party) -> float:
    """The least bound on features at which it joins, to 14 bits."""
    low, high = 0.0, 1.0
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (low, middle) if joins(adversary, victim, Bounds(middle, 1.0, 1024, 512)) else (middle, high)
    return high


def probed(party_type: type[Party], n_rows: int) -> tuple[int, float, float]:
    """What bisecting finds of a victim with so many rows: their number, the largest value; and its true largest."""
    with Stage() as stage:
        adversary = world(stage, sizes=[n_rows, 2, 2], party_type=party_type)
        victim = adversary.parties[0]
        found = bisected_rows(adversary, victim), bisected_largest(adversary, victim)
        return *found, float(np.abs(victim.rows[0]).max())


@PROTOCOL_1
def test_invitations_do_not_tell_a_device_s_rows():
    few, many = probed(Party, 3), probed(Party, 300)
    assert few[:2] == many[:2]


@pytest.mark.parametrize("n_rows", [3, 300])
def test_a_device_that_judges_by_its_rows_is_found_out(n_rows: int):
    rows, largest, true = probed(JudgesByRows, n_rows)
    assert rows == n_rows
    assert 0 <= largest - true < 2**-13


# -- a key file stolen after the run opens nothing (11.3)


def bytes_in(value: object) -> Iterator[bytes]:
    """All bytes in a state."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from bytes_in(one)


@PROTOCOL_1
@pytest.mark.parametrize("scheme", SCHEMES)
def test_keys_stolen_after_the_run_open_nothing(scheme: str):
    with Stage() as stage:
        adversary = world(stage, scheme)
        asked_honestly(adversary, adversary.parties)
        assert adversary.leak() is None
        secrets = [stage.secret_of(party.identity.public) for party in adversary.parties]
        states = [text for party in adversary.parties for text in bytes_in(party.machine.state())]
        assert adversary.leak(stolen=[*secrets, *states]) is None


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_a_device_keeps_after_the_run_opens_nothing_without_its_key(scheme: str):
    with Stage() as stage:
        adversary = world(stage, scheme)
        asked_honestly(adversary, adversary.parties)
        states = [text for party in adversary.parties for text in bytes_in(party.machine.state())]
        assert adversary.leak(stolen=states) is None


# -- a feature is the same for everybody (11.4)


@PROTOCOL_1
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_recipe_of_its_own_makes_nobody_s_total(scheme: str):
    """Everybody but the victim is told a range in which all rows look alike: their sums are known beforehand."""
    with Stage() as stage:
        adversary = world(stage, scheme)
        *others, victim = adversary.parties
        prepare(victim, "the agreed range")
        for party in others:
            prepare(party, "a range far away")
            party.change_rows(np.ones((3, 2)), np.ones((3, 1)))
        asked_honestly(adversary, adversary.parties)
        knowledge = adversary.knowledge(public=[party.owner for party in others])
        assert knowledge.fewest_devices() == ()


def test_the_attack_with_a_recipe_of_its_own_is_seen():
    """The measure of the test above, on rows that the server knows for another reason."""
    with Stage() as stage:
        adversary = world(stage)
        asked_honestly(adversary, adversary.parties)
        public = [party.owner for party in adversary.parties[:3]]
        assert adversary.knowledge(public=public).fewest_devices() == ("device-3",)


# -- the device limits what is read of the total (11.8)


@PROTOCOL_1
@pytest.mark.parametrize("scheme", WITH_PRODUCTS)
def test_empty_classes_do_not_read_the_whole_gram_matrix(scheme: str):
    """Three features, one class with rows and two empty ones, and e the identity: all of X'X in one product."""
    with Stage() as stage:
        adversary = world(stage, scheme, d=3, c=3, device_options=LIMITS_DIRECTIONS)
        face = adversary.started()
        if face.agreement is not None:
            face.ask_all(1, None)
            face.ask_all(2, np.eye(3))
        knowledge = adversary.knowledge()
        assert adversary.leak() is None  # of the total, but all of it
        assert max((knowledge.rank_within(prime, "gram") for prime in knowledge.primes), default=0) < 6


# -- runs that differ by little (11.10)


def lists_combined(lists: Sequence[Sequence[int]], n_devices: int) -> tuple[str, ...]:
    with Stage(common_sizes=range(2, n_devices + 1)) as stage:
        adversary = world(stage, sizes=[2] * n_devices, alpha=2, device_options=least_participants(2))
        for members in lists:
            asked_honestly(adversary, [adversary.parties[i] for i in members])
        assert adversary.leak() is None  # each is a total that somebody agreed to
        return adversary.knowledge().fewest_devices()


TWO_LISTS = [[0, 1, 2, 3], [0, 1, 2]]
THREE_LEFT_OUT_IN_PAIRS = [[0, 1, 2, 3, 4, 5], [0, 1, 2, 5], [0, 1, 2, 3], [0, 1, 2, 4]]


@PROTOCOL_1
def test_two_runs_that_differ_by_one_device_do_not_give_it_away():
    assert len(lists_combined(TWO_LISTS, 4)) >= 2


@PROTOCOL_1
def test_runs_without_each_pair_of_three_do_not_give_one_away():
    assert len(lists_combined(THREE_LEFT_OUT_IN_PAIRS, 6)) >= 2


def test_any_three_of_these_lists_are_harmless():
    """So that it takes all of them: no two differ by one device, and half a sum is needed."""
    assert len(lists_combined(THREE_LEFT_OUT_IN_PAIRS[1:], 6)) == 2


@PROTOCOL_1
def test_the_same_list_with_one_row_more_does_not_give_the_row_away():
    with Stage() as stage:
        adversary = world(stage)
        asked_honestly(adversary, adversary.parties)
        one = adversary.parties[2]
        X, Y = one.rows
        one.change_rows(np.vstack([X, [[0.5, -0.5]]]), np.vstack([Y, [[1.0]]]))
        asked_honestly(adversary, adversary.parties)
        assert adversary.knowledge().fewest_devices() != ("device-2",)


@PROTOCOL_1
def test_by_default_a_victim_and_a_colluder_are_not_enough():
    """The least number of participants defaults to the roster's size."""
    with Stage() as stage:
        adversary = world(stage, alpha=1, colluders=[0])
        asked_honestly(adversary, adversary.parties[:2])
        assert adversary.knowledge().fewest_devices() == ()
