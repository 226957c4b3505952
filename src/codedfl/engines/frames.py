"""Requests and replies as MQTT messages that any broker takes: what is large is pulled piece by piece.

A frame is a MessagePack list that begins with its kind. The same five travel in both directions:

| kind | fields | meaning |
|---|---|---|
| whole | of, data | a request (``of`` is empty), or the reply to the request of this SHA-256 |
| offered | of, digest, size | the same, but larger than ``PIECE_BYTES``: pull it, by its SHA-256 |
| pull | digest, pieces | send me these pieces |
| piece | digest, index, data | one of them |
| gone | digest | what you pull is not here any more |

Whoever wants something large sets the pace, so a broker never holds more than a few pieces. What is pulled is named by
its content: a pull resumes where it stopped when the same reply is offered again, by a process that was killed between.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from codedfl.errors import MessageRefused

PIECE_BYTES = 96 << 10  # with its frame less than 100 kB: hosted brokers take 128 kB
MOST_BYTES = 1 << 30  # limit on one reply
PIECES_EACH = 8  # on the way from one party
_DIGEST_BYTES = 32


class _Frame(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=str.lower):
    """Fields by place; the first is the kind."""


class Whole(_Frame, frozen=True):
    """A request, or the reply to the request ``of``."""

    of: bytes
    data: bytes


class Offered(_Frame, frozen=True):
    """Stands for something large."""

    of: bytes
    digest: bytes
    size: int


class Pull(_Frame, frozen=True):
    """Asks for pieces of what was offered."""

    digest: bytes
    pieces: tuple[int, ...]


class Piece(_Frame, frozen=True):
    """One of them."""

    digest: bytes
    index: int
    data: bytes


class Gone(_Frame, frozen=True):
    """It must be asked for again."""

    digest: bytes


Frame = Whole | Offered | Pull | Piece | Gone
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Whole | Offered | Pull | Piece | Gone)
pack_frame = msgspec.msgpack.Encoder().encode


def read_frame(data: bytes) -> Frame:
    """What ``pack_frame`` made; anything of another shape is refused."""
    try:
        found = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise MessageRefused(f"a frame must have its fields: {error}") from None
    # Invariant: a size is believed for counting only; memory is taken as pieces come, up to this bound.
    if isinstance(found, Offered) and not (
        len(found.digest) == _DIGEST_BYTES and PIECE_BYTES < found.size <= MOST_BYTES
    ):
        raise MessageRefused(f"what is offered must have {PIECE_BYTES} to {MOST_BYTES} bytes, got {found.size}")
    return found


class Offers:
    """What this party has offered another: the newest few."""

    def __init__(self, most: int = 2) -> None:
        self._most, self._contents = most, OrderedDict[bytes, bytes]()

    def framed(self, of: bytes, data: bytes) -> Frame:
        """As it is announced: itself where it is small."""
        if len(data) <= PIECE_BYTES:
            return Whole(of, data)
        # By content: the same reply, made again by a process that was killed, is the same offer.
        digest = hashlib.sha256(data).digest()
        self._contents[digest] = data
        self._contents.move_to_end(digest)
        # Old replies are made again on request, so they may be forgotten: memory is bounded by the newest few.
        while len(self._contents) > self._most:
            self._contents.popitem(last=False)
        return Offered(of, digest, len(data))

    def given(self, pull: Pull) -> Iterator[Piece | Gone]:
        """The pieces that are asked for; no more than anybody asks for at a time."""
        content = self._contents.get(pull.digest)
        if content is None:
            yield Gone(pull.digest)
            return
        # However many are asked for: a party that asks for more than its share would fill the broker.
        for index in pull.pieces[:PIECES_EACH]:
            if 0 <= index * PIECE_BYTES < len(content):
                yield Piece(pull.digest, index, content[index * PIECE_BYTES : (index + 1) * PIECE_BYTES])

    def clear(self) -> None:
        """Nobody needs them any more."""
        self._contents.clear()
