"""Where the real machines play on a symbolic ring while everything that is drawn, sealed and sent is written down.

``Stage`` replaces, as long as it is open, four things under the machines and nothing of the machines themselves: the
ring of an agreement is a symbolic one, noise makes other unknowns of a device's sums, ``crypto.pads`` expands to
unknowns, and the sealing functions of ``crypto.sealed``, which do what they always do, also note what went in and what
came out. Who can read what of it is ``knowledge``'s business.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from types import ModuleType
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from symbolic_ring import Forms, SymbolicFixedPoint, SymbolicRing, Unknowns

from codedfl.crypto import pads, sealed
from codedfl.crypto.sealed import KEY_BYTES, Identity
from codedfl.exact.fixed_point import FixedPoint
from codedfl.exact.ring import Ring
from codedfl.protocol import agreement, hiding_rows
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.messages import Message
from codedfl.typing import RandomBytes


@lru_cache(maxsize=4096)
def decoded(data: bytes) -> Message:
    """The harness looks at every message several times."""
    return Message.decode(data)


@dataclass(frozen=True)
class Sealed:
    """One call of ``seal``: the plaintext is for whoever has the receiver's private key."""

    actor: str
    receiver: bytes
    plaintext: bytes
    ciphertext: bytes


@dataclass(frozen=True)
class Bulk:
    """One call of ``encrypt_bulk``: the plaintext is for whoever has the content key."""

    content_key: bytes
    plaintext: bytes
    ciphertext: bytes


class Stage:
    """``with Stage(...) as stage:`` and everything inside happens on it.

    seed: of all secrets drawn here.
    common_sizes: the group sizes whose primes every run shall have; None takes each run's own. Only numbers modulo
        the same prime can be combined, so runs with different numbers of devices need it.
    rename: what the label of a stream counts as, given the message being handled (see ``mutants``).
    by_rows: whether rows are told apart, not devices alone.
    """

    def __init__(
        self,
        seed: object = 0,
        common_sizes: Sequence[int] | None = None,
        rename: Callable[[str, Message | None], str] | None = None,
        by_rows: bool = False,
    ) -> None:
        self._random = random.Random(f"stage {seed}")
        self._common_sizes = common_sizes
        self.actor = ""  # whose machine is running
        self.owner: str | None = None  # whose rows it has; None for machines without
        self.handling: Message | None = None
        relabel = rename or (lambda label, _message: label)
        self.unknowns = Unknowns(lambda label: relabel(label, self.handling), by_rows)
        self.drawn: dict[str, list[bytes]] = {}
        self._secret_of: dict[bytes, bytes] = {}  # X25519 public key -> the 32 bytes it came from
        self._tried: set[bytes] = set()
        self.seals: list[Sealed] = []
        self.bulks: list[Bulk] = []
        self.wire: list[bytes] = []
        self._undo: list[tuple[Any, str, Any]] = []

    # -- parties

    @property
    def owners(self) -> dict[str, str]:
        """Whose rows, or which row -> whose machine summed them up."""
        return self.unknowns.device_of

    def source(self, actor: str) -> RandomBytes:
        """A source of secrets that remembers what it gave."""
        drawn = self.drawn.setdefault(actor, [])

        def draw(count: int) -> bytes:
            drawn.append(self._random.randbytes(count))
            return drawn[-1]

        return draw

    def identity(self, actor: str) -> Identity:
        return Identity.generate(self.source(actor))

    def secret_of(self, public: bytes) -> bytes:
        """The 32 bytes behind a public key: those of an identity, or drawn here and taken for an X25519 key."""
        key = public[:KEY_BYTES]
        if key not in self._secret_of:
            drawn = {secret for texts in self.drawn.values() for secret in texts if len(secret) == KEY_BYTES}
            for secret in drawn - self._tried:
                raw = X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
                self._secret_of.setdefault(raw, secret)
            self._tried |= drawn
        return self._secret_of[key]

    @contextmanager
    def acting(self, actor: str, owner: str | None, handling: bytes | None = None) -> Iterator[None]:
        before = self.actor, self.owner, self.handling
        self.actor, self.owner = actor, owner
        self.unknowns.new_call()
        self.handling = decoded(handling) if handling is not None else None
        try:
            yield
        finally:
            self.actor, self.owner, self.handling = before

    # -- under the machines

    def __enter__(self) -> Stage:
        _forget_agreements()
        derive, seal, encrypt_bulk = FixedPoint.derive, sealed.seal, sealed.encrypt_bulk
        of_totals = agreement.ring_of_totals

        def symbolic(real: Ring) -> SymbolicRing:
            primes = real.primes
            if self._common_sizes is not None:
                primes = Ring.for_group_sizes(self._common_sizes, len(primes)).primes
            return SymbolicRing(primes, unknowns=self.unknowns, owner=lambda: self.owner)

        def derived(*args: Any, **options: Any) -> SymbolicFixedPoint:
            real = derive(*args, **options)
            return SymbolicFixedPoint.of(real, symbolic(real.ring))

        def noted_noise(format_: FixedPoint, gram: Forms, cross: Forms, seed: bytes, agreed: Agreement) -> None:
            del format_
            assert self.owner is not None
            self.unknowns.with_noise(self.owner, seed + agreed.parameters.recipe, gram, cross)

        def expand(ring: SymbolicRing, seed: bytes, label: str, count: int) -> Forms:
            return ring.expand(seed, label, count)

        def add_expanded(
            ring: SymbolicRing,
            total: Forms,
            coefficients: Sequence[Sequence[int]],
            seeds: Sequence[bytes],
            label: str,
        ) -> None:
            streams = [ring.expand(seed, label, total.shape[1]) for seed in seeds]
            ring.add_scaled(total, coefficients, streams)

        def add_pieces(
            ring: SymbolicRing,
            total: Forms,
            pieces: Mapping[tuple[int, int], slice],
            signed: Sequence[tuple[int, bytes]],
            label: str,
        ) -> None:
            for (a, b), where in pieces.items():
                part = total[:, where]
                streams = f"{label}@{a}@{b}" if a or b else label
                signs = [[sign for sign, _ in signed]] * len(ring.primes)
                add_expanded(ring, part, signs, [seed for _, seed in signed], streams)

        def noted_seal(*args: Any, **options: Any) -> bytes:
            given = signature(seal).bind(*args, **options).arguments
            ciphertext = seal(*args, **options)
            self.seals.append(Sealed(self.actor, given["receiver_public"], given["plaintext"], ciphertext))
            return ciphertext

        def noted_bulk(*args: Any, **options: Any) -> list[bytes]:
            given = signature(encrypt_bulk).bind(*args, **options).arguments
            chunks = list(encrypt_bulk(*args, **options))
            self.bulks.append(Bulk(given["content_key"], bytes(given["plaintext"]), b"".join(chunks)))
            return chunks

        self._replace_everywhere(pads.expand, expand)
        self._replace_everywhere(pads.add_expanded, add_expanded)
        self._replace_everywhere(pads.add_pieces, add_pieces)
        self._replace_everywhere(sealed.seal, noted_seal)
        self._replace_everywhere(sealed.encrypt_bulk, noted_bulk)
        self._replace_everywhere(of_totals, lambda limit: symbolic(of_totals(limit)))
        self._replace_everywhere(hiding_rows.add_noise, noted_noise)
        make_identity = Identity.__init__

        def noted_identity(identity: Identity, secret: bytes) -> None:
            make_identity(identity, secret)
            self._secret_of[identity.public[:KEY_BYTES]] = secret

        self._put(Identity, "__init__", noted_identity, make_identity)
        self._put(FixedPoint, "derive", staticmethod(derived), FixedPoint.__dict__["derive"])
        return self

    def __exit__(self, *exc: object) -> None:
        while self._undo:
            holder, name, before = self._undo.pop()
            setattr(holder, name, before)
        _forget_agreements()

    def _replace_everywhere(self, old: object, new: object) -> None:
        """In every module that has it by name: some import the function, some its module."""
        for module in _modules("codedfl"):
            for name, value in list(vars(module).items()):
                if value is old:
                    self._put(module, name, new, old)

    def _put(self, holder: Any, name: str, new: object, before: object) -> None:
        self._undo.append((holder, name, before))
        setattr(holder, name, new)


def _modules(package: str) -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if f"{name}.".startswith(f"{package}.")]


def _forget_agreements() -> None:
    """What the protocol keeps of messages decoded before: it has another stage's ring in it, or none."""
    for module in _modules("codedfl.protocol"):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
