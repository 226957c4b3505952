"""What an audit did to the rules before this one, attack by attack, for role keys and role sums.

Each succeeds against devices with the old rule, and fails against the machines. Rows are told apart where an attack was
about one row. (A4, A5 and A10 are about statistics and rows, A6, A11 and A13 about disks: other tests have them.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from adversary import Adversary, Party, world
from contracts import Contract
from mutants import (
    CountsWithinARun,
    ListsAnyOwners,
    ReadsItsTableAnew,
    TakesAnyBounds,
    TakesAnyBoundsAndLists,
    TakesAnyParameters,
)
from role_lies import ROLE_SCHEMES
from stage import Stage
from test_pods_over_runs import played

from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.typing import Floats

BOTH = pytest.mark.parametrize("scheme", ROLE_SCHEMES)


def with_rows(party: Party, count: int, start: int = 0) -> None:
    """Rows that no other device has, and that are the same whenever they are asked for."""
    X = np.array([[(hash_of(party.name) + 7 * (start + i)) % 97 / 97] for i in range(count)])
    party.change_rows(X, X / 2)


def hash_of(name: str) -> int:
    return 31 * int(name.rsplit("-", 1)[1]) + 5


def one_row_more(party: Party) -> None:
    X, Y = party.rows
    party.change_rows(np.vstack([X, [[0.61]]]), np.vstack([Y, [[0.33]]]))


# -- A1


def a1_one_patient_more(scheme: str, party_type: type[Party]) -> tuple[str, ...]:
    with Stage(by_rows=True) as stage:
        adversary = world(stage, scheme, [2] * 4, 1, z=1, d=1, party_type=party_type)
        played(adversary, range(4))
        one_row_more(adversary.parties[2])
        played(adversary, range(4))
        return adversary.knowledge().fewest_rows()


@BOTH
def test_a1_a_patient_who_came_between_two_runs_is_not_their_difference(scheme: str):
    """A1: an honest server repeats a study after one patient was added.

    Approval froze the rows; the patient comes in with the next edition, which is another contract.
    """
    assert a1_one_patient_more(scheme, Party) == ()
    assert a1_one_patient_more(scheme, ReadsItsTableAnew) == ("device-2/3",)


def a1_counted_without_its_signature(scheme: str, party_type: type[Party]) -> tuple[str, ...]:
    with Stage() as stage:
        adversary = world(stage, scheme, [2] * 6, 1, z=1, d=1, colluders=[0], party_type=party_type)
        played(adversary, range(6))
        played(adversary, range(5))  # device-5 has uploaded, and does not sign; the others do
        return adversary.knowledge().fewest_devices()


@BOTH
def test_a1_a_list_counts_without_the_owner_s_signature_and_tells_nothing(scheme: str):
    """A1: the veto comes after the upload. No veto is needed: a list of whole pods is harmless, and others are none."""
    assert len(a1_counted_without_its_signature(scheme, Party)) == 5
    assert a1_counted_without_its_signature(scheme, ListsAnyOwners) == ("device-5",)


# -- A2

LIMITS = (40, 40, 20)


def a2_three_lists(scheme: str, party_type: type[Party], pods: Sequence[Iterable[int]]) -> tuple[str, ...]:
    """J, N and J + N, with row limits of 40, 40 and 20; one device of N has 21 rows, all others fewer."""
    with Stage(by_rows=True) as stage:
        bounds = Bounds(1.0, 1.0, 1000, 40)
        adversary = world(stage, scheme, [1] * 6, 1, z=1, d=1, pods=pods, party_type=party_type, bounds=bounds)
        for i, party in enumerate(adversary.parties):
            with_rows(party, 21 if i == 5 else 2)
        approved_again(adversary, adversary.contract)
        for owners, limit in zip((range(3), range(3, 6), range(6)), LIMITS, strict=True):
            played(adversary, owners, bounds=Bounds(1.0, 1.0, 1000, limit))
        knowledge = adversary.knowledge()
        last_row = "device-5/21"
        return (last_row,) if knowledge.coordinates and knowledge.speaks_of([last_row]) else ()


def approved_again(adversary: Adversary, contract: Contract) -> None:
    """With the rows that are there now."""
    for party in adversary.honest:
        party.approve(contract)
        party.new_run()


@BOTH
def test_a2_three_lists_with_other_bounds_do_not_give_a_row_away(scheme: str):
    """A2: lists J, N and J + N with row limits of 40, 40, 20: bounds are the contract's, not the server's."""
    together, apart = [range(6)], [range(3), range(3, 6)]
    assert a2_three_lists(scheme, Party, together) == a2_three_lists(scheme, Party, apart) == ()
    assert a2_three_lists(scheme, ListsAnyOwners, together) == ()  # either rule stops it,
    assert a2_three_lists(scheme, TakesAnyBounds, together) == ()
    assert a2_three_lists(scheme, TakesAnyBoundsAndLists, together) == ("device-5/21",)
    assert a2_three_lists(scheme, TakesAnyBounds, apart) == ("device-5/21",)  # and pods alone do not


@BOTH
def test_a2_a_list_of_three_of_six_is_not_signed(scheme: str):
    """A2: with a roster of six a list of three was signed by default."""
    for party_type, fewest in ((Party, 0), (ListsAnyOwners, 3)):
        with Stage() as stage:
            adversary = world(stage, scheme, [2] * 6, 1, z=1, d=1, party_type=party_type)
            played(adversary, range(3))
            assert len(adversary.knowledge().fewest_devices()) == fewest


# -- A3


def a3_two_agreements_of_the_server_s_choice(scheme: str, party_type: type[Party]) -> tuple[str, ...]:
    """Two lists without a common signer: (D + z)/2 counts the devices of an agreement, which the server picks."""
    with Stage() as stage:
        adversary = world(stage, scheme, [2] * 9, 1, z=1, d=1, colluders=[0], party_type=party_type)
        parties = adversary.parties
        all_but_one = [party for i, party in enumerate(parties) if i != 5]
        first = played(adversary, [])
        owners = first.owners(first.uploaded)
        first.tell(owners, adversary.called(0, 1, 2, 3, 4, 5))
        first.certify(first.certificate(owners), adversary.called(0, 1, 2, 3, 4, 5))
        first.ask_everything()
        second = played(adversary, [], all_but_one)
        owners = second.owners(second.uploaded)
        second.tell(owners, adversary.called(0, 6, 7, 8, 1))
        second.certify(second.certificate(owners), adversary.called(6, 7, 8, 1))
        second.ask_everything()
        return adversary.knowledge().fewest_devices()


@BOTH
def test_a3_the_server_picks_the_agreement_and_gains_nothing(scheme: str):
    """A3: two lists, hardly a common signer, one hospital exactly. Lists need no common signer to be whole pods."""
    assert len(a3_two_agreements_of_the_server_s_choice(scheme, Party)) == 8
    assert a3_two_agreements_of_the_server_s_choice(scheme, ListsAnyOwners) == ("device-5",)


# -- A7

NOISE = RowNoise(1.0, 2, 1.0)
DOWNGRADES: dict[str, dict[str, Any]] = {
    "scheme": {"scheme": "coded-keys", "alpha": 4, "colluders": 0, "reveals_gram": False, "noise": None},
    "one-shot": {"scheme": "one-shot", "alpha": 4, "colluders": 0, "reveals_gram": True, "noise": None},
    "fewer colluders": {"colluders": 1, "noise": None},
    "no colluders": {"colluders": 0, "noise": None},
    "no noise": {"noise": None},
    "less noise": {"noise": RowNoise(0.01, 2, 1.0)},
    "fewer rows": {"bounds": Bounds(1.0, 1.0, 100, 1)},
    "narrower range": {"bounds": Bounds(0.01, 1.0, 100, 20)},
    "more precision": {"precision": 40},
    "scales of another number": {"owners": 60},
    "another recipe": {"recipe": bytes(32)},
    "no recipe": {"recipe": b""},
    "more epochs": {"epochs": 9000},
    "whole numbers": {"total_limit": 1000, "noise": None, "scheme": "role-keys", "reveals_gram": False},
}


def a7_downgraded(scheme: str, party_type: type[Party], changes: dict[str, Any]) -> tuple[Adversary, bool]:
    """A contract with z = 2 and noise; the server runs something else. Whether anybody wrote under it."""
    with Stage() as stage:
        colluders = [0, 1] if changes.get("colluders", 2) == 1 else [0]
        options = {"d": 1, "noise": NOISE, "epochs": 3, "colluders": colluders, "party_type": party_type}
        adversary = world(stage, scheme, [2] * 4, 1, z=2, **options)
        adversary.whole_run(**changes)
        return adversary, any(party.accepted for party in adversary.honest)


@BOTH
@pytest.mark.parametrize("downgrade", DOWNGRADES)
def test_a7_nothing_of_a_run_is_the_server_s_choice(scheme: str, downgrade: str):
    """A7: study and policy say role-keys with two colluders, the server runs coded-keys with alpha = D."""
    adversary, took_part = a7_downgraded(scheme, Party, DOWNGRADES[downgrade])
    assert not took_part
    assert adversary.leak() is None and adversary.knowledge().fewest_devices() == ()
    assert {party.machine.objection.split(" must be")[0] for party in adversary.honest} != {""}


@BOTH
@pytest.mark.parametrize("downgrade", ["scheme", "one-shot", "no colluders", "fewer colluders", "no noise"])
def test_a7_devices_that_take_any_parameters_are_found_out(scheme: str, downgrade: str):
    adversary, took_part = a7_downgraded(scheme, TakesAnyParameters, DOWNGRADES[downgrade])
    assert took_part
    leak = adversary.leak()
    assert leak is not None
    assert (len(leak.devices) == 1) == (downgrade != "no noise")


# -- A8


def a8_runs(party_type: type[Party], d: int = 4, runs: int = 5) -> int:
    """Independent numbers of X'X after some runs, with one direction agreed on and another asked for in each."""
    with Stage() as stage:
        adversary = world(stage, "role-keys", [2] * 3, 1, z=1, d=d, epochs=2, party_type=party_type)
        for run in range(runs):
            for party in adversary.parties:
                party.new_run()
            face = adversary.started()
            face.ask_all(1, None)
            face.ask_all(2, np.eye(d)[:, [run % d]])
            for party in adversary.parties:
                adversary.hand_over(party, face.finish())
        assert adversary.leak() is None  # whatever it is, it is of the total
        knowledge = adversary.knowledge()
        return max(knowledge.rank_within(prime, "gram") for prime in knowledge.primes)


def test_a8_directions_are_counted_over_all_runs():
    """A8: directions were counted in one run; 8 runs gave 40 of 40 columns of X'X. (Role sums show it all at once.)"""
    assert a8_runs(Party) == 4
    assert a8_runs(CountsWithinARun) == 10


# -- A9


def a9_four_editions(scheme: str, party_type: type[Party]) -> tuple[str, ...]:
    """Four totals, any two of which differ by several rows of a device, and T4 - T3 - T2 + T1 is one row."""
    with Stage(by_rows=True) as stage:
        adversary = world(stage, scheme, [1] * 3, 1, z=1, d=1, party_type=party_type)
        base, some, others, one = (rows_from(start, count) for start, count in ((0, 3), (10, 3), (20, 3), (30, 1)))
        first, *later = ([base], [base, some], [base, others], [base, some, others, one])
        adversary.parties[2].change_rows(*stacked(first))
        approved_again(adversary, adversary.contract)
        played(adversary, range(3))
        for rows in later:
            adversary.parties[2].change_rows(*stacked(rows))
            played(adversary, range(3))
        return adversary.knowledge().fewest_rows()


def rows_from(start: int, count: int) -> Floats:
    return np.arange(start, start + count)[:, None] / 40.0


def stacked(parts: Sequence[Floats]) -> tuple[Floats, Floats]:
    return np.vstack(parts), np.vstack(parts) / 2


@BOTH
def test_a9_four_editions_do_not_differ_by_a_row(scheme: str):
    """A9: row changes were compared pairwise. Editions need approvals, and what they differ by is judged there."""
    assert a9_four_editions(scheme, Party) == ()
    assert a9_four_editions(scheme, ReadsItsTableAnew) == ("device-2/10",)
