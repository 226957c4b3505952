"""Messages of a test's choice, properly signed or sealed, and what is refused of them."""

from __future__ import annotations

import pytest

import oracle
from codedfl.crypto.sealed import Identity, RunKey, fingerprint
from codedfl.errors import MessageRefused
from codedfl.protocol.device import Device
from codedfl.protocol.messages import SERVER, Kind, Message
from codedfl.protocol.server import Server
from scenario import Network, decoded, snapshot
from wording import exactly

EVE = Identity(bytes([66]) * 32)
EVES_KEY = RunKey(bytes([66]) * 32)


def refused(party: Device | Server, data: bytes, message: str) -> None:
    """Refused with this message, and the party is as before."""
    before = snapshot(party)
    with pytest.raises(MessageRefused, match=exactly(message)):
        party.receive(data)
    assert snapshot(party) == before


def from_server(network: Network, kind: Kind, body: bytes, author: Identity | None = None) -> bytes:
    """A message to everybody in the run's name, signed by the server unless another author is given."""
    agreement = b"" if kind is Kind.AGREEMENT else network.server.agreement.hash
    message = Message(kind, network.server.run, agreement, SERVER, SERVER, body)
    return message.signed_by(author or network.server.identity).encode()


def not_opened(public: bytes) -> str:
    return (
        f"a sealed message must open with the key of its sender {fingerprint(public)}:"
        " it was damaged, forged or meant for another run, purpose or receiver"
    )


def pad_seeds(network: Network) -> list[bytes]:
    """What the server sealed for each device, opened with the device's key."""
    seeds = []
    for name in network.devices:
        (letter,) = decoded(network.device_saw[name], Kind.PAD_SEED)
        seeds.append(network.opened(letter, name))
    return seeds


def padded_gram(gram: list[list[int]], seed: bytes, plane: int, prime: int) -> list[list[int]]:
    """X'X + Xi with Xi symmetric: its upper triangle is the pad's stream, row by row."""
    stream = oracle.pad_residues(seed, "gram", plane, prime)
    size = len(gram)
    padded = [list(row) for row in gram]
    for a in range(size):
        for b in range(a, size):
            padded[a][b] = padded[b][a] = (gram[a][b] + next(stream)) % prime
    return padded
