"""The requests of coded schemes, beside enrolling and closing, and what devices reply.

| request | common to all receivers | for this one | reply |
|---|---|---|---|
| share | study, ..., ask, members | the members | numbers under a pad, and a secret for each who answers for them |
| put | study, ..., ask, members, list | list, owner, envelope, body | the owner, whom the sum has then |
| answer | study, ..., ask, members, list, e | list, envelopes | the coded answer, masked; or whose part is missing |

``members`` are the enrolments in the order of the code, ``list`` what they have shared: both by digest in what is
common, so that masks, which are bound to the digest of what is common, cancel among answers to one question alone.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from codedfl.crypto.sealed import KEY_BYTES
from codedfl.sum import wire
from codedfl.sum.wire import AskCommon, Digest, Enrolment, Name, Nonce, Wire, decode, encode

Maybe = Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES)]
Place = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]


class Shares(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one device has shared: its nonce, and digests of its body, of its secret and of its mask's seed."""

    name: Name
    nonce: Nonce
    body: Digest
    secret: Maybe
    mask: Maybe


class ShareCommon(AskCommon, frozen=True):
    """``members``: digest of the enrolments."""

    members: Digest


class ShareOwn(Wire, frozen=True):
    """The enrolments, in the order of the code."""

    members: tuple[Enrolment, ...]


class ListCommon(ShareCommon, frozen=True):
    """``list``: digest of what all have shared."""

    list: Digest


class List(Wire, frozen=True):
    """``members``, ``shares``: in the order of the code."""

    members: tuple[Enrolment, ...]
    shares: tuple[Shares, ...]


class CodedPutOwn(Wire, frozen=True):
    """``owner``: place in the code."""

    list: List
    owner: Place
    envelope: bytes
    body: bytes


class CodedAnswerCommon(ListCommon, frozen=True):
    """``e``: int64, row by row; empty asks for the vector."""

    e: bytes


class CodedAnswerOwn(Wire, frozen=True):
    """``envelopes``: by place in the code of who sealed them. ``list``: None if it was sent before.

    ``again``: how often the receiver has said that something was missing, so that it is asked by another request.
    """

    list: List | None
    envelopes: dict[Place, bytes]
    again: Place


class Shared(Wire, frozen=True):
    """``envelopes``: by place in the code."""

    shares: Shares
    body: bytes
    envelopes: dict[Place, bytes]


class Put(Wire, frozen=True):
    """The sum has what this one has shared."""

    owner: Place


class CodedAnswered(Wire, frozen=True):
    """On the ring."""

    numbers: bytes


class Secrets(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an envelope holds; empty where its receiver does not need it."""

    secret: Maybe
    mask: Maybe


KINDS: wire.Kinds = {
    "enrol": wire.KINDS["enrol"],
    "close": wire.KINDS["close"],
    "share": (ShareCommon, ShareOwn),
    "put": (ListCommon, CodedPutOwn),
    "answer": (CodedAnswerCommon, CodedAnswerOwn),
}

__all__ = [
    "KINDS",
    "CodedAnswerCommon",
    "CodedAnswerOwn",
    "CodedAnswered",
    "CodedPutOwn",
    "List",
    "ListCommon",
    "Put",
    "Secrets",
]
__all__ += ["ShareCommon", "ShareOwn", "Shared", "Shares", "decode", "encode"]
