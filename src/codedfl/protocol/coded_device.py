"""What the devices of the coded schemes share: seeds given along the code, and masks on every answer.

A device seals its secrets to everybody who answers for it or for its neighbour in the chain of masks
(``code.masks``), with a commitment to each seed that it signs once for all: whoever gets a seed that does not fit its
commitment complains and does not use it, so nobody can be made to answer wrongly by a bad seed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from codedfl.code.masks import combined_mask, mask_receivers, mask_senders
from codedfl.crypto import sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.errors import MessageRefused
from codedfl.protocol.device import Device
from codedfl.protocol.messages import (
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
from codedfl.state import MAP, Kept
from codedfl.typing import Planes


class CodedDevice(Device):
    """A device that answers for alpha devices; see ``Device`` for the arguments."""

    _kept: ClassVar[Mapping[str, Kept]] = {**Device._kept, "_mask_seeds": MAP}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._mask_seeds: dict[int, bytes] = {}

    def _handlers(self) -> dict[Kind, Callable[[Message], list[Message]]]:
        return {**super()._handlers(), Kind.SHARE: self._on_share}

    # -- phase 1: hooks for the schemes

    @abstractmethod
    def _take_secrets(self, sender: int, secrets: Secrets, bulk: bytes) -> None:
        """Keep what device ``sender`` shared, beyond its mask seed. Called once per sender."""

    @abstractmethod
    def _shares_complete(self) -> bool:
        """Whether ``linear`` and ``constant`` can be finished."""

    @abstractmethod
    def _finish_sharing(self) -> None:
        """Set ``linear`` and ``constant``."""

    # -- giving and taking shares

    def _draw_mask_seed(self) -> bytes:
        """Ours; drawn when the shares are made."""
        return self._mask_seeds.setdefault(self._position, self._random_bytes(SEED_BYTES))

    def _shares(
        self, secrets_for: Callable[[int], Secrets], bulk: bytes, *, pad: bytes = b"", for_server: bytes = b""
    ) -> Message:
        """The SHARES message: secrets sealed to every device that needs our mask seed, and the bulk beside.

        The receivers of the mask seed include all of our column, so they are all there is.

        Parameters
        ----------
        pad : our pad's seed where it is shared, for its commitment
        for_server : an envelope for the server
        """
        agreed = self._agreed
        mask = self._draw_mask_seed()
        commitments = Commitments.to({"mask": mask, "pad": pad}, self.name, agreed.hash, self.identity)
        envelopes: dict[str, bytes] = {}
        for i in mask_receivers(agreed.code, self._position):
            if i == self._position:
                continue
            found = secrets_for(i)
            secrets = Secrets(mask, found.pad, found.content_key, found.digest)
            header = Message(Kind.SHARE, self._run, agreed.hash, self.name, agreed.names[i])
            envelopes[agreed.names[i]] = self._seal(agreed.members[i].run_key, header, secrets.encode())
        shares = Shares(commitments, for_server, envelopes)
        return self._to_server(Kind.SHARES, shares.encode(), attachment=bulk).signed_by(self.identity)

    def _on_share(self, message: Message) -> list[Message]:
        agreed = self._agreed
        sender = agreed.position(message.sender)
        if sender not in mask_senders(agreed.code, self._position):
            raise MessageRefused(f"{message.sender!r} must not share with {self.name!r} under this code, but did")
        if sender in self._mask_seeds:
            return []  # a repeated share changes nothing
        message.check_signature(self._invited.server_public)  # what was damaged on the way may come again
        share = Share.decode(message.body)
        member = agreed.members[sender]
        share.commitments.check_signature(member.name, agreed.hash, member.identity)
        opened = sealed.open_sealed(self._sealing, member.run_key, message.context(), share.envelope)
        try:  # from here on it is the sender's own doing
            secrets = Secrets.decode(opened)
        except MessageRefused:
            return [self._complain(message.sender, Unusable.MALFORMED)]
        if not secrets.mask:
            return [self._complain(message.sender, Unusable.NO_MASK)]
        try:
            share.commitments.check({"mask": secrets.mask, "pad": secrets.pad}, member.name, agreed.hash)
        except MessageRefused:
            return [self._complain(message.sender, Unusable.NOT_COMMITTED)]
        try:
            self._take_secrets(sender, secrets, message.attachment)
        except MessageRefused:
            return [self._complain(message.sender, Unusable.NO_DATA)]
        self._mask_seeds[sender] = secrets.mask
        return self._announce_if_ready()

    def _complain(self, sender: str, reason: Unusable) -> Message:
        """Without this share we never get ready: the server must know whose fault it is."""
        return self._sealed_to_server(Kind.COMPLAINT, Complaint(sender, reason).encode())

    def _announce_if_ready(self) -> list[Message]:
        agreed = self._agreed
        if self.ready or not self._shares_complete():
            return []
        if not set(mask_senders(agreed.code, self._position)) <= set(self._mask_seeds):
            return []
        self._finish_sharing()
        return [self._sealed_to_server(Kind.READY, b"")]

    # -- phase 2

    def _answer(self, update: Update, digest: bytes) -> Planes:
        """constant + linear e + masks that cancel among the answers to this very update."""
        answer = self._mask(digest, self._answer_length(update))
        self._add_content(answer, update)
        return answer

    def _mask(self, digest: bytes, count: int) -> Planes:
        agreed = self._agreed
        if not agreed.parameters.masks:
            return self._ring.zeros(count)
        return combined_mask(self._ring, agreed.code, self._position, self._mask_seeds, self._run, digest, count)

    def _forget_secrets(self) -> None:
        super()._forget_secrets()
        self._mask_seeds = {}
