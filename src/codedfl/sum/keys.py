"""Keys of one generation of a study: everything is derived from one root, and from nothing else.

A device draws a root when it first hears of a generation, and deletes it when the generation is closed. From it follow
its X25519 key, the key of its nonces, and, if it holds a role, the role key that it would draw. So a device that was
killed, cloned or set back makes the same keys again, and never a second pad from the same key.

Only primitives of the ``cryptography`` package are composed. Lengths stand before every part of what is hashed, signed
or derived from (``pack``), so no two meanings have one encoding.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import cached_property

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from codedfl.crypto.sealed import KEY_BYTES, Identity
from codedfl.errors import MessageRefused

NONCE_BYTES = 16
SEALED_KEY_BYTES = KEY_BYTES + 16


def pack(*parts: bytes | str | int) -> bytes:
    """Parts with their lengths in front: what is hashed, signed and derived from.

    >>> pack("ab").hex()
    '00000000000000026162'
    """
    # Invariant: lengths before parts, so ("ab", "c") and ("a", "bc") are two texts, and no two meanings share a hash.
    found = []
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode() if isinstance(part, str) else part.to_bytes(8, "big")
        found += [len(data).to_bytes(8, "big"), data]
    return b"".join(found)


def digest(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def derive(secret: bytes, *info: bytes | str | int) -> bytes:
    """HKDF-SHA-256 without a salt: everything that tells one key from another is in ``info``."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=pack(*info)).derive(secret)


class ExchangeKey:
    """An X25519 pair."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    def with_public(self, public: bytes) -> bytes:
        """The shared secret; a public half that is no point, or of small order, is refused."""
        # Invariant: a point of small order gives a secret that anybody knows; the library refuses it.
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise MessageRefused("a public key must be a valid X25519 point, got one that is not") from None


@dataclass(frozen=True)
class Scope:
    """What every key is bound to: study digest ``h`` and generation ``g``."""

    study: bytes
    generation: int


@dataclass(frozen=True)
class GenerationKeys:
    """A device's keys of one generation, from its root.

    Examples
    --------
    >>> from codedfl.sum.keys import GenerationKeys, Scope
    >>> keys = GenerationKeys(Scope(bytes(32), 1), bytes(32))
    >>> keys == GenerationKeys(Scope(bytes(32), 1), bytes(32))
    True
    """

    scope: Scope
    root: bytes = field(repr=False)
    _drawn: dict[int, ExchangeKey] = field(default_factory=dict, repr=False, compare=False)  # caches
    _shared: dict[bytes, bytes] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def own(self) -> ExchangeKey:
        """(a, A)."""
        # Invariant: study and generation are in every derivation: keys of two generations tell nothing of each other.
        return ExchangeKey(derive(self.root, "codedfl 4 device key", self.scope.study, self.scope.generation))

    @cached_property
    def _siv(self) -> bytes:
        # A key for nonces only: what it makes is public, what the others make is not.
        return derive(self.root, "codedfl 4 siv", self.scope.study, self.scope.generation)

    def role_key(self, role: int) -> ExchangeKey:
        """(b, B), if this device draws the key of its role."""
        if self._drawn.get(role) is None:
            # Invariant: drawn from the root, so a device that was killed while it drew draws the same key again.
            secret = derive(self.root, "codedfl 4 role key", self.scope.study, self.scope.generation, role)
            self._drawn[role] = ExchangeKey(secret)
        return self._drawn[role]

    def nonce(self, *bound: bytes | str | int) -> bytes:
        """A nonce that is another one whenever anything of ``bound`` is: no memory is needed to use it once."""
        # Invariant: a function of what it is bound to, so equal uploads have equal pads, and others never do.
        return hmac.digest(self._siv, pack(*bound), "sha256")[:NONCE_BYTES]

    # -- sealing a role key to a co-holder

    def seal_role_key(self, role: int, co_holder: bytes) -> bytes:
        """The secret half of this device's role key, for the enrolled key of another holder of the role."""
        # Invariant: one key, one plaintext: B is in the key's info, and B fixes b. So the constant nonce is used once.
        drawn = self.role_key(role)
        key = _sealing_key(self.scope, role, self.own.with_public(co_holder), self.own.public, co_holder, drawn.public)
        return ChaCha20Poly1305(key).encrypt(bytes(12), drawn.secret, None)

    def open_role_key(self, role: int, drawer: bytes, public: bytes, sealed: bytes) -> ExchangeKey:
        """The role key whose public half is ``public``; refused where something else was sealed."""
        key = _sealing_key(self.scope, role, self.own.with_public(drawer), drawer, self.own.public, public)
        try:
            opened = ChaCha20Poly1305(key).decrypt(bytes(12), sealed, None)
        except InvalidTag:
            raise MessageRefused("a sealed role key must open with this device's key of the generation") from None
        found = ExchangeKey(opened) if len(opened) == KEY_BYTES else None
        # Invariant: pub(b) = B, or the holder would answer for pads that no owner has used.
        if found is None or found.public != public:
            raise MessageRefused("a sealed role key must be the secret half of the signed one")
        return found

    # -- replies

    def _shared_with(self, server: bytes) -> bytes:
        if server not in self._shared:
            self._shared.clear()  # one key of the server's lasts as long as the generation
            self._shared[server] = self.own.with_public(server)
        return self._shared[server]

    def seal_reply(self, server: bytes, request: bytes, plaintext: bytes) -> bytes:
        """For the server's key of this generation; the same reply to the same request is sealed to the same bytes."""
        # Invariant: the key depends on the plaintext by ``tag``, so no key and nonce ever seal two plaintexts, also if
        # a clone or a device that was set back answers the same request otherwise.
        tag = self.nonce("codedfl 4 reply", request, plaintext)
        key = _reply_key(self.scope, self._shared_with(server), self.own.public, server, request, tag)
        return tag + ChaCha20Poly1305(key).encrypt(bytes(12), plaintext, request)


def open_reply(scope: Scope, shared: bytes, device: bytes, server: bytes, request: bytes, body: bytes) -> bytes:
    """What a device has replied to the request with this digest; anything else is refused.

    shared: the secret of both keys. device, server: their public halves.
    """
    tag, sealed = body[:NONCE_BYTES], body[NONCE_BYTES:]
    key = _reply_key(scope, shared, device, server, request, tag)
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), sealed, request)
    except InvalidTag:
        raise MessageRefused("a reply must open: it was damaged, forged, or is to another request") from None


def kappa(shared: bytes, scope: Scope, role: int, owner: str, enrolled: bytes, role_public: bytes) -> bytes:
    """The secret of an owner and a role: from (a, B) at the owner, from (b, A) at every holder of the role."""
    # Invariant: both public keys and the owner's name are bound: an owner's key under a colluder's name gives another
    # kappa.
    return derive(shared, "codedfl 4 kappa", scope.study, role, owner, enrolled, role_public)


def label_of(study: bytes, ask: bytes) -> bytes:
    """What a pad, a pinned vector and a direction belong to: the study and the request for a statistic."""
    # Invariant: everything that tells one sum from another is in the ask: statistic, version, merging, point, model,
    # groups.
    return pack(study, digest(ask))


def pad_key(secret: bytes, label: bytes, nonce: bytes) -> bytes:
    """The ChaCha20 key of one pad. Invariant: ``nonce`` depends on the very bytes that are padded."""
    # Invariant: one label and one nonce, so a stream covers the words of exactly one upload.
    return derive(secret, "codedfl 4 pad", label, nonce)


# -- what is signed


def enrolment_text(scope: Scope, not_after: int, public: bytes) -> bytes:
    """By the device whose key of the generation this is."""
    return pack("codedfl 4 enrolment", scope.study, scope.generation, not_after, public)


def role_key_text(scope: Scope, role: int, public: bytes) -> bytes:
    """By the holder that drew it."""
    return pack("codedfl 4 role key", scope.study, scope.generation, role, public)


def request_text(kind: str, common: bytes) -> bytes:
    """By the server."""
    return pack("codedfl 4 request", kind, digest(common))


def upload_text(label: bytes, enrolled: bytes, role_publics: list[bytes], nonce: bytes, numbers: bytes) -> bytes:
    """By the owner, where totals are certified."""
    # Invariant: the role keys are in it, so a signed upload is never combined with pads of another generation's keys.
    return pack("codedfl 4 upload", label, enrolled, *role_publics, nonce, digest(numbers))


def role_sum_text(label: bytes, owners: bytes, role: int, role_public: bytes, numbers: bytes) -> bytes:
    """By a holder of the role, where totals are certified."""
    return pack("codedfl 4 role sum", label, owners, role, role_public, digest(numbers))


def total_text(label: bytes, owners: bytes, numbers: bytes) -> bytes:
    """By a device that has computed the total."""
    return pack("codedfl 4 total", label, owners, digest(numbers))


def signed_request(identity: Identity, kind: str, common: bytes) -> bytes:
    """The server's signature of what is common to all receivers of a request."""
    return identity.sign(request_text(kind, common))


def _sealing_key(scope: Scope, role: int, shared: bytes, drawer: bytes, holder: bytes, public: bytes) -> bytes:
    text = ("codedfl 4 sealed role key", scope.study, scope.generation, role, drawer, holder, public)
    return derive(shared, *text)


def _reply_key(scope: Scope, shared: bytes, device: bytes, server: bytes, request: bytes, tag: bytes) -> bytes:
    return derive(shared, "codedfl 4 reply", scope.study, scope.generation, device, server, request, tag)
