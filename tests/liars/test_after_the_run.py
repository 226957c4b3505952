"""What a run leaves behind: keys that are stolen later, and totals that later runs could be combined with.

Each against the machines and against machines without the rule that stops it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from adversary import SCHEMES, Adversary, Party, least_participants, world
from mutants import ForgetsRuns, KnowsRunsByTheirId, NeverFinishes, SealedToForGood
from stage import Stage

from codedfl.exact.fixed_point import Bounds
from codedfl.protocol.messages import Kind

# -- a key file stolen after the run opens nothing


def bytes_in(value: object) -> Iterator[bytes]:
    """All bytes in a state."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from bytes_in(one)


def after_an_honest_run(stage: Stage, scheme: str, party_type: type[Party] = Party) -> Adversary:
    adversary = world(stage, scheme, party_type=party_type)
    adversary.whole_run()
    assert adversary.leak() is None
    return adversary


def key_files(adversary: Adversary) -> list[bytes]:
    return [adversary.stage.secret_of(party.identity.public) for party in adversary.parties]


def run_folders(adversary: Adversary) -> list[bytes]:
    ledgers = [party.options["ledger"].encode() for party in adversary.parties]
    return ledgers + [text for party in adversary.parties for text in bytes_in(party.machine.state())]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_keys_and_folders_stolen_after_the_run_open_nothing(scheme: str):
    with Stage() as stage:
        adversary = after_an_honest_run(stage, scheme)
        assert adversary.leak(stolen=[*key_files(adversary), *run_folders(adversary)]) is None


@pytest.mark.parametrize("scheme", SCHEMES)
def test_secrets_sealed_to_long_term_keys_are_found_out(scheme: str):
    with Stage() as stage:
        adversary = after_an_honest_run(stage, scheme, SealedToForGood)
        assert adversary.leak(stolen=run_folders(adversary)) is None
        leak = adversary.leak(stolen=key_files(adversary))
    assert leak is not None and len(leak.devices) == 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_run_keys_that_outlive_the_run_are_found_out(scheme: str):
    with Stage() as stage:
        adversary = after_an_honest_run(stage, scheme, NeverFinishes)
        leak = adversary.leak(stolen=run_folders(adversary))
    assert leak is not None and len(leak.devices) == 1


# -- runs that differ by little

TWO_LISTS = [[0, 1, 2, 3], [0, 1, 2]]
LEFT_OUT_IN_PAIRS = [[0, 1, 2, 3, 4, 5], [0, 1, 2, 5], [0, 1, 2, 3], [0, 1, 2, 4]]


def lists_combined(
    lists: Sequence[Sequence[int]], n_devices: int, party_type: type[Party] = Party, colluders: int = 1
) -> tuple[tuple[str, ...], list[str]]:
    """The fewest devices that totals over these lists leave, and what the first device refused on the way."""
    policy = least_participants(2)["policy"]
    options = {"policy": replace(policy, colluders=colluders)}
    with Stage(common_sizes=range(2, n_devices + 1)) as stage:
        adversary = world(stage, sizes=[2] * n_devices, alpha=2, party_type=party_type, device_options=options)
        for members in lists:
            adversary.whole_run([adversary.parties[i] for i in members])
        assert adversary.leak() is None  # each is a total that somebody agreed to
        return adversary.knowledge().fewest_devices(), because_of_earlier_runs(adversary.parties[0])


def because_of_earlier_runs(party: Party) -> list[str]:
    return [reason for reason in party.refusals if reason.startswith("this device does not take part")]


def could_be_combined(left: int, least: int) -> str:
    return (
        f"this device does not take part: totals of earlier runs and this one could be combined to {left} device(s)"
        f" alone, and at least {least} must be left: train with the same devices as before, or with more new ones"
    )


def test_two_runs_that_differ_by_one_device_do_not_give_it_away():
    exposed, refusals = lists_combined(TWO_LISTS, 4)
    assert len(exposed) == 4
    assert refusals == [could_be_combined(1, 3)]


def test_devices_that_forget_runs_give_one_away():
    assert lists_combined(TWO_LISTS, 4, ForgetsRuns)[0] == ("device-3",)


@pytest.mark.parametrize("colluders", [0, 1])
def test_runs_without_each_pair_of_three_do_not_give_one_away(colluders: int):
    """With no colluder in mind, two lists that differ by a pair are harmless; the fourth list is what is refused."""
    exposed, refusals = lists_combined(LEFT_OUT_IN_PAIRS, 6, colluders=colluders)
    assert len(exposed) >= colluders + 2
    assert refusals[-1] == could_be_combined(1 if colluders == 0 else 2, colluders + 2)
    assert len(refusals) == (1 if colluders == 0 else 3)


def test_devices_that_forget_runs_give_one_away_by_four_lists():
    assert len(lists_combined(LEFT_OUT_IN_PAIRS, 6, ForgetsRuns)[0]) == 1


def test_any_three_of_these_lists_are_harmless():
    """So that it takes all of them: no two differ by one device, and half a sum is needed."""
    assert len(lists_combined(LEFT_OUT_IN_PAIRS[1:], 6, ForgetsRuns)[0]) == 2


def two_runs_of_one_id(party_type: type[Party], rolled_back: bool) -> tuple[str, ...]:
    """The id of a run is the server's choice: the second run, without one device, has that of the first."""
    with Stage(common_sizes=[3, 4]) as stage:
        adversary = world(stage, party_type=party_type, device_options=least_participants(2))
        *rest, _ = adversary.parties
        large = adversary.face()
        large.invite()
        small = adversary.face(rest, like=large)  # the joins go to both
        large.deliver_all(Kind.AGREEMENT)
        for party in adversary.parties:
            party.remember()
        large.deliver_all(Kind.UPDATE)
        large.ask_everything()
        if rolled_back:  # to before the agreement; what is in the ledger stays
            for party in rest:
                party.roll_back()
            small.deliver_all(Kind.UPDATE)
            small.ask_everything()
        else:
            adversary.whole_run(rest, like=large)
        return adversary.knowledge().fewest_devices()


@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_run_s_id_excuses_nothing(rolled_back: bool):
    assert len(two_runs_of_one_id(Party, rolled_back)) == 4


def test_a_ledger_of_ids_is_found_out():
    assert two_runs_of_one_id(KnowsRunsByTheirId, rolled_back=False) == ("device-3",)


def tightened(party_type: type[Party], n_rows: int) -> list[bool]:
    """Whether a device takes part again, as the public limit on a device's rows goes down from 20."""
    with Stage() as stage:
        adversary = world(stage, sizes=[n_rows, 2, 2], party_type=party_type)
        victim = adversary.parties[0]
        took_part = []
        for limit in range(20, 0, -1):
            before = len(victim.accepted)
            adversary.whole_run(bounds=Bounds(1.0, 1.0, 100, limit))
            took_part.append(len(victim.accepted) > before)
        return took_part


def test_later_bounds_do_not_tell_a_device_s_rows():
    """Two totals with limits of n and n - 1 rows differ by a row of whoever has n: all refuse, whatever they have."""
    assert tightened(Party, 3) == tightened(Party, 12) == [True] + [False] * 19


def test_a_ledger_of_fitted_rows_tells_how_many_there_are():
    assert [tightened(KnowsRunsByTheirId, n_rows).index(False) for n_rows in (3, 12)] == [18, 9]


def with_one_row_more(party_type: type[Party]) -> tuple[tuple[str, ...], list[str]]:
    with Stage() as stage:
        adversary = world(stage, party_type=party_type)
        adversary.whole_run()
        one = adversary.parties[2]
        X, Y = one.rows
        one.change_rows(np.vstack([X, [[0.5, -0.5]]]), np.vstack([Y, [[1.0]]]))
        adversary.whole_run()
        return adversary.knowledge().fewest_devices(), because_of_earlier_runs(one)


def test_the_same_list_with_one_row_more_does_not_give_the_row_away():
    exposed, refusals = with_one_row_more(Party)
    assert len(exposed) == 4
    assert refusals == [
        "this device does not take part: the same devices trained together before and only 1 of our rows changed since:"
        " the difference of the two totals would be about those; at least 10 must change"
    ]


def test_devices_that_forget_their_rows_give_the_difference_away():
    assert with_one_row_more(ForgetsRuns)[0] == ("device-2",)


def test_the_same_devices_with_the_same_rows_may_train_again():
    with Stage() as stage:
        adversary = world(stage)
        assert all(adversary.whole_run().agreement for _ in range(3))
        assert not any(party.refusals for party in adversary.parties)
        assert len(adversary.knowledge().fewest_devices()) == 4


def test_lists_that_no_device_sees_together_are_not_stopped():
    """Documented: a ledger has its own device's lists. The least number of joiners is what stops this one."""
    assert lists_combined([[0, 1, 2, 3, 4], [0, 1], [2, 3]], 5)[0] == ("device-4",)
