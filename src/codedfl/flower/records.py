"""Bytes as the content of Flower messages, and how a node says whose it is.

A node's id says nothing of its device, so each is asked once: it signs its name with the device's long-term key.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from codedfl.crypto.sealed import Identity, verify
from codedfl.errors import MessageRefused
from codedfl.sum.keys import pack

HELLO, ASK = "query.codedfl_hello", "train.codedfl_ask"
KINDS = (HELLO, ASK)
_SMALL = 1 << 16
_CHALLENGE_BYTES = 16
_PLACE = "codedfl"


def packed(data: bytes) -> RecordDict:
    """A request or a reply. What is large is an array, which Flower cuts into chunks on the way."""
    if len(data) <= _SMALL:
        return RecordDict({_PLACE: ConfigRecord({"data": data})})
    return RecordDict({_PLACE: ArrayRecord({"data": Array("uint8", (len(data),), "bytes", data)})})


def unpacked(content: RecordDict) -> bytes:
    """Raises ``MessageRefused`` for whatever ``packed`` did not make."""
    record = content.get(_PLACE)
    found = record.get("data") if isinstance(record, ArrayRecord | ConfigRecord) else None
    data = found.data if isinstance(found, Array) else found
    if type(data) is not bytes:
        raise MessageRefused("a message must hold bytes, got something else")
    return data


@dataclass(frozen=True)
class Hello:
    """Asks a node for its device's name."""

    study: bytes
    challenge: bytes

    @classmethod
    def to_nodes_of(cls, study: bytes) -> Hello:
        return cls(study, secrets.token_bytes(_CHALLENGE_BYTES))

    def record(self) -> RecordDict:
        return packed(self.study + self.challenge)

    @classmethod
    def read(cls, content: RecordDict) -> Hello:
        data = unpacked(content)
        return cls(data[:-_CHALLENGE_BYTES], data[-_CHALLENGE_BYTES:])

    def _text(self, node: int, name: str) -> bytes:
        return pack("codedfl flower hello", self.study, self.challenge, str(node), name)

    def answered(self, node: int, name: str, identity: Identity) -> RecordDict:
        """The node's reply."""
        return packed(identity.sign(self._text(node, name)) + name.encode())

    def name_in(self, node: int, content: RecordDict, keys: dict[str, bytes]) -> str:
        """Who has replied; refused unless the device's own key has signed it, for this node."""
        data = unpacked(content)
        try:
            signature, name = data[:64], data[64:].decode()
            key = keys[name]
        except (UnicodeDecodeError, KeyError):
            raise MessageRefused("a node must give a name of the roster, got another") from None
        verify(key, self._text(node, name), signature)
        return name
