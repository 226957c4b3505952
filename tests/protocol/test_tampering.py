"""Every message of a whole run is attacked before it is delivered; none of it may leave a trace.

The relay, or anybody on the way, may flip, cut, lengthen, redirect, relabel and repeat. A damaged message must be
refused with ``MessageRefused`` (a device may also ignore it), the receiver must be exactly as before, and the run must
end with the right model.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.errors import MessageRefused
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from scenario import ROLE_KINDS, Network, Scenario, descent, snapshot, wire

SCHEMES = pytest.mark.parametrize(
    "scheme",
    [CODED_PADDED, CODED_KEYS],
    ids=["coded-padded", "coded-keys"],
)
ALL_KINDS = {
    "coded-padded": set(Kind) - ROLE_KINDS - {Kind.REFUSAL, Kind.COMPLAINT},
    "coded-keys": set(Kind) - ROLE_KINDS - {Kind.REFUSAL, Kind.COMPLAINT, Kind.PAD_SEED},
}


def assert_leaves_no_trace(receiver: Server | Device, data: bytes, must_be_refused: bool = True) -> None:
    before = snapshot(receiver)
    try:
        replies = receiver.receive(data).outgoing
    except MessageRefused:
        pass
    else:
        assert not must_be_refused, f"accepted: {Message.decode(data)}"
        # Bulk that does not fit what is sealed beside it may be the sender's doing: the device says so.
        assert replies == []
    assert snapshot(receiver) == before


def may_be_ignored(receiver: Server | Device, data: bytes) -> bool:
    """A share that names a sender whose share is already there is dropped unread, and all that a server gets after the
    end. Nothing else is."""
    if isinstance(receiver, Server):
        return receiver.phase is Phase.FINISHED
    try:
        return isinstance(receiver, Device) and Message.decode(data).kind is Kind.SHARE
    except MessageRefused:
        return False


def damaged(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """Bits flipped (all over, and in every byte of the header), cut, lengthened."""
    header = len(msgpack.packb(msgpack.unpackb(data)[:7]))
    positions = {*rng.sample(range(len(data)), min(len(data), 15)), *range(0, header, 3), len(data) - 1}
    for position in sorted(positions):
        flipped = bytearray(data)
        flipped[position] ^= 1 << rng.randrange(8)
        yield bytes(flipped)
    for cut in (0, 1, header, len(data) // 2, len(data) - 1):
        yield data[:cut]
    yield data + b"\x00"


def misdirected(message: Message, names: list[str], rng: random.Random) -> Iterator[Message]:
    """Well-formed, but with another run, agreement, sender, receiver, kind or content."""
    other_run = bytes([message.run[0] ^ 1]) + message.run[1:]
    yield replace(message, run=other_run)
    yield replace(message, run=b"")
    yield replace(message, agreement=bytes(32) if message.agreement != bytes(32) else b"")
    others = [name for name in ["", *names, "mallory"] if name not in (message.sender, message.receiver)]
    yield replace(message, sender=rng.choice(others))
    yield replace(message, receiver=rng.choice(others))
    yield replace(message, sender=message.receiver, receiver=message.sender)
    yield replace(message, kind=rng.choice([kind for kind in Kind if kind is not message.kind]))
    yield replace(message, body=b"")
    yield replace(message, body=bytes(len(message.body)))
    if message.signature:
        yield replace(message, signature=b"")
        yield replace(message, signature=bytes(64))
    if message.attachment:
        yield replace(message, attachment=b"")
        yield replace(message, attachment=bytes(len(message.attachment)))


@SCHEMES
def test_no_damaged_message_leaves_a_trace(scheme: SharingScheme):
    scenario = Scenario(alpha=3, scheme=scheme, public_samples=False)
    network = Network.of(scenario, descent(2))
    rng = random.Random(1)
    attacked: set[Kind] = set()

    def attack(receiver: Server | Device, data: bytes) -> None:
        message = Message.decode(data)
        attempts = [*damaged(data, rng), *(m.encode() for m in misdirected(message, scenario.names, rng))]
        for attempt in attempts:
            if attempt != data:
                assert_leaves_no_trace(receiver, attempt, must_be_refused=not may_be_ignored(receiver, attempt))
        attacked.add(message.kind)

    network.before = attack
    network.run()
    assert attacked == ALL_KINDS[scheme.name]
    assert network.server.phase is Phase.FINISHED
    assert np.array_equal(network.server.model, scenario.expected_models(descent(2))[-1])
    # Nothing damaged was taken for late or repeated.
    assert set(network.ignored) <= {"late answer", "message after the end"}


@SCHEMES
def test_messages_of_another_run_leave_no_trace(scheme: SharingScheme):
    """The same parties with the same long-term keys, an earlier run recorded, everything of it played again."""
    earlier_scenario = Scenario(scheme=scheme, seed=1)
    identities = [device.identity for device in earlier_scenario.devices()]
    earlier = Network(earlier_scenario.server(descent(2)), earlier_scenario.devices())
    earlier.send(earlier.server.invite())
    earlier.run()

    scenario = Scenario(scheme=scheme, seed=2)
    server = scenario.server(descent(2), identity=earlier.server.identity)
    devices = [scenario.device(i, identity=identities[i]) for i in range(4)]
    assert server.run != earlier.server.run
    network = Network(server, devices)
    network.send(server.invite())

    def replay(receiver: Server | Device, data: bytes) -> None:
        del data
        if isinstance(receiver, Server):
            for old in earlier.server_saw:
                assert_leaves_no_trace(receiver, old)
        elif network.device_saw[receiver.name]:  # before its first invitation a device cannot know old from new
            for old in earlier.device_saw[receiver.name]:
                assert_leaves_no_trace(receiver, old, must_be_refused=False)

    network.before = replay
    network.run()
    assert np.array_equal(server.model, scenario.expected_models(descent(2))[-1])


@SCHEMES
def test_everything_repeated_changes_nothing(scheme: SharingScheme):
    """Whatever a party has seen before is played again before each delivery: the replies may be repeated ones, the
    model and what the server does next may not change."""
    scenario = Scenario(scheme=scheme)
    network = Network.of(scenario, descent(3))
    repeated = 0

    def repeat(receiver: Server | Device, data: bytes) -> None:
        nonlocal repeated
        del data
        if isinstance(receiver, Server):
            for old in network.server_saw:
                before = snapshot(receiver)
                turn = receiver.receive(old)
                assert turn.outgoing == []
                assert snapshot(receiver) == before
                network.events += turn.events
                repeated += 1
        else:
            for old in network.device_saw[receiver.name]:
                before = snapshot(receiver)
                try:
                    replies = [Message.decode(reply) for reply in wire(receiver.receive(old))]
                except MessageRefused as refusal:
                    assert str(refusal).startswith("the epoch must be later than ")  # noqa: PT017
                else:
                    # An invitation is joined again until the set is frozen; the last update gets the same answer.
                    assert {reply.kind for reply in replies} <= {Kind.JOIN, Kind.ANSWER}
                assert snapshot(receiver) == before

    network.before = repeat
    network.run()
    assert repeated > 50
    assert sum(network.ignored.values()) >= repeated
    assert set(network.ignored) == {
        "repeated or late join",
        "repeated or late shares",
        "repeated ready",
        "repeated answer",
        "late answer",
        "message after the end",
    }
    assert np.array_equal(network.server.model, scenario.expected_models(descent(3))[-1])


@SCHEMES
@given(data=st.data())
@settings(max_examples=25)
def test_any_order_of_delivery_gives_the_same_model(scheme: SharingScheme, data: st.DataObject):
    """Links keep their order, as TCP does; which link is next, which message comes twice and which update never
    arrives is drawn. As long as enough devices are reached, the model is the centralised one, bit for bit."""
    scenario = Scenario(alpha=3, scheme=scheme)
    network = Network.of(scenario, descent(3))
    rng = data.draw(st.randoms(use_true_random=False))
    lost_to = {epoch: rng.sample(scenario.names, 2) for epoch in range(1, 5)}  # alpha - 1 = 2 are lost each epoch
    while links := network.pending():
        link = rng.choice(links)
        message = Message.decode(network.next_on(link))
        if message.kind is Kind.UPDATE and link[1] in lost_to[network.server.epoch]:
            network.down[link[1]].popleft()
            continue
        if link[0] == "up" and network.server_saw and rng.random() < 0.3:
            assert network.server.receive(rng.choice(network.server_saw)).outgoing == []
        network.deliver(link)
    assert network.server.phase is Phase.FINISHED
    assert np.array_equal(network.server.model, scenario.expected_models(descent(3))[-1])
