"""msgpack from strangers: how much it holds is counted before it is built.

A byte of msgpack can be a list, and a list takes 56 bytes or more of memory: 20 MB of nested empty lists took 1.4 GB
before anything could be said about them. So containers are entered one by one, by their headers; a text, number or
byte string is never longer than the data that are there.
"""

from __future__ import annotations

from typing import Any

import msgpack

from codedfl.errors import MessageRefused

MOST_OBJECTS = 2**19  # an agreement of 2^16 - 1 devices has fewer
_ERRORS = (ValueError, msgpack.UnpackException, UnicodeDecodeError, TypeError)

# First bytes of msgpack's lists and tables: short ones, then those with a length of 16 or 32 bits.
_LISTS = frozenset([*range(0x90, 0xA0), 0xDC, 0xDD])
_TABLES = frozenset([*range(0x80, 0x90), 0xDE, 0xDF])


def unpack_bounded(data: bytes, what: str, depth: int, most: int = MOST_OBJECTS) -> Any:
    """What is packed in ``data``, if it is well-formed, has at most ``most`` objects and is no deeper than ``depth``.

    depth: 0 is a single value, 1 a list or table of values, and so on.
    """
    try:
        return _Reader(data, what, most).whole(depth)
    except _ERRORS as error:
        raise MessageRefused(f"{what} must be well-formed msgpack: damaged or cut ({type(error).__name__})") from None


class _Reader:
    def __init__(self, data: bytes, what: str, most: int) -> None:
        self._data = data
        self._what = what
        self._left = self._most = most
        # No extension types. The buffer is as long as the data, and so is the longest text or byte string.
        self._unpacker = msgpack.Unpacker(strict_map_key=True, max_buffer_size=max(1, len(data)), max_ext_len=0)
        self._unpacker.feed(data)

    def whole(self, depth: int) -> Any:
        if not self._data:
            raise ValueError("there is nothing")
        found = self._next(depth)
        if self._unpacker.tell() != len(self._data):
            raise msgpack.ExtraData(found, b"")
        return found

    def _next(self, depth: int) -> Any:
        if not self._left:
            raise self._too_many()
        self._left -= 1
        place = self._unpacker.tell()
        first = self._data[place] if place < len(self._data) else 0
        if first in _LISTS:
            length = self._unpacker.read_array_header()
            self._enter(depth, length, "list")
            return [self._next(depth - 1) for _ in range(length)] if length else []
        if first in _TABLES:
            length = self._unpacker.read_map_header()
            self._enter(depth, 2 * length, "dict")
            return {self._key(): self._next(depth - 1) for _ in range(length)}
        return self._unpacker.unpack()

    def _key(self) -> str:
        key = self._next(0)
        if not isinstance(key, str):
            raise TypeError("a table must have text for keys")
        return key

    def _enter(self, depth: int, length: int, kind: str) -> None:
        if depth < 1:
            raise MessageRefused(f"{self._what} must hold plain values here, got {kind}")
        if length and length > len(self._data) - self._unpacker.tell():  # every object has a byte at least
            raise msgpack.OutOfData
        if length > self._left:  # each is counted when it is read
            raise self._too_many()

    def _too_many(self) -> MessageRefused:
        return MessageRefused(f"{self._what} must hold at most {self._most} values, got more")
