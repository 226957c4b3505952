"""Secrets: pads from seeds, seals between two parties, bulk under a content key, commitments. Only known primitives.

Ed25519 signs, X25519 agrees on keys, HKDF-SHA256 derives, ChaCha20 expands, ChaCha20-Poly1305 seals. Every secret, key
and digest is 32 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from spec.numbers import Pair, from_residues

SEGMENT = 65536  # numbers per ChaCha20 nonce
CHUNK = 2**20  # bytes of bulk that are sealed at a time


def sha256(*parts: bytes) -> bytes:
    """SHA-256 of the parts as one text."""
    return hashlib.sha256(b"".join(parts)).digest()


def derive(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """32 bytes by HKDF-SHA256."""
    return HKDF(SHA256(), 32, salt=salt, info=info).derive(secret)


# -- pads (paper IV-B: Delta_i and Xi_i; footnote 1)


def pad(seed: bytes, label: str, count: int, primes: list[int], pair: Pair = (0, 0)) -> list[int]:
    """``count`` uniform ring numbers from a seed of 32 bytes; another label or pair has another stream.

    A pad knows of no run, so that it can be made before one: its seed is drawn for one upload and never used again.
    """
    keys = [derive(seed, b"", f"codedfl pad v2|{label}|{k}".encode()) for k in range(len(primes))]
    return from_residues([residues(key, count, p, pair) for key, p in zip(keys, primes, strict=True)], primes)


def residues(key: bytes, count: int, p: int, pair: Pair) -> list[int]:
    """Three bytes at a time, little endian, those below p; a new nonce every SEGMENT numbers: its number, the pair."""
    found: list[int] = []
    for segment in range(-(-count // SEGMENT)):
        nonce = bytes(4) + b"".join(number.to_bytes(4, "little") for number in (segment, *pair))  # block counter 0
        stream = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()
        while len(found) < min(count, (segment + 1) * SEGMENT):
            candidate = int.from_bytes(stream.update(bytes(3)), "little")
            if candidate < p:
                found.append(candidate)
    return found


# -- who a party is: a long-term key, which signs and does nothing else


def signing_key(secret: bytes) -> Ed25519PrivateKey:
    """From the party's long-term secret."""
    return Ed25519PrivateKey.from_private_bytes(derive(secret, b"", b"codedfl v2|identity ed25519"))


def identity_of(secret: bytes) -> bytes:
    """The public key that stands for the party in rosters and studies."""
    return signing_key(secret).public_key().public_bytes_raw()


def sign(secret: bytes, message: bytes) -> bytes:
    """64 bytes."""
    return signing_key(secret).sign(message)


def verify(identity: bytes, message: bytes, signature: bytes) -> None:
    """Raise ``InvalidSignature`` unless the party with this key signed this message."""
    Ed25519PublicKey.from_public_bytes(identity).verify(signature, message)


# -- what a party seals: run keys and keys of roles are X25519 keys


def public_of(key: bytes) -> bytes:
    """The public half."""
    return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def agreed_secret(key: bytes, public: bytes) -> bytes:
    """What the owners of two keys have in common; a public key of small order is refused."""
    return X25519PrivateKey.from_private_bytes(key).exchange(X25519PublicKey.from_public_bytes(public))


def seal_key(secret: bytes, fresh: bytes, sender: bytes, receiver: bytes) -> bytes:
    """The key of one envelope, from public keys and both secrets."""
    return derive(secret, fresh, b"codedfl v2|seal|" + sender + receiver)


def seal(sender: bytes, receiver: bytes, context: bytes, plaintext: bytes, fresh: bytes) -> bytes:
    """Fresh public key | ciphertext | tag: only ``receiver`` opens it, and only ``sender`` can have made it."""
    secret = agreed_secret(fresh, receiver) + agreed_secret(sender, receiver)
    key = seal_key(secret, public_of(fresh), public_of(sender), receiver)
    return public_of(fresh) + ChaCha20Poly1305(key).encrypt(bytes(12), plaintext, context)


def open_sealed(receiver: bytes, sender: bytes, context: bytes, sealed: bytes) -> bytes:
    """Undo ``seal``; raises ``InvalidTag`` where anything of it, or the context, is another."""
    fresh, ciphertext = sealed[:32], sealed[32:]
    secret = agreed_secret(receiver, fresh) + agreed_secret(receiver, sender)
    key = seal_key(secret, fresh, sender, public_of(receiver))
    return ChaCha20Poly1305(key).decrypt(bytes(12), ciphertext, context)


def in_chunks(step: Callable[[bytes, bytes, bytes], bytes], context: bytes, data: bytes, size: int) -> bytes:
    """Chunk by chunk; finality and number of a chunk are its nonce, so that none can be cut, swapped or repeated."""
    starts = range(0, max(1, len(data)), size)
    nonces = [bytes([at == starts[-1]]) + index.to_bytes(11, "big") for index, at in enumerate(starts)]
    return b"".join(step(nonce, data[at : at + size], context) for nonce, at in zip(nonces, starts, strict=True))


def encrypt_bulk(key: bytes, context: bytes, plaintext: bytes) -> bytes:
    """Under a content key, which encrypts one plaintext only."""
    return in_chunks(ChaCha20Poly1305(key).encrypt, context, plaintext, CHUNK)


def decrypt_bulk(key: bytes, context: bytes, digest: bytes, ciphertext: bytes) -> bytes:
    """Undo it. The digest, sealed to each receiver, comes first: every receiver could make chunks that open."""
    assert sha256(ciphertext) == digest, "the bulk is the one that its sender sealed"
    return in_chunks(ChaCha20Poly1305(key).decrypt, context, ciphertext, CHUNK + 16)


def commitment(seed: bytes, agreement: bytes, owner: str, purpose: str) -> bytes:
    """What the owner of a seed signs, so that it cannot give two receivers different ones."""
    return sha256(b"codedfl commitment v3|", agreement, purpose.encode(), b"|", owner.encode(), b"|", seed)
