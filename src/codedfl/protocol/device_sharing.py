"""A device's side of the sharing phase: it gives its data away hidden, and takes what others seal for it.

Here is what all schemes have in common, and what those with a gradient code have; ``schemes`` has the rest. When the
phase is complete a device holds ``answer_matrix`` (d x d) and ``answer_constant`` on the ring, from which it answers.

Whoever gets a seed that does not fit its signed commitment complains and does not use it, so nobody can be made to
answer wrongly by a bad seed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from codedfl.code.masks import combined_mask, mask_label, mask_receivers, mask_senders
from codedfl.crypto import sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import KEY_BYTES
from codedfl.errors import MessageRefused
from codedfl.protocol.agreement import Member
from codedfl.protocol.contribution import OnRing, OwnData
from codedfl.protocol.device_session import DeviceSession
from codedfl.protocol.events import RowsFitted, SecretsForgotten
from codedfl.protocol.messages import (
    SERVER,
    Commitments,
    Complaint,
    Kind,
    Message,
    Secrets,
    Share,
    Shares,
    Unusable,
    Update,
)
from codedfl.protocol.prepared_pad import PadLayout, UploadPad
from codedfl.protocol.terms import Terms
from codedfl.state import MAP, PLAIN, CheckpointFields
from codedfl.typing import Planes


class DeviceSharing(ABC):
    """Phase 1 at a device, and what stays of it: the numbers that the device answers epochs with."""

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "answer_matrix": PLAIN,
        "answer_constant": PLAIN,
        "gram_sum": PLAIN,
        "constant_sum": PLAIN,
    }

    def __init__(self, session: DeviceSession, own: OwnData, terms: Terms | None) -> None:
        self._session = session
        self._own = own
        self._terms = terms
        self.answer_matrix: Planes | None = None
        self.answer_constant: Planes | None = None
        self.gram_sum: Planes | None = None  # being added up
        self.constant_sum: Planes | None = None
        self.handlers: dict[Kind, Callable[[Message], None]] = {Kind.SHARE: self._on_share}

    # -- what a scheme decides

    @abstractmethod
    def begin(self) -> None:
        """The agreement is accepted."""

    @abstractmethod
    def _expects(self, sender: int) -> bool:
        """Whether this device shares with us at all."""

    @abstractmethod
    def _has(self, sender: int) -> bool:
        """Whether we have its share, or need it no more."""

    @abstractmethod
    def _opened(self, message: Message, share: Share, author: Member) -> bytes:
        """What a share holds; refused unless its author sealed it together with these commitments."""

    @abstractmethod
    def _take(self, sender: int, secrets: Secrets, commitments: Commitments, bulk: bytes) -> Unusable | None:
        """Keep what a device shared; returns what is wrong with it, if anything."""

    @abstractmethod
    def _taken(self) -> None:
        """A share was taken: announce what follows from it."""

    @property
    def owner_names(self) -> tuple[str, ...]:
        """Whose data are in the total; empty before that is fixed here."""
        agreed = self._session.agreement
        return () if agreed is None else tuple(agreed.names[i] for i in agreed.owners)

    def mask(self, digest: bytes, count: int) -> Planes:
        """What is added to an answer of ``count`` numbers to the update with this digest."""
        del digest
        return self._session.agreed.ring.zeros(count)

    def answered(self, update: Update) -> None:  # noqa: B027  # a scheme may have nothing to do
        """An update was answered."""

    def forget(self) -> None:
        """The run is over, also in the middle of phase 1; schemes add what they hold beyond this."""
        self.answer_matrix = self.answer_constant = self.gram_sum = self.constant_sum = None

    # -- what all have in common

    @property
    def ready(self) -> bool:
        """Phase 1 is complete here: this device can answer updates."""
        return self.answer_matrix is not None

    def _own_statistics(self) -> OnRing:
        """X'X and the constant part of this device; what they are made of is dropped, nothing else needs it."""
        found = self._own.on_ring(self._session.agreed)
        fit = self._own.fit
        self._session.outbox.tell(SecretsForgotten())
        if fit.clipped or fit.dropped:
            self._session.outbox.tell(RowsFitted(fit.clipped, fit.dropped))
        return found

    def _pad(self) -> UploadPad:
        """The pads of our upload, and their seeds: made beforehand, if they fit, and spent now."""
        return self._session.pads.take(PadLayout.of(self._session.agreed))

    def _encrypted(self, plaintext: bytes) -> tuple[bytes, Secrets]:
        """A bulk, and what opens it."""
        content_key = self._session.random_bytes(KEY_BYTES)
        context = self._session.to_server(Kind.SHARES).context()
        bulk = b"".join(sealed.encrypt_bulk(content_key, context, plaintext))
        return bulk, Secrets(content_key=content_key, digest=sealed.digest_of([bulk]))

    def _send_shares(
        self, commitments: Commitments, envelopes: dict[str, bytes], bulk: bytes, for_server: Secrets | None = None
    ) -> None:
        """The one message by which a device gives its data away.

        for_server: what opens the bulk, where it is for the server.
        """
        session, envelope = self._session, b""
        if for_server is not None:
            envelope = session.seal(session.invited.server_key, session.to_server(Kind.SHARES), for_server.encode())
        body = Shares(commitments, envelope, envelopes).encode()
        session.send(session.to_server(Kind.SHARES, body, attachment=bulk).signed_by(session.identity))

    def _on_share(self, message: Message) -> None:
        session, agreed = self._session, self._session.agreed
        sender = agreed.position(message.sender)
        if not self._expects(sender):
            raise MessageRefused(f"{message.sender!r} must not share with {session.name!r} in this run, but did")
        if self._has(sender):
            return  # a repeated share changes nothing
        share = Share.decode(message.body)
        opened = self._opened(message, share, agreed.members[sender])  # what was damaged on the way may come again
        # Sealed by its sender: from here on what is wrong is the sender's own doing, not the relay's.
        # Without this share we may never get ready, and the server must know whose fault it is.
        try:
            unusable = self._take(sender, Secrets.decode(opened), share.commitments, message.attachment)
        except MessageRefused:
            unusable = Unusable.MALFORMED
        if unusable is not None:
            session.send_sealed(Kind.COMPLAINT, Complaint(message.sender, unusable).encode())
        else:
            self._taken()

    @property
    def _kept(self) -> tuple[int, ...]:
        """The blocks of rows that we sum up and answer for."""
        return self._session.agreed.blocks_of(self._session.position)

    def _start_sums(self) -> None:
        rows, ring = self._session.agreed.answer_rows, self._session.agreed.ring
        pieces = rows.gram_pieces(self._kept), rows.constant_pieces(self._kept)
        self.gram_sum, self.constant_sum = (ring.zeros(max(one.stop for one in found.values())) for found in pieces)

    def _finish_sums(self) -> None:
        """The sums become what answers are made from."""
        assert self.gram_sum is not None and self.constant_sum is not None
        rows, kept = self._session.agreed.answer_rows, self._kept
        self.answer_constant = rows.first_answer(self.constant_sum, self.gram_sum, kept)
        self.answer_matrix = rows.matrix(self._session.agreed.ring, self.gram_sum, kept)
        self.gram_sum = self.constant_sum = None
        self._session.outbox.tell(SecretsForgotten())


class CodedDeviceSharing(DeviceSharing):
    """A device that answers for alpha devices: seeds are given along the code, and every answer is masked.

    Secrets go to everybody who answers for this device or for its neighbour in the chain of masks (``code.masks``).
    """

    checkpoint_fields: ClassVar[CheckpointFields] = {**DeviceSharing.checkpoint_fields, "mask_seeds": MAP}

    def __init__(self, session: DeviceSession, own: OwnData, terms: Terms | None) -> None:
        super().__init__(session, own, terms)
        self.mask_seeds: dict[int, bytes] = {}

    @abstractmethod
    def _take_data(self, sender: int, secrets: Secrets, bulk: bytes) -> None:
        """Keep what a device that we answer for shared, beyond its mask seed."""

    @abstractmethod
    def _data_complete(self) -> bool:
        """Whether everything that we answer for is here."""

    def _share_with_column(self, for_column: Secrets, bulk: bytes, for_server: Secrets | None = None) -> None:
        """Our mask seed to all who need it, and ``for_column`` to those of them who answer for us."""
        session, agreed = self._session, self._session.agreed
        position = session.position
        mask = self.mask_seeds.setdefault(position, session.random_bytes(SEED_BYTES))
        seeds = {"mask": mask, "pad": for_column.pad}
        commitments = Commitments.to(seeds, session.name, agreed.hash, session.identity)
        column, envelopes = set(agreed.code.column_support(position)), {}
        for i in mask_receivers(agreed.code, position):
            if i != position:
                found = for_column if i in column else Secrets()
                secrets = Secrets(mask, found.pad, found.content_key, found.digest)
                envelopes[agreed.names[i]] = session.seal_for(i, secrets.encode())
        self._send_shares(commitments, envelopes, bulk, for_server)

    def _expects(self, sender: int) -> bool:
        return sender in mask_senders(self._session.agreed.code, self._session.position)

    def _has(self, sender: int) -> bool:
        return sender in self.mask_seeds

    def _opened(self, message: Message, share: Share, author: Member) -> bytes:
        self._session.check_from_server(message)
        share.commitments.check_signature(author.name, self._session.agreed.hash, author.identity)
        return sealed.open_sealed(self._session.sealing, author.run_key, message.context(), share.envelope)

    def _take(self, sender: int, secrets: Secrets, commitments: Commitments, bulk: bytes) -> Unusable | None:
        agreed = self._session.agreed
        if not secrets.mask:
            return Unusable.NO_MASK
        try:
            commitments.check({"mask": secrets.mask, "pad": secrets.pad}, agreed.names[sender], agreed.hash)
        except MessageRefused:
            return Unusable.NOT_COMMITTED
        try:
            if sender in agreed.code.row_support(self._session.position):  # else it is a mask seed only
                self._take_data(sender, secrets, bulk)
        except MessageRefused:
            return Unusable.NO_DATA
        self.mask_seeds[sender] = secrets.mask
        return None

    def _taken(self) -> None:
        if self.ready or not self._data_complete():
            return
        if set(mask_senders(self._session.agreed.code, self._session.position)) <= set(self.mask_seeds):
            self._finish_sums()
            self._session.send_sealed(Kind.READY, b"")

    def mask(self, digest: bytes, count: int) -> Planes:
        """Zero-sum: it cancels among the answers to this very update."""
        session, agreed = self._session, self._session.agreed
        if not agreed.parameters.masks:
            return agreed.ring.zeros(count)
        label = mask_label(session.invited.run, digest)
        return combined_mask(agreed.ring, agreed.code, session.position, self.mask_seeds, label, count)

    def forget(self) -> None:
        super().forget()
        self.mask_seeds = {}


def bulk_context(session: DeviceSession, sender: str) -> bytes:
    """What another device's bulk is authenticated with."""
    return Message(Kind.SHARES, session.invited.run, session.agreed.hash, sender, SERVER).context()
