"""How a run's participants come together: the server invites, and takes joins and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from codedfl.crypto import sealed
from codedfl.crypto.sealed import KEY_BYTES
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.agreement import Member
from codedfl.protocol.messages import MAX_NAME, Kind, Message, name_length
from codedfl.protocol.server_events import DeviceState, RefusedToJoin
from codedfl.protocol.server_session import Phase, ServerSession
from codedfl.state import MAP, CheckpointFields, Codec


def _members_by_name(saved: list[list[Any]]) -> dict[str, Member]:
    members = [Member.from_fields(fields) for fields in saved]
    return {member.name: member for member in members}


class ServerJoining:
    """The server's first phase; ``Server.freeze`` ends it.

    roster: pinned public keys by device name; a device with another key, or not on it, is refused. None pins none.
    """

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "refusals": MAP,
        "_joined": Codec(lambda joined: [member.fields() for member in joined.values()], _members_by_name),
    }

    def __init__(self, session: ServerSession, roster: Mapping[str, bytes] | None) -> None:
        names = session.expected
        if len(set(names)) != len(names):
            raise InvalidInput(f"device names must be distinct, got {list(names)}")
        for name in names:
            if not 1 <= name_length(name) <= MAX_NAME:
                raise InvalidInput(f"a device's name must have 1 to {MAX_NAME} bytes, got {name!r}")
        self._session = session
        self._roster = roster
        self._joined: dict[str, Member] = {}
        self.refusals: dict[str, str] = {}  # by device: what it said
        self.handlers = {Kind.JOIN: self._on_join, Kind.REFUSAL: self._on_refusal}

    @property
    def members(self) -> list[Member]:
        """Who has joined so far, in the order expected."""
        return [self._joined[name] for name in self._session.expected if name in self._joined]

    @property
    def complete(self) -> bool:
        return len(self._joined) == len(self._session.expected)

    def _on_join(self, message: Message) -> None:
        self._check_newcomer(message)
        member = Member.from_fields([message.sender, message.attachment, message.body, message.signature])
        member.check(self._session.invitation)
        if message.sender in self._joined or self._session.phase is not Phase.JOINING:
            self._session.ignore(message, "repeated or late join")
            return
        self._joined[message.sender] = member
        self._session.outbox.tell(DeviceState(message.sender, "joined"))

    def _on_refusal(self, message: Message) -> None:
        self._check_newcomer(message)
        message.check_signature(message.attachment)
        self.refusals[message.sender] = message.body.decode(errors="replace")
        self._session.outbox.tell(RefusedToJoin(message.sender, self.refusals[message.sender]))

    def _check_newcomer(self, message: Message) -> None:
        """A join or refusal brings its public key along; with a roster it must be the pinned one."""
        name, public, expected = message.sender, message.attachment, self._session.expected
        if name not in expected:
            raise MessageRefused(f"the device must be one of the {len(expected)} expected, got {name!r}")
        if len(public) != KEY_BYTES:
            raise MessageRefused(f"a public key must have {KEY_BYTES} bytes, got {len(public)}")
        if self._roster is not None and self._roster.get(name) != public:
            raise MessageRefused(f"the key of {name!r} must be the one on the roster, got {sealed.fingerprint(public)}")
