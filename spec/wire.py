"""The wire: what is in a message and what is signed of it; joins and the agreement; commitments, list, certificate.

Everything is msgpack lists. A message is [magic, version, kind, run, agreement, sender, receiver, body, attachment,
signature]; the first seven are its context, which is authenticated with the body, sealed or signed. The server's name
is empty; as the receiver of a signed message it means everybody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import msgpack
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from spec.numbers import Scales, primes_for
from spec.secrets import commitment, sha256, verify

VERSION = 3


def packed(*fields: Any) -> bytes:
    """A msgpack list."""
    found: bytes = msgpack.packb(list(fields))
    return found


def unpacked(data: bytes) -> list[Any]:
    """Undo ``packed``."""
    found = msgpack.unpackb(data)
    assert isinstance(found, list), "every part of a message is a list"
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
    m = message
    return packed("codedfl", VERSION, m.kind, m.run, m.agreement, m.sender, m.receiver)


def encode(message: Message) -> bytes:
    """As it travels."""
    m = message
    fields = (m.kind, m.run, m.agreement, m.sender, m.receiver, m.body, m.attachment, m.signature)
    return packed("codedfl", VERSION, *fields)


def decode(data: bytes) -> Message:
    """Another magic, version or number of fields is refused."""
    magic, version, *fields = unpacked(data)
    assert (magic, version, len(fields)) == ("codedfl", VERSION, 8), "a message of this protocol and version"
    return Message(*fields)


def signed(message: Message, key: Ed25519PrivateKey) -> Message:
    """With the signature of its author."""
    return replace(message, signature=key.sign(signed_part(message)))


def signed_part(message: Message) -> bytes:
    """The context, and digests of body and attachment."""
    return context(message) + sha256(message.body) + sha256(message.attachment)


def check_signed(message: Message, public: bytes) -> None:
    """Refuse what its author did not sign."""
    verify(public, signed_part(message), message.signature)


# -- what a run is


@dataclass(frozen=True)
class Parameters:
    """Public, and derived by each party from the contract; ``recipe`` is its digest of how rows become X and Y.

    Left at their defaults here: fixed precision, groups of devices, masks off, noise, totals of whole numbers, the
    ring of 32 bits.
    """

    scheme: str
    alpha: int
    d: int
    outputs: int
    features: float
    labels: float
    samples: int
    per_device: int
    epochs: int
    recipe: bytes = b""
    colluders: int = 0
    owners: int = 0

    def encode(self) -> bytes:
        """In this order."""
        shape = (self.scheme, self.alpha, self.d, self.outputs)
        public = (self.features, self.labels, self.samples, self.per_device)
        # precision and samples not given; masks on, one group, X'X not revealed
        plain = (-1, -1, True, 1, False, self.epochs, self.recipe, self.colluders, self.owners, bytes(9), False)
        return packed(*shape, *public, *plain)

    @classmethod
    def decode(cls, data: bytes) -> Parameters:
        """Undo it; other settings than those above are refused."""
        f = unpacked(data)
        found = cls(*f[:8], *f[13:17])
        assert found.encode() == data, "parameters of this specification"
        return found

    def scales(self, n_owners: int) -> Scales:
        """The grids of a run with this number of owners, unless the parameters fix it."""
        n = self.owners or n_owners
        return Scales(self.features, self.labels, self.samples, self.per_device, self.d, n, primes_for(n))


@dataclass(frozen=True)
class Member:
    """A device's join: its long-term key, the run key that it drew, and its signature on it."""

    name: str
    identity: bytes
    run_key: bytes
    signature: bytes


def invitation(server_public: bytes, server_key: bytes, parameters: Parameters) -> bytes:
    """The server's long-term key, its run key, and the parameters."""
    return packed(server_public, server_key, parameters.encode())


def join_statement(run: bytes, invited: bytes, name: str, run_key: bytes) -> bytes:
    """What a device signs to join: so nobody can put another key in its place, or show it other parameters."""
    return packed("codedfl join v3", run, invited, name, run_key)


def seated(members: list[Member], run: bytes) -> list[Member]:
    """In the order that everybody's run keys draw: nobody chooses a seat."""
    lot = sha256(b"codedfl seats v3|", run, *sorted(member.run_key for member in members))
    return sorted(members, key=lambda member: sha256(lot, member.run_key))


@dataclass(frozen=True)
class Agreement:
    """The frozen set. For role keys: ``roles`` by seat (-1 holds none), ``helpers`` (seats without data), ``blocks``.

    The block of rows of each seat, -1 for all rows; empty where every holder keeps all of them.
    """

    run: bytes
    invited: bytes
    members: list[Member]
    roles: list[int]
    helpers: list[int]
    blocks: list[int]

    @property
    def n_blocks(self) -> int:
        """K."""
        return max(self.blocks, default=0) + 1

    def kept(self, seat: int) -> list[int]:
        """The blocks of rows that a holder keeps and answers."""
        block = self.blocks[seat] if self.blocks else 0
        return list(range(self.n_blocks)) if block < 0 else [block]

    @property
    def names(self) -> list[str]:
        """By seat."""
        return [member.name for member in self.members]

    @property
    def parameters(self) -> Parameters:
        """Those of the invitation."""
        return Parameters.decode(unpacked(self.invited)[2])

    @property
    def owners(self) -> list[int]:
        """Seats with data."""
        return [i for i in range(len(self.members)) if i not in self.helpers]

    @property
    def scales(self) -> Scales:
        """The grids, which everybody derives."""
        return self.parameters.scales(len(self.owners))

    def encode(self) -> bytes:
        """Theta^(1) is zero, and therefore empty."""
        rows = [[m.name, m.identity, m.run_key, m.signature] for m in self.members]
        return packed(self.run, self.invited, rows, b"", self.roles, self.helpers, self.blocks)

    @property
    def hash(self) -> bytes:
        """What every later message names."""
        return sha256(b"codedfl agreement v3|", self.encode())

    @classmethod
    def decode(cls, data: bytes) -> Agreement:
        """Refused unless every member joined this very invitation, each once, in the seats that were drawn.

        With roles, whoever seals to a run key checks its join; all else that counts is signed for the agreement.
        """
        run, invited, rows, theta, roles, helpers, blocks = unpacked(data)
        found = cls(run, invited, [Member(*row) for row in rows], roles, helpers, blocks)
        assert theta == b"" and len(set(found.names)) == len(found.members) == len({m.identity for m in found.members})
        assert seated(found.members, run) == found.members, "seats are those that the run keys draw"
        for m in found.members if not roles else ():
            check_join(found, m)
        cells = set(product(range(max(roles, default=0) + 1), range(found.n_blocks))) if blocks else set()
        assert cells <= set(zip(roles, blocks, strict=bool(blocks))), "a holder for every block of each role"
        assert not blocks or 1 < found.n_blocks <= found.parameters.d, "a block has rows, and there are others"
        return found


def check_join(agreed: Agreement, member: Member) -> None:
    """Refuse a run key that its device did not join this invitation with."""
    statement = join_statement(agreed.run, agreed.invited, member.name, member.run_key)
    verify(member.identity, statement, member.signature)


# -- keys of roles, commitments to seeds, one list of owners


def role_key_statement(run: bytes, agreement: bytes, role: int, public: bytes) -> bytes:
    """What a holder of a role signs that has the private half of the role's key."""
    return packed("codedfl role key v1", run, agreement, role, public)


def committed(seeds: dict[str, bytes], agreement: bytes, owner: str, key: Ed25519PrivateKey) -> list[Any]:
    """[[[purpose, digest], ...], signature]: the owner's commitments, signed once for all receivers."""
    pairs = [[purpose, commitment(seed, agreement, owner, purpose)] for purpose, seed in seeds.items() if seed]
    return [pairs, key.sign(commitment_statement(pairs, agreement, owner))]


def commitment_statement(pairs: list[Any], agreement: bytes, owner: str) -> bytes:
    """For one agreement, not for a run, whose id is the server's choice."""
    return packed("codedfl commitments v4", agreement, owner, pairs)


def check_committed(commitments: list[Any], agreement: bytes, owner: Member) -> None:
    """Refuse commitments that their owner did not sign."""
    verify(owner.identity, commitment_statement(commitments[0], agreement, owner.name), commitments[1])


def check_fits(commitments: list[Any], seeds: dict[str, bytes], agreement: bytes, owner: str) -> None:
    """Refuse seeds that do not fit their owner's commitments."""
    digests = dict(commitments[0])
    for purpose, seed in seeds.items():
        assert not seed or digests.get(purpose) == commitment(seed, agreement, owner, purpose), "a seed fits"


def list_statement(run: bytes, agreement: bytes, owners: bytes) -> bytes:
    """What a device signs for the list of owners, [[name, digest of commitments, digest of upload], ...]."""
    return packed("codedfl owners signed v3", run, agreement, sha256(b"codedfl owners v3|", owners))


def signatures_needed(n_devices: int, colluders: int) -> int:
    """More than (D + z)/2: two certified lists would share an honest signer, who signs one list per run."""
    return (n_devices + colluders) // 2 + 1
