"""Secrets: pads from seeds, seals between two parties, bulk under a content key, commitments. Only known primitives.

Ed25519 signs, X25519 agrees on keys, HKDF-SHA256 derives, ChaCha20 expands, ChaCha20-Poly1305 seals.
"""

from __future__ import annotations

import hashlib

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


def pad(seed: bytes, label: str, count: int, primes: tuple[int, ...], pair: Pair = (0, 0)) -> list[int]:
    """``count`` uniform ring numbers from a seed of 32 bytes; another label or pair has another stream.

    A pad knows of no run, so that it can be made before one: its seed is drawn for one upload and never used again.
    """
    keys = [derive(seed, b"", f"codedfl pad v2|{label}|{k}".encode()) for k in range(len(primes))]
    planes = [residues(key, count, p, pair) for key, p in zip(keys, primes, strict=True)]
    return [from_residues(found, primes) for found in zip(*planes, strict=True)]


def residues(key: bytes, count: int, p: int, pair: Pair) -> list[int]:
    """Three bytes at a time, little endian, those below p; a new nonce every SEGMENT numbers: its number, the pair."""
    found: list[int] = []
    for segment in range(-(-count // SEGMENT)):
        nonce = bytes(4) + b"".join(number.to_bytes(4, "little") for number in (segment, *pair))  # block counter 0
        stream = Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor()
        wanted = min(count, (segment + 1) * SEGMENT)
        while len(found) < wanted:
            candidate = int.from_bytes(stream.update(bytes(3)), "little")
            if candidate < p:
                found.append(candidate)
    return found


# -- who a party is, and what it seals


def signing_key(secret: bytes) -> Ed25519PrivateKey:
    """The long-term key of a party, from its 32 secret bytes; it signs and does nothing else."""
    return Ed25519PrivateKey.from_private_bytes(derive(secret, b"", b"codedfl v2|identity ed25519"))


def public_of(key: Ed25519PrivateKey | X25519PrivateKey) -> bytes:
    """The 32 public bytes."""
    return key.public_key().public_bytes_raw()


def verify(public: bytes, message: bytes, signature: bytes) -> None:
    """Raise ``InvalidSignature`` unless the party with this key signed this message."""
    Ed25519PublicKey.from_public_bytes(public).verify(signature, message)


def seal(sender: X25519PrivateKey, receiver: bytes, context: bytes, plaintext: bytes, fresh_secret: bytes) -> bytes:
    """Fresh public key | ciphertext | tag: only ``receiver`` opens it, and only ``sender`` can have made it."""
    fresh = X25519PrivateKey.from_private_bytes(fresh_secret)
    to = X25519PublicKey.from_public_bytes(receiver)
    key = _seal_key(fresh.exchange(to) + sender.exchange(to), public_of(fresh), public_of(sender), receiver)
    return public_of(fresh) + ChaCha20Poly1305(key).encrypt(bytes(12), plaintext, context)


def open_sealed(receiver: X25519PrivateKey, sender: bytes, context: bytes, sealed: bytes) -> bytes:
    """Undo ``seal``; raises ``InvalidTag`` where anything of it, or the context, is another."""
    fresh, ciphertext = sealed[:32], sealed[32:]
    both = b"".join(receiver.exchange(X25519PublicKey.from_public_bytes(one)) for one in (fresh, sender))
    return ChaCha20Poly1305(_seal_key(both, fresh, sender, public_of(receiver))).decrypt(bytes(12), ciphertext, context)


def _seal_key(secret: bytes, fresh: bytes, sender: bytes, receiver: bytes) -> bytes:
    return derive(secret, fresh, b"codedfl v2|seal|" + sender + receiver)


def bulk_nonce(index: int, final: bool) -> bytes:
    """Number and finality of a chunk: none can be cut, swapped or repeated."""
    return bytes([final]) + index.to_bytes(11, "big")


def encrypt_bulk(key: bytes, context: bytes, plaintext: bytes) -> bytes:
    """Chunk by chunk under a content key, which encrypts one plaintext only."""
    chunks = [plaintext[at : at + CHUNK] for at in range(0, len(plaintext), CHUNK)] or [b""]
    cipher = ChaCha20Poly1305(key)
    return b"".join(cipher.encrypt(bulk_nonce(i, i == len(chunks) - 1), one, context) for i, one in enumerate(chunks))


def decrypt_bulk(key: bytes, context: bytes, digest: bytes, ciphertext: bytes) -> bytes:
    """Undo it. The digest, sealed to each receiver, comes first: every receiver could make chunks that open."""
    assert sha256(ciphertext) == digest, "the bulk is the one that its sender sealed"
    chunks = [ciphertext[at : at + CHUNK + 16] for at in range(0, len(ciphertext), CHUNK + 16)]
    cipher = ChaCha20Poly1305(key)
    return b"".join(cipher.decrypt(bulk_nonce(i, i == len(chunks) - 1), one, context) for i, one in enumerate(chunks))


def commitment(seed: bytes, agreement: bytes, owner: str, purpose: str) -> bytes:
    """What the owner of a seed signs, so that it cannot give two receivers different ones."""
    return sha256(b"codedfl commitment v3|", agreement, purpose.encode(), b"|", owner.encode(), b"|", seed)
