"""Who a party is: a long-term key, which signs and does nothing else, so that one that is stolen later opens nothing.

What is sealed for a receiver is sealed by keys of a generation (``codedfl.sum.keys``). Only primitives of the
``cryptography`` package are composed; secrets never appear in a ``repr``. (The paper's III-B assumes "an encrypted
communication link" between any two devices, relayed by the server.)
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from codedfl.errors import InvalidInput, MessageRefused
from codedfl.typing import RandomBytes

KEY_BYTES = 32  # the length of every key, secret or public
SIGNATURE_BYTES = 64


class Identity:
    """A party's long-term Ed25519 key, from a 32-byte secret. ``public`` (32 bytes) is what others pin.

    Examples
    --------
    >>> from codedfl import Identity
    >>> from codedfl.crypto.sealed import verify
    >>> hospital = Identity(bytes(32))  # a secret that everybody knows; ``Identity.generate()`` draws one
    >>> hospital
    <Identity cc1799025675e824506c15566456b4e1>
    >>> verify(hospital.public, b"I take part", hospital.sign(b"I take part"))  # another text would be refused
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise InvalidInput(f"an identity's secret must have {KEY_BYTES} bytes, got {len(secret)}")
        self._signing = Ed25519PrivateKey.from_private_bytes(_derive(secret, b"identity ed25519"))
        self._tagging = _derive(secret, b"row tags")
        self.public = self._signing.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, random_bytes: RandomBytes = secrets.token_bytes) -> Identity:
        """Draw a new one."""
        return cls(random_bytes(KEY_BYTES))

    def __repr__(self) -> str:
        return f"<Identity {fingerprint(self.public)}>"

    def sign(self, message: bytes) -> bytes:
        """Sign with Ed25519."""
        return self._signing.sign(message)

    def tag(self, message: bytes) -> bytes:
        """A keyed hash that only this party can make: it recognises a message again without telling what it was."""
        return hmac.digest(self._tagging, message, "sha256")


def fingerprint(public: bytes) -> str:
    """128 bits in hex digits, to read to each other over the telephone."""
    return hashlib.sha256(public).hexdigest()[:32]


def verify(public: bytes, message: bytes, signature: bytes) -> None:
    """Refuse a message whose signature is not by the key ``public``."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise MessageRefused(f"the signature must be by key {fingerprint(public)}: it is not, or was damaged") from None


def _derive(secret: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"codedfl v2|" + info).derive(secret)
