"""Any number of runs on contracts with pods: what can be computed of them is a function of totals over pods.

Lists over every union of pods, in one run by devices that are set back and in many, agreements with pods missing, two
servers with one key, several contracts on the same rows, several rosters. For z colluders; z + 1 break it, so that the
harness is not blind. Each rule also against machines, or operators, without it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from adversary import Adversary, Party, world
from knowledge import Leak
from lying_schedules import COMMON_SIZES
from mutants import CountsWithinARun, DrawsNoiseAnew, ForgetsItsPod, ListsAnyOwners, ReadsItsTableAnew, TakesAnybody
from role_lies import ROLE_SCHEMES, RoleFace
from stage import Stage, decoded

from codedfl.errors import InvalidInput
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.terms import DOES_NOT_TAKE_PART, Terms

BOTH = pytest.mark.parametrize("scheme", ROLE_SCHEMES)


def pods_of(sizes: Sequence[int]) -> list[range]:
    starts = list(itertools.accumulate(sizes, initial=0))
    return [range(start, end) for start, end in itertools.pairwise(starts)]


def divided(stage: Stage, scheme: str, sizes: Sequence[int], z: int, **options: Any) -> Adversary:
    usual = {"d": 1, "pods": pods_of(sizes)}
    return world(stage, scheme, [2] * sum(sizes), 1, z=z, **usual | options)


def unions(pods: Sequence[Iterable[int]]) -> Iterator[list[int]]:
    for size in range(1, len(pods) + 1):
        for chosen in itertools.combinations(pods, size):
            yield [i for pod in chosen for i in pod]


def played(
    adversary: Adversary, owners: Iterable[int], cast: Sequence[Party] | None = None, **changes: Any
) -> RoleFace:
    """One run over a list, as far as devices go along."""
    for party in adversary.parties:
        party.new_run()
    face = adversary.face(cast, **changes)
    assert isinstance(face, RoleFace)
    face.keeps_lists = True
    face.invite()
    face.deliver_all(Kind.UPDATE)
    if face.agreement is None and face.server.joined:
        face.freeze()
        face.deliver_all(Kind.UPDATE)
    if face.agreement is not None:
        tell_everybody(face, adversary.called(*owners))
    return face


def tell_everybody(face: RoleFace, names: Iterable[str]) -> None:
    there = set(face.uploaded) & set(names)
    if there:
        owners = face.owners(there)
        face.tell(owners, face.agreement.names)
        face.certify(face.certificate(owners), face.holders)
        face.ask_everything()


def ranks(adversary: Adversary) -> set[int]:
    knowledge = adversary.knowledge()
    return {len(knowledge.functionals(prime)) for prime in knowledge.primes}


ENTRIES = 3  # X'X, X'Y and the number of rows, for d = c = 1


# -- one contract


def every_list_of_every_device(adversary: Adversary, sizes: Sequence[int]) -> None:
    """In one run: all devices are set back to before a list, as often as there are lists."""
    for party in adversary.parties:
        party.new_run()
    face = adversary.face(holders=adversary.called(*range(sum(sizes))))
    assert isinstance(face, RoleFace)
    face.keeps_lists = True
    face.invite()
    face.deliver_all(Kind.UPDATE)
    for party in adversary.parties:
        party.remember()
    for owners in unions(pods_of(sizes)):
        tell_everybody(face, adversary.called(*owners))
        for party in adversary.parties:
            party.roll_back()


SHAPES = [([3, 3], 1, [0]), ([3, 3], 1, []), ([3, 3, 3], 1, [4]), ([4, 4], 2, [0, 5])]


@BOTH
@pytest.mark.parametrize(("sizes", "z", "colluders"), SHAPES)
def test_devices_that_forget_every_list_show_totals_of_pods(
    scheme: str, sizes: list[int], z: int, colluders: list[int]
):
    with Stage() as stage:
        adversary = divided(stage, scheme, sizes, z, colluders=colluders)
        every_list_of_every_device(adversary, sizes)
        assert adversary.leak() is None
        assert ranks(adversary) == {ENTRIES * len(sizes)}  # and all of them: the lists were answered


@BOTH
@pytest.mark.parametrize(("sizes", "z"), [([3, 3], 1), ([4, 4], 2)])
def test_one_colluder_too_many_is_seen(scheme: str, sizes: list[int], z: int):
    """z + 1 devices of all roles know everything: the harness is not blind."""
    with Stage() as stage:
        adversary = divided(stage, scheme, sizes, z, colluders=range(z + 1))
        every_list_of_every_device(adversary, sizes)
        leak = adversary.leak()
    assert leak is not None and len(leak.devices) == 1


@BOTH
def test_devices_that_list_anybody_are_found_out_when_they_forget(scheme: str):
    with Stage() as stage:
        adversary = divided(stage, scheme, [3, 3], 1, party_type=ListsAnyOwners)
        for owners in (range(6), range(5)):
            played(adversary, owners)
        assert adversary.leak().devices == ("device-5",)


@pytest.mark.parametrize(("scheme", "colluders"), [("role-keys", [0]), ("role-sums", [8]), ("role-sums", [])])
def test_runs_with_pods_missing_show_totals_of_pods(scheme: str, colluders: list[int]):
    """Agreements without whole pods, and without single devices, whose pods are then in no list."""
    with Stage() as stage:
        adversary = divided(stage, scheme, [3, 3, 3], 1, colluders=colluders)
        everybody = adversary.parties
        played(adversary, range(9))
        played(adversary, range(6), everybody[:6])
        played(adversary, range(3, 9), everybody[3:])
        without_one = [party for i, party in enumerate(everybody) if i != 4]
        for owners in ([0, 1, 2], [0, 1, 2, 3, 5], [0, 1, 2, 6, 7, 8]):
            played(adversary, owners, without_one)
        assert adversary.leak() is None
        assert ranks(adversary) == {3 * ENTRIES}


@BOTH
def test_two_servers_with_one_key_are_one_adversary(scheme: str):
    """Each device is in two runs at once, and goes from one to the other and back."""
    with Stage() as stage:
        adversary = divided(stage, scheme, [3, 3], 1, colluders=[0])
        faces: list[RoleFace] = []
        for place in (0, 1):
            for party in adversary.parties:
                party.new_run()
            face = adversary.face()
            assert isinstance(face, RoleFace)
            faces.append(face)
            faces[-1].keeps_lists = True
            faces[-1].invite()
            faces[-1].deliver_all(Kind.UPDATE)
            for party in adversary.parties:
                party.remember()
                assert len(party.snapshots) == place + 1
        for place, owners in ((0, range(6)), (1, range(3)), (0, range(5)), (1, range(1, 6))):
            for party in adversary.parties:
                party.roll_back(place)
            tell_everybody(faces[place], adversary.called(*owners))
        assert adversary.leak() is None
        assert ranks(adversary) == {2 * ENTRIES}


# -- several contracts on the same rows


def with_several_contracts(adversary: Adversary) -> None:
    """Other schemes, bounds, pods missing, whole numbers, helpers, another edition: on each, every union of pods."""
    other = next(one for one in ROLE_SCHEMES if one != adversary.scheme.scheme.name)
    pods = pods_of([3, 3])
    whole = {"scheme": "role-keys", "reveals_gram": False, "total_limit": 1000, "epochs": 1}
    contracts = [
        adversary.contract,
        adversary.approved("another study", pods),
        adversary.approved("another scheme", pods, scheme=other, reveals_gram=other == "role-sums"),
        adversary.approved("the first pod", pods[:1]),
        adversary.approved("one row each", pods, bounds=Bounds(1.0, 1.0, 100, 1)),
        adversary.approved("whole numbers", pods, **whole),
    ]
    for party in adversary.parties[:3]:
        X, Y = party.rows
        party.change_rows(X / 2, Y / 2)
    contracts.append(adversary.approved("a new edition", pods))
    for contract in contracts:
        for owners in unions([pod for pod in pods if adversary.called(pod[0])[0] in contract.roster]):
            played(adversary, owners, contract=contract)


@pytest.mark.parametrize(("scheme", "colluders"), [("role-keys", [1]), ("role-sums", [])])
def test_several_contracts_on_the_same_rows_show_totals_of_pods(scheme: str, colluders: list[int]):
    with Stage(common_sizes=COMMON_SIZES) as stage:
        adversary = divided(stage, scheme, [3, 3], 1, colluders=colluders)
        with_several_contracts(adversary)
        assert adversary.leak() is None
        # Two pods: rows of the study, one row each, whole numbers; and the first pod's rows of the new edition.
        assert ranks(adversary) == {ENTRIES * 5 + 2}


@BOTH
def test_rows_of_another_edition_under_the_old_contract_are_found_out(scheme: str):
    """A device that brings its present table puts other rows into the same study: two totals that may not be had."""
    for party_type in (Party, ReadsItsTableAnew):
        with Stage() as stage:
            adversary = divided(stage, scheme, [3], 1, party_type=party_type)
            played(adversary, range(3))
            X, Y = adversary.parties[2].rows
            adversary.parties[2].change_rows(X / 2, Y / 2)
            played(adversary, range(3))
            leak = adversary.leak()
        assert (leak is None) == (party_type is Party)


# -- several rosters

FOUR_ROSTERS = [[0, 1, 2, 3, 4], [1, 2, 5, 6], [3, 4, 7, 8], [5, 6, 7, 8]]


def over_four_rosters(scheme: str, party_type: type[Party]) -> Leak | None:
    """{v, U, W}, {U, X}, {W, Y}, {X, Y}: each is harmless by itself, and L1 - L2 - L3 + L4 = v."""
    with Stage(common_sizes=COMMON_SIZES) as stage:
        adversary = world(stage, scheme, [2] * 9, 1, z=1, d=1, pods=FOUR_ROSTERS[:1], party_type=party_type)
        contracts = [adversary.contract]
        contracts += [adversary.approved(f"roster {i}", [roster]) for i, roster in enumerate(FOUR_ROSTERS[1:])]
        for contract, roster in zip(contracts, FOUR_ROSTERS, strict=True):
            played(adversary, roster, contract=contract)
        return adversary.leak()


@BOTH
def test_four_rosters_do_not_give_one_away(scheme: str):
    assert over_four_rosters(scheme, Party) is None


@BOTH
def test_devices_that_forget_their_pod_are_found_out(scheme: str):
    leak = over_four_rosters(scheme, ForgetsItsPod)
    assert leak is not None and leak.devices == ("device-0",)


def with_pods_of_their_own(scheme: str, says_pods: bool) -> Leak | None:
    """One study, but the operators of device-2 and device-5 were given other pods with it."""
    with Stage() as stage:
        adversary = world(stage, scheme, [2] * 6, 1, z=1, d=1, pods=[range(6)])
        fine, coarse = (
            adversary.draw_up("one study", pods, says_pods=says_pods) for pods in ([range(3), range(3, 6)], [range(6)])
        )
        adversary.contracts += [coarse, fine]
        for i, party in enumerate(adversary.honest):
            party.pod = None
            party.approve(coarse if i in (2, 5) else fine)
        for contract, owners in itertools.product((coarse, fine), (range(6), range(3))):
            played(adversary, owners, contract=contract)
        return adversary.leak()


@BOTH
def test_a_contract_s_digest_is_over_its_pods(scheme: str):
    """Who was given other pods has another recipe, and cannot be in the same run."""
    assert with_pods_of_their_own(scheme, says_pods=True) is None
    assert with_pods_of_their_own(scheme, says_pods=False).devices == ("device-0", "device-1", "device-2")


@BOTH
def test_a_device_among_invented_ones_says_nothing(scheme: str):
    for party_type in (Party, TakesAnybody):
        with Stage() as stage:
            adversary = divided(stage, scheme, [3], 1, party_type=party_type)
            cast = [adversary.puppet(0), adversary.puppet(1), adversary.parties[2]]
            played(adversary, range(3), cast)
            leak = adversary.leak()
        assert (leak is None) == (party_type is Party)


# -- noise, and what is counted


@BOTH
def test_noise_is_the_same_in_every_run(scheme: str):
    for party_type in (Party, DrawsNoiseAnew):
        with Stage() as stage:
            adversary = divided(stage, scheme, [3, 3], 1, party_type=party_type, noise=RowNoise(1.0, 2, 1.0))
            for owners in (range(6), range(3), range(6)):
                played(adversary, owners)
            leak = adversary.leak()
        assert (leak is None) == (party_type is Party)


def test_answers_are_counted_by_the_harness_too():
    for party_type, most in ((Party, 1), (CountsWithinARun, 2)):
        with Stage() as stage:
            adversary = divided(stage, "role-keys", [3], 1, party_type=party_type, epochs=2)
            for e in ([[1]], [[2]]):
                for party in adversary.parties:
                    party.new_run()
                adversary.started().ask_all(1, e)
            assert {len(asked) for party in adversary.parties for asked in party.asked.values()} == {most}


def test_a_device_that_was_set_back_still_knows_what_it_answered():
    """Its driver keeps that beside the state: what an old state lacks is not forgotten."""
    with Stage() as stage:
        adversary = divided(stage, "role-keys", [3], 1, epochs=2)
        face = adversary.started()
        for party in adversary.parties:
            party.remember()
        face.ask_all(1, [[1]])
        for party in adversary.parties:
            party.roll_back()
        face.ask_all(2, [[2]])
        refusals = {party.refusals[-1] for party in adversary.parties}
    assert refusals == {"at most 2 different updates were agreed on, got one more"}


# -- refusals, and terms that cannot protect


def test_all_refusals_read_alike():
    """Other parameters, another server, no contract at all: the server is told the same, whatever rows there are."""
    with Stage() as stage:
        adversary = divided(stage, "role-keys", [3], 1)
        for changes in ({"epochs": 7}, {"recipe": b""}, {"bounds": Bounds(1.0, 1.0, 100, 1)}, {"colluders": 0}):
            for party in adversary.parties:
                party.new_run()
            face = adversary.face(**changes)
            face.invite()
            face.deliver_all()
        wire = [message for message in map(decoded, stage.wire) if message.kind is Kind.REFUSAL]
    assert len(wire) == 4 * 3
    assert {message.body for message in wire} == {DOES_NOT_TAKE_PART.encode()}


def terms_with(pods: Sequence[Sequence[int]], **changes: Any) -> Terms:
    with Stage() as stage:
        adversary = divided(stage, "role-keys", [6], 1)
        names = [frozenset(adversary.called(*pod)) for pod in pods]
        parameters = adversary.draw_up("a study", **changes).parameters
        return adversary.contract.terms(pods=tuple(names), parameters=parameters)


def test_pods_that_cannot_protect_are_refused():
    assert len(terms_with([[0, 1, 2], [3, 4, 5]]).pods) == 2
    with pytest.raises(InvalidInput, match=r"^every pod must have at least 3 owners, got one of 2$"):
        terms_with([[0, 1, 2, 3], [4, 5]])
    with pytest.raises(InvalidInput, match=r"^every owner must be in one pod and on the roster"):
        terms_with([[0, 1, 2], [2, 3, 4]])
    with pytest.raises(InvalidInput, match=r"^every pod must have at least 4 owners, got one of 3$"):
        terms_with([[0, 1, 2], [3, 4, 5]], colluders=2)


def test_an_owner_who_is_not_on_the_roster_is_refused():
    terms = terms_with([range(6)])
    with pytest.raises(InvalidInput, match=r"^every owner must be in one pod and on the roster"):
        Terms(terms.parameters, terms.server_public, terms.roster, (*terms.pods, frozenset({"nobody", "x", "y"})))


def test_every_pod_has_the_owners_that_noise_is_made_for():
    """Two lists may differ by one pod, whose noise is then all that hides its rows."""
    noise = RowNoise(1.0, 4, 1.0)
    assert terms_with([range(6)], noise=noise).parameters.least_owners == 5
    with pytest.raises(InvalidInput, match=r"^every pod must have at least 5 owners, got one of 3$"):
        terms_with([[0, 1, 2], [3, 4, 5]], noise=noise)


def test_noise_of_a_contract_has_a_seed_of_its_own():
    with Stage() as stage:
        adversary = divided(stage, "role-keys", [6], 1, noise=RowNoise(1.0, 2, 1.0))
        party = adversary.parties[0]
        rows = Rows(np.ones((1, 1)), np.ones((1, 1)))
        plan = RunPlan(adversary.scheme.scheme, adversary.parameters, (), terms=adversary.contract.terms())
        with pytest.raises(InvalidInput, match=r"^noise_seed must be given with terms"):
            Device(plan, party.name, rows, identity=party.identity)
