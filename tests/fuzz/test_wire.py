"""Every decoder of wire bytes, and the two machines behind them, under damaged messages."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import cache

import msgpack
import pytest
from mutation import INPUTS, damaged_list, fuzz

from codedfl import sealed
from codedfl.errors import MessageRefused
from codedfl.protocol import Agreement, Device, Parameters, Server
from codedfl.protocol.messages import SERVER, Answer, Kind, Message, Secrets, Update, decode_envelopes
from codedfl.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.schemes.coded_padded import PaddedDevice, PaddedServer
from scenario import Network, Scenario, descent, repeatable


@cache
def recorded(padded: bool = False) -> Network:
    """A whole run, with all that each party has seen."""
    types = (PaddedServer, PaddedDevice) if padded else (KeysServer, KeysDevice)
    scenario = Scenario(public_samples=False, server_type=types[0], device_type=types[1])
    network = Network.of(scenario, descent(2))
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
        decode_envelopes: [message.body for message in seen(Kind.SHARES)],
        Parameters.decode: [agreement.parameters.encode()],
        Agreement.decode: [agreement.encoded],
    }


DECODERS: list[Callable[[bytes], object]] = [
    Message.decode,
    Update.decode,
    Answer.decode,
    Secrets.decode,
    decode_envelopes,
    Parameters.decode,
    Agreement.decode,
]


@pytest.mark.parametrize("decoder", DECODERS, ids=[decoder.__qualname__ for decoder in DECODERS])
def test_decoders_refuse_what_they_do_not_take(decoder: Callable[[bytes], object]):
    counts = fuzz(decoder, valid_inputs()[decoder], damaged_list)
    assert counts["taken"] > 0
    assert counts["refused"] > INPUTS // 3


class _Frozen:
    """A party that forgets each input: the next one meets the same state."""

    def __init__(self, party: Server | Device) -> None:
        self.party = party

    def __call__(self, data: bytes) -> None:
        state = copy.deepcopy(self.party.state())
        try:
            self.party.receive(data)
        finally:
            restored = type(self.party).__new__(type(self.party))
            restored.__dict__.update(self.party.__dict__)
            restored.restore(state)
            self.party = restored


def stages(padded: bool) -> dict[str, Network]:
    """The same run stopped at its stages."""
    types = (PaddedServer, PaddedDevice) if padded else (KeysServer, KeysDevice)
    scenario = Scenario(public_samples=False, server_type=types[0], device_type=types[1])
    networks = {}
    for kind in (Kind.INVITATION, Kind.AGREEMENT, Kind.SHARE, Kind.UPDATE, Kind.ANSWER):
        network = Network.of(scenario, descent(2))
        network.run_until(kind)
        networks[str(kind)] = network
    return networks


@pytest.mark.parametrize("stage", ["invitation", "agreement", "share", "update", "answer"])
@pytest.mark.parametrize("padded", [False, True])
def test_machines_refuse_what_they_do_not_take(padded: bool, stage: str):
    network = stages(padded)[stage]
    everything = recorded(padded)
    to_device = [*network.device_saw["device-0"], *network.down["device-0"], *everything.device_saw["device-0"]]
    to_server = [*network.server_saw, *network.up["device-0"], *network.up["device-1"], *everything.server_saw]
    for party, messages in ((network.devices["device-0"], to_device), (network.server, to_server)):
        fuzz(_Frozen(party), messages, damaged_list, max(20, INPUTS // 10))


def signed_by_the_server(network: Network) -> Callable[[bytes], bytes]:
    def wrap(data: bytes) -> bytes:
        try:
            message = Message.decode(data)
        except MessageRefused:
            return data
        return message.signed_by(network.server.identity).encode()

    return wrap


@pytest.mark.parametrize("stage", ["invitation", "agreement", "update"])
def test_a_device_refuses_nonsense_that_its_server_has_signed(stage: str):
    """The server follows the protocol, but a device must not break down, or eat its memory, if it does not."""
    network = stages(False)[stage]
    device = network.devices["device-0"]
    sign = signed_by_the_server(network)
    machine = _Frozen(device)
    valid = [data for data in network.down["device-0"] if Message.decode(data).kind == stage]

    def damage(data: bytes, rng: random.Random) -> bytes:
        message = Message.decode(data)
        return message.with_body(damaged_list(message.body, rng)).encode()

    counts = fuzz(lambda data: machine(sign(data)), valid, damage)
    assert counts["refused"] > INPUTS // 3


def test_a_server_refuses_nonsense_that_a_device_has_sealed():
    network = stages(False)["answer"]
    server, device = network.server, network.devices["device-0"]
    machine = _Frozen(server)
    answer = device._answered[2]

    def seal(plaintext: bytes) -> bytes:
        header = Message(Kind.ANSWER, server.run, server._agreement_hash, device.name, SERVER)
        public = server.identity.public
        body = sealed.seal(device.identity, public, header.context(), plaintext, repeatable("seal"))
        return header.with_body(body).encode()

    counts = fuzz(lambda data: machine(seal(data)), [answer], damaged_list)
    assert counts["taken"] > 0
    assert counts["refused"] > INPUTS // 3


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
