"""Signatures of others, each checked once in a process."""

from __future__ import annotations

from codedfl.crypto.sealed import verify
from codedfl.errors import MessageRefused
from codedfl.sum.keys import digest, pack
from codedfl.sum.wire import Refused

_MOST_CHECKED = 1 << 17
# Digests of key, text and signature that fit each other: whether they do depends on nothing else, so devices and server
# of one process may share what was found, and it may be lost at any time.
_in_order: set[bytes] = set()


def check_signature(code: str, key: bytes, text: bytes, signature: bytes) -> None:
    """Refuse with this code what the owner of a key has not signed."""
    place = digest(pack(key, text, signature))
    if place in _in_order:
        return
    try:
        verify(key, text, signature)
    except MessageRefused as error:
        raise Refused(code, str(error)) from None
    if len(_in_order) >= _MOST_CHECKED:
        _in_order.clear()
    _in_order.add(place)
