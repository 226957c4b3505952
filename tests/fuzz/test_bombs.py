"""A few megabytes of msgpack that would be gigabytes of lists: refused in every decoder for the memory they came in."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from stopped_runs import scenario_of, stopped_at

from codedfl.errors import MessageRefused
from codedfl.protocol.agreement import Agreement, Invitation, Parameters
from codedfl.protocol.messages import SERVER, Answer, Complaint, Kind, Message, Secrets, Share, Shares, Update
from codedfl.protocol.packing import unpack_bounded
from scenario import Network

LARGE, SMALL = 8 << 20, 4 << 20
MOST_MEMORY = 46 << 20  # the bytes themselves, one copy of them, and a little more than they have a right to


def array(count: int, inside: bytes) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + inside


def lists(size: int) -> bytes:
    return array(size - 5, b"\x90" * (size - 5))


def tables(size: int) -> bytes:
    return array(size - 5, b"\x80" * (size - 5))


def nested(size: int) -> bytes:
    """A thousand lists of lists: no single one is long."""
    inner = array(size // 1000, b"\x90" * (size // 1000))
    return array(1000, inner * 1000)


def deep(size: int) -> bytes:
    return b"\x91" * size


def pairs(size: int) -> bytes:
    """Well-formed envelopes, far too many."""
    count = size // 8
    return array(count, b"".join(b"\x92\xa4%04x\xc4\x00" % (i % 65536) for i in range(count)))


def in_each_field(bomb: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda size: b"\x9a" + bomb(size // 10) * 10


BOMBS: dict[str, Callable[[int], bytes]] = {
    "lists": lists,
    "tables": tables,
    "nested": nested,
    "deep": deep,
    "pairs": pairs,
    "fields": in_each_field(lists),
}
DECODERS: dict[str, Callable[[bytes], Any]] = {
    "message": Message.decode,
    "update": Update.decode,
    "answer": Answer.decode,
    "secrets": Secrets.decode,
    "complaint": Complaint.decode,
    "shares": lambda data: Shares.decode(data, most=100),
    "share": Share.decode,
    "invitation": lambda data: Invitation.decode(bytes(16), data),
    "parameters": Parameters.decode,
    "agreement": Agreement.decode,
    "letter": lambda data: Message.decode(data, bulk=b"bulk"),
}


def peak_of(decode: Callable[[bytes], Any], data: bytes) -> int:
    tracemalloc.start()
    try:
        decode(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_under_the_old_rule_a_bomb_takes_fifty_times_its_size():
    """Half a megabyte will do."""
    data = lists(1 << 19)
    assert peak_of(lambda data: msgpack.unpackb(data, raw=False, strict_map_key=True, max_ext_len=0), data) > 50 * len(
        data
    )


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("decoder", DECODERS)
def test_a_bomb_is_refused_for_the_memory_it_came_in(decoder: str, bomb: str):
    data = BOMBS[bomb](LARGE if bomb == "lists" else SMALL)  # the others take long to make

    def decode(data: bytes) -> None:
        with pytest.raises(MessageRefused):
            DECODERS[decoder](data)

    assert peak_of(decode, data) < MOST_MEMORY


# -- how long a message of a kind may be


@pytest.mark.parametrize("kind", list(Kind))
def test_a_message_longer_than_its_kind_can_be_is_refused_before_its_keys_are_looked_at(kind: Kind):
    network = stopped_at(False, Kind.SHARE)
    server, device = network.server, network.devices["device-0"]
    assert server.agreement is not None
    for place in ("body", "attachment"):
        header = Message(kind, server.run, server.agreement.hash, "device-1", SERVER)
        message = replace(header, **{place: bytes(40 << 20)})  # type: ignore[arg-type]
        for party in (server, device):
            rule = rf"^a message of kind {kind} must have at most \d+ bytes here, got \d+$"
            with pytest.raises(MessageRefused, match=rule):
                party.receive(message.encode())


def test_before_the_invitation_a_device_takes_nothing_long():
    network = Network.of(scenario_of(False))
    message = Message(Kind.AGREEMENT, bytes(16), b"", SERVER, SERVER, bytes(70_000)).encode()
    rule = rf"^a message of kind agreement must have at most 65536 bytes here, got {len(message)}$"
    with pytest.raises(MessageRefused, match=rule):
        network.devices["device-0"].receive(message)


# -- the reader itself


@pytest.mark.parametrize(
    "value", [0, -1, 2**64 - 1, 1.5, True, None, "text", b"bytes", [], [1, [2, {"a": [b"x"]}]], {"a": {"b": []}}]
)
def test_what_is_within_bounds_is_read_as_msgpack_does(value: Any):
    data = msgpack.packb(value)
    assert unpack_bounded(data, "it", depth=4) == msgpack.unpackb(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (msgpack.packb([1, [2]]), "it must hold plain values here, got list"),
        (msgpack.packb([1, {"a": 2}]), "it must hold plain values here, got dict"),
        (msgpack.packb([1, 2, 3, 4, 5]), "it must hold at most 5 values, got more"),
        (msgpack.packb([1, 2]) + b"\x00", "it must be well-formed msgpack: damaged or cut (ExtraData)"),
        (msgpack.packb([1, 2])[:-1], "it must be well-formed msgpack: damaged or cut (OutOfData)"),
        (b"\xdd\xff\xff\xff\xff", "it must be well-formed msgpack: damaged or cut (OutOfData)"),
        (b"\xc1", "it must be well-formed msgpack: damaged or cut (FormatError)"),
        (b"", "it must be well-formed msgpack: damaged or cut (ValueError)"),
    ],
)
def test_what_is_not_is_refused(data: bytes, message: str):
    with pytest.raises(MessageRefused) as caught:
        unpack_bounded(data, "it", depth=1, most=5)
    assert str(caught.value) == message
