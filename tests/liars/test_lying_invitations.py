"""Lies in invitations: parameters that probe, a feature that is another for each, more of the total than agreed.

Each against the machines and against machines without the rule that stops it.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from adversary import SCHEMES, Adversary, Attacked, Face, Party, world
from mutants import AnswersAnyNumber, JudgesByRows, TakesAnyRecipe
from role_lies import ROLE_SCHEMES
from stage import Stage

from codedfl.exact.fixed_point import Bounds
from codedfl.protocol import Policy
from codedfl.protocol.agreement import Member
from codedfl.protocol.messages import Kind

WITH_PRODUCTS = ("coded-padded", "coded-keys")

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

AGREED, FAR_AWAY = (hashlib.sha256(text).digest() for text in (b"the agreed range", b"a range far away"))


def with_a_recipe_of_its_own(stage: Stage, scheme: str, party_type: type[Party] = Party) -> Adversary:
    """Everybody but the victim was told a range in which all rows look alike: their sums are known beforehand."""
    adversary = world(stage, scheme, party_type=party_type)
    *others, victim = adversary.parties
    victim.options["recipe"] = AGREED
    for party in others:
        party.options["recipe"] = FAR_AWAY
        party.change_rows(np.ones((3, 2)), np.ones((3, 1)))
    for party in adversary.parties:
        party.new_run()
    return adversary


def alone_in_the_total(adversary: Adversary) -> tuple[str, ...]:
    """Who is left when what is the same for all that look alike is taken off."""
    public = [party.owner for party in adversary.parties[:-1]]
    return adversary.knowledge(public=public).fewest_devices()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("recipe", [AGREED, FAR_AWAY, b""])
def test_a_recipe_of_its_own_makes_nobody_s_total(scheme: str, recipe: bytes):
    with Stage() as stage:
        adversary = with_a_recipe_of_its_own(stage, scheme)
        adversary.whole_run(recipe=recipe)
        assert alone_in_the_total(adversary) == ()
        adversary.whole_run([adversary.parties[-1]] + [adversary.puppet(i) for i in range(3)], recipe=AGREED)
        assert alone_in_the_total(adversary) == ()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_devices_that_take_any_recipe_are_found_out(scheme: str):
    with Stage() as stage:
        adversary = with_a_recipe_of_its_own(stage, scheme, TakesAnyRecipe)
        adversary.whole_run(recipe=AGREED)
        assert alone_in_the_total(adversary) == ("device-3",)


def two_invitations_to_one_run(adversary: Adversary) -> None:
    """Each device is invited with its own recipe, and an agreement is forged of all the joins."""
    *others, victim = adversary.parties
    faces = {AGREED: adversary.face(recipe=AGREED)}
    faces[FAR_AWAY] = adversary.face(like=faces[AGREED], recipe=FAR_AWAY)
    for recipe, face in faces.items():
        face.invite()
        invited = [victim.name] if recipe == AGREED else [party.name for party in others]
        face.tray = [letter for letter in face.tray if letter.receiver in invited]
        face.deliver_all()
    members = [member for face in faces.values() for member in face.server._joined.values()]
    assert {member.name for member in members} == set(adversary.scenario.names)
    for face in faces.values():
        face.server._joined = {member.name: member for member in members}
        face.freeze()
        face.deliver_all(Kind.UPDATE)


def test_a_run_has_one_invitation():
    with Stage() as stage:
        adversary = with_a_recipe_of_its_own(stage, "coded-keys")
        two_invitations_to_one_run(adversary)
        assert alone_in_the_total(adversary) == ()
        assert all(party.refusals for party in adversary.parties)


def test_joins_that_are_not_for_one_invitation_are_found_out(monkeypatch: pytest.MonkeyPatch):
    """Without the invitation in what a device signs, the victim is in a run whose other members compute otherwise."""
    monkeypatch.setattr(Member, "check", lambda _member, _invitation: None)
    with Stage() as stage:
        adversary = with_a_recipe_of_its_own(stage, "coded-keys")
        two_invitations_to_one_run(adversary)
        assert adversary.parties[-1].accepted


# -- how much of the total is read


def directions_read(
    scheme: str, d: int, c: int, epochs: int, questions: list[Any], party_type: type[Party] = Party, **policy: Any
) -> int:
    """How many independent numbers of the total of X'X come out when all are asked these questions."""
    with Stage() as stage:
        options = {"policy": Policy(**policy)}
        adversary = world(stage, scheme, d=d, c=c, party_type=party_type, device_options=options)
        face = adversary.started(epochs=epochs)
        if face.agreement is not None:
            for epoch, e in enumerate(questions, start=1):
                face.ask_all(epoch, e)
        assert adversary.leak() is None  # whatever it is, it is of the total
        knowledge = adversary.knowledge()
        return max((knowledge.rank_within(prime, "gram") for prime in knowledge.primes), default=0)


@pytest.mark.parametrize("scheme", WITH_PRODUCTS)
def test_empty_classes_do_not_read_the_whole_gram_matrix(scheme: str):
    """Three features, one class with rows and two empty ones, and e the identity: all of X'X in one product."""
    questions = [None, np.eye(3)]
    assert directions_read(scheme, 3, 3, 2, questions) == 0
    assert directions_read(scheme, 3, 3, 2, questions, allow_gram=True) == 6


@pytest.mark.parametrize("scheme", WITH_PRODUCTS)
@pytest.mark.parametrize("first", [[None], [], [np.zeros((4, 1))]], ids=["constant", "at once", "zero"])
def test_no_more_directions_are_read_than_were_agreed_on(scheme: str, first: list[Any]):
    """Three updates, the constant and two directions, are within the policy: 4 + 3 of the ten numbers of X'X."""
    questions = [*first, *np.eye(4)[:, :, None]]
    assert directions_read(scheme, 4, 1, 3, questions) <= 7
    assert directions_read(scheme, 4, 1, 3, questions, AnswersAnyNumber) == 10


def read_in_parts(
    scheme: str | Attacked, n_devices: int, alpha: int, quorum: int, z: int = 0, **policy: Any
) -> tuple[int, list[str]]:
    """Three updates are agreed on, two directions of four; each quorum of devices is asked for two of its own."""
    with Stage() as stage:
        options = {"policy": Policy(colluders=z, **policy)}
        adversary = world(stage, scheme, [2] * n_devices, alpha, z=z, d=4, device_options=options)
        face = adversary.started(epochs=3)
        names = list(face.agreement.names)
        if face.agreement.roles:  # one of each role after the other
            names.sort(key=lambda name: face.of_role(face.agreement.roles[face.agreement.position(name)]).index(name))
        units = list(np.eye(4)[:, :, None])
        for part, start in enumerate(range(0, n_devices - quorum + 1, quorum)):
            for epoch in (1, 2):
                e = units[(2 * part + epoch - 1) % 4]
                face.ask(epoch, dict.fromkeys(names[start : start + quorum], e))
        assert adversary.leak() is None  # whatever it is, it is of the total
        knowledge = adversary.knowledge()
        found = max((knowledge.rank_within(prime, "gram") for prime in knowledge.primes), default=0)
        return found, adversary.parties[0].refusals


PARTS = pytest.mark.parametrize(
    ("scheme", "n_devices", "alpha", "quorum", "z"),
    [
        ("coded-keys", 4, 3, 2, 0),
        ("coded-padded", 4, 3, 2, 0),
        ("coded-keys", 2, 2, 1, 0),
        (ROLE_SCHEMES["role-keys"], 4, 1, 2, 1),
        (ROLE_SCHEMES["role-keys"], 6, 1, 3, 2),
    ],
)


@PARTS
def test_a_direction_for_each_quorum_counts(scheme: str | Attacked, n_devices: int, alpha: int, quorum: int, z: int):
    found, refusals = read_in_parts(scheme, n_devices, alpha, quorum, z)
    assert found == 0
    shown = 2 * (n_devices // quorum)
    assert refusals[0] == (
        "the agreement breaks a rule: directions of X'X that the server could learn must be at most 3 by this device's"
        f" policy, got {shown} of 4 when it asks different devices for different ones: a smaller alpha, fewer holders,"
        " epochs or outputs, or operators who allow the whole matrix (allow-gram)"
    )


@PARTS
def test_counting_one_quorum_reads_the_whole_gram_matrix(
    monkeypatch: pytest.MonkeyPatch, scheme: str | Attacked, n_devices: int, alpha: int, quorum: int, z: int
):
    monkeypatch.setattr(Policy, "objection_to_set", lambda _policy, _agreement: "")
    assert read_in_parts(scheme, n_devices, alpha, quorum, z)[0] == 10


@pytest.mark.parametrize(("n_devices", "alpha", "quorum"), [(4, 1, 4), (4, 2, 3)])
def test_where_a_quorum_is_most_of_all_there_is_one(n_devices: int, alpha: int, quorum: int):
    assert read_in_parts("coded-keys", n_devices, alpha, quorum)[0] == 7


@pytest.mark.parametrize("scheme", SCHEMES)
def test_x_x_itself_is_the_operator_s_to_give(scheme: str):
    """One-shot shows the total of X'X in its first answer; no operator's device does so unasked."""
    assert directions_read(scheme, 2, 1, 1, [None]) == 0
    assert directions_read(scheme, 2, 1, 1, [None], allow_gram=True) == (3 if scheme == "one-shot" else 0)


# -- who takes part


@pytest.mark.parametrize("policy", [{}, {"policy": Policy(least_joiners=2)}], ids=["default", "two are enough"])
def test_by_default_a_victim_and_a_colluder_are_not_enough(policy: dict[str, Policy]):
    """The least number of participants is the roster's size unless the operator says otherwise."""
    with Stage() as stage:
        adversary = world(stage, alpha=1, colluders=[0], device_options={"policy": Policy()} | policy)
        adversary.whole_run(adversary.parties[:2], epochs=2)
        assert adversary.knowledge().fewest_devices() == (("device-1",) if policy else ())
