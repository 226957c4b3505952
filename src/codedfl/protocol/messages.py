"""The wire format: versioned envelopes of msgpack, ring numbers packed to 24 bits a residue.

A message is ``[magic, version, kind, run, agreement, sender, receiver, body, attachment, signature]``. The first
seven fields are its *context*: they are authenticated with the body, whether it is sealed (to one receiver) or
signed (by the server to all, by a device for the shares it gives to the relay). What holds nothing but signatures and
envelopes of others is neither: they are for the same run and agreement themselves. Sizes are what the latency model
counts: 6 bytes per number for two primes, the upper triangle of a symmetric matrix, plus ``ENVELOPE_BYTES`` at most
(and for bulk the cipher's 16 bytes a MiB).

Decoders trust nothing: every type and length is checked, nothing is allocated from a declared size, and no list is
built where a plain value is expected (``packing``). How long a message of each kind may be is in ``sizes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgpack

from codedfl.crypto.sealed import Identity, commitment, digest_of, verify
from codedfl.errors import MessageRefused
from codedfl.protocol.packing import MOST_OBJECTS, unpack_bounded

MAGIC = "codedfl"
VERSION = 3
SERVER = ""  # the server's name in sender and receiver; as a receiver of a signed message: everybody
MAX_NAME = 64  # bytes
# An upper bound on what a message adds to its payload: magic, version, kind, run, agreement hash, two names,
# seal or signature, epoch, scale, and msgpack's own lengths.
ENVELOPE_BYTES = 512
_MOST_FIELDS = 64  # objects of a flat list, itself included: none has as many
_MOST_SHARE_FIELDS = 16 + 3 * 256  # a commitment for every role


class Kind(StrEnum):
    """What a message is, in the order of a run; the comment says who sends it to whom."""

    INVITATION = "invitation"  # server -> all: the run, its public parameters, the server's keys
    JOIN = "join"  # device -> server: my key for this run, signed
    REFUSAL = "refusal"  # device -> server: why I do not join
    AGREEMENT = "agreement"  # server -> all: the frozen participant set
    PAD_SEED = "pad-seed"  # server -> device: the seed of Delta_i and Xi_i (coded-padded)
    SHARES = "shares"  # device -> server: sealed secrets for others, one bulk
    SHARE = "share"  # server -> device: one of those, relayed
    ROLE_KEY_WANTED = "role-key-wanted"  # server -> holder: draw your role's key, give it to these (role-keys only)
    ROLE_KEY = "role-key"  # holder -> server -> co-holder: the role's key signed, its private half sealed
    ROLE_KEY_HELD = "role-key-held"  # holder -> server: signed: I have the private half
    ROLE_KEYS = "role-keys"  # server -> owners: every role's key, signed by its holders
    ROLL_CALL = "roll-call"  # server -> holders: whose seeds do you hold?
    HOLDS = "holds"  # holder -> server: the owners whose seeds I hold
    OWNERS = "owners"  # server -> holders: the list of owners to sign
    SIGNATURE = "signature"  # holder -> server: on the list
    CERTIFICATE = "certificate"  # server -> holders: enough signatures on the list
    READY = "ready"  # device -> server: phase 1 is complete here
    COMPLAINT = "complaint"  # device -> server: what another shared with me is unusable
    UPDATE = "update"  # server -> all: e of one epoch
    ANSWER = "answer"  # device -> server
    FINISH = "finish"  # server -> all: the run is over, forget its secrets


_KINDS = frozenset(Kind)


class Unusable(StrEnum):
    """What is wrong with a share that its sender did seal; nothing of its contents is told."""

    MALFORMED = "malformed secrets"
    NO_MASK = "no mask seed"
    NOT_COMMITTED = "a seed that does not fit its commitment"
    NO_KEY = "no key of its role"
    NO_DATA = "no data that its seeds, its key or its digest open"


@dataclass(frozen=True)
class Message:
    """The envelope of everything on the wire; the module says what the signature covers."""

    kind: Kind
    run: bytes
    agreement: bytes  # SHA-256 of the agreement; empty before it exists
    sender: str
    receiver: str
    body: bytes = b""
    attachment: bytes = b""  # the sender's public key (join, refusal) or bulk
    signature: bytes = b""
    size: int = field(default=0, compare=False)  # in bytes, of one that came over the wire

    def context(self) -> bytes:
        """What is authenticated along with the body."""
        fields = [MAGIC, VERSION, str(self.kind), self.run, self.agreement, self.sender, self.receiver]
        packed: bytes = msgpack.packb(fields)
        return packed

    def with_body(self, body: bytes) -> Message:
        return replace(self, body=body)

    def signed_by(self, author: Identity, attachment_digest: bytes = b"") -> Message:
        """``attachment_digest``: where it is known, so that a bulk to many is not hashed for each."""
        return replace(self, signature=author.sign(self._signed_part(attachment_digest)))

    def check_signature(self, public: bytes) -> None:
        verify(public, self._signed_part(), self.signature)

    def _signed_part(self, attachment_digest: bytes = b"") -> bytes:
        return self.context() + digest_of([self.body]) + (attachment_digest or digest_of([self.attachment]))

    def encode(self) -> bytes:
        fields = [MAGIC, VERSION, str(self.kind), self.run, self.agreement, self.sender, self.receiver]
        packed: bytes = msgpack.packb([*fields, self.body, self.attachment, self.signature])
        return packed

    @classmethod
    def decode(cls, data: bytes, most: Callable[[Kind], int] | None = None, bulk: bytes = b"") -> Message:
        """A message from the wire.

        most: how many bytes a message of a kind may have; None for messages of one's own.
        bulk: the attachment, where it travelled apart; ``data`` then must have none.
        """
        raw = unpack_list(data, "a message")
        if len(raw) < 2 or raw[0] != MAGIC:
            raise MessageRefused("a message must start with the codedfl magic, got something else")
        if type(raw[1]) is not int or raw[1] != VERSION:  # 1.0 and True compare equal to 1
            raise MessageRefused(f"the protocol version must be {VERSION}, got {str(raw[1])[:20]}")
        fields = check_types(raw[2:], (str, bytes, bytes, str, str, bytes, bytes, bytes), "a message")
        if fields[0] not in _KINDS:
            raise MessageRefused(f"the message kind must be a known one, got {fields[0][:40]!r}")
        if max(name_length(fields[3]), name_length(fields[4])) > MAX_NAME:
            raise MessageRefused(f"a device's name must have at most {MAX_NAME} bytes, got more")
        kind = Kind(fields[0])
        size = len(data) + len(bulk)
        if most is not None and size > most(kind):
            raise MessageRefused(f"a message of kind {kind} must have at most {most(kind)} bytes here, got {size}")
        if bulk and fields[6]:
            raise MessageRefused("a message must have one attachment, got one inside and one beside it")
        fields[6] = bulk or fields[6]
        run, agreement, sender, receiver, body, attachment, signature = fields[1:]
        return cls(kind, run, agreement, sender, receiver, body, attachment, signature, size)


@dataclass(frozen=True)
class Update:
    """e of one epoch and the ``fraction_bits`` of its integers. Without numbers it asks for C_i itself (epoch 1)."""

    epoch: int
    fraction_bits: int
    packed: bytes  # d x c ring numbers; none when the constant is asked for

    def encode(self) -> bytes:
        return pack_list([self.epoch, self.fraction_bits, self.packed])

    @classmethod
    def decode(cls, data: bytes) -> Update:
        update = cls(*check_types(unpack_list(data, "an update"), (int, int, bytes), "an update"))
        if update.epoch < 1:
            raise MessageRefused(f"an epoch must be at least 1, got {update.epoch}")
        return update


@dataclass(frozen=True)
class Answer:
    """A device's answer to the update with this digest (SHA-256 of its body)."""

    epoch: int
    update_digest: bytes
    packed: bytes

    def encode(self) -> bytes:
        return pack_list([self.epoch, self.update_digest, self.packed])

    @classmethod
    def decode(cls, data: bytes) -> Answer:
        return cls(*check_types(unpack_list(data, "an answer"), (int, bytes, bytes), "an answer"))


@dataclass(frozen=True)
class Secrets:
    """What one device seals for another (or for the server); an absent one is empty.

    ``mask`` and ``pad`` are seeds; ``content_key`` and ``digest`` open the bulk that travels beside.
    """

    mask: bytes = b""
    pad: bytes = b""
    content_key: bytes = b""
    digest: bytes = b""

    def encode(self) -> bytes:
        return pack_list([self.mask, self.pad, self.content_key, self.digest])

    @classmethod
    def decode(cls, data: bytes) -> Secrets:
        fields = check_types(unpack_list(data, "a share"), (bytes,) * 4, "a share")
        if any(len(field) not in (0, 32) for field in fields):
            raise MessageRefused("every secret in a share must have 0 or 32 bytes, got another length")
        return cls(*fields)

    def __repr__(self) -> str:
        held = [name for name in ("mask", "pad", "content_key") if getattr(self, name)]
        return f"<Secrets {', '.join(held) or 'none'}>"


@dataclass(frozen=True)
class Complaint:
    """The share of ``accused`` is unusable, and why."""

    accused: str
    reason: Unusable

    def encode(self) -> bytes:
        return pack_list([self.accused, str(self.reason)])

    @classmethod
    def decode(cls, data: bytes) -> Complaint:
        accused, reason = check_types(unpack_list(data, "a complaint"), (str, str), "a complaint")
        if reason not in set(Unusable):
            raise MessageRefused(f"a complaint must have a known reason, got {reason[:40]!r}")
        return cls(accused, Unusable(reason))


@dataclass(frozen=True)
class Commitments:
    """Hashes of the seeds that a device shares, by purpose, signed by it once for all receivers.

    A seed that does not fit is not used, so a device that gives two others different seeds harms nobody but its own
    run, and two signed sets of commitments for one agreement prove it guilty.

    They are for one agreement, not for a run: the run's id is the server's choice, and who holds which role is another
    matter in every agreement. Else a seed of a role that a colluder had in one would count in the next for the role
    that it lacks, and the holders' sums would hide nothing of that owner.
    """

    digests: dict[str, bytes]
    signature: bytes

    @classmethod
    def to(cls, seeds: Mapping[str, bytes], owner: str, agreement: bytes, identity: Identity) -> Commitments:
        """Commitments to the seeds that are there; an empty one is not shared. ``agreement`` is a hash."""
        digests = {purpose: commitment(seed, agreement, owner, purpose) for purpose, seed in seeds.items() if seed}
        return cls(digests, identity.sign(_commitment_statement(digests, owner, agreement)))

    def check_signature(self, owner: str, agreement: bytes, public: bytes) -> None:
        verify(public, _commitment_statement(self.digests, owner, agreement), self.signature)

    def check(self, seeds: Mapping[str, bytes], owner: str, agreement: bytes) -> None:
        for purpose, seed in seeds.items():
            if seed and commitment(seed, agreement, owner, purpose) != self.digests.get(purpose):
                raise MessageRefused(f"the {purpose} seed of {owner!r} must fit its commitment: it does not")

    @property
    def digest(self) -> bytes:
        """Names all of them in a list of owners."""
        return digest_of([pack_list(self.fields())])

    def fields(self) -> list[Any]:
        return [[[purpose, digest] for purpose, digest in self.digests.items()], self.signature]

    @classmethod
    def from_fields(cls, fields: list[Any]) -> Commitments:
        pairs, signature = check_types(fields, (list, bytes), "commitments")
        return cls(name_table(pairs, "commitments"), signature)


def _commitment_statement(digests: Mapping[str, bytes], owner: str, agreement: bytes) -> bytes:
    return pack_list(["codedfl commitments v4", agreement, owner, [list(pair) for pair in digests.items()]])


@dataclass(frozen=True)
class Shares:
    """What a device gives the relay in one message: commitments, and envelopes for the server and for each receiver."""

    commitments: Commitments
    for_server: bytes
    envelopes: dict[str, bytes]

    def encode(self) -> bytes:
        envelopes = [[name, envelope] for name, envelope in self.envelopes.items()]
        return pack_list([self.commitments.fields(), self.for_server, envelopes])

    @classmethod
    def decode(cls, data: bytes, most: int = 2**16) -> Shares:
        """``most``: how many devices there are."""
        fields = unpack_list(data, "shares", depth=4, most=_MOST_SHARE_FIELDS + 3 * most)
        commitments, for_server, pairs = check_types(fields, (list, bytes, list), "shares")
        return cls(Commitments.from_fields(commitments), for_server, name_table(pairs, "shares"))


@dataclass(frozen=True)
class Share:
    """One receiver's part of them, relayed with the commitments of its sender."""

    commitments: Commitments
    envelope: bytes

    def encode(self) -> bytes:
        return pack_list([self.commitments.fields(), self.envelope])

    @classmethod
    def decode(cls, data: bytes) -> Share:
        fields = unpack_list(data, "a share", depth=4, most=_MOST_SHARE_FIELDS)
        commitments, envelope = check_types(fields, (list, bytes), "a share")
        return cls(Commitments.from_fields(commitments), envelope)


def name_table(pairs: list[Any], what: str) -> dict[str, bytes]:
    """A list of pairs with distinct names."""
    table: dict[str, bytes] = {}
    for pair in pairs:
        if not isinstance(pair, list):
            raise MessageRefused(f"{what} must be a list of pairs, got something else")
        name, value = check_types(pair, (str, bytes), what)
        if name in table:
            raise MessageRefused(f"{what} must name each receiver once, got {name[:MAX_NAME]!r} twice")
        table[name] = value
    return table


def name_length(name: str) -> int:
    """The length of a name as it travels: in bytes of UTF-8, so that ``ENVELOPE_BYTES`` holds for every alphabet."""
    return len(name.encode(errors="replace"))


def pack_list(fields: list[Any]) -> bytes:
    """Fields as one msgpack list."""
    packed: bytes = msgpack.packb(fields)
    return packed


def unpack_list(data: bytes, what: str, depth: int = 1, most: int | None = None) -> list[Any]:
    """A list of plain values; with a greater depth, of lists of them.

    most: how many values and lists there may be in all; None allows what the longest list of that depth needs.
    """
    found = unpack_bounded(data, what, depth, most or (_MOST_FIELDS if depth == 1 else MOST_OBJECTS))
    if not isinstance(found, list):
        raise MessageRefused(f"{what} must be a list, got {type(found).__name__}")
    return found


def check_types(fields: list[Any], types: Sequence[type], what: str) -> list[Any]:
    """The fields, if there are as many as types and each is exactly of its type."""
    if len(fields) != len(types):
        raise MessageRefused(f"{what} must have {len(types)} fields, got {len(fields)}")
    for one, expected in zip(fields, types, strict=True):
        if type(one) is not expected:  # bool is an int to isinstance
            raise MessageRefused(f"{what} must have a field of type {expected.__name__}, got {type(one).__name__}")
    return fields
