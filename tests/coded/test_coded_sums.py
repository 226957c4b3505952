"""Sums and products by the coded schemes equal those of plain integers, whoever is late, silent, restarted or lying."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from parties import ASK, FORMS, LENGTH, SERVER, C, D, Unreliable, World

from codedfl.engines.in_process import InProcess
from codedfl.engines.virtual_time import VirtualTime
from codedfl.errors import NotEnoughDevices, WrongAnswers
from codedfl.sum import wire as sum_wire
from codedfl.sum.keys import digest
from codedfl_lab.coded import wire
from codedfl_lab.coded.device import bound_to

E = np.array([[3, -4], [0, 1], [-70, 0], [99, 20]])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "shape",
    [
        {"count": 2, "alpha": 1},
        {"count": 2, "alpha": 2},
        {"count": 5, "alpha": 1},
        {"count": 5, "alpha": 3},
        {"count": 5, "alpha": 5},
        {"count": 5, "alpha": 3, "primes": 3},
        {"count": 5, "alpha": 3, "masks": False},
        {"count": 7, "alpha": 2, "groups": 2},
        {"count": 9, "alpha": 3, "groups": 3},
    ],
    ids=str,
)
def test_sums_and_products_are_those_of_plain_integers(form: str, shape: dict[str, Any]):
    world = World(FORMS[form], **shape)
    session = world.session()
    assert session.sum(ASK) == world.vector
    for e in (E, -E, E):
        assert np.array_equal(session.product(ASK, e), world.product(e))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_alpha_less_one_may_be_silent_and_any_request_lost_doubled_or_late(form: str, seed: int):
    rng = random.Random(seed)
    world = World(FORMS[form], 6, 3, seed=seed)
    engine = Unreliable(world, rng)
    session = world.session(engine)
    assert session.sum(ASK) == world.vector
    for _ in range(4):
        engine.silent = rng.sample(world.study.names, 2)
        assert np.array_equal(session.product(ASK, E), world.product(E))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(6))
def test_devices_may_be_killed_before_any_reply_and_lose_all_but_their_memory(form: str, seed: int):
    rng = random.Random(seed)
    world = World(FORMS[form], 5, 3, seed=seed)
    replies: dict[tuple[str, bytes], bytes] = {}

    def killed(name: str) -> None:
        if rng.random() < 0.15:
            world.devices[name] = world.started(name)

    engine = Unreliable(world, rng, killed)
    session = world.session(engine)
    assert session.sum(ASK) == world.vector
    for _ in range(3):
        assert np.array_equal(session.product(ASK, E), world.product(E))
    assert not replies


@pytest.mark.parametrize("form", FORMS)
def test_a_reply_is_a_function_of_its_request(form: str):
    """Every request of a run is asked again of devices that have just started: the same bytes, or what is missing."""
    world = World(FORMS[form], 5, 3)
    seen: list[tuple[str, bytes, bytes]] = []

    def noted(name: str):
        def answer(request: bytes) -> bytes:
            reply = world.devices[name].reply(request)
            seen.append((name, request, reply))
            return reply

        return answer

    session = world.session(InProcess({name: noted(name) for name in world.study.names}))
    session.sum(ASK)
    session.product(ASK, E)
    world.devices = {name: world.started(name) for name in world.study.names}
    again = [wire.decode(world.devices[name].reply(request), sum_wire.Reply, "") for name, request, _ in seen]
    kinds = [wire.decode(reply, sum_wire.Reply, "").kind for _, _, reply in seen]
    assert kinds.count("ok") > 15
    assert {one.kind for one in again} <= {"ok", "missing"}
    for (_, _, reply), one in zip(seen, again, strict=True):
        assert one.kind == "missing" or wire.encode(one) == reply or wire.decode(reply, sum_wire.Reply, "").kind != "ok"


@pytest.mark.parametrize("form", FORMS)
def test_in_virtual_time_a_thousand_times_slower_device_costs_nothing(form: str):
    world = World(FORMS[form], 6, 2)
    slow = world.study.names[3]

    def delay(name: str, request: bytes, reply: bytes) -> float:
        asked = wire.decode(request, sum_wire.Request, "").kind
        return 1000.0 if name == slow and asked == "answer" else 1.0

    engine = VirtualTime({name: world.answer(name) for name in world.study.names}, delay)
    session = world.session(engine)
    assert session.sum(ASK) == world.vector
    assert np.array_equal(session.product(ASK, E), world.product(E))
    assert engine.now() < 20


def test_an_answer_is_made_of_what_was_added_up_before():
    """C and Cbar e of each device (IV-C), by plain integers: of padded numbers of others, and of no row."""
    world = World(FORMS["coded-padded"], 5, 3, masks=False)
    server, study = Reads(world), world.study
    padded = server.padded()
    for i in range(5):
        for p, (prime, weights) in enumerate(zip(study.ring.primes, study.code.coefficients(i), strict=True)):
            terms = zip(weights, study.code.row_support(i), strict=True)
            coded = np.sum([weight * padded[owner][p] for weight, owner in terms], axis=0) % prime
            square = np.zeros((D, D), dtype=object)
            square[np.triu_indices(D)] = square.T[np.triu_indices(D)] = coded[LENGTH:]
            for e, expected in ((None, coded[:LENGTH]), (E, (square @ E).reshape(-1) % prime)):
                assert (server.asks(i, e)[p].astype(np.int64) % prime).tolist() == expected.tolist()


# -- liars among the devices


def lying(world: World, names: list[str]):
    """These add one to the first number that they answer with."""
    ring = world.study.ring

    def answer(name: str):
        def reply(request: bytes) -> bytes:
            device = world.devices[name]
            real = type(device)._answered_epoch

            def wrong(self, keys, common, own):
                numbers = wire.decode(real(self, keys, common, own), wire.CodedAnswered, "").numbers
                count = len(numbers) // ring.bytes_per_number
                planes = ring.unpack(numbers, count)
                planes[:, 0] = ring.add(planes, ring.from_integers(np.eye(1, count)[0]))[:, 0]
                return wire.encode(wire.CodedAnswered(ring.pack(planes)))

            if name in names:
                device._answered_epoch = wrong.__get__(device)  # type: ignore[method-assign]
            return device.reply(request)

        return reply

    return InProcess({name: answer(name) for name in world.study.names})


@pytest.mark.parametrize("form", FORMS)
def test_liars_are_found_out_by_spare_answers(form: str):
    world = World(FORMS[form], 7, 5)
    session = world.session(lying(world, ["device-2", "device-6"]), spare=4)
    assert session.sum(ASK) == world.vector
    assert session.excluded == {"device-2", "device-6"}
    assert np.array_equal(session.product(ASK, E), world.product(E))


@pytest.mark.parametrize("form", FORMS)
def test_one_liar_without_enough_others_ends_the_run(form: str):
    world = World(FORMS[form], 4, 2)
    session = world.session(lying(world, ["device-1"]), spare=1)
    with pytest.raises(WrongAnswers, match="answers must lie on the code"):
        session.sum(ASK)


@pytest.mark.parametrize("form", FORMS)
def test_too_few_answers_are_said_in_one_line(form: str):
    world = World(FORMS[form], 5, 2)
    engine = Unreliable(world, random.Random(1))
    session = world.session(engine)
    session.sum(ASK)
    engine.silent = ("device-0", "device-4")
    with pytest.raises(NotEnoughDevices, match=r"an epoch needs 4 answers \(D - alpha \+ 1 of every group\), got 3"):
        session.product(ASK, E)


def test_a_silent_owner_is_named():
    world = World(FORMS["coded-keys"], 3, 2)
    engine = Unreliable(world, random.Random(1))
    engine.silent = ("device-1",)
    with pytest.raises(NotEnoughDevices, match="all 3 devices must share before training, missing: device-1"):
        world.session(engine).sum(ASK)


# -- a lying server


class Reads:
    """A server that opens what devices reply, and asks what it likes."""

    def __init__(self, world: World) -> None:
        self.world, self.session = world, world.session()
        self.session.sum(ASK)
        self.listed = self.session.lists[ASK]

    def padded(self) -> list[list[np.ndarray]]:
        """Of every device its numbers and the pad that the server knows, modulo each prime, in plain integers."""
        study, ring, found = self.world.study, self.world.study.ring, []
        for place, (member, shares) in enumerate(zip(self.listed.members, self.listed.shares, strict=True)):
            triangle = self.world.matrices[place][np.triu_indices(D)]
            numbers = np.concatenate([self.world.vectors[place], triangle]).astype(object)
            members = digest(wire.encode(self.listed.members))
            bound = bound_to(study.digest, ASK, members, member.name, shares.nonce)
            pad = ring.zeros(study.sizes.numbers)
            study.form.known(ring, pad, self.session.known.own.with_public(member.public), b"", bound)
            found.append([(numbers + plane.astype(np.int64)) % p for plane, p in zip(pad, ring.primes, strict=True)])
        return found

    def asks(self, place: int, e: np.ndarray | None, listed: wire.List | None = None) -> Any:
        session, study = self.session, self.world.study
        listed = listed or self.listed
        ids: Any = session.known.ids
        digests: Any = [digest(wire.encode(one)) for one in (listed.members, listed)]
        fields: list[Any] = [*ids, ASK, *digests, b"" if e is None else e.astype("<i8").tobytes()]
        common = wire.CodedAnswerCommon(*fields)
        envelopes = {i: session.envelopes[ASK][i].get(place, b"") for i in study.senders(place) if i != place}
        return self.sent(place, "answer", common, wire.CodedAnswerOwn(listed, envelopes, 0))

    def sent(self, place: int, kind: str, common: sum_wire.Common, own: sum_wire.Wire) -> Any:
        session, study = self.session, self.world.study
        request = session.known.request(kind, common, own)
        reply = wire.decode(self.world.devices[study.names[place]].reply(request), sum_wire.Reply, "")
        if reply.kind != "ok":
            return reply.code
        plain = session.known.open(study.names[place], reply)
        if kind == "put":
            return ""
        count = D * C if common.e else LENGTH
        return study.ring.unpack(wire.decode(plain, wire.CodedAnswered, "").numbers, count)

    def decoded(self, answers: dict[int, np.ndarray]) -> np.ndarray:
        study, ring = self.world.study, self.world.study.ring
        total = ring.zeros(D * C)
        ring.add_scaled(total, study.code.decoding_vector(list(answers)).tolist(), list(answers.values()))
        return total


@pytest.mark.parametrize("form", FORMS)
def test_answers_to_different_e_do_not_cancel(form: str):
    """Without masks, the difference of answers to e and e' is a device's own; with them it is noise on the ring."""
    other = E.copy()
    other[0, 0] += 1
    for masks, learned in ((False, True), (True, False)):
        world = World(FORMS[form], 5, 3, masks=masks)
        server, ring = Reads(world), world.study.ring
        answers = {i: server.asks(i, E) for i in (0, 1, 2)}
        mixed = {**answers, 2: server.asks(2, other)}
        difference = ring.to_integers(ring.add(server.decoded(mixed), server.decoded(answers), sign=-1))
        weight = world.study.code.decoding_vector([0, 1, 2])[:, 2]
        coded = ring.from_integers(np.eye(1, D * C)[0] * 0)
        matrix = world.devices["device-2"]._coded
        (held,) = matrix.values()
        moved = ring.product(held.matrix, ring.from_integers(other - E)).reshape(len(ring.primes), -1)
        ring.add_scaled(coded, weight[:, None].tolist(), [moved])
        assert np.array_equal(difference, ring.to_integers(coded)) == learned


@pytest.mark.parametrize("form", FORMS)
def test_a_device_refuses_what_its_neighbours_have_not_shared(form: str):
    world = World(FORMS[form], 5, 3)
    server = Reads(world)
    shares = list(server.listed.shares)
    forged = wire.Shares(shares[1].name, shares[1].nonce, shares[1].body, bytes(32), shares[1].mask)
    assert server.asks(0, E, wire.List(server.listed.members, (shares[0], forged, *shares[2:]))) == "data"
    mine = wire.Shares(shares[0].name, bytes(16), *(getattr(shares[0], one) for one in ("body", "secret", "mask")))
    assert server.asks(0, E, wire.List(server.listed.members, (mine, *shares[1:]))) == "list"
    swapped = (server.listed.members[1], server.listed.members[0], *server.listed.members[2:])
    assert server.asks(0, E, wire.List(swapped, tuple(shares))) == "list"
    assert isinstance(server.asks(0, E), np.ndarray)


def test_a_device_refuses_members_that_have_not_signed():
    world = World(FORMS["coded-keys"], 4, 2)
    server = Reads(world)
    members = list(server.listed.members)
    members[1] = sum_wire.Enrolment(members[1].name, SERVER.public, members[1].not_after, members[1].signature)
    assert server.asks(0, E, wire.List(tuple(members), server.listed.shares)) == "list"


def test_data_that_were_exchanged_on_the_way_are_refused():
    world = World(FORMS["coded-padded"], 4, 2)
    server, session = Reads(world), None
    session = server.session
    digests: Any = [digest(wire.encode(one)) for one in (server.listed.members, server.listed)]
    ids: Any = session.known.ids
    fields: list[Any] = [*ids, ASK, *digests]
    common = wire.ListCommon(*fields)
    world.devices["device-0"] = world.started("device-0")
    envelope = session.envelopes[ASK][1][0]
    body = session.body(ASK, "device-1")
    assert server.sent(0, "put", common, wire.CodedPutOwn(server.listed, 1, envelope, body[:-1] + b"x")) == "data"
    assert server.sent(0, "put", common, wire.CodedPutOwn(server.listed, 2, envelope, body)) == "request"
    assert server.sent(0, "put", common, wire.CodedPutOwn(server.listed, 1, envelope, body)) == ""


@pytest.mark.parametrize("form", FORMS)
def test_an_e_beyond_its_room_is_refused(form: str):
    world = World(FORMS[form], 4, 2)
    server = Reads(world)
    assert server.asks(0, np.full((D, C), 10**5)) == "request"
    assert server.asks(0, np.array([[-(2**63)] * C, *[[0] * C] * (D - 1)])) == "request"


@pytest.mark.parametrize("form", FORMS)
def test_closing_deletes_what_could_open_uploads(form: str):
    world = World(FORMS[form], 4, 2)
    session = world.session()
    session.sum(ASK)
    session.close()
    assert all(memory.generation().root == b"" for memory in world.memories.values())
    assert all(one.values() for memory in world.memories.values() for one in memory.records.values())
