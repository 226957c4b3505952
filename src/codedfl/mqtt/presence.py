"""What parties say of themselves at a broker: a device which connection this is, the server whether it is there."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from codedfl.errors import MessageRefused
from codedfl.protocol.messages import check_types, pack_list, unpack_list

_SESSION_BYTES = 12
_DIGEST_BYTES = 32

SERVER_IS_HERE = b"here"
SERVER_HAS_LEFT = b""


def study_is_over(digest: bytes) -> bytes:
    """What the server leaves behind when the study of this digest is over: whoever comes later is told, too."""
    return b"over" + digest


@dataclass(frozen=True)
class Presence:
    """Retained at the broker as long as the device is connected.

    session: drawn anew with every connection.
    study: the digest of what is public about the study.
    """

    session: bytes
    study: bytes

    @classmethod
    def of_study(cls, digest: bytes) -> Presence:
        """A new connection's presence."""
        return cls(secrets.token_bytes(_SESSION_BYTES), digest)

    def pack(self) -> bytes:
        """The bytes that are published."""
        return pack_list([self.session, self.study])

    @classmethod
    def read(cls, data: bytes) -> Presence:
        """Raises ``MessageRefused`` for whatever is no presence."""
        session, study = check_types(unpack_list(data, "a presence"), (bytes, bytes), "a presence")
        if len(session) != _SESSION_BYTES or len(study) != _DIGEST_BYTES:
            raise MessageRefused(f"a presence must have {_SESSION_BYTES} and {_DIGEST_BYTES} bytes, got others")
        return cls(session, study)
