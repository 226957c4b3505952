"""Lies in invitations: parameters that probe, a feature that is another for each, more of the total than agreed.

Each against the machines and against machines without the rule that stops it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from adversary import ALL_SCHEMES, Adversary, Face, Party, world
from contracts import Contract
from mutants import AnswersAnyNumber, JudgesByRows, TakesAnyParameters
from role_lies import ROLE_SCHEMES, RoleFace
from stage import Stage

from codedfl.code.roles import Cell
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Member
from codedfl.protocol.events import Outgoing, Turn
from codedfl.protocol.messages import Kind
from codedfl.protocol.schemes.role_keys.key_rounds import RoleKeyRounds

WITH_PRODUCTS = ("coded-padded", "coded-keys", "role-keys")


def of_scheme(stage: Stage, scheme: str, **options: Any) -> Adversary:
    """Four devices in one pod."""
    z = int(scheme in ROLE_SCHEMES)
    return world(stage, scheme, alpha=1 if z else 2, z=z, **options)


# -- accept or refuse says nothing of the rows


def joins(adversary: Adversary, victim: Party, bounds: Bounds, run: Face | None) -> bool:
    """Whether the victim joins when told these bounds, in a run of their own or in one it was invited to before."""
    if run is None:
        victim.new_run()
    face = adversary.face(like=run, bounds=bounds)
    face.invite()
    face.deliver([letter.receiver for letter in face.tray].index(victim.name))
    return victim.name in face.server.joined


def bisected_rows(adversary: Adversary, victim: Party, run: Face | None) -> int:
    """The least bound on a device's rows at which it joins."""
    low, high = 0, 1024
    while high - low > 1:
        middle = (low + high) // 2
        joined = joins(adversary, victim, Bounds(1.0, 1.0, 1024, middle), run)
        low, high = (low, middle) if joined else (middle, high)
    return high


def bisected_largest(adversary: Adversary, victim: Party, run: Face | None) -> float:
    """The least bound on features at which it joins, to 14 bits."""
    low, high = 0.0, 1.0
    for _ in range(14):
        middle = (low + high) / 2
        joined = joins(adversary, victim, Bounds(middle, 1.0, 1024, 512), run)
        low, high = (low, middle) if joined else (middle, high)
    return high


def probed(party_type: type[Party], n_rows: int, in_one_run: bool = False) -> tuple[int, float, float]:
    """What bisecting finds of a victim with so many rows: their number, the largest value; and its true largest."""
    with Stage() as stage:
        adversary = world(stage, sizes=[n_rows, 2, 2], party_type=party_type)
        victim = adversary.parties[0]
        run = adversary.face() if in_one_run else None
        found = bisected_rows(adversary, victim, run), bisected_largest(adversary, victim, run)
        return *found, float(np.abs(victim.rows[0]).max())


@pytest.mark.parametrize("in_one_run", [False, True])
def test_invitations_do_not_tell_a_device_s_rows(in_one_run: bool):
    few, many = probed(Party, 3, in_one_run), probed(Party, 300, in_one_run)
    assert few[:2] == many[:2]


@pytest.mark.parametrize("n_rows", [3, 300])
def test_a_device_that_judges_by_its_rows_is_found_out(n_rows: int):
    rows, largest, true = probed(JudgesByRows, n_rows)
    assert rows == n_rows
    assert 0 <= largest - true < 2**-13


# -- a feature is the same for everybody


class TwoRanges:
    """Everybody but the victim was told a range in which all rows look alike: their sums are known beforehand."""

    def __init__(self, stage: Stage, scheme: str, party_type: type[Party] = Party) -> None:
        self.adversary = adversary = of_scheme(stage, scheme, party_type=party_type)
        *others, self.victim = adversary.parties
        self.agreed, self.far_away = (adversary.draw_up(label) for label in ("the agreed range", "a range far away"))
        for party in others:
            party.change_rows(np.ones((3, 2)), np.ones((3, 1)))
            party.approve(self.far_away)
        self.victim.approve(self.agreed)
        for party in adversary.parties:
            party.new_run()

    def alone_in_the_total(self) -> tuple[str, ...]:
        """Who is left when what is the same for all that look alike is taken off."""
        public = [party.actor for party in self.adversary.parties if party is not self.victim]
        return self.adversary.knowledge(public=public).fewest_devices()

    def invited(self, contract: Contract) -> list[str]:
        approved = [party for party in self.adversary.parties if contract.digest in party.contracts]
        return [party.name for party in approved]


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_a_recipe_of_its_own_makes_nobody_s_total(scheme: str):
    with Stage() as stage:
        ranges = TwoRanges(stage, scheme)
        adversary = ranges.adversary
        for contract in (ranges.agreed, ranges.far_away):
            adversary.whole_run(contract=contract)
            adversary.whole_run(contract=contract, recipe=b"")
            adversary.whole_run([ranges.victim] + [adversary.puppet(i) for i in range(3)], contract=contract)
        assert ranges.alone_in_the_total() == ()


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_devices_that_take_any_recipe_are_found_out(scheme: str):
    with Stage() as stage:
        ranges = TwoRanges(stage, scheme, TakesAnyParameters)
        ranges.adversary.whole_run(contract=ranges.agreed)
        assert ranges.alone_in_the_total() == ("device-3",)


def two_invitations_to_one_run(ranges: TwoRanges) -> None:
    """Each device is invited with its own recipe, and an agreement is forged of all the joins."""
    adversary = ranges.adversary
    first = adversary.face(contract=ranges.agreed)
    faces = {ranges.agreed: first, ranges.far_away: adversary.face(like=first, contract=ranges.far_away)}
    for contract, face in faces.items():
        face.invite()
        face.tray = [letter for letter in face.tray if letter.receiver in ranges.invited(contract)]
        face.deliver_all()
    members = [member for face in faces.values() for member in face.server.joining.members]
    assert {member.name for member in members} == set(adversary.scenario.names)
    for face in faces.values():
        face.server.joining._joined = {member.name: member for member in members}
        face.freeze()
        face.deliver_all(Kind.UPDATE)


@pytest.mark.parametrize("scheme", ["coded-keys", "role-keys"])
def test_a_run_has_one_invitation(scheme: str):
    with Stage() as stage:
        ranges = TwoRanges(stage, scheme)
        two_invitations_to_one_run(ranges)
        assert ranges.alone_in_the_total() == ()
        assert all(party.refusals for party in ranges.adversary.parties)


def test_joins_that_are_not_for_one_invitation_are_found_out(monkeypatch: pytest.MonkeyPatch):
    """Without the invitation in what a device signs, the victim is in a run whose other members compute otherwise."""
    monkeypatch.setattr(Member, "check", lambda _member, _invitation: None)
    with Stage() as stage:
        ranges = TwoRanges(stage, "coded-keys")
        two_invitations_to_one_run(ranges)
        assert ranges.victim.accepted


# -- how much of the total is read


def directions_read(scheme: str, d: int, epochs: int, questions: list[Any], party_type: type[Party] = Party) -> int:
    """How many independent numbers of the total of X'X come out when all are asked these questions."""
    with Stage() as stage:
        adversary = of_scheme(stage, scheme, d=d, epochs=epochs, party_type=party_type)
        face = adversary.started()
        for epoch, e in enumerate(questions, start=1):
            face.ask_all(epoch, e)
        assert adversary.leak() is None  # whatever it is, it is of the total
        return numbers_of_gram(adversary)


def numbers_of_gram(adversary: Adversary) -> int:
    knowledge = adversary.knowledge()
    return max((knowledge.rank_within(prime, "gram") for prime in knowledge.primes), default=0)


@pytest.mark.parametrize("scheme", WITH_PRODUCTS)
@pytest.mark.parametrize("first", [[None], [], [np.zeros((4, 1))]], ids=["constant", "at once", "zero"])
def test_no_more_directions_are_read_than_were_agreed_on(scheme: str, first: list[Any]):
    """Three updates are agreed on, the constant and two directions: 4 + 3 of the ten numbers of X'X."""
    questions = [*first, *np.eye(4)[:, :, None]]
    assert directions_read(scheme, 4, 3, questions) <= 7
    assert directions_read(scheme, 4, 3, questions, AnswersAnyNumber) == 10


@pytest.mark.parametrize(("n_devices", "alpha", "quorum"), [(4, 3, 2), (2, 2, 1), (4, 1, 4), (4, 2, 3)])
def test_an_agreement_says_how_many_directions_quorums_of_a_code_show(n_devices: int, alpha: int, quorum: int):
    """Three updates are agreed on, two directions of four; each quorum of devices is asked for two of its own."""
    with Stage() as stage:
        adversary = world(stage, "coded-keys", [2] * n_devices, alpha, d=4, epochs=3)
        face = adversary.started()
        names, units = list(face.agreement.names), list(np.eye(4)[:, :, None])
        for part, start in enumerate(range(0, n_devices - quorum + 1, quorum)):
            for epoch in (1, 2):
                face.ask(epoch, dict.fromkeys(names[start : start + quorum], units[(2 * part + epoch - 1) % 4]))
        assert adversary.leak() is None  # whatever it is, it is of the total
        directions = face.agreement.directions
        assert numbers_of_gram(adversary) == sum(range(4, 4 - min(4, directions), -1))


@pytest.mark.parametrize(("z", "n_devices"), [(1, 4), (2, 5)])
def test_terms_say_how_many_directions_of_x_x_roles_show(z: int, n_devices: int):
    """Colluders take a role each and leave one to all others, whose every answer then is a direction by itself.

    With one direction agreed on, n - z of them are shown, however roles are dealt in how many runs.
    """
    d = 5
    with Stage() as stage:
        options = {"d": d, "epochs": 2, "colluders": range(z)}
        adversary = world(stage, "role-keys", [2] * n_devices, 1, z=z, **options)
        terms = adversary.contract.terms()
        assert terms.directions == n_devices - z
        for run in range(2):
            for party in adversary.parties:
                party.new_run()
            face = adversary.face()
            assert isinstance(face, RoleFace)
            face.invite()
            face.deliver_all(Kind.AGREEMENT, Kind.ROLE_KEY_WANTED)
            deal_to_colluders(face, z)
            face.deliver_all(Kind.UPDATE)
            for i, party in enumerate(adversary.parties[z:]):
                face.ask(1, {party.name: np.eye(d)[:, [(i + run) % d]]})
        assert adversary.leak() is None
        assert numbers_of_gram(adversary) == sum(range(d, d - terms.directions, -1))


def deal_to_colluders(face: RoleFace, z: int) -> None:
    """A role for each of the first z devices, the last one for all others; told instead of what the machine dealt."""
    cells = {name: Cell(min(place, z), 0) for place, name in enumerate(face.cast)}
    agreement = type(face.agreement).freeze(face.server.invitation, face.server.joining.members, cells=cells)
    face.server._session.agreement = agreement
    face.adversary.agreements[agreement.hash] = agreement
    face.tray = []
    told = face.server._session.signed(Kind.AGREEMENT, agreement.encoded)
    face._lay_out(Turn([Outgoing(agreement.names, told)]))
    face.server.sharing.keys = RoleKeyRounds(face.server._session)
    face._let_server(lambda: face.server._turn(face.server.sharing.open))


@pytest.mark.parametrize("scheme", ALL_SCHEMES)
def test_x_x_itself_is_shown_where_the_contract_says_so(scheme: str):
    shown = 3 if scheme in ("one-shot", "role-sums") else 0
    assert directions_read(scheme, 2, 1, [None]) == shown
