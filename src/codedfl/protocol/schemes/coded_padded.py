"""The paper's scheme (IV-B): devices share one-time padded data with each other, the server knows the pads.

Phase 1: the server gives device i a seed (sealed) that expands to Delta_i and Xi_i. Device i makes
Psi_i = G_i^(1) + Delta_i (eq. 6) and Phi_i = X_i'X_i + Xi_i (eq. 7), encrypts them once, and the server relays them to
the devices of *column* i of B (the paper says row). Device i adds b_ij Psi_j and b_ij Phi_j up as they arrive
(C_i and Cbar_i, eq. 8 and 9). The server keeps only the sums of the pads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from codedfl.crypto import pads, sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import KEY_BYTES
from codedfl.errors import MessageRefused
from codedfl.protocol.coded_device import CodedDevice
from codedfl.protocol.coded_server import CodedServer
from codedfl.protocol.convener import Outgoing
from codedfl.protocol.messages import SERVER, Kind, Message, Secrets
from codedfl.state import PLAIN, SET, Kept
from codedfl.typing import Planes

GRAM, CONSTANT = "gram", "constant"


class PaddedDevice(CodedDevice):
    """Device of the scheme ``coded-padded``."""

    scheme: ClassVar[str] = "coded-padded"
    _kept: ClassVar[Mapping[str, Kept]] = {
        **CodedDevice._kept,
        "_pad_seed_used": PLAIN,
        "_held": SET,
        "_gram_sum": PLAIN,
        "_constant_sum": PLAIN,
    }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._pad_seed_used = False
        self._held: set[int] = set()  # whose padded data are in the two sums
        self._gram_sum: Planes | None = None
        self._constant_sum: Planes | None = None

    def _handlers(self) -> dict[Kind, Any]:
        return {**super()._handlers(), Kind.PAD_SEED: self._on_pad_seed}

    def _begin_sharing(self) -> list[Message]:
        p = self._agreed.parameters
        self._gram_sum = self._ring.zeros(p.triangle_length)
        self._constant_sum = self._ring.zeros(p.constant_length)
        return []  # the pads' seed is on its way

    def _on_pad_seed(self, message: Message) -> list[Message]:
        seed = sealed.open_sealed(self._sealing, self._invited.server_key, message.context(), message.body)
        if len(seed) != SEED_BYTES:
            raise MessageRefused(f"a pad's seed must have {SEED_BYTES} bytes, got {len(seed)}")
        if self._pad_seed_used:
            return []  # a repeated seed changes nothing: a pad is used once
        gram, constant = self._own_statistics()
        self._pad_seed_used = True
        ring, one = self._ring, [[1]] * len(self._ring.primes)
        pads.add_expanded(ring, gram, one, [seed], self._run, GRAM)
        pads.add_expanded(ring, constant, one, [seed], self._run, CONSTANT)
        plaintext = ring.pack(gram) + ring.pack(constant)
        del gram, constant
        self._add(self._position, plaintext)

        content_key = self._random_bytes(KEY_BYTES)
        bulk = b"".join(sealed.encrypt_bulk(content_key, self._bulk_context(self.name), plaintext))
        to_column = Secrets(content_key=content_key, digest=sealed.digest_of([bulk]))
        column = set(self._agreed.code.column_support(self._position))
        shares = self._shares(lambda i: to_column if i in column else Secrets(), bulk)
        return [shares, *self._announce_if_ready()]

    def _take_secrets(self, sender: int, secrets: Secrets, bulk: bytes) -> None:
        if sender not in self._agreed.code.row_support(self._position):
            return  # a mask seed only
        if not secrets.content_key:
            raise MessageRefused("a share along the code must bring a content key, got none")
        context = self._bulk_context(self._agreed.names[sender])
        self._add(sender, sealed.decrypt_bulk(secrets.content_key, context, secrets.digest, bulk))

    def _add(self, sender: int, plaintext: bytes) -> None:
        """Add b_ij times Phi_j and Psi_j, straight from their wire form, to the two sums."""
        assert self._gram_sum is not None and self._constant_sum is not None
        ring, code, p = self._ring, self._agreed.code, self._agreed.parameters
        ring.check_packed_length(plaintext, p.triangle_length + p.constant_length)
        index = code.row_support(self._position).index(sender)
        factors = [[row[index]] for row in code.coefficients(self._position)]
        split = p.triangle_length * ring.bytes_per_number
        view = memoryview(plaintext)
        ring.add_scaled_packed(self._gram_sum, factors, [view[:split]])
        ring.add_scaled_packed(self._constant_sum, factors, [view[split:]])
        self._held.add(sender)

    def _bulk_context(self, sender: str) -> bytes:
        return Message(Kind.SHARES, self._run, self._agreed.hash, sender, SERVER).context()

    def _shares_complete(self) -> bool:
        return self._held == set(self._agreed.code.row_support(self._position))

    def _forget_secrets(self) -> None:
        super()._forget_secrets()
        self._gram_sum = self._constant_sum = None

    def _finish_sharing(self) -> None:
        assert self._gram_sum is not None
        self.linear = self._ring.symmetric(self._gram_sum, self._agreed.parameters.n_features)
        self.constant = self._constant_sum
        self._gram_sum = self._constant_sum = None


class PaddedServer(CodedServer):
    """Server of the scheme ``coded-padded``: it draws the pads and keeps their sums."""

    scheme: ClassVar[str] = "coded-padded"
    pad_sign: ClassVar[int] = 1

    def _open_sharing(self) -> list[Outgoing]:
        agreed, ring, p = self._agreed, self._ring, self.parameters
        seeds = [self._random_bytes(SEED_BYTES) for _ in agreed.names]
        ones = [[1] * len(seeds)] * len(ring.primes)
        triangle = ring.zeros(p.triangle_length)
        pads.add_expanded(ring, triangle, ones, seeds, self.run, GRAM)
        self.pad_linear = ring.symmetric(triangle, p.n_features)
        self.pad_constant = ring.zeros(p.constant_length)
        pads.add_expanded(ring, self.pad_constant, ones, seeds, self.run, CONSTANT)
        letters = []
        for member, seed in zip(agreed.members, seeds, strict=True):
            header = Message(Kind.PAD_SEED, self.run, agreed.hash, SERVER, member.name)
            body = sealed.seal(self._sealing, member.run_key, header.context(), seed, self._random_bytes)
            letters.append(Outgoing((member.name,), header.with_body(body).encode()))
        return letters

    def _take_shares(self, sender: int, message: Message, for_server: bytes) -> bytes:
        del sender, for_server  # nothing of it is for the server: it relays what it cannot read
        return message.attachment

    def _can_start(self) -> bool:
        return True
