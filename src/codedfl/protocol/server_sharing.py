"""The server's side of the sharing phase: it takes uploads and relays what devices seal for each other.

Here is what all schemes have in common; ``schemes`` has the rest. When the phase is complete the server holds
``offset_matrix`` (d x d) and ``offset_constant`` on the ring: what the decoded answers of an epoch are off by.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar

import numpy as np

from codedfl.code.gradient_code import group_sizes
from codedfl.code.masks import mask_receivers
from codedfl.crypto import sealed
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.protocol.agreement import Agreement, Member
from codedfl.protocol.messages import SERVER, Complaint, Kind, Message, Secrets, Share, Shares
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.server_events import Complained, DeviceState
from codedfl.protocol.server_session import ServerSession
from codedfl.state import MAP, PLAIN, SET, Checkpointable, CheckpointFields
from codedfl.typing import Floats, Planes


class ServerSharing(ABC):
    """Phase 1 at the server.

    After it the total that an epoch asks for is ``sign`` (decoded - offset): +1 where devices answer with data plus
    pads and the server knows the pads, -1 where they answer with pads and the server holds data plus pads.
    """

    sign: ClassVar[int]
    checkpoint_fields: ClassVar[CheckpointFields] = {
        "offset_matrix": PLAIN,
        "offset_constant": PLAIN,
        "shared": SET,
        "ready": SET,
        "complaints": MAP,
        "gone": SET,
    }

    def __init__(self, session: ServerSession, plan: RunPlan) -> None:
        self._session = session
        self._plan = plan
        self.offset_matrix: Planes | None = None
        self.offset_constant: Planes | None = None
        self.shared: set[int] = set()  # whose shares are in
        self.ready: set[int] = set()  # whose own sharing is complete, so that they can answer
        # Whose shares are unusable, by whose word and why. Who gets ready after all takes it back.
        self.complaints: dict[str, dict[str, str]] = {}
        self.gone: set[int] = set()  # by the driver's word
        self.handlers: dict[Kind, Callable[[Message], None]] = {
            Kind.SHARES: self._on_shares,
            Kind.COMPLAINT: self._on_complaint,
        }

    # -- what a scheme decides

    @property
    @abstractmethod
    def needed_words(self) -> str:
        """How many answers end an epoch."""

    @abstractmethod
    def agree(self, members: Sequence[Member], initial_model: Floats | None) -> Agreement:
        """The agreement of these members; what cannot work is refused before anything is sent."""

    @abstractmethod
    def open(self) -> None:
        """The participants are fixed."""

    @abstractmethod
    def can_start(self) -> bool:
        """Whether the server itself holds what training needs; the offsets are set then."""

    @abstractmethod
    def _receivers(self, sender: int) -> Collection[int]:
        """Who needs seeds of this device."""

    @abstractmethod
    def _envelopes_of(self, sender: int) -> Collection[str]:
        """Whom this device seals its seeds to."""

    @abstractmethod
    def _relay(self, sender: str, shares: Shares, bulk: Mapping[str, bytes]) -> None:
        """Pass the envelopes on, each with the bulk that is for its receiver, if any."""

    @abstractmethod
    def _take(self, sender: int, message: Message, shares: Shares) -> Mapping[str, bytes]:
        """Keep what is for the server; returns the bulk to relay, by receiver, where there is one."""

    def _awaits(self, sender: int) -> bool:
        return sender not in self.shared

    def _go_on(self) -> None:  # noqa: B027  # a scheme may have nothing to do
        """One more has shared."""

    def close_uploads(self) -> None:  # noqa: B027  # a scheme may have nothing to do
        """The driver's deadline: a scheme that can leaves out who has not shared; the others wait on."""

    def check_without_gone(self) -> None:
        """Raises ``NotEnoughDevices`` if sharing can never be complete without those who are gone."""
        silent = [name for name in self._session.expected if name in self._names(self.gone) and name in self.unshared]
        if silent:
            raise NotEnoughDevices(
                f"all {self._session.agreed.n_devices} devices must share before training: {len(silent)} missing"
                f" ({', '.join(silent)})",
                silent,
            )

    def go_on_without_gone(self) -> None:  # noqa: B027  # a scheme may have nothing to do
        """Do what those who are gone were waited for."""

    # -- what it has come to

    @property
    def parts(self) -> dict[str, Checkpointable]:
        """What has a state of its own: this phase, and what a scheme keeps apart."""
        return {"sharing": self}

    @property
    def owner_names(self) -> tuple[str, ...]:
        """Whose data are in the total; empty before that is fixed."""
        agreed = self._session.agreement
        return () if agreed is None else tuple(agreed.names[i] for i in agreed.owners)

    @property
    def unshared(self) -> list[str]:
        """Whose shares are not in yet."""
        agreed = self._session.agreed
        return [agreed.names[j] for j in agreed.owners if j not in self.shared]

    def in_vain(self) -> set[int]:
        """Devices that wait in vain for what makes them ready."""
        accusers = {accuser for accusers in self.complaints.values() for accuser in accusers}
        return {self._session.agreed.position(name) for name in accusers}

    def _names(self, positions: Collection[int]) -> set[str]:
        return {self._session.agreed.names[j] for j in positions}

    # -- messages

    def _on_shares(self, message: Message) -> None:
        session, agreed = self._session, self._session.agreed
        sender = agreed.position(message.sender)
        member = agreed.members[sender]
        message.check_signature(member.identity)
        if not self._awaits(sender):
            session.ignore(message, "repeated or late shares")
            return
        shares = Shares.decode(message.body, most=agreed.n_devices)
        shares.commitments.check_signature(member.name, agreed.hash, member.identity)
        self._check_envelopes(message.sender, shares, set(self._envelopes_of(sender)))
        bulk = self._take(sender, message, shares)
        self.shared.add(sender)
        session.outbox.tell(DeviceState(message.sender, "shared"))
        self._relay(message.sender, shares, bulk)
        self._go_on()

    def _check_envelopes(self, sender: str, shares: Shares, wanted: set[str]) -> None:
        """One envelope too few would leave its receiver waiting for ever."""
        if set(shares.envelopes) != wanted:
            odd = sorted(set(shares.envelopes) ^ wanted)
            raise MessageRefused(
                f"the shares of {sender!r} must be for those who need its seeds in this run:"
                f" missing or too many are {', '.join(map(repr, odd))[:200]}"
            )

    def _opened_upload(self, message: Message, shares: Shares) -> bytes:
        """A device's padded data, packed: the triangle of X'X and the constant part."""
        session = self._session
        header = Message(Kind.SHARES, session.run, session.agreement_hash, message.sender, SERVER)
        _, opened = session.open_from_member(header.with_body(shares.for_server))
        secrets = Secrets.decode(opened)
        if not secrets.content_key:
            raise MessageRefused("an upload must bring a content key, got none")
        return self._checked_length(
            sealed.decrypt_bulk(secrets.content_key, header.context(), secrets.digest, message.attachment)
        )

    def _checked_length(self, upload: bytes) -> bytes:
        p = self._session.parameters
        self._session.agreed.ring.check_packed_length(upload, p.triangle_length + p.constant_length)
        return upload

    def _add_upload(self, triangle: Planes, constant: Planes, upload: bytes) -> None:
        """Add a packed upload to the two sums."""
        ring = self._session.agreed.ring
        view, split = memoryview(upload), self._session.parameters.triangle_length * ring.bytes_per_number
        ring.add_scaled_packed(triangle, [[1]] * len(ring.primes), [view[:split]])
        ring.add_scaled_packed(constant, [[1]] * len(ring.primes), [view[split:]])

    def _offset_by(self, triangle: Planes, constant: Planes) -> None:
        """What the answers are off by, from the sums of a triangle and of a constant part."""
        rows = self._session.agreed.answer_rows
        self.offset_constant = np.concatenate([constant, triangle], axis=1) if rows.whole else constant
        self.offset_matrix = rows.matrix(self._session.agreed.ring, triangle, rows.all)

    def take_ready(self, message: Message) -> bool:
        """A device can answer from now on; False if it said so before."""
        sender, _ = self._session.open_from_member(message)
        if sender in self.ready:
            self._session.ignore(message, "repeated ready")
            return False
        self.ready.add(sender)
        self._session.outbox.tell(DeviceState(message.sender, "ready"))
        for accused, accusers in list(self.complaints.items()):
            if accusers.pop(message.sender, "") and not accusers:
                del self.complaints[accused]
        return True

    def _may_complain(self, sender: int, complaint: Complaint) -> bool:
        accused = self._session.agreed.position(complaint.accused)
        return accused in self.shared and sender != accused and sender in self._receivers(accused)

    def _on_complaint(self, message: Message) -> None:
        sender, plaintext = self._session.open_from_member(message)
        complaint = Complaint.decode(plaintext)
        if not self._may_complain(sender, complaint):
            raise MessageRefused(
                f"a complaint must be about a share that was relayed to {message.sender!r}, got one about"
                f" {complaint.accused!r}"
            )
        if sender in self.ready:
            self._session.ignore(message, "complaint of a device that is ready")
            return
        known = self.complaints.setdefault(complaint.accused, {})
        if message.sender not in known:
            self._session.outbox.tell(Complained(message.sender, complaint.accused, str(complaint.reason)))
        known[message.sender] = str(complaint.reason)


class CodedServerSharing(ServerSharing):
    """The server of a scheme with a gradient code: it relays along the code."""

    def __init__(self, session: ServerSession, plan: RunPlan) -> None:
        super().__init__(session, plan)
        alpha = plan.parameters.alpha
        if not 0 <= plan.spare < alpha:
            raise InvalidInput(f"spare must be between 0 and alpha - 1 ({alpha - 1}), got {plan.spare}")

    def agree(self, members: Sequence[Member], initial_model: Floats | None) -> Agreement:
        parameters = self._session.parameters
        group_sizes(len(members), parameters.alpha, parameters.groups)  # refuses a bad alpha
        return Agreement.freeze(self._session.invitation, members, initial_model)

    @property
    def needed_words(self) -> str:
        return "D - alpha + 1"

    def open(self) -> None:
        """Nothing to do before shares come in."""

    def _receivers(self, sender: int) -> Collection[int]:
        """Those who answer for it, and its neighbours in the chain of masks."""
        return mask_receivers(self._session.agreed.code, sender)

    def _envelopes_of(self, sender: int) -> Collection[str]:
        return self._names(set(self._receivers(sender)) - {sender})

    def _relay(self, sender: str, shares: Shares, bulk: Mapping[str, bytes]) -> None:
        session = self._session
        digests = {data: sealed.digest_of([data]) for data in {b"", *bulk.values()}}
        for name, envelope in shares.envelopes.items():
            attachment, body = bulk.get(name, b""), Share(shares.commitments, envelope).encode()
            share = Message(Kind.SHARE, session.run, session.agreed.hash, sender, name, body, attachment)
            session.outbox.send((name,), share.signed_by(session.identity, digests[attachment]))
