"""How a run's participants come together: the server invites, takes joins and refusals, and freezes the set.

The first of the server's concerns (``server`` has the rest), with what all of them need: reading from members of the
frozen set, and writing to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from codedfl.code.gradient_code import group_sizes
from codedfl.crypto import sealed
from codedfl.crypto.pads import RUN_ID_BYTES
from codedfl.crypto.sealed import KEY_BYTES, Identity, RunKey
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import Agreement, Invitation, Member, Parameters
from codedfl.protocol.messages import MAX_NAME, SERVER, Kind, Message, check_types, name_length, unpack_list
from codedfl.state import MAP, PLAIN, Kept, Resumable, optional
from codedfl.typing import Floats, RandomBytes


class Outgoing(NamedTuple):
    """A wire message and the devices it goes to; one entry for a broadcast, so that it is uploaded once."""

    receivers: tuple[str, ...]
    data: bytes


class Phase(Enum):
    """Where a run is, in this order."""

    JOINING = "joining"
    SHARING = "sharing"
    TRAINING = "training"
    FINISHED = "finished"


def _joined_again(saved: list[list[Any]]) -> dict[str, Member]:
    members = [Member.from_fields(fields) for fields in saved]
    return {member.name: member for member in members}


class Convener(Resumable, ABC):
    """The server until its participants are fixed; see ``Server`` for the arguments."""

    _kept: ClassVar[Mapping[str, Kept]] = {
        "run": PLAIN,
        "phase": Kept(lambda phase: phase.value, Phase),
        "ignored": Kept(dict, Counter),
        "refusals": MAP,
        "agreement": optional(Kept(lambda agreement: agreement.encoded, Agreement.decode)),
        "_key": optional(Kept(lambda key: key.secret, RunKey)),
        "_joined": Kept(lambda joined: [member.fields() for member in joined.values()], _joined_again),
    }

    def __init__(
        self,
        parameters: Parameters,
        devices: Sequence[str],
        *,
        initial_model: Floats | None,
        identity: Identity | None,
        roster: Mapping[str, bytes] | None,
        random_bytes: RandomBytes,
    ) -> None:
        if len(set(devices)) != len(devices):
            raise InvalidInput(f"device names must be distinct, got {list(devices)}")
        for name in devices:
            if not 1 <= name_length(name) <= MAX_NAME:
                raise InvalidInput(f"a device's name must have 1 to {MAX_NAME} bytes, got {name!r}")
        self.parameters = parameters
        self.expected = tuple(devices)
        self.identity = identity or Identity.generate(random_bytes)
        self.run = random_bytes(RUN_ID_BYTES)
        self._key: RunKey | None = RunKey.generate(random_bytes)  # what is sealed to this server; forgotten at the end
        self.phase = Phase.JOINING
        self.ignored: Counter[str] = Counter()
        self.refusals: dict[str, str] = {}
        self.agreement: Agreement | None = None
        self._initial_model = initial_model
        self._roster = roster
        self._random_bytes = random_bytes
        self._joined: dict[str, Member] = {}

    @property
    def joined(self) -> list[str]:
        return [name for name in self.expected if name in self._joined]

    @property
    def invitation(self) -> Invitation:
        if self.agreement is not None:
            return self.agreement.invitation
        return Invitation(self.run, self.identity.public, self._sealing.public, self.parameters)

    def invite(self) -> list[Outgoing]:
        return [self._broadcast(Kind.INVITATION, self.invitation.encoded, self.expected)]

    def freeze(self) -> list[Outgoing]:
        """Fix the participant set with those who joined so far, and start phase 1."""
        if self.phase is not Phase.JOINING:
            raise InvalidInput(f"the participant set must be frozen once, got a second call while {self.phase.value}")
        members = [self._joined[name] for name in self.expected if name in self._joined]
        agreement = self._frozen(members)
        _ = agreement.answer_code, agreement.ring
        self.agreement = agreement
        self.phase = Phase.SHARING
        return [self._broadcast(Kind.AGREEMENT, agreement.encoded, agreement.names), *self._open_sharing()]

    def _frozen(self, members: Sequence[Member]) -> Agreement:
        """The agreement of these members; a bad alpha is refused before anything is sent."""
        group_sizes(len(members), self.parameters.alpha, self.parameters.groups)
        return Agreement.freeze(self.invitation, members, self._initial_model)

    @abstractmethod
    def _open_sharing(self) -> list[Outgoing]:
        """Called once the set is frozen."""

    # -- joining

    def _on_join(self, message: Message) -> list[Outgoing]:
        self._check_newcomer(message)
        run_key, nonce = check_types(unpack_list(message.body, "a join"), (bytes, bytes), "a join")
        member = Member.from_fields([message.sender, message.attachment, run_key, nonce, message.signature])
        member.check(self.invitation)
        if message.sender in self._joined or self.phase is not Phase.JOINING:
            self.ignored["repeated or late join"] += 1
            return []
        self._joined[message.sender] = member
        return self.freeze() if set(self._joined) == set(self.expected) else []

    def _on_refusal(self, message: Message) -> list[Outgoing]:
        self._check_newcomer(message)
        message.check_signature(message.attachment)
        self.refusals[message.sender] = message.body.decode(errors="replace")
        return []

    def _check_newcomer(self, message: Message) -> None:
        """A join or refusal brings its public key along; with a roster it must be the pinned one."""
        name, public = message.sender, message.attachment
        if name not in self.expected:
            raise MessageRefused(f"the device must be one of the {len(self.expected)} expected, got {name!r}")
        if len(public) != KEY_BYTES:
            raise MessageRefused(f"a public key must have {KEY_BYTES} bytes, got {len(public)}")
        if self._roster is not None and self._roster.get(name) != public:
            raise MessageRefused(f"the key of {name!r} must be the one on the roster, got {sealed.fingerprint(public)}")

    # -- reading and writing

    @property
    def _agreed(self) -> Agreement:
        if self.agreement is None:
            raise MessageRefused("the participant set must be frozen first, got a later message")
        return self.agreement

    @property
    def _agreement_hash(self) -> bytes:
        return self.agreement.hash if self.agreement else b""

    @property
    def _ring(self) -> Ring:
        return self._agreed.ring

    @property
    def _sealing(self) -> RunKey:
        if self._key is None:
            raise MessageRefused("the run is over and its keys are forgotten, got a later message")
        return self._key

    def _open_from_member(self, message: Message) -> tuple[int, bytes]:
        sender = self._agreed.position(message.sender)
        run_key = self._agreed.members[sender].run_key
        return sender, sealed.open_sealed(self._sealing, run_key, message.context(), message.body)

    def _broadcast(self, kind: Kind, body: bytes, receivers: tuple[str, ...]) -> Outgoing:
        agreement = b"" if kind in (Kind.INVITATION, Kind.AGREEMENT) else self._agreement_hash
        message = Message(kind, self.run, agreement, SERVER, SERVER, body).signed_by(self.identity)
        return Outgoing(receivers, message.encode())
