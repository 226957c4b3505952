"""Role keys and role sums: lies about the list of owners within a run, and about seeds.

Most are played in a laboratory, where there are no pods and one list a run is all that protects. Each against the
machines and against machines without the rule that stops it.
"""

from __future__ import annotations

from typing import Any

import pytest
from adversary import Adversary, Party, world
from knowledge import Leak
from mutants import (
    GivesKeysToAnybody,
    ReadyWithWhatItHas,
    SealsToAnyKey,
    SignsAnyList,
    SignsShortLists,
    SumsUnsigned,
)
from role_lies import ROLE_SCHEMES, RoleFace, known_seeds
from stage import Stage, decoded

from codedfl.protocol import owner_list
from codedfl.protocol.messages import Kind
from codedfl.protocol.owner_list import Certificate, OwnerList

# -- one list of owners


def shared(adversary: Adversary, **told: Any) -> RoleFace:
    """A run up to where all have uploaded and hold their seeds, and no list is told yet."""
    face = adversary.face(**told)
    assert isinstance(face, RoleFace)
    face.keeps_lists = True
    face.invite()
    face.deliver_all(Kind.UPDATE)
    assert len(face.uploaded) == face.agreement.n_devices
    return face


def world_of_roles(stage: Stage, scheme: str = "role-keys", n: int = 6, z: int = 1, **options: Any) -> Adversary:
    """A laboratory unless it has pods."""
    return world(stage, ROLE_SCHEMES[scheme], [2] * n, 1, z=z, laboratory="pods" not in options, **options)


def halves(face: RoleFace) -> tuple[list[str], list[str]]:
    """Honest holders in two parts with all roles in each, as far as they go."""
    roles = range(face.agreement.parameters.colluders + 1)
    honest = [[name for name in face.of_role(role) if not face.cast[name].adverse] for role in roles]
    return [name for names in honest for name in names[::2]], [name for names in honest for name in names[1::2]]


VICTIM = "device-5"


def two_lists(face: RoleFace, both_to_all: bool = True) -> Certificate:
    """One with the victim and one without, each first told to one half; returns the certificate of the second."""
    with_, without = face.owners(face.uploaded), face.owners(set(face.uploaded) - {VICTIM})
    first, second = halves(face)
    for owners, told in ((with_, first), (without, second)):
        face.tell(owners, told)
    if both_to_all:
        face.tell(with_, second)
        face.tell(without, first)
    face.certify(face.certificate(with_), first)
    certificate = face.certificate(without)
    face.certify(certificate, second)
    face.ask_everything()
    return certificate


@pytest.mark.parametrize("scheme", ROLE_SCHEMES)
@pytest.mark.parametrize(("z", "colluders"), [(1, ()), (1, (0,)), (1, (1,)), (2, (0, 1))])
def test_holders_that_sum_over_two_lists_do_not_exist(scheme: str, z: int, colluders: tuple[int, ...]):
    with Stage() as stage:
        adversary = world_of_roles(stage, scheme, z=z, colluders=colluders)
        two_lists(shared(adversary))
        assert adversary.leak() is None
        assert len(adversary.knowledge().fewest_devices()) in (0, adversary.scenario.n_devices - len(colluders))


@pytest.mark.parametrize("scheme", ROLE_SCHEMES)
@pytest.mark.parametrize(("z", "colluders"), [(1, ()), (1, (0,)), (2, (0, 1))])
def test_holders_that_sign_two_lists_are_found_out(scheme: str, z: int, colluders: tuple[int, ...]):
    with Stage() as stage:
        adversary = world_of_roles(stage, scheme, z=z, colluders=colluders, party_type=SignsAnyList)
        two_lists(shared(adversary))
        leak = adversary.leak()
    assert leak is not None and leak.devices == (VICTIM,)


def exposed_without(rule: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[str, ...]:
    """Who is exposed by two lists, each told to one half, whose certificates are not checked for something."""
    if rule == "enough":
        monkeypatch.setattr(owner_list, "signatures_needed", lambda _holders, _colluders: 1)
    with Stage() as stage:
        adversary = world_of_roles(stage, **options)
        face = shared(adversary)
        if rule == "this list":
            monkeypatch.setattr(OwnerList, "check_signature", lambda *_: None)
        certificate = two_lists(face, both_to_all=False)
        # What is missing is filled up with signatures on the other list.
        others = {name: one for signed in face.signatures.values() for name, one in signed.items()}
        for name in face.holders:
            full = Certificate(others | certificate.signatures)
            face.certify(full, [name])
        face.ask_everything()
        leak = adversary.leak()
    return () if leak is None else leak.devices


@pytest.mark.parametrize("colluders", [(), (0,)])
def test_certificates_are_for_one_list_and_by_enough_holders(
    monkeypatch: pytest.MonkeyPatch, colluders: tuple[int, ...]
):
    assert exposed_without("nothing", monkeypatch, colluders=colluders) == ()


@pytest.mark.parametrize("rule", ["enough", "this list"])
def test_certificates_that_are_not_checked_are_found_out(monkeypatch: pytest.MonkeyPatch, rule: str):
    assert exposed_without(rule, monkeypatch) == (VICTIM,)


@pytest.mark.parametrize("scheme", ROLE_SCHEMES)
@pytest.mark.parametrize("party_type", [Party, SignsAnyList])
def test_with_pods_two_lists_of_one_run_show_two_totals_of_pods_at_worst(scheme: str, party_type: type[Party]):
    """What the certificate is for then: that a run has one total."""
    with Stage() as stage:
        adversary = world_of_roles(stage, scheme, pods=[range(3), range(3, 6)], colluders=[0], party_type=party_type)
        face = shared(adversary)
        lists = face.owners(face.uploaded), face.owners(adversary.called(0, 1, 2))
        for owners, told in zip(lists, halves(face), strict=True):
            face.tell(owners, told)
        for owners, told in zip(lists, reversed(halves(face)), strict=True):
            face.tell(owners, told)
        for owners, told in zip(lists, halves(face), strict=True):
            face.certify(face.certificate(owners), told)
        face.ask_everything()
        assert adversary.leak() is None
        assert (adversary.leak(by_lists=True) is None) == (party_type is Party)


def with_few_owners(party_type: type[Party], names: list[str]) -> tuple[str, ...]:
    with Stage() as stage:
        adversary = world_of_roles(stage, colluders=[0], party_type=party_type)
        face = shared(adversary)
        owners = face.owners(names)
        face.tell(owners, face.holders)
        face.certify(face.certificate(owners), face.holders)
        face.ask_everything()
        assert adversary.leak() is None  # it is a certified list
        return adversary.knowledge().fewest_devices()


def test_a_victim_and_a_colluder_are_no_list():
    assert with_few_owners(Party, ["device-0", VICTIM]) == ()
    assert with_few_owners(Party, ["device-0", "device-1", VICTIM]) == ("device-1", VICTIM)


def test_holders_that_sign_short_lists_are_found_out():
    assert with_few_owners(SignsShortLists, ["device-0", VICTIM]) == (VICTIM,)


# -- seeds


def seeds_withheld(party_type: type[Party], **options: Any) -> Leak | None:
    """One half of the holders never gets the victim's seeds, and all get the list with it and its certificate."""
    with Stage() as stage:
        adversary = world_of_roles(stage, party_type=party_type, **options)
        face = adversary.face()
        assert isinstance(face, RoleFace)
        face.keeps_lists = True
        face.invite()
        face.deliver_all(Kind.SHARE, Kind.UPDATE)
        _, second = halves(face)
        withheld = [one for one in face.tray if one.receiver in second and decoded(one.data).sender == VICTIM]
        face.tray = [one for one in face.tray if one not in withheld]
        face.deliver_all(Kind.UPDATE)
        assert withheld
        owners = face.owners(face.uploaded)
        face.tell(owners, face.holders)
        face.certify(face.certificate(owners), face.holders)
        face.ask_everything()
        return adversary.leak()


@pytest.mark.parametrize("colluders", [(), (0,)])
def test_a_holder_that_lacks_a_seed_says_nothing(colluders: tuple[int, ...]):
    assert seeds_withheld(Party, colluders=colluders) is None


def test_holders_that_go_on_without_a_seed_are_found_out():
    leak = seeds_withheld(ReadyWithWhatItHas)
    assert leak is not None and leak.devices == (VICTIM,)


def key_of_another_role(party_type: type[Party], **rows: int) -> Leak | None:
    """A holder of another role is asked to give a colluder its role's key, as to a co-holder that lacks it."""
    with Stage() as stage:
        adversary = world_of_roles(stage, party_type=party_type, colluders=[0])
        face = shared(adversary, **rows)
        colluder = adversary.parties[0].name
        roles = face.agreement.roles
        mine = roles[face.agreement.position(colluder)]
        giver = next(name for name in face.holders if roles[face.agreement.position(name)] != mine)
        face.want_key(giver, [colluder])
        return adversary.leak()


ROWS = pytest.mark.parametrize(
    "rows", [{}, {"blocks": 2}, {"blocks": 2, "reserve": 1}], ids=["K = 1", "K = 2", "reserve"]
)


@ROWS
def test_a_role_s_key_stays_in_its_role(rows: dict[str, int]):
    assert key_of_another_role(Party, **rows) is None


@ROWS
def test_a_device_that_changes_role_while_keys_live_is_found_out(rows: dict[str, int]):
    """One key too many is enough: a dead cell is taken over within its role only."""
    assert key_of_another_role(GivesKeysToAnybody, **rows) is not None


def keys_of_the_server(party_type: type[Party]) -> Leak | None:
    """Every owner is shown a key that the server drew for one role, signed by colluders, who have the other."""
    with Stage() as stage:
        adversary = world_of_roles(stage, party_type=party_type, colluders=[0])
        face = adversary.face()
        assert isinstance(face, RoleFace)
        face.invite()
        face.deliver_all(Kind.ROLE_KEYS, Kind.UPDATE)
        mine = face.agreement.roles[face.agreement.position(adversary.parties[0].name)]
        face.show_keys(face.agreement.names, 1 - mine)
        face.deliver_all(Kind.UPDATE)
        return adversary.leak()


def test_owners_seal_to_keys_that_holders_of_the_role_have_signed():
    assert keys_of_the_server(Party) is None


def test_owners_that_seal_to_any_key_are_found_out():
    assert keys_of_the_server(SealsToAnyKey) is not None


def keys_in_the_victim_s_place(party_type: type[Party]) -> Leak | None:
    """Everybody but the victim is shown an agreement with a run key of the server's in the victim's place.

    The server then plays the victim: seals seeds, and has the others sum over a list with it.
    """
    with Stage() as stage:
        adversary = world_of_roles(stage, party_type=party_type, pods=[range(3), range(3, 6)])
        face = adversary.face()
        assert isinstance(face, RoleFace)
        face.keeps_lists = True
        face.invite()
        face.deliver_all(Kind.AGREEMENT, Kind.ROLE_KEY_WANTED)
        face.replace_key(VICTIM)
        face.deliver_all(Kind.UPDATE)
        face.play(VICTIM)
        face.deliver_all(Kind.UPDATE)
        owners = face.owners(face.uploaded)
        assert VICTIM in owners.names
        face.tell(owners, face.agreement.names)
        face.certify(face.certificate(owners), face.holders)
        face.ask_everything()
        return adversary.leak()


def test_an_owner_counts_only_with_its_own_signature():
    assert keys_in_the_victim_s_place(Party) is None


def test_holders_that_ask_for_no_owner_s_signature_are_found_out():
    leak = keys_in_the_victim_s_place(SumsUnsigned)
    assert leak is not None


def a_seed_of_before(scheme: str, stage: Stage, *, rolled_back: bool) -> Leak | None:
    """A colluder that held one role gives its seed of the victim to the holders of that role when it has the other.

    The second run has the id of the first; or it is the first, in which everybody was set back to before the
    agreement. The victim's own seeds are withheld, and the list names the commitments of before.
    """
    with stage:
        adversary = world_of_roles(stage, scheme, pods=[range(3), range(3, 6)], colluders=[0])
        names = list(adversary.called(*range(6)))
        first = adversary.face(holders=names)
        first.invite()
        first.deliver_all(Kind.AGREEMENT, Kind.ROLE_KEY_WANTED)
        for party in adversary.parties:
            party.remember()
        again = adversary.face(holders=[*names[1:], names[0]], like=first)  # the joins go to both if it is the same run
        if rolled_back:
            again.server.joining._joined = dict(first.server.joining._joined)
        first.deliver_all(Kind.UPDATE)
        known = next(one for one in known_seeds(adversary) if one.owner == VICTIM)
        first.ask_everything()
        for party in adversary.parties:
            adversary.hand_over(party, first.finish())
            party.new_run()
            if rolled_back:
                party.roll_back()
        again.keeps_lists = True
        if rolled_back:
            again.freeze()
        else:
            again.invite()
        again.deliver_all(Kind.SHARE, Kind.UPDATE)
        again.tray = [one for one in again.tray if decoded(one.data).sender != VICTIM]
        again.deliver_all(Kind.UPDATE)
        owners = again.listing(again.owners(again.uploaded), known)
        for name in again.of_role(known.role):
            again.give_seed(known, adversary.parties[0], name)
        again.tell(owners, again.agreement.names)
        again.certify(again.certificate(owners), again.holders)
        again.ask_everything()
        assert again.agreement.hash != first.agreement.hash and again.agreement.run == first.agreement.run
        return adversary.leak()


@pytest.mark.parametrize("scheme", ROLE_SCHEMES)
@pytest.mark.parametrize("rolled_back", [False, True])
def test_a_seed_counts_in_the_agreement_that_it_was_drawn_for(scheme: str, rolled_back: bool):
    assert a_seed_of_before(scheme, Stage(), rolled_back=rolled_back) is None
