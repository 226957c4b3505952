"""What parties say of themselves at a broker: a device which connection this is, the server whether it is there."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from codedfl.errors import MessageRefused

HERE, LEFT, OVER = b"here", b"", b"over"  # of a server; whoever comes later gets the last, too
MOST_STUDIES = 48  # of one device at a time: what is retained is small
_CONNECTION_BYTES = 12


@dataclass(frozen=True)
class Presence:
    """Retained at the broker as long as the device is connected.

    connection: drawn again with every connection. studies: the levels of their topics.
    """

    connection: bytes
    studies: tuple[str, ...]

    @classmethod
    def of(cls, studies: Iterable[str]) -> Presence:
        """Of a new connection."""
        return cls(secrets.token_bytes(_CONNECTION_BYTES), tuple(studies))

    def pack(self) -> bytes:
        """As it is published: the levels are hexadecimal, so half as long."""
        return msgspec.msgpack.encode((self.connection, [bytes.fromhex(one) for one in self.studies]))

    @classmethod
    def read(cls, data: bytes) -> Presence:
        """Raises ``MessageRefused`` for whatever is no presence."""
        try:
            connection, levels = msgspec.msgpack.decode(data, type=tuple[bytes, tuple[bytes, ...]])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise MessageRefused(f"a presence must have its fields: {error}") from None
        if len(connection) != _CONNECTION_BYTES or len(levels) > MOST_STUDIES or any(len(one) > 16 for one in levels):
            raise MessageRefused(f"a presence must have {_CONNECTION_BYTES} bytes and at most {MOST_STUDIES} studies")
        return cls(connection, tuple(one.hex() for one in levels))
