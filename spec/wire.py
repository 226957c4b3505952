"""The wire: what is in a message and what is signed of it; joins and the agreement; commitments, list, certificate.

Everything is msgpack lists. A message is [magic, version, kind, run, agreement, sender, receiver, body, attachment,
signature]; the first seven are its context, which is authenticated with the body, sealed or signed. The server's name
is empty; as the receiver of a signed message it means everybody.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from itertools import product
from typing import Any

import msgpack

from spec.fixed_point import Parameters, scales
from spec.secrets import commitment, sha256, sign, verify

VERSION = 3
TYPES = {"s": str, "b": bytes, "i": int, "l": list}


def packed(*fields: Any) -> bytes:
    """A msgpack list."""
    return bytes(msgpack.packb(fields))


def unpacked(data: bytes, types: str = "") -> list[Any]:
    """Undo ``packed``; refused unless the fields have these types, where they are given. Nothing may follow them."""
    found: list[Any] = msgpack.unpackb(data)
    assert type(found) is list and (not types or [type(one) for one in found] == [TYPES[one] for one in types])
    return found


@dataclass(frozen=True)
class Message:
    """``agreement`` is a hash, empty before there is one; ``attachment`` a public key (join) or the bulk (shares)."""

    kind: str
    run: bytes
    agreement: bytes
    sender: str
    receiver: str
    body: bytes = b""
    attachment: bytes = b""
    signature: bytes = b""


def context(message: Message) -> bytes:
    """What a seal or a signature covers beside the contents."""
    return packed("codedfl", VERSION, *astuple(message)[:5])


def encode(message: Message) -> bytes:
    """As it travels."""
    return packed("codedfl", VERSION, *astuple(message))


def decode(data: bytes) -> Message:
    """Another magic, version or number of fields is refused."""
    magic, version, *fields = unpacked(data, "sisbbssbbb")
    assert (magic, version) == ("codedfl", VERSION), "a message of this protocol and version"
    return Message(*fields)


def signed_part(message: Message) -> bytes:
    """The context, and digests of body and attachment."""
    return context(message) + sha256(message.body) + sha256(message.attachment)


def signed(message: Message, secret: bytes) -> Message:
    """With the signature of its author."""
    return replace(message, signature=sign(secret, signed_part(message)))


# -- what a run is, and who is in it


@dataclass(frozen=True)
class Member:
    """A device's join: its long-term key, the run key that it drew, and its signature on it."""

    name: str
    identity: bytes
    run_key: bytes
    signature: bytes


def invitation(server: bytes, server_key: bytes, parameters: Parameters) -> bytes:
    """The server's long-term key, its run key, and the parameters."""
    return packed(server, server_key, packed(*astuple(parameters)))


def join_statement(run: bytes, invited: bytes, name: str, run_key: bytes) -> bytes:
    """What a device signs to join: so nobody can put another key in its place, or show it other parameters."""
    return packed("codedfl join v3", run, invited, name, run_key)


def seated(members: list[Member], run: bytes) -> list[Member]:
    """In the order that everybody's run keys draw: nobody chooses a seat."""
    lot = sha256(b"codedfl seats v3|", run, *sorted(member.run_key for member in members))
    return sorted(members, key=lambda member: sha256(lot, member.run_key))


@dataclass
class Agreement:
    """The frozen set, in the order in which it travels; members by seat. Theta^(1) is zero, and therefore empty.

    For role keys: ``roles`` by seat (-1 holds none), ``helpers`` (seats without data), and ``blocks``, the block of
    rows of each seat, -1 for all rows; empty where every holder keeps all of them.
    """

    run: bytes
    invited: bytes
    members: list[Member]
    theta: bytes
    roles: list[int]
    helpers: list[int]
    blocks: list[int]

    def __post_init__(self) -> None:
        """What follows from it; every later message names the hash."""
        self.encoded = packed(*astuple(self))
        self.hash = sha256(b"codedfl agreement v3|", self.encoded)
        self.parameters = Parameters(*unpacked(unpacked(self.invited, "bbb")[2]))
        self.names = [member.name for member in self.members]
        self.member = dict(zip(self.names, self.members, strict=True))
        self.role = dict(zip(self.names, self.roles or [-1] * len(self.names), strict=True))
        self.owners = [name for i, name in enumerate(self.names) if i not in self.helpers]
        self.n_blocks = max(self.blocks, default=0) + 1
        self.scales = scales(self.parameters, self.parameters.owners or len(self.owners))

    def kept(self, name: str) -> list[int]:
        """The blocks of rows that a holder keeps and answers."""
        block = self.blocks[self.names.index(name)] if self.blocks else 0
        return list(range(self.n_blocks)) if block < 0 else [block]


def read_agreement(data: bytes) -> Agreement:
    """Refused unless every member joined this very invitation, each once, in the seats that were drawn."""
    run, invited, rows, *rest = unpacked(data, "bblblll")
    found = Agreement(run, invited, [Member(*row) for row in rows], *rest)
    n, p, roles, blocks = len(rows), found.parameters, found.roles, found.blocks
    assert len(found.member) == n == len({member.identity for member in found.members}), "each device once"
    assert found.members == seated(found.members, run), "seats are those that the run keys draw"
    assert found.helpers == sorted(set(found.helpers) & set(range(n))) and not found.theta, "helpers have seats"
    for member in found.members:
        verify(member.identity, join_statement(run, invited, member.name, member.run_key), member.signature)
    assert bool(roles) == (p.scheme == "role-keys"), "with role keys everybody has a role or -1, else nobody"
    if roles:
        cells = {*product(range(p.colluders + 1), range(found.n_blocks))}
        dealt = set(zip(roles, blocks or [min(role, 0) for role in roles], strict=True))
        reserve = {*product(range(-1, p.colluders + 1), [-1])}
        assert cells <= dealt <= cells | reserve, "a holder for every block of each of z + 1 roles, and no others"
        assert not blocks or 1 < found.n_blocks <= p.d, "a block has rows, and there are others"
    return found


# -- what is signed for an agreement: keys of roles, commitments to seeds, one list of owners


def role_key_statement(agreed: Agreement, role: int, public: bytes) -> bytes:
    """What a holder of a role signs that has the private half of the role's key."""
    return packed("codedfl role key v1", agreed.run, agreed.hash, role, public)


def commitment_statement(pairs: list[Any], agreed: Agreement, owner: str) -> bytes:
    """For one agreement, not for a run, whose id is the server's choice."""
    return packed("codedfl commitments v4", agreed.hash, owner, pairs)


def committed(seeds: dict[str, bytes], agreed: Agreement, owner: str, secret: bytes) -> list[Any]:
    """[[[purpose, digest], ...], signature]: the owner's commitments, signed once for all receivers."""
    pairs = [[purpose, commitment(seed, agreed.hash, owner, purpose)] for purpose, seed in seeds.items()]
    return [pairs, sign(secret, commitment_statement(pairs, agreed, owner))]


def check_committed(commitments: list[Any], agreed: Agreement, owner: str) -> None:
    """Refuse commitments that their owner did not sign."""
    verify(agreed.member[owner].identity, commitment_statement(commitments[0], agreed, owner), commitments[1])


def check_fits(commitments: list[Any], agreed: Agreement, owner: str, purpose: str, seed: bytes) -> None:
    """Refuse a seed that does not fit its owner's commitment."""
    assert len(seed) == 32 and dict(commitments[0])[purpose] == commitment(seed, agreed.hash, owner, purpose)


def list_digest(owners: bytes) -> bytes:
    """Of the list of owners, [[name, digest of commitments, digest of upload], ...], as it travels."""
    return sha256(b"codedfl owners v3|", owners)


def list_statement(agreed: Agreement, owners: bytes) -> bytes:
    """What a device signs for the list of owners."""
    return packed("codedfl owners signed v3", agreed.run, agreed.hash, list_digest(owners))


def signatures_needed(agreed: Agreement) -> int:
    """More than (D + z)/2: two certified lists would share an honest signer, who signs one list per run."""
    return (len(agreed.members) + agreed.parameters.colluders) // 2 + 1
