"""Messages that only the named receiver can read and only the named sender can have written (paper III-B).

The paper assumes "an encrypted communication link" between any two devices, relayed by the server. Here:

* ``Identity``: a party's long-term key. It signs (Ed25519) and does nothing else, so a key that is stolen later opens
  nothing that was sent before.
* ``RunKey``: an X25519 pair drawn for one run, signed by its owner's identity, forgotten when the run ends.
* ``seal``/``open_sealed``: X25519 (a fresh key with the receiver's run key, and the sender's run key with the
  receiver's) -> HKDF-SHA256 -> ChaCha20-Poly1305. Sender, receiver, run and purpose are bound in as ``context``: a
  message replayed elsewhere does not open. The relay learns lengths only.
* ``encrypt_bulk``/``decrypt_bulk``: the 12 MB of padded data are encrypted once under a random content key, in
  chunks, whatever the number of receivers; the content key and the SHA-256 of the ciphertext are then sealed to
  each. The digest stops one receiver, who knows the content key, from forging the bulk for another.
* ``commitment``: the hash of a seed that its owner signs, so that it cannot give two receivers different ones.

Only primitives of the ``cryptography`` package are composed. Secrets never appear in a ``repr``.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from codedfl.errors import InvalidInput, MessageRefused
from codedfl.typing import RandomBytes

KEY_BYTES = 32  # the length of every key, secret or public
TAG_BYTES = 16
SIGNATURE_BYTES = 64
SEAL_OVERHEAD = KEY_BYTES + TAG_BYTES  # the fresh public key and the authentication tag
BULK_CHUNK = 1 << 20


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
        self._signing = Ed25519PrivateKey.from_private_bytes(_derive(secret, b"", b"identity ed25519"))
        self._tagging = _derive(secret, b"", b"row tags")
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


class RunKey:
    """A party's X25519 key of one run. ``secret`` is for its saved state; forget both when the run ends."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise InvalidInput(f"a run key must have {KEY_BYTES} bytes, got {len(secret)}")
        self.secret = secret
        self._exchange = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._exchange.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, random_bytes: RandomBytes = secrets.token_bytes) -> RunKey:
        """Draw a new one."""
        return cls(random_bytes(KEY_BYTES))

    def __repr__(self) -> str:
        return f"<RunKey {fingerprint(self.public)}>"

    def shared_with(self, public: bytes) -> bytes:
        """The X25519 secret with the party whose run key has this ``public`` half."""
        return _exchange(self._exchange, public)


def fingerprint(public: bytes) -> str:
    """128 bits in hex digits, to read to each other over the telephone."""
    return hashlib.sha256(public).hexdigest()[:32]


def verify(public: bytes, message: bytes, signature: bytes) -> None:
    """Refuse a message whose signature is not by the key ``public``."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise MessageRefused(f"the signature must be by key {fingerprint(public)}: it is not, or was damaged") from None


def seal(sender: RunKey, receiver_public: bytes, context: bytes, plaintext: bytes, random_bytes: RandomBytes) -> bytes:
    """Fresh public key | ciphertext | tag. ``context`` is authenticated, not sent."""
    fresh = X25519PrivateKey.from_private_bytes(random_bytes(KEY_BYTES))
    fresh_public = fresh.public_key().public_bytes_raw()
    secret = _exchange(fresh, receiver_public) + sender.shared_with(receiver_public)
    key = _derive(secret, fresh_public, b"seal|" + sender.public + receiver_public)
    # Invariant: the fresh pair is drawn here and used here alone, so every message has a key of its own, and the
    # constant nonce is used once under it. The second secret takes the run key of sender or receiver: nobody else can
    # make it.
    return fresh_public + ChaCha20Poly1305(key).encrypt(bytes(12), plaintext, context)


def open_sealed(receiver: RunKey, sender_public: bytes, context: bytes, sealed: bytes) -> bytes:
    """Open what ``seal`` made; refuse what was damaged, forged or meant for another context or receiver."""
    if len(sealed) < SEAL_OVERHEAD:
        raise MessageRefused(f"a sealed message must have at least {SEAL_OVERHEAD} bytes, got {len(sealed)}")
    fresh_public, ciphertext = bytes(sealed[:KEY_BYTES]), sealed[KEY_BYTES:]
    secret = receiver.shared_with(fresh_public) + receiver.shared_with(sender_public)
    key = _derive(secret, fresh_public, b"seal|" + sender_public + receiver.public)
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), ciphertext, context)
    except InvalidTag:
        raise MessageRefused(
            f"a sealed message must open with the key of its sender {fingerprint(sender_public)}:"
            " it was damaged, forged or meant for another run, purpose or receiver"
        ) from None


def bulk_size(plaintext_bytes: int) -> int:
    """Size of the ciphertext: one tag per chunk, and at least one chunk."""
    return plaintext_bytes + TAG_BYTES * max(1, -(-plaintext_bytes // BULK_CHUNK))


def encrypt_bulk(content_key: bytes, context: bytes, plaintext: bytes) -> Iterator[bytes]:
    """Ciphertext chunks; number and finality of each are in its nonce, so none can be cut, swapped or repeated.

    Invariant: a content key encrypts one plaintext only. Nonces count from zero for each, so a second one under the
    same key would use them again.
    """
    cipher = ChaCha20Poly1305(content_key)
    view = memoryview(plaintext)
    count = max(1, -(-len(view) // BULK_CHUNK))
    for index in range(count):
        chunk = view[index * BULK_CHUNK : (index + 1) * BULK_CHUNK]
        yield cipher.encrypt(_chunk_nonce(index, index == count - 1), chunk, context)


def decrypt_bulk(content_key: bytes, context: bytes, digest: bytes, ciphertext: bytes) -> bytes:
    """Undo ``encrypt_bulk``: check the digest that the sender sealed to this receiver, then open every chunk.

    The digest comes first, and it is needed: every receiver knows the content key and could make chunks that open.
    """
    if hashlib.sha256(ciphertext).digest() != digest:
        raise MessageRefused("the bulk must have the digest its sender sealed: it was damaged or replaced")
    cipher = ChaCha20Poly1305(content_key)
    view = memoryview(ciphertext)
    step = BULK_CHUNK + TAG_BYTES
    count = max(1, -(-len(view) // step))
    plaintext = bytearray()
    for index in range(count):
        chunk = view[index * step : (index + 1) * step]
        try:
            plaintext += cipher.decrypt(_chunk_nonce(index, index == count - 1), chunk, context)
        except InvalidTag:
            raise MessageRefused("the bulk must open with its content key: it was damaged or cut") from None
    return bytes(plaintext)


def commitment(seed: bytes, agreement: bytes, owner: str, purpose: str) -> bytes:
    """What the owner of a seed signs: it tells nothing about 32 random bytes, and fits no others."""
    return digest_of([b"codedfl commitment v3|", agreement, purpose.encode(), b"|", owner.encode(), b"|", seed])


def digest_of(chunks: Iterable[bytes]) -> bytes:
    """SHA-256 of all chunks as one text."""
    running = hashlib.sha256()
    for chunk in chunks:
        running.update(chunk)
    return running.digest()


def _chunk_nonce(index: int, final: bool) -> bytes:
    return bytes([final]) + index.to_bytes(11, "big")


def _derive(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=salt, info=b"codedfl v2|" + info).derive(secret)


def _exchange(private: X25519PrivateKey, public: bytes) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise MessageRefused("a public key must be a valid X25519 point, got one that is not") from None
