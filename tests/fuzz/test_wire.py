"""Every decoder of wire bytes, and the two machines behind them, under damaged messages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgpack
import pytest
from mutation import INPUTS, damaged_list, fuzz
from stopped_runs import Frozen, scenario_of, stopped_at

from codedfl.errors import MessageRefused
from codedfl.protocol.agreement import Agreement, Parameters
from codedfl.protocol.messages import Answer, Kind, Message, Secrets, Share, Shares, Update
from scenario import Network, descent


@cache
def recorded(padded: bool = False) -> Network:
    """A whole run, with all that each party has seen."""
    network = Network.of(scenario_of(padded), descent(2))
    network.run()
    return network


def seen(kind: Kind) -> list[Message]:
    network = recorded()
    everything = [*network.server_saw, *(data for saw in network.device_saw.values() for data in saw)]
    return [message for message in map(Message.decode, everything) if message.kind is kind]


@cache
def valid_inputs() -> dict[Callable[[bytes], object], list[bytes]]:
    network = recorded()
    agreement = network.server.agreement
    assert agreement is not None
    return {
        Message.decode: [*network.server_saw[:8], *network.device_saw["device-0"]],
        Update.decode: [message.body for message in seen(Kind.UPDATE)],
        Answer.decode: [Answer(1, bytes(32), bytes(48)).encode()],
        Secrets.decode: [Secrets(bytes(32), bytes(32)).encode(), Secrets(content_key=bytes(32)).encode()],
        Shares.decode: [message.body for message in seen(Kind.SHARES)],
        Share.decode: [message.body for message in seen(Kind.SHARE)],
        Parameters.decode: [agreement.parameters.encode()],
        Agreement.decode: [agreement.encoded],
    }


DECODERS: list[Callable[[bytes], object]] = [
    Message.decode,
    Update.decode,
    Answer.decode,
    Secrets.decode,
    Shares.decode,
    Share.decode,
    Parameters.decode,
    Agreement.decode,
]


@pytest.mark.parametrize("decoder", DECODERS, ids=[decoder.__qualname__ for decoder in DECODERS])
def test_decoders_refuse_what_they_do_not_take(decoder: Callable[[bytes], object]):
    counts = fuzz(decoder, valid_inputs()[decoder], damaged_list)
    assert counts["taken"] > 0
    assert counts["refused"] > INPUTS // 3


@pytest.mark.parametrize("stage", [Kind.INVITATION, Kind.AGREEMENT, Kind.SHARE, Kind.UPDATE, Kind.ANSWER])
@pytest.mark.parametrize("padded", [False, True])
def test_machines_refuse_what_they_do_not_take(padded: bool, stage: Kind):
    network = stopped_at(padded, stage)
    everything = recorded(padded)
    to_device = [*network.device_saw["device-0"], *network.down["device-0"], *everything.device_saw["device-0"]]
    to_server = [*network.server_saw, *network.up["device-0"], *network.up["device-1"], *everything.server_saw]
    for party, messages in ((network.devices["device-0"], to_device), (network.server, to_server)):
        fuzz(Frozen(party), messages, damaged_list, max(20, INPUTS // 10))


def test_a_small_message_cannot_ask_for_much_memory():
    """Lists within lists that all claim to be as long as the message: room must not be made for them in advance."""
    header = b"\xdd" + (2_000_000).to_bytes(4, "big")
    bomb = header * 400 + bytes(2_000_000)
    assert fuzz(Message.decode, [bomb], inputs=1) == {"taken": 0, "refused": 1}


@pytest.mark.parametrize(("n_features", "n_outputs"), [(10**9, 10), (10, 10**9), (2**62, 2**62), (2**16, 2**16)])
def test_enormous_models_are_refused_before_they_are_allocated(n_features: int, n_outputs: int):
    agreement = recorded().server.agreement
    assert agreement is not None
    values = msgpack.unpackb(agreement.parameters.encode())
    values[2:4] = n_features, n_outputs
    outer = msgpack.unpackb(agreement.encoded)
    outer[0] = msgpack.packb(values)
    with pytest.raises(MessageRefused, match=r"^parameters break a rule: n_(features|outputs) must be"):
        Parameters.decode(outer[0])
    assert fuzz(Agreement.decode, [msgpack.packb(outer)], inputs=1) == {"taken": 0, "refused": 1}
