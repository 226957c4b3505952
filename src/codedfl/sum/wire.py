"""Requests and replies as they travel: MessagePack of typed structs. What has another shape is refused.

Nothing is built from a declared size: a struct has the fields that are named here, of the types that are named here, or
the message is refused before anything else is done with it.

| request | common to all receivers | for this one | reply |
|---|---|---|---|
| enrol | study, generation, server, not_after | | the enrolment, which is in every reply |
| draw | study, generation, server | members | a role key, signed, and its secret half sealed to each member |
| put | study, generation, server | content | nothing: it is kept, for asks that need it |
| upload | ..., ask | role_keys | the statistic under pads |
| answer | ..., ask, list, e | role_key, sealed, rows, entries | the sum of the pads of a role, or its product with e |
| certify | ..., ask, list | entries, uploads, sums | the total, signed by a device that computed it |
| close | ..., record | | nothing: the keys are gone |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from codedfl.crypto.sealed import KEY_BYTES, SIGNATURE_BYTES
from codedfl.errors import MessageRefused
from codedfl.sum.keys import NONCE_BYTES, SEALED_KEY_BYTES

MOST_REQUEST = 64 << 20

# Invariant: sizes and ranges are part of the types, so nothing behind ``decode`` meets a negative number, a name that
# no roster can have, or a key of another length.
Natural = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Key = Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Digest = Key
Signature = Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
MaybeSignature = Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_BYTES)]
Nonce = Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
SealedKey = Annotated[bytes, msgspec.Meta(max_length=SEALED_KEY_BYTES)]
ReplyKind = Literal["ok", "missing", "refused"]


class Refused(MessageRefused):
    """A device does not answer a request; ``code`` is all that it says of the reason.

    study: not approved here. signature: not by the study's server. generation: it is over, or was never begun here.
    request: it does not parse, or does not follow from the contract. role: this device does not hold the role key.
    list: no union of whole disclosure groups, or not enrolled. budget: no more arguments or directions are allowed.
    rows: the statistic has other numbers than it had before.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Missing(Refused):
    """A device lacks what was sent before, or to others; ``code`` names it."""


class Wire(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields by name; unknown ones are refused."""


class Enrolment(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A device's key A of a generation, signed by its long-term key."""

    name: Name
    public: Key
    not_after: Natural
    signature: Signature


class ListEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One owner of a list: its enrolment, and the nonce of the upload that is meant."""

    name: Name
    public: Key
    not_after: Natural
    signature: Signature
    nonce: Nonce

    @property
    def enrolment(self) -> Enrolment:
        return Enrolment(self.name, self.public, self.not_after, self.signature)


class RoleKey(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The public half B of a role's key, signed by the holder that drew it; ``drawer_public`` is that one's A."""

    drawer: Name
    drawer_public: Key
    public: Key
    signature: Signature


class CertifiedUpload(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An upload as its owner signed it, for the role keys of the sums."""

    numbers: bytes
    signature: Signature


class CertifiedSum(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sum of a role's pads, with the signatures of z + 1 of its holders."""

    role_key: RoleKey
    numbers: bytes
    signatures: tuple[tuple[Name, Signature], ...]


# -- what is common to all receivers of a request


class Common(Wire, frozen=True):
    """Study, generation, and the server's X25519 key of the generation, to which replies are sealed."""

    study: Digest
    generation: Natural
    server: Key


class EnrolCommon(Common, frozen=True):
    """``not_after``: seconds since 1970 at which the generation ends by itself."""

    not_after: Natural


class AskCommon(Common, frozen=True):
    """``ask``: the statistic and its argument (``statistics.Ask``)."""

    ask: bytes


class AnswerCommon(AskCommon, frozen=True):
    """``list``: digest of the list of owners. ``e``: int64, row by row; empty asks for the sum itself."""

    list: Digest
    e: bytes


class CertifyCommon(AskCommon, frozen=True):
    """``list``: digest of the list of owners."""

    list: Digest


class CloseCommon(Common, frozen=True):
    """``record``: for each ask (by its digest) whose rows are in the total."""

    record: tuple[tuple[Digest, tuple[Name, ...]], ...]


# -- what is for one receiver


class Nothing(Wire, frozen=True):
    """No fields."""


class DrawOwn(Wire, frozen=True):
    """``members``: the holders of the device's role to whom the key is sealed."""

    members: tuple[Enrolment, ...]


class PutOwn(Wire, frozen=True):
    """``content``: what an ask needs that names its digest; at most ``memory.MOST_CONTENT`` bytes."""

    content: bytes


class UploadOwn(Wire, frozen=True):
    """``role_keys``: one for each role, in order."""

    role_keys: tuple[RoleKey, ...]


class AnswerOwn(Wire, frozen=True):
    """``rows``: tile rows, first and one past the last. ``entries``: the list itself; empty if it was sent before."""

    role_key: RoleKey
    sealed: SealedKey
    rows: tuple[Natural, Natural]
    entries: bytes


class CertifyOwn(Wire, frozen=True):
    """Uploads in the order of the list, sums by role."""

    entries: bytes
    uploads: tuple[CertifiedUpload, ...]
    sums: tuple[CertifiedSum, ...]


KINDS: dict[str, tuple[type[Common], type[Wire]]] = {
    "enrol": (EnrolCommon, Nothing),
    "draw": (Common, DrawOwn),
    "put": (Common, PutOwn),
    "upload": (AskCommon, UploadOwn),
    "answer": (AnswerCommon, AnswerOwn),
    "certify": (CertifyCommon, CertifyOwn),
    "close": (CloseCommon, Nothing),
}


class Request(Wire, frozen=True):
    """``signature``: the server's, of kind and ``common``."""

    kind: str
    common: bytes
    own: bytes
    signature: Signature


# -- plaintexts of replies


class Closed(Wire, frozen=True):
    """No fields, and not sealed: the keys are gone."""


class Drawn(Wire, frozen=True):
    """A role key with its secret half sealed to each co-holder, by name."""

    public: Key
    signature: Signature
    sealed: dict[Name, SealedKey]


class Kept(Wire, frozen=True):
    """No fields: the content is there."""


class Uploaded(Wire, frozen=True):
    """``signature``: only where the statistic is certified."""

    nonce: Nonce
    numbers: bytes
    signature: MaybeSignature


class Answered(Wire, frozen=True):
    """``signature``: only where the statistic is certified."""

    numbers: bytes
    signature: MaybeSignature


class Reply(Wire, frozen=True):
    """``request``: digest of the request. ``code``: why not, or what is missing. ``body``: sealed to the server.

    ``enrolment``: of the generation that is asked for; None if the device does not take part in it.
    """

    kind: ReplyKind
    request: Digest
    enrolment: Enrolment | None
    code: str
    body: bytes


_Struct = TypeVar("_Struct", bound=msgspec.Struct)
_encoder = msgspec.msgpack.Encoder()
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def encode(struct: msgspec.Struct | tuple[Any, ...]) -> bytes:
    """As it travels."""
    return _encoder.encode(struct)


def decode(data: bytes, kind: type[_Struct], what: str) -> _Struct:
    """What ``encode`` made, or anything else of that shape; the rest is refused as ``request``."""
    if kind not in _decoders:
        _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        found: _Struct = _decoders[kind].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Refused("request", f"{what} must have its fields: {error}") from None
    return found


def encode_list(entries: tuple[ListEntry, ...]) -> bytes:
    """A list of owners as it travels, ascending by name."""
    return _encoder.encode(entries)


def decode_list(data: bytes) -> tuple[ListEntry, ...]:
    """See ``encode_list``; whether it may be summed over is ``Terms``' to say."""
    if ListEntry not in _decoders:
        _decoders[ListEntry] = msgspec.msgpack.Decoder(tuple[ListEntry, ...])
    try:
        found: tuple[ListEntry, ...] = _decoders[ListEntry].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise Refused("list", f"a list of owners must have its fields: {error}") from None
    return found


Kinds = Mapping[str, tuple[type[Common], type[Wire]]]


def parsed(request: bytes, kinds: Kinds = KINDS) -> tuple[Request, Common, Wire]:
    """A request of one of these kinds, with both of its parts."""
    if len(request) > MOST_REQUEST:
        raise Refused("request", f"a request must have at most {MOST_REQUEST} bytes, got {len(request)}")
    found = decode(request, Request, "a request")
    if found.kind not in kinds:
        raise Refused("request", f"a request must be one of {', '.join(kinds)}, got {found.kind[:40]!r}")
    common, own = kinds[found.kind]
    whole = decode(found.common, common, f"what is common of {found.kind}")
    return found, whole, decode(found.own, own, f"what is its own of {found.kind}")


def kind_of(request: bytes) -> str:
    """The kind of a request, for whoever carries it."""
    return decode(request, Request, "a request").kind


def asks_for_product(request: bytes) -> bool:
    """Whether an e is in it, for whoever makes a device behave as if it were slow."""
    try:
        common = parsed(request)[1]
    except MessageRefused:
        return False
    return isinstance(common, AnswerCommon) and bool(common.e)
