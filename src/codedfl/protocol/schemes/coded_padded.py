"""The paper's scheme (IV-B): devices share one-time padded data with each other, the server knows the pads.

Phase 1: the server gives device i a seed (sealed) that expands to Delta_i and Xi_i. Device i makes
Psi_i = G_i^(1) + Delta_i (eq. 6) and Phi_i = X_i'X_i + Xi_i (eq. 7), encrypts them once, and the server relays them to
the devices of *column* i of B (the paper says row). Device i adds b_ij Psi_j and b_ij Phi_j up as they arrive
(C_i and Cbar_i, eq. 8 and 9). The server keeps only the sums of the pads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from codedfl.crypto import pads, sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.errors import MessageRefused
from codedfl.protocol.contribution import OwnData
from codedfl.protocol.device_session import DeviceSession
from codedfl.protocol.device_sharing import CodedDeviceSharing, bulk_context
from codedfl.protocol.messages import SERVER, Kind, Message, Secrets, Shares
from codedfl.protocol.prepared_pad import CONSTANT, GRAM, PadLayout, UploadPad
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.schemes.gradient_coded import GradientCoded
from codedfl.protocol.server_sharing import CodedServerSharing
from codedfl.protocol.terms import Terms
from codedfl.state import PLAIN, SET, CheckpointFields


class PaddedDeviceSharing(CodedDeviceSharing):
    """A device's side: it adds padded data up."""

    checkpoint_fields: ClassVar[CheckpointFields] = {
        **CodedDeviceSharing.checkpoint_fields,
        "_pad_seed_used": PLAIN,
        "_held": SET,
    }

    def __init__(self, session: DeviceSession, own: OwnData, terms: Terms | None) -> None:
        super().__init__(session, own, terms)
        self._pad_seed_used = False
        self._held: set[int] = set()  # whose padded data are in the two sums
        self.handlers[Kind.PAD_SEED] = self._on_pad_seed

    def begin(self) -> None:
        self._start_sums()  # the pads' seed is on its way

    def _on_pad_seed(self, message: Message) -> None:
        session = self._session
        seed = sealed.open_sealed(session.sealing, session.invited.server_key, message.context(), message.body)
        if len(seed) != SEED_BYTES:
            raise MessageRefused(f"a pad's seed must have {SEED_BYTES} bytes, got {len(seed)}")
        if self._pad_seed_used:
            return  # a repeated seed changes nothing: a pad is used once
        padded = UploadPad(PadLayout.of(session.agreed), [seed]).padded(self._own_statistics())
        self._pad_seed_used = True
        self._add(session.position, padded)
        bulk, opens_it = self._encrypted(padded)
        self._share_with_column(opens_it, bulk)
        self._taken()

    def _take_data(self, sender: int, secrets: Secrets, bulk: bytes) -> None:
        if not secrets.content_key:
            raise MessageRefused("a share along the code must bring a content key, got none")
        context = bulk_context(self._session, self._session.agreed.names[sender])
        self._add(sender, sealed.decrypt_bulk(secrets.content_key, context, secrets.digest, bulk))

    def _add(self, sender: int, plaintext: bytes) -> None:
        """Add b_ij times Phi_j and Psi_j, straight from their wire form, to the two sums."""
        assert self.gram_sum is not None and self.constant_sum is not None
        agreed = self._session.agreed
        ring, code, p = agreed.ring, agreed.code, agreed.parameters
        ring.check_packed_length(plaintext, p.triangle_length + p.constant_length)
        index = code.row_support(self._session.position).index(sender)
        factors = [[row[index]] for row in code.coefficients(self._session.position)]
        split = p.triangle_length * ring.bytes_per_number
        view = memoryview(plaintext)
        ring.add_scaled_packed(self.gram_sum, factors, [view[:split]])
        ring.add_scaled_packed(self.constant_sum, factors, [view[split:]])
        self._held.add(sender)

    def _data_complete(self) -> bool:
        return self._held == set(self._session.agreed.code.row_support(self._session.position))


class PaddedServerSharing(CodedServerSharing):
    """The server's side: it draws the pads and keeps their sums."""

    sign: ClassVar[int] = 1

    def open(self) -> None:
        session, agreed, p = self._session, self._session.agreed, self._session.parameters
        ring, seeds = session.agreed.ring, [session.random_bytes(SEED_BYTES) for _ in agreed.names]
        ones = [[1] * len(seeds)] * len(ring.primes)
        triangle, constant = ring.zeros(p.triangle_length), ring.zeros(p.constant_length)
        pads.add_expanded(ring, triangle, ones, seeds, GRAM)
        pads.add_expanded(ring, constant, ones, seeds, CONSTANT)
        self._offset_by(triangle, constant)
        for member, seed in zip(agreed.members, seeds, strict=True):
            header = Message(Kind.PAD_SEED, session.run, agreed.hash, SERVER, member.name)
            body = sealed.seal(session.sealing, member.run_key, header.context(), seed, session.random_bytes)
            session.outbox.send((member.name,), header.with_body(body))

    def _take(self, sender: int, message: Message, shares: Shares) -> Mapping[str, bytes]:
        """Nothing of it is for the server: it relays what it cannot read, along the column."""
        del shares
        agreed = self._session.agreed
        return dict.fromkeys((agreed.names[i] for i in agreed.code.column_support(sender)), message.attachment)

    def can_start(self) -> bool:
        return True


CODED_PADDED = SharingScheme("coded-padded", PaddedDeviceSharing, PaddedServerSharing)


class CodedPadded(GradientCoded, CodedScheme):
    """The paper's scheme.

    Examples
    --------
    >>> from codedfl import CodedPadded
    >>> CodedPadded.default_for(25)  # the paper's best
    CodedPadded(alpha=23, groups=1, spare=0)
    >>> CodedPadded(alpha=23).exposure(25).words
    'one colluder exposes 22 devices to the server'
    """

    name: ClassVar[str] = CODED_PADDED.name
    sharing_scheme: ClassVar[SharingScheme] = CODED_PADDED
    padded: ClassVar[bool] = True
