"""What both schemes have in common: how devices come into a run, how epochs are answered, what the server asks.

A device is a value and functions that take a message and return messages; the server is one function per scheme, which
calls its devices one after the other. What a party refuses is an assertion: the run goes on without that message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from spec import wire
from spec.numbers import Matrix, Reals, add, pack, product, to_reals, unpack
from spec.secrets import open_sealed, public_of, seal, sha256, signing_key

Random = Callable[[int], bytes]
Send = Callable[[bytes], list[bytes]]  # a message to a device, and what it says to it


DecodeTotal = Callable[[Matrix | None, dict[int, list[int]]], list[int]]


class Solver(Protocol):
    """What the server does with exact products; not a part of the protocol."""

    def start(self, gradient: list[float], rows: int) -> None:
        """G^(1), row by row, and the number of rows."""

    def request(self) -> Reals | None:
        """The next e; None ends the run."""

    def receive(self, e: Reals, image: list[float]) -> None:
        """X'X e for the e that was sent, as it was rounded."""


# -- a device


@dataclass
class Device:
    """``terms`` are the parameters that its operator approved, ``server`` is the key that it trusts.

    matrix, constant: what its answers are made from, once sharing is complete. kept: what the scheme keeps meanwhile.
    """

    name: str
    secret: bytes
    server: bytes
    terms: wire.Parameters
    X: Reals
    Y: Reals
    random: Random
    run: bytes = b""
    invited: bytes = b""
    key: X25519PrivateKey | None = None
    agreement: wire.Agreement | None = None
    matrix: Matrix | None = None
    constant: list[int] = field(default_factory=list)
    answered: tuple[int, bytes, bytes] = (0, b"", b"")  # epoch, digest of its update, the answer
    questions: set[bytes] = field(default_factory=set)
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def agreed(self) -> wire.Agreement:
        """Once there is one."""
        assert self.agreement is not None, "the agreement comes first"
        return self.agreement

    @property
    def seat(self) -> int:
        """Its place in the agreement."""
        return self.agreed.names.index(self.name)


def on_invitation(device: Device, message: wire.Message) -> list[wire.Message]:
    """Join, if server and parameters are those approved; one run each, with one key."""
    server_public, _, parameters = wire.unpacked(message.body)
    assert server_public == device.server, "the server is the one that the operator trusts"
    wire.check_signed(message, server_public)
    assert device.invited in (b"", message.body) and device.run in (b"", message.run), "one run, one invitation"
    assert wire.Parameters.decode(parameters) == device.terms, "the parameters follow from the contract"
    if device.key is None:
        device.key = X25519PrivateKey.from_private_bytes(device.random(32))
    device.run, device.invited = message.run, message.body
    identity, run_key = signing_key(device.secret), public_of(device.key)
    signature = identity.sign(wire.join_statement(message.run, message.body, device.name, run_key))
    return [wire.Message("join", message.run, b"", device.name, "", run_key, public_of(identity), signature)]


def on_agreement(device: Device, message: wire.Message) -> None:
    """Accept one agreement per run, for the invitation that was joined, with this device's own keys in it."""
    wire.check_signed(message, device.server)
    assert device.agreement is None, "one agreement per run"
    found = wire.Agreement.decode(message.body)
    assert (found.run, found.invited) == (device.run, device.invited), "it is for the invitation that was joined"
    device.agreement = found
    me = found.members[device.seat]
    mine = (public_of(signing_key(device.secret)), public_of(run_key(device)))
    assert (me.identity, me.run_key) == mine, "it carries this device's true keys"


def run_key(device: Device) -> X25519PrivateKey:
    """The key of this run, while there is one."""
    assert device.key is not None, "a run key is drawn with the join, and forgotten at the end"
    return device.key


def to_server(device: Device, kind: str, plaintext: bytes) -> wire.Message:
    """Sealed to the server's run key."""
    header = wire.Message(kind, device.run, device.agreed.hash, device.name, "")
    sealed = seal(run_key(device), wire.unpacked(device.invited)[1], wire.context(header), plaintext, device.random(32))
    return wire.Message(kind, device.run, device.agreed.hash, device.name, "", sealed)


def on_update(device: Device, message: wire.Message, mask: Callable[[bytes, int], list[int]]) -> list[wire.Message]:
    """Answer matrix e, or the constant where the update has no numbers: an epoch for one update only."""
    wire.check_signed(message, device.server)
    epoch, _, numbers = wire.unpacked(message.body)
    digest, question = sha256(message.body), sha256(numbers)
    last_epoch, last_digest, last_answer = device.answered
    if epoch == last_epoch:
        assert digest == last_digest, "an epoch is answered for one update only"
        return [to_server(device, "answer", last_answer)]
    assert epoch > last_epoch and device.matrix is not None, "epochs go up, after sharing"
    p, primes = device.terms, device.agreed.scales.primes
    if numbers and question not in device.questions:
        assert len(device.questions) < p.epochs - 1, "no more different questions than were agreed on"
        device.questions.add(question)
    found = device.constant
    if numbers:
        flat = unpack(numbers, primes, p.d * p.outputs)
        e = [flat[i * p.outputs : (i + 1) * p.outputs] for i in range(p.d)]
        found = product(device.matrix, e, prod(primes))
    masked = add(found, mask(digest, len(found)))
    device.answered = (epoch, digest, wire.packed(epoch, digest, pack(masked, primes)))
    return [to_server(device, "answer", device.answered[2])]


def on_finish(device: Device, message: wire.Message) -> list[wire.Message]:
    """Forget every secret of the run."""
    wire.check_signed(message, device.server)
    device.key, device.matrix, device.constant, device.kept = None, None, [], {}
    return []


# -- the server


@dataclass
class Server:
    """Its long-term secret and its run key, and a line to every device."""

    secret: bytes
    devices: dict[str, Send]
    random: Random
    run: bytes = b""
    key: X25519PrivateKey | None = None
    agreement: wire.Agreement | None = None

    @property
    def agreed(self) -> wire.Agreement:
        """Once there is one."""
        assert self.agreement is not None, "the agreement comes first"
        return self.agreement


def broadcast(server: Server, kind: str, body: bytes, to: list[str] | None = None) -> list[wire.Message]:
    """One signed message to all (or some), and what they say to it."""
    before = server.agreement is None or kind in ("invitation", "agreement")
    message = wire.Message(kind, server.run, b"" if before else server.agreed.hash, "", "", body)
    data = wire.encode(wire.signed(message, signing_key(server.secret)))
    return [wire.decode(reply) for name in to or server.devices for reply in server.devices[name](data)]


def opened(server: Server, message: wire.Message) -> bytes:
    """What a member sealed to the server."""
    assert server.key is not None
    member = server.agreed.members[server.agreed.names.index(message.sender)]
    return open_sealed(server.key, member.run_key, wire.context(message), message.body)


def come_together(server: Server, parameters: wire.Parameters, cells: dict[str, tuple[int, int]]) -> list[wire.Message]:
    """Invite, take the joins, freeze the set; returns what the devices say to the agreement.

    cells: the role and the block of rows of each holder, -1 for all rows; empty for a gradient code.
    """
    server.run, server.key = server.random(16), X25519PrivateKey.from_private_bytes(server.random(32))
    invited = wire.invitation(public_of(signing_key(server.secret)), public_of(server.key), parameters)
    joins = broadcast(server, "invitation", invited)
    members = [wire.Member(one.sender, one.attachment, one.body, one.signature) for one in joins]
    seats = wire.seated(members, server.run)
    roles, blocks = ([cells.get(member.name, (-1, -1))[at] for member in seats] if cells else [] for at in (0, 1))
    blocks = blocks if max(blocks, default=0) > 0 else []
    server.agreement = wire.Agreement.decode(wire.Agreement(server.run, invited, seats, roles, [], blocks).encode())
    return broadcast(server, "agreement", server.agreement.encode())


def relayed(
    server: Server, kind: str, sender: str, receiver: str, body: bytes, bulk: bytes = b""
) -> list[wire.Message]:
    """What one device seals for another, with the server's signature as the relay."""
    message = wire.Message(kind, server.run, server.agreed.hash, sender, receiver, body, bulk)
    data = wire.encode(wire.signed(message, signing_key(server.secret)))
    return [wire.decode(reply) for reply in server.devices[receiver](data)]


def train(server: Server, solver: Solver, decode_total: DecodeTotal, to: list[str]) -> None:
    """The epochs: e = 0 for the constant first, then what the solver asks for; pads off, bounds checked, to reals.

    decode_total: from e (None for the constant) and the answers by seat to the total modulo M. to: who is asked.
    """
    p, scales = server.agreed.parameters, server.agreed.scales
    modulus, e, sent, bits = prod(scales.primes), None, b"", 0
    for epoch in range(1, p.epochs + 1):
        body = wire.packed(epoch, bits, sent)
        answers: dict[int, list[int]] = {}
        for one in broadcast(server, "update", body, to):
            said, digest, numbers = wire.unpacked(opened(server, one))
            assert (said, digest) == (epoch, hashlib.sha256(body).digest()), "an answer is to this very update"
            count = len(numbers) // (3 * len(scales.primes))
            answers[server.agreed.names.index(one.sender)] = unpack(numbers, scales.primes, count)
        total = decode_total(e, answers)
        if e is None:
            rows = to_reals(total[-1:], 0, [p.samples], modulus)
            solver.start(to_reals(total[:-1], scales.constant_bits, [scales.cross_limit], modulus), int(rows[0]))
        else:
            limits = [scales.gram_limit * sum(abs(row[c]) for row in e) for c in range(p.outputs)]
            reals = [[float(v) / 2.0**bits for v in row] for row in e]
            solver.receive(reals, to_reals(total, scales.gram_bits + bits, limits, modulus))
        wanted = solver.request()
        if wanted is None:
            break
        e, bits = scales.update(wanted)
        sent = pack([v for row in e for v in row], scales.primes)
    broadcast(server, "finish", b"")
    server.key = None
