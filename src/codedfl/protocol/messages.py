"""The wire format: versioned envelopes of msgpack, ring numbers packed to 24 bits a residue.

A message is ``[magic, version, kind, run, agreement, sender, receiver, body, attachment, signature]``. The first
seven fields are its *context*: they are authenticated with the body, whether it is sealed (to one receiver) or
signed (by the server to all, by a device for the shares it gives to the relay). Sizes are what the latency model
counts: 6 bytes a number for two primes, the upper triangle of a symmetric matrix, plus ``ENVELOPE_BYTES`` at most
(and for bulk the cipher's 16 bytes a MiB).

Decoders trust nothing: every type and length is checked, and nothing is allocated from a declared size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgpack

from codedfl.crypto.sealed import Identity, digest_of, verify
from codedfl.errors import MessageRefused

MAGIC = "codedfl"
VERSION = 1
SERVER = ""  # the server's name in sender and receiver; as a receiver of a signed message: everybody
MAX_NAME = 64  # bytes
# An upper bound on what a message adds to its payload: magic, version, kind, run, agreement hash, two names,
# seal or signature, epoch, scale, and msgpack's own lengths.
ENVELOPE_BYTES = 512


class Kind(StrEnum):
    INVITATION = "invitation"  # server -> all: the run, its public parameters, the server's keys
    JOIN = "join"  # device -> server: my public key
    REFUSAL = "refusal"  # device -> server: why I do not join
    AGREEMENT = "agreement"  # server -> all: the frozen participant set
    PAD_SEED = "pad-seed"  # server -> device: the seed of Delta_i and Xi_i (coded-padded)
    SHARES = "shares"  # device -> server: sealed secrets for others, one bulk
    SHARE = "share"  # server -> device: one of those, relayed
    READY = "ready"  # device -> server: phase 1 is complete here
    COMPLAINT = "complaint"  # device -> server: what another shared with me is unusable
    UPDATE = "update"  # server -> all: e of one epoch
    ANSWER = "answer"  # device -> server
    FINISH = "finish"  # server -> all: the run is over, forget its secrets


class Unusable(StrEnum):
    """What is wrong with a share that its sender did seal; nothing of its contents is told."""

    MALFORMED = "malformed secrets"
    NO_MASK = "no mask seed"
    NO_DATA = "no data that its seeds, its key or its digest open"


@dataclass(frozen=True)
class Message:
    kind: Kind
    run: bytes
    agreement: bytes  # SHA-256 of the agreement; empty before it exists
    sender: str
    receiver: str
    body: bytes = b""
    attachment: bytes = b""  # the sender's public key (join, refusal) or bulk
    signature: bytes = b""

    def context(self) -> bytes:
        """What is authenticated along with the body."""
        fields = [MAGIC, VERSION, str(self.kind), self.run, self.agreement, self.sender, self.receiver]
        packed: bytes = msgpack.packb(fields)
        return packed

    def with_body(self, body: bytes) -> Message:
        return replace(self, body=body)

    def signed_by(self, author: Identity) -> Message:
        return replace(self, signature=author.sign(self._signed_part()))

    def check_signature(self, public: bytes) -> None:
        verify(public, self._signed_part(), self.signature)

    def _signed_part(self) -> bytes:
        return self.context() + digest_of([self.body]) + digest_of([self.attachment])

    def encode(self) -> bytes:
        fields = [MAGIC, VERSION, str(self.kind), self.run, self.agreement, self.sender, self.receiver]
        packed: bytes = msgpack.packb([*fields, self.body, self.attachment, self.signature])
        return packed

    @classmethod
    def decode(cls, data: bytes) -> Message:
        raw = unpack_list(data, "a message")
        if len(raw) < 2 or raw[0] != MAGIC:
            raise MessageRefused("a message must start with the codedfl magic, got something else")
        if type(raw[1]) is not int or raw[1] != VERSION:  # 1.0 and True compare equal to 1
            raise MessageRefused(f"the protocol version must be {VERSION}, got {str(raw[1])[:20]}")
        fields = check_types(raw[2:], (str, bytes, bytes, str, str, bytes, bytes, bytes), "a message")
        if fields[0] not in set(Kind):
            raise MessageRefused(f"the message kind must be a known one, got {fields[0][:40]!r}")
        if max(name_length(fields[3]), name_length(fields[4])) > MAX_NAME:
            raise MessageRefused(f"a device's name must have at most {MAX_NAME} bytes, got more")
        return cls(Kind(fields[0]), *fields[1:])


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


def encode_envelopes(envelopes: dict[str, bytes]) -> bytes:
    """The sealed secrets of a SHARES message, by receiver."""
    return pack_list([[name, sealed] for name, sealed in envelopes.items()])


def decode_envelopes(data: bytes) -> dict[str, bytes]:
    envelopes: dict[str, bytes] = {}
    for entry in unpack_list(data, "shares"):
        if not isinstance(entry, list):
            raise MessageRefused("shares must be a list of pairs, got something else")
        name, sealed = check_types(entry, (str, bytes), "shares")
        if name in envelopes:
            raise MessageRefused(f"shares must name each receiver once, got {name[:MAX_NAME]!r} twice")
        envelopes[name] = sealed
    return envelopes


def name_length(name: str) -> int:
    """As a name travels: in bytes of UTF-8, so that ``ENVELOPE_BYTES`` holds for every alphabet."""
    return len(name.encode(errors="replace"))


def pack_list(fields: list[Any]) -> bytes:
    packed: bytes = msgpack.packb(fields)
    return packed


def unpack_list(data: bytes, what: str) -> list[Any]:
    try:
        # Lengths are checked against the bytes that are there before anything is allocated; no extension types.
        raw = msgpack.unpackb(data, raw=False, strict_map_key=True, max_ext_len=0)
    except (ValueError, msgpack.UnpackException, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise MessageRefused(f"{what} must be well-formed msgpack: damaged or cut ({type(error).__name__})") from None
    if not isinstance(raw, list):
        raise MessageRefused(f"{what} must be a list, got {type(raw).__name__}")
    return raw


def check_types(fields: list[Any], types: Sequence[type], what: str) -> list[Any]:
    if len(fields) != len(types):
        raise MessageRefused(f"{what} must have {len(types)} fields, got {len(fields)}")
    for field, expected in zip(fields, types, strict=True):
        if type(field) is not expected:  # bool is an int to isinstance
            raise MessageRefused(f"{what} must have a field of type {expected.__name__}, got {type(field).__name__}")
    return fields
