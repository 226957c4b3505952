"""What all phases of the server work with: the run and its keys, who takes part, where it is, and the outbox."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from codedfl.crypto import sealed
from codedfl.crypto.pads import RUN_ID_BYTES
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.errors import MessageRefused
from codedfl.protocol.agreement import Agreement, Invitation, Parameters
from codedfl.protocol.device_session import AGREEMENT, RUN_KEY
from codedfl.protocol.events import Outbox
from codedfl.protocol.messages import SERVER, Kind, Message
from codedfl.protocol.server_events import Ignored, PhaseBegun
from codedfl.state import PLAIN, CheckpointFields, Codec, Shelf, in_memory
from codedfl.typing import RandomBytes


class Phase(Enum):
    """Where a run is, in this order."""

    JOINING = "joining"
    SHARING = "sharing"
    TRAINING = "training"
    FINISHED = "finished"


class ServerSession:
    """One run, as its server has it."""

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "run": PLAIN,
        "phase": Codec(lambda phase: phase.value, Phase),
        "epoch": PLAIN,
        "agreement": AGREEMENT,
        "key": RUN_KEY,
    }

    def __init__(
        self, parameters: Parameters, expected: tuple[str, ...], identity: Identity | None, random_bytes: RandomBytes
    ) -> None:
        self.parameters = parameters
        self.expected = expected
        self.identity = identity or Identity.generate(random_bytes)
        self.random_bytes = random_bytes
        self.run = random_bytes(RUN_ID_BYTES)
        self.key: RunKey | None = RunKey.generate(random_bytes)  # what is sealed to this server; forgotten at the end
        self.phase = Phase.JOINING
        self.epoch = 0  # the one that is being asked for, or was asked for last
        self.agreement: Agreement | None = None
        self.outbox = Outbox()
        self.shelf: Shelf = in_memory

    # -- where the run is

    def begin(self, phase: Phase) -> None:
        self.phase = phase
        self.outbox.tell(PhaseBegun(phase.value))

    @property
    def invitation(self) -> Invitation:
        if self.agreement is not None:
            return self.agreement.invitation
        return Invitation(self.run, self.identity.public, self.sealing.public, self.parameters)

    @property
    def agreed(self) -> Agreement:
        if self.agreement is None:
            raise MessageRefused("the participant set must be frozen first, got a later message")
        return self.agreement

    @property
    def agreement_hash(self) -> bytes:
        return self.agreement.hash if self.agreement else b""

    @property
    def sealing(self) -> RunKey:
        if self.key is None:
            raise MessageRefused("the run is over and its keys are forgotten, got a later message")
        return self.key

    # -- reading and writing

    def open_from_member(self, message: Message) -> tuple[int, bytes]:
        """The position of a message's author, and what it says."""
        sender = self.agreed.position(message.sender)
        run_key = self.agreed.members[sender].run_key
        return sender, sealed.open_sealed(self.sealing, run_key, message.context(), message.body)

    def broadcast(self, kind: Kind, body: bytes, receivers: tuple[str, ...]) -> None:
        """Send one message to all receivers, signed and not sealed."""
        self.outbox.send(receivers, self.signed(kind, body))

    def relay(self, kind: Kind, body: bytes, receivers: tuple[str, ...]) -> None:
        """Send what devices have signed for this agreement, or what any stranger may ask: a signature adds nothing."""
        self.outbox.send(receivers, Message(kind, self.run, self.agreement_hash, SERVER, SERVER, body))

    def signed(self, kind: Kind, body: bytes) -> Message:
        agreement = b"" if kind in (Kind.INVITATION, Kind.AGREEMENT) else self.agreement_hash
        return Message(kind, self.run, agreement, SERVER, SERVER, body).signed_by(self.identity)

    def ignore(self, message: Message, reason: str) -> None:
        """A message that changes nothing."""
        self.outbox.tell(Ignored(message.sender, reason))
