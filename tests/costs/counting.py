"""What the parties of a real run do, counted where the primitives are called: by party, none left out.

A device of a run has a process of its own, so it keeps signatures it has checked to itself; here it is given a cache of
its own as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from codedfl.crypto.sealed import Identity
from codedfl.engines.in_process import ReplyBytes
from codedfl.sum import device, keys, pads, signatures
from codedfl_lab.coded import device as coded_device

SERVER = "the server"  # whoever acts where no device does


@dataclass
class Counted:
    """What one party did."""

    verifications: int = 0
    signatures: int = 0
    exchanges: int = 0
    key_pairs: int = 0
    pad_bytes: int = 0
    hashed_bytes: int = 0
    sealed_bytes: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


@dataclass
class Counting:
    """Counts by party. ``parties`` grows as they are met."""

    parties: dict[str, Counted] = field(default_factory=dict)
    now: str = SERVER
    _checked: dict[str, set[bytes]] = field(default_factory=dict)

    def add(self, what: str, amount: int = 1) -> None:
        mine = self.parties.setdefault(self.now, Counted())
        setattr(mine, what, getattr(mine, what) + amount)

    @contextmanager
    def acting(self, party: str) -> Iterator[None]:
        before, shared = self.now, signatures._in_order
        self.now, signatures._in_order = party, self._checked.setdefault(party, set())
        try:
            yield
        finally:
            self.now, signatures._in_order = before, shared

    def device(self, name: str, reply: ReplyBytes) -> ReplyBytes:
        """The same device, counted."""

        def counted(request: bytes) -> bytes:
            with self.acting(name):
                self.add("bytes_down", len(request))
                found = reply(request)
                self.add("bytes_up", len(found))
                return found

        return counted

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Count from now on."""
        count = self.add

        def before(owner: Any, name: str, amount: Callable[..., tuple[str, int]]) -> None:
            usual = getattr(owner, name)

            def counted(*args: Any, **more: Any) -> Any:
                count(*amount(*args, **more))
                return usual(*args, **more)

            patch.setattr(owner, name, counted)

        before(signatures, "verify", lambda *_: ("verifications", 1))
        before(Identity, "sign", lambda *_: ("signatures", 1))
        before(Identity, "tag", lambda _self, data: ("hashed_bytes", len(data)))
        before(keys.ExchangeKey, "__init__", lambda *_: ("key_pairs", 1))
        before(keys.ExchangeKey, "with_public", lambda *_: ("exchanges", 1))
        before(keys.GenerationKeys, "nonce", lambda _self, *bound: ("hashed_bytes", len(keys.pack(*bound))))
        for module in (keys, device, coded_device):
            before(module, "digest", lambda data: ("hashed_bytes", len(data)))
        before(pads, "_stream", lambda _key, _start, size, _width: ("pad_bytes", size))

        class Sealing:
            def __init__(self, key: bytes) -> None:
                self._real = ChaCha20Poly1305(key)

            def encrypt(self, nonce: bytes, data: bytes, more: bytes | None) -> bytes:
                count("sealed_bytes", len(data))
                return self._real.encrypt(nonce, data, more)

            def decrypt(self, nonce: bytes, data: bytes, more: bytes | None) -> bytes:
                count("sealed_bytes", len(data) - 16)
                return self._real.decrypt(nonce, data, more)

        patch.setattr(keys, "ChaCha20Poly1305", Sealing)
