"""Calls and replies as the bytes of MQTT messages, small enough for any broker.

A frame is a msgpack list that begins with its kind. What is larger than ``PIECE_BYTES`` does not travel in it: a
*reference* (SHA-256 and size) stands in its place, and whoever wants it fetches it piece by piece (``fetching``).
References name contents, so a bulk that is sent again after a lost connection goes on where it stopped.

Decoders trust nothing: every type and length is checked, and nothing is allocated from a declared size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from codedfl.crypto.pads import RUN_ID_BYTES
from codedfl.engine.calls import Call, Dismissal, Failed, Hello, Introduction, Refused, Reply, Step
from codedfl.engine.letters import Letter, Parcel
from codedfl.errors import MessageRefused
from codedfl.protocol.messages import check_types, pack_list, unpack_list

PIECE_BYTES = 96 << 10  # with its frame less than 100 kB: hosted brokers take 128 kB
MOST_BYTES = 1 << 30  # limit on all that one message refers to
DIGEST_BYTES = 32
_MOST_TEXT = 1000

Cargo = dict[bytes, bytes]  # digest -> content


class Reference(NamedTuple):
    """Stands for something large, by its SHA-256."""

    digest: bytes
    size: int

    @property
    def pieces(self) -> int:
        """How many pieces it is fetched in."""
        return -(-self.size // PIECE_BYTES)


@dataclass(frozen=True)
class Envelope:
    """A call or a reply, under the number that the server gave the call."""

    kind: str  # CALL or REPLY
    number: str
    body: bytes | Reference


@dataclass(frozen=True)
class Fetch:
    """Send me these pieces of what you referred to."""

    digest: bytes
    pieces: tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """One piece of what was referred to."""

    digest: bytes
    index: int
    data: bytes


@dataclass(frozen=True)
class Gone:
    """What you ask for is not here any more."""

    digest: bytes


@dataclass(frozen=True)
class Nudge:
    """How is it with the call of this number? No answer means: I am at it."""

    number: str


@dataclass(frozen=True)
class Unknown:
    """I never got the call of this number, or have forgotten it."""

    number: str


Frame = Envelope | Fetch | Piece | Gone | Nudge | Unknown

CALL, REPLY = "call", "reply"
_FETCH, _PIECE, _GONE = "fetch", "piece", "gone"
_NUDGE, _UNKNOWN = "nudge", "unknown"


def pack_frame(frame: Frame) -> bytes:
    """The bytes of one MQTT message."""
    if isinstance(frame, Envelope):
        body = list(frame.body) if isinstance(frame.body, Reference) else frame.body
        return pack_list([frame.kind, frame.number, body])
    if isinstance(frame, Fetch):
        return pack_list([_FETCH, frame.digest, list(frame.pieces)])
    if isinstance(frame, Piece):
        return pack_list([_PIECE, frame.digest, frame.index, frame.data])
    if isinstance(frame, Gone):
        return pack_list([_GONE, frame.digest])
    return pack_list([_NUDGE if isinstance(frame, Nudge) else _UNKNOWN, frame.number])


def read_frame(data: bytes) -> Frame:
    """Raises ``MessageRefused`` for whatever is no frame."""
    raw = unpack_list(data, "a frame", depth=2)
    kind = raw[0] if raw else None
    if kind in (CALL, REPLY) and len(raw) == 3 and type(raw[1]) is str:
        return Envelope(kind, raw[1][:80], _large(raw[2]))
    if kind == _FETCH:
        _, digest, pieces = check_types(raw, (str, bytes, list), "a fetch")
        check_types(pieces, (int,) * len(pieces), "the pieces of a fetch")
        return Fetch(digest, tuple(pieces))
    if kind == _PIECE:
        _, digest, index, content = check_types(raw, (str, bytes, int, bytes), "a piece")
        return Piece(digest, index, content)
    if kind == _GONE:
        _, digest = check_types(raw, (str, bytes), "a frame")
        return Gone(digest)
    if kind in (_NUDGE, _UNKNOWN):
        _, number = check_types(raw, (str, str), "a frame")
        return Nudge(number[:80]) if kind == _NUDGE else Unknown(number[:80])
    raise MessageRefused(f"a frame must be of a known kind, got {str(kind)[:40]!r}")


# -- what is large


def _loaded(value: bytes, cargo: Cargo) -> bytes | list[Any]:
    """The value itself, or a reference to it in the cargo."""
    if len(value) <= PIECE_BYTES:
        return value
    digest = hashlib.sha256(value).digest()
    cargo[digest] = value
    return [digest, len(value)]


def _large(raw: object) -> bytes | Reference:
    if type(raw) is bytes:
        return raw
    if not isinstance(raw, list):
        raise MessageRefused(f"bytes or a reference must be here, got {type(raw).__name__}")
    reference = Reference(*check_types(raw, (bytes, int), "a reference"))
    if len(reference.digest) != DIGEST_BYTES or not PIECE_BYTES < reference.size <= MOST_BYTES:
        raise MessageRefused(f"a reference must be to {PIECE_BYTES} to {MOST_BYTES} bytes, got {reference.size}")
    return reference


def _put_in_envelope(kind: str, number: str, body: list[Any], cargo: Cargo) -> Envelope:
    loaded = _loaded(pack_list(body), cargo)
    return Envelope(kind, number, loaded if isinstance(loaded, bytes) else Reference(*loaded))


class Missing(Exception):
    """What must be fetched before a body can be read."""

    def __init__(self, references: list[Reference]) -> None:
        super().__init__(f"{len(references)} missing")
        self.references = references


class _Contents:
    """Looks references up in what was fetched, and notes what is missing."""

    def __init__(self, fetched: Mapping[bytes, bytes]) -> None:
        self._fetched = fetched
        self.missing: list[Reference] = []

    def of(self, raw: object) -> bytes:
        value = _large(raw)
        if isinstance(value, bytes):
            return value
        content = self._fetched.get(value.digest)
        if content is None:
            self.missing.append(value)
        return content or b""

    def require_all(self) -> None:
        """Raises ``Missing``, or ``MessageRefused`` if it is more than anybody would send."""
        wanted = sum(reference.size for reference in self.missing)
        if wanted > MOST_BYTES:
            raise MessageRefused(f"a message must refer to at most {MOST_BYTES} bytes, got {wanted}")
        if self.missing:
            raise Missing(self.missing)


# -- calls


def call_envelope(number: str, call: Call, cargo: Cargo) -> Envelope:
    """A call under a number; what is large goes into ``cargo``, to be fetched."""
    if isinstance(call, Hello):
        body: list[Any] = ["hello", call.version, call.challenge, call.server_public]
    elif isinstance(call, Dismissal):
        body = ["dismissal", call.reason]
    else:
        ask = _loaded(call.ask, cargo)
        body = ["step", call.version, call.run, call.name, ask, *_parcel(call.parcel, cargo)]
    return _put_in_envelope(CALL, number, body, cargo)


def read_call(body: bytes, fetched: Mapping[bytes, bytes]) -> Call:
    """Raises ``Missing`` when something it refers to must be fetched first."""
    raw, contents = unpack_list(body, "a call", depth=4), _Contents(fetched)
    kind = raw[0] if raw else None
    if kind == "hello":
        _, version, challenge, server_public = check_types(raw, (str, int, bytes, bytes), "a hello")
        return Hello(challenge, server_public, version)
    if kind == "dismissal":
        _, reason = check_types(raw, (str, str), "a dismissal")
        return Dismissal(reason[:_MOST_TEXT])
    if kind != "step" or len(raw) < 5:
        raise MessageRefused(f"a call must be of a known kind, got {str(kind)[:40]!r}")
    version, run, name = check_types(raw[1:4], (int, bytes, str), "a step")
    if len(run) != RUN_ID_BYTES:  # it names a folder
        raise MessageRefused(f"a run id must have {RUN_ID_BYTES} bytes, got {len(run)}")
    step = Step(run, name, _read_parcel(raw[5:], contents), version, contents.of(raw[4]))
    contents.require_all()
    return step


# -- replies


def reply_envelope(number: str, reply: Reply, cargo: Cargo) -> Envelope:
    """The reply to the call of this number; what is large goes into ``cargo``, to be fetched."""
    if isinstance(reply, Introduction):
        body: list[Any] = ["introduction", reply.name, reply.public, reply.signature]
    elif isinstance(reply, Parcel):
        body = ["parcel", *_parcel(reply, cargo)]
    else:
        body = ["refused", reply.reason]
    return _put_in_envelope(REPLY, number, body, cargo)


def read_reply(body: bytes, fetched: Mapping[bytes, bytes]) -> Reply:
    """What a device replied; whatever is not well-formed counts as no reply. Raises ``Missing`` as ``read_call``."""
    try:
        raw, contents = unpack_list(body, "a reply", depth=4), _Contents(fetched)
        kind = raw[0] if raw else None
        if kind == "introduction":
            _, name, public, signature = check_types(raw, (str, str, bytes, bytes), "an introduction")
            return Introduction(name, public, signature)
        if kind == "refused":
            _, reason = check_types(raw, (str, str), "a refusal")
            return Refused(reason[:_MOST_TEXT])
        if kind != "parcel":
            return Failed(f"a reply must be of a known kind, got {str(kind)[:40]!r}")
        parcel = _read_parcel(raw[1:], contents)
        contents.require_all()
    except MessageRefused as error:
        return Failed(str(error))
    return parcel


def _parcel(parcel: Parcel, cargo: Cargo) -> list[Any]:
    letters = [[_loaded(letter.head, cargo), _loaded(letter.bulk, cargo)] for letter in parcel.letters]
    return [parcel.first, parcel.confirmed, parcel.refusal, _loaded(parcel.newest, cargo), letters]


def _read_parcel(raw: list[Any], contents: _Contents) -> Parcel:
    if len(raw) != 5:
        raise MessageRefused(f"a parcel must have 5 fields, got {len(raw)}")
    first, confirmed, refusal, pairs = check_types([*raw[:3], raw[4]], (int, int, str, list), "a parcel")
    if min(first, confirmed) < 0:
        raise MessageRefused(f"a parcel's numbers must be at least 0, got {first} and {confirmed}")
    letters = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise MessageRefused("a letter must be a head and a bulk, got something else")
        letters.append(Letter(contents.of(pair[0]), contents.of(pair[1])))
    return Parcel(first, tuple(letters), confirmed, contents.of(raw[3]), refusal[:_MOST_TEXT])
