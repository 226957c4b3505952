"""What a state machine hands back for a message: messages to send, and what happened.

Whoever drives a machine learns what happened from these events alone; nobody compares a machine before and after.
Events with a name are also the lines of a run's event log (``run.event_log``): their fields hold names, epochs, bytes
and numbers, so nothing secret can get there. Those without a name are for the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from codedfl.protocol.messages import Kind, Message


@dataclass(frozen=True)
class Event:
    """Something that happened; ``event`` is its name in the event log, ``known`` are all kinds that have one."""

    event: ClassVar[str] = ""
    known: ClassVar[list[type[Any]]] = []

    def __init_subclass__(cls) -> None:
        if "event" in vars(cls):
            Event.known.append(cls)


# -- a device's own


@dataclass(frozen=True)
class InvitationAccepted(Event):
    """The device joins: the first that anybody learns of it in this run."""


@dataclass(frozen=True)
class InvitationRefused(Event):
    """The device does not join; ``reason`` is for its own log."""

    reason: str


@dataclass(frozen=True)
class RowsFitted(Event):
    """How many values were clipped to the public bounds and how many rows left out; for the device's own log."""

    clipped: int
    dropped: int


@dataclass(frozen=True)
class QuestionAnswered(Event):
    """An update was answered that was not answered before; to be recorded before the answer leaves."""

    digest: bytes


@dataclass(frozen=True)
class SecretsForgotten(Event):
    """Secrets of the run are gone from memory: they must not stay on a disk either."""


# -- one turn


@dataclass(frozen=True)
class Outgoing:
    """A message and the parties it goes to; one entry for a broadcast, so that it is encoded and uploaded once."""

    receivers: tuple[str, ...]
    message: Message

    @property
    def kind(self) -> Kind:
        return self.message.kind

    @cached_property
    def data(self) -> bytes:
        """The event as it travels."""
        return self.message.encode()


@dataclass(frozen=True)
class Turn:
    """All that follows from one message or one word of the driver, in order."""

    outgoing: list[Outgoing] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class Outbox:
    """Where the phases of one machine put what is to be sent and told; the machine empties it at the end of a turn."""

    def __init__(self) -> None:
        self._turn = Turn()

    def send(self, receivers: tuple[str, ...], message: Message) -> None:
        self._turn.outgoing.append(Outgoing(receivers, message))

    def tell(self, event: Event) -> None:
        self._turn.events.append(event)

    def emptied(self) -> Turn:
        turn, self._turn = self._turn, Turn()
        return turn
