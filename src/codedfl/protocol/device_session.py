"""What all phases of a device work with: who it is, the run it is in and its keys there, and the outbox."""

from __future__ import annotations

from typing import ClassVar

from codedfl.crypto import sealed
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.agreement import Agreement, Invitation
from codedfl.protocol.events import Outbox
from codedfl.protocol.messages import MAX_NAME, SERVER, Kind, Message, name_length
from codedfl.protocol.prepared_pad import PreparedPads
from codedfl.state import PLAIN, CheckpointFields, Codec, optional
from codedfl.typing import RandomBytes

AGREEMENT = optional(Codec(lambda agreement: agreement.encoded, Agreement.decode))
RUN_KEY = optional(Codec(lambda key: key.secret, RunKey))


class DeviceSession:
    """One run, as a device has it."""

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "invitation": optional(
            Codec(lambda invitation: [invitation.run, invitation.encoded], lambda saved: Invitation.decode(*saved))
        ),
        "key": RUN_KEY,
        "agreement": AGREEMENT,
        "finished": PLAIN,
    }

    def __init__(
        self, name: str, identity: Identity | None, random_bytes: RandomBytes, pads: PreparedPads | None = None
    ) -> None:
        if not 1 <= name_length(name) <= MAX_NAME:
            raise InvalidInput(f"name must have 1 to {MAX_NAME} bytes, got {name_length(name)}")
        self.name = name
        self.identity = identity or Identity.generate(random_bytes)
        self.random_bytes = random_bytes
        self.pads = pads or PreparedPads(random_bytes)  # in no checkpoint: a pad is used once
        self.invitation: Invitation | None = None
        self.key: RunKey | None = None
        self.agreement: Agreement | None = None
        self.finished = False
        self.outbox = Outbox()

    @property
    def invited(self) -> Invitation:
        if self.invitation is None:
            raise MessageRefused("an invitation must come first, got a later message")
        return self.invitation

    @property
    def agreed(self) -> Agreement:
        if self.agreement is None:
            raise MessageRefused("an agreement must come first, got a later message")
        return self.agreement

    @property
    def sealing(self) -> RunKey:
        if self.key is None:
            raise MessageRefused("a run key must be drawn first, got a message that needs it")
        return self.key

    @property
    def position(self) -> int:
        return self.agreed.position(self.name)

    # -- reading and writing

    def check_from_server(self, message: Message) -> None:
        """Refuse what the server has not signed."""
        message.check_signature(self.invited.server_public)

    def send(self, message: Message) -> None:
        self.outbox.send((SERVER,), message)

    def send_sealed(self, kind: Kind, plaintext: bytes) -> None:
        """For the server's eyes, and so that it knows the author."""
        header = self.to_server(kind)
        self.send(header.with_body(self.seal(self.invited.server_key, header, plaintext)))

    def to_server(self, kind: Kind, body: bytes = b"", attachment: bytes = b"") -> Message:
        return Message(kind, self.invited.run, self.agreed.hash, self.name, SERVER, body, attachment)

    def seal(self, receiver: bytes, header: Message, plaintext: bytes) -> bytes:
        return sealed.seal(self.sealing, receiver, header.context(), plaintext, self.random_bytes)

    def seal_for(self, position: int, plaintext: bytes, kind: Kind = Kind.SHARE) -> bytes:
        """An envelope for another device, which the server relays."""
        agreed = self.agreed
        header = Message(kind, self.invited.run, agreed.hash, self.name, agreed.names[position])
        return self.seal(agreed.members[position].run_key, header, plaintext)
