"""Secrets: every key of a generation follows from one root. Only known primitives, composed here.

Ed25519 signs, X25519 agrees on keys, HKDF-SHA256 derives, ChaCha20 makes pads, ChaCha20-Poly1305 seals. Every secret,
key and digest has 32 bytes, every signature 64.
"""

import hashlib
import hmac
from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from spec.numbers import from_bytes

Part = bytes | str | int
Scope = tuple[bytes, int]  # what every key is for: the study's digest h, and the generation g


def pack(*parts: Part) -> bytes:
    """What is hashed, signed and derived from: before each part its length, 8 bytes, big endian. So is a number."""
    data = [p.encode() if isinstance(p, str) else p.to_bytes(8, "big") if isinstance(p, int) else p for p in parts]
    return b"".join(len(one).to_bytes(8, "big") + one for one in data)


def sha256(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def hkdf(secret: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 without a salt, 32 bytes."""
    return HKDF(SHA256(), 32, salt=None, info=info).derive(secret)


def derive(secret: bytes, what: str, *info: Part) -> bytes:
    """All keys of the protocol but the long-term one."""
    return hkdf(secret, pack(f"codedfl 4 {what}", *info))


# -- who a party is: a long-term key, which signs and does nothing else


def signing_key(secret: bytes) -> Ed25519PrivateKey:
    """From the party's long-term secret."""
    return Ed25519PrivateKey.from_private_bytes(hkdf(secret, b"codedfl v2|identity ed25519"))


def identity_of(secret: bytes) -> bytes:
    """The public key that stands for the party on rosters and in studies."""
    return signing_key(secret).public_key().public_bytes_raw()


def sign(secret: bytes, what: str, *parts: Part) -> bytes:
    """A signature of a text; the first part says what it is, as for keys."""
    return signing_key(secret).sign(pack(f"codedfl 4 {what}", *parts))


def is_signed(identity: bytes, signature: bytes, what: str, *parts: Part) -> bool:
    """Whether the party with this key signed this text."""
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, pack(f"codedfl 4 {what}", *parts))
    except (InvalidSignature, ValueError):
        return False
    return True


# -- keys of a generation


def public_of(key: bytes) -> bytes:
    """The public half of an X25519 key."""
    return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def shared(key: bytes, public: bytes) -> bytes:
    """What the owners of two X25519 keys have in common; ``ValueError`` for a public half of small order."""
    return X25519PrivateKey.from_private_bytes(key).exchange(X25519PublicKey.from_public_bytes(public))


def keyed_hash(scope: Scope, root: bytes, what: str, *parts: Part) -> bytes:
    """16 bytes that only this device can make, and makes again from the same parts."""
    return hmac.digest(derive(root, "siv", *scope), pack(f"codedfl 4 {what}", *parts), "sha256")[:16]


# -- pads


def label_of(study: bytes, ask: bytes) -> bytes:
    """What a pad belongs to."""
    return pack(study, sha256(ask))


def pad_key(secret: bytes, role: int, owner: Sequence[Part], role_public: bytes, label: bytes, nonce: bytes) -> bytes:
    """Of one pad. ``owner``: study, name and A; ``secret`` is shared(a, B) at the owner, shared(b, A) at a holder."""
    study, name, public = owner
    return derive(derive(secret, "kappa", study, role, name, public, role_public), "pad", label, nonce)


def pad(key: bytes, bits: int, first: int, count: int) -> list[int]:
    """Words ``first`` to ``first + count`` - 1 of a pad: ChaCha20's key stream, k/8 bytes for each, little endian.

    The 16 bytes are the block counter, 4 bytes, little endian, and a nonce of zeros. A block has 64 bytes.
    """
    block, skipped = divmod(first * bits // 8, 64)
    cipher = Cipher(algorithms.ChaCha20(key, block.to_bytes(4, "little") + bytes(12)), mode=None)
    return from_bytes(bits, cipher.encryptor().update(bytes(skipped + count * bits // 8))[skipped:])


# -- seals: every key seals one plaintext only, so its nonce is 12 zeros; behind the ciphertext stands the tag


def role_seal(scope: Scope, secret: bytes, role: int, drawer: bytes, holder: bytes, public: bytes) -> ChaCha20Poly1305:
    """For b, whose public half is ``public``; ``drawer`` and ``holder`` are the two A that share ``secret``."""
    return ChaCha20Poly1305(derive(secret, "sealed role key", *scope, role, drawer, holder, public))


def reply_seal(scope: Scope, secret: bytes, device: bytes, server: bytes, asked: bytes, tag: bytes) -> ChaCha20Poly1305:
    """For one reply: ``device`` is A, ``server`` the server's key of the generation, ``asked`` the request's digest."""
    return ChaCha20Poly1305(derive(secret, "reply", *scope, device, server, asked, tag))


def seal_reply(scope: Scope, key: bytes, server: bytes, asked: bytes, tag: bytes, plain: bytes) -> bytes:
    """``tag``, which no other plaintext has, and the seal; the digest of the request is authenticated with it."""
    seal = reply_seal(scope, shared(key, server), public_of(key), server, asked, tag)
    return tag + seal.encrypt(bytes(12), plain, asked)


def open_reply(scope: Scope, key: bytes, device: bytes, asked: bytes, body: bytes) -> bytes:
    """At the server, with its private key of the generation; ``InvalidTag`` for a reply to another request."""
    seal = reply_seal(scope, shared(key, device), device, public_of(key), asked, body[:16])
    return seal.decrypt(bytes(12), body[16:], asked)
