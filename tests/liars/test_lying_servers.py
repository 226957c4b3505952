"""Single lies, each against the machines and against machines without the rule that stops it.

The verdict is a rank for each prime, read from what the machines sent (``knowledge``).
"""

from __future__ import annotations

from typing import Any

import pytest
from adversary import SCHEMES, Adversary, Party, world
from knowledge import Leak
from mutants import AnyList, TwoAgreements, masks_for_all_epochs, masks_unbound
from stage import Stage

from codedfl.protocol.messages import Kind

WITH_PRODUCTS = ("coded-padded", "coded-keys")
SHAPES = [(n, alpha, 1) for n in range(2, 6) for alpha in range(1, n + 1)] + [(4, 1, 2), (4, 2, 2), (6, 3, 2)]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("n_devices", "alpha", "groups"), SHAPES)
def test_an_honest_run_shows_the_totals_and_nothing_else(scheme: str, n_devices: int, alpha: int, groups: int):
    # A third prime where it costs little.
    n_primes, precision = (3, 40) if alpha == 2 else (2, None)
    with Stage() as stage:
        adversary = world(stage, scheme, [2] * n_devices, alpha, groups=groups, precision=precision)
        adversary.started().ask_everything()
        knowledge = adversary.knowledge()
        assert adversary.leak() is None
    assert len(knowledge.primes) == n_primes
    for prime in knowledge.primes:
        # Three entries of X'X, two of X'Y, and the number of rows: one functional each.
        assert len(knowledge.functionals(prime)) == 6
    assert knowledge.fewest_devices() == tuple(party.name for party in adversary.parties)


# -- masks and the update


def one_gets_e(adversary: Adversary) -> Leak | None:
    """e for one device and 0 for the others, in the same epoch: X'X e of whom it answers for."""
    face = adversary.started()
    face.ask(2, {name: [[int(name == "device-1")], [0]] for name in face.cast})
    return adversary.leak()


def one_gets_e_others_the_constant(adversary: Adversary) -> Leak | None:
    """The same with an update without numbers for the others: they answer with the constant part."""
    face = adversary.started()
    face.ask_all(1, None)
    face.ask(2, {name: [[1], [0]] if name == "device-1" else None for name in face.cast})
    return adversary.leak()


def one_is_rolled_back(adversary: Adversary) -> Leak | None:
    """Everybody answers the same; one device, restored from before, answers the epoch for another e."""
    face = adversary.started()
    face.cast["device-1"].remember()
    face.ask_all(2, [[1], [1]])
    face.cast["device-1"].roll_back()
    face.ask(2, {"device-1": [[2], [-1]]})
    return adversary.leak()


def an_epoch_comes_back(adversary: Adversary) -> Leak | None:
    """Two epochs with different e, as in every training."""
    face = adversary.started()
    face.ask_all(2, [[1], [0]])
    face.ask_all(3, [[0], [1]])
    return adversary.leak()


EQUIVOCATIONS = pytest.mark.parametrize("attack", [one_gets_e, one_gets_e_others_the_constant, one_is_rolled_back])


@pytest.mark.parametrize("scheme", WITH_PRODUCTS)
@pytest.mark.parametrize("alpha", [1, 2, 3])
@EQUIVOCATIONS
def test_a_mask_is_for_one_update(scheme: str, alpha: int, attack):
    with Stage() as stage:
        assert attack(world(stage, scheme, alpha=alpha)) is None


@pytest.mark.parametrize("scheme", WITH_PRODUCTS)
@pytest.mark.parametrize("alpha", [1, 2])
@EQUIVOCATIONS
def test_masks_that_do_not_know_the_update_are_found_out(scheme: str, alpha: int, attack):
    """With alpha = 1 it is one device's X'X; otherwise a combination of alpha devices for lattice reduction."""
    with Stage(rename=masks_unbound) as stage:
        leak = attack(world(stage, scheme, alpha=alpha))
    assert len(leak.devices) == alpha and "device-1" in leak.devices
    assert "gram" in {kind for _, kind, _ in leak.functional}


def test_with_replication_there_is_nothing_to_find():
    """alpha = D: every device answers for everybody, so whatever it is asked it tells of the total only."""
    with Stage(rename=masks_unbound) as stage:
        adversary = world(stage, alpha=4)
        assert one_gets_e(adversary) is None
        assert adversary.knowledge().fewest_devices() == tuple(adversary.scenario.names)


def test_masks_that_do_not_know_the_epoch_are_found_out():
    with Stage(rename=masks_for_all_epochs) as stage:
        leak = an_epoch_comes_back(world(stage, alpha=1))
    assert leak is not None and leak.devices == ("device-0",)
    with Stage() as stage:
        assert an_epoch_comes_back(world(stage, alpha=1)) is None


# -- one agreement


def two_agreements(party_type: type[Party]) -> tuple[Leak | None, tuple[str, ...]]:
    """The same run once with device-3 and once without: the difference of the totals is device-3. A laboratory."""
    with Stage(common_sizes=[3, 4]) as stage:
        adversary = world(stage, alpha=2, party_type=party_type, laboratory=True)
        large = adversary.face()
        small = adversary.face(adversary.parties[:3], like=large)
        large.invite()
        large.deliver_all(Kind.UPDATE)  # the joins go to both faces
        large.ask_everything()
        small.deliver_all(Kind.UPDATE)
        if small.agreement is not None:
            small.ask_everything()
        return adversary.leak(), adversary.knowledge().fewest_devices()


def test_a_device_accepts_one_agreement_a_run():
    assert two_agreements(Party) == (None, ("device-0", "device-1", "device-2", "device-3"))


def test_devices_that_accept_two_are_found_out():
    leak, exposed = two_agreements(TwoAgreements)
    assert leak is not None and leak.devices == ("device-3",)
    assert exposed == ("device-3",)


# -- who takes part


class LooksAtNoPods(Party):
    """In a coded scheme the participants are the list: it takes any of them."""

    terms_type = AnyList


def with_a_colluder_alone(party_type: type[Party], **options: Any) -> tuple[str, ...]:
    with Stage() as stage:
        adversary = world(stage, alpha=1, colluders=[0], party_type=party_type, **options)
        adversary.whole_run(adversary.parties[:2])
        return adversary.knowledge().fewest_devices()


@pytest.mark.parametrize("pods", [[range(4)], [range(2, 4), range(2)]])
def test_in_coded_schemes_the_participants_are_whole_pods(pods: Any):
    """A pod is not divided; one of a victim and a colluder is what the contract says, and coded schemes allow none."""
    assert with_a_colluder_alone(Party, pods=pods) == (() if len(pods) == 1 else ("device-1",))


def test_devices_that_look_at_no_pods_are_found_out():
    assert with_a_colluder_alone(LooksAtNoPods) == ("device-1",)
    assert with_a_colluder_alone(Party, laboratory=True) == ("device-1",)


def one_left_out(scheme: str, party_type: type[Party]) -> Leak | None:
    """Two runs of a coded scheme, one without device-3."""
    with Stage(common_sizes=[3, 4]) as stage:
        adversary = world(stage, scheme, alpha=2, party_type=party_type)
        adversary.whole_run()
        adversary.whole_run(adversary.parties[:3])
        return adversary.leak()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_two_coded_runs_do_not_differ_by_one_device(scheme: str):
    assert one_left_out(scheme, Party) is None
    assert one_left_out(scheme, LooksAtNoPods).devices == ("device-3",)


def among_puppets(laboratory: bool) -> tuple[str, ...]:
    with Stage() as stage:
        adversary = world(stage, alpha=1, laboratory=laboratory)
        puppets = [adversary.puppet(i) for i in range(3)]
        adversary.whole_run([*puppets, adversary.parties[3]])
        return adversary.knowledge().fewest_devices()


def test_with_a_roster_nobody_can_be_invented():
    assert among_puppets(laboratory=False) == ()


def test_in_a_laboratory_a_victim_is_among_puppets():
    """Documented: one process holds everything there."""
    assert among_puppets(laboratory=True) == ("device-3",)
