"""What a state machine hands back for a message: messages to send, and what happened.

Whoever drives a machine learns what happened from these events alone; nobody compares a machine before and after.
Events with a name are also the lines of a run's event log (``run.event_log``): their fields hold names, epochs, bytes
and numbers, so nothing secret can get there. Those without a name are for the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from codedfl.errors import CodedFLError
from codedfl.protocol.messages import Kind, Message


@dataclass(frozen=True)
class Event:
    """Something that happened; ``event`` is its name in the event log, ``known`` are all kinds that have one."""

    event: ClassVar[str] = ""
    known: ClassVar[list[type[Any]]] = []

    def __init_subclass__(cls) -> None:
        if "event" in vars(cls):
            Event.known.append(cls)


@dataclass(frozen=True)
class OfDevice(Event):
    """Something that happens to one device."""

    device: str


@dataclass(frozen=True)
class NamedPart:
    """A role of role keys, a group of a gradient code, or everybody: ``needed`` answers of these ``members``."""

    members: tuple[str, ...]
    needed: int


# -- the server's: coming together


@dataclass(frozen=True)
class PhaseBegun(Event):
    """joining, sharing, training, finished."""

    event: ClassVar[str] = "phase"
    phase: str


@dataclass(frozen=True)
class DeviceState(OfDevice):
    """waiting, joined, shared, ready, done; gone if it is not waited for any more."""

    event: ClassVar[str] = "state"
    state: str


@dataclass(frozen=True)
class RefusedToJoin(OfDevice):
    """A device does not take part; ``reason`` is what it said."""

    reason: str


@dataclass(frozen=True)
class Members(Event):
    """The participants are fixed, and with them whose answers end an epoch: those of all ``parts``."""

    event: ClassVar[str] = "members"
    names: tuple[str, ...]
    kind: Literal["role", "cell", "group"]
    parts: tuple[NamedPart, ...]


@dataclass(frozen=True)
class Listed(Event):
    """Whose data will be in the total (role keys): the list is fixed, and goes to the devices to be signed."""

    event: ClassVar[str] = "listed"
    names: tuple[str, ...]


@dataclass(frozen=True)
class Complained(OfDevice):
    """A device says that what ``accused`` shared with it is unusable."""

    event: ClassVar[str] = "complaint"
    accused: str
    reason: str


# -- the server's: epochs


@dataclass(frozen=True)
class EpochStarted(Event):
    """An update goes out; what was asked before counts no more."""

    epoch: int


@dataclass(frozen=True)
class Answered(OfDevice):
    """An answer to ``epoch`` that came in time: before the epoch ended."""

    event: ClassVar[str] = "answer"
    epoch: int
    bytes: int


@dataclass(frozen=True)
class AnsweredLate(OfDevice):
    """An answer to ``epoch``, which was over by then. It may dispute the epoch, and is not used otherwise."""

    event: ClassVar[str] = "late answer"
    epoch: int
    bytes: int


@dataclass(frozen=True)
class Ignored(OfDevice):
    """A message that changes nothing, and why: it is repeated, or comes late."""

    reason: str


@dataclass(frozen=True)
class LiarFound(OfDevice):
    """A device was found to have answered ``epoch`` wrongly, and is excluded."""

    event: ClassVar[str] = "liar"
    epoch: int


@dataclass(frozen=True)
class Disputed(Event):
    """A late answer contradicts those that ``epoch`` was decoded from, and nobody can be named for it yet."""

    event: ClassVar[str] = "disputed"
    epoch: int


@dataclass(frozen=True)
class Mended(Event):
    """``epoch`` was decoded from a wrong answer; it was asked again, and the right total has taken its place."""

    event: ClassVar[str] = "mended"
    epoch: int


@dataclass(frozen=True)
class EpochEnded(Event):
    """An epoch was decoded and the solver has its total: the server's model is that of ``epoch``."""

    epoch: int


@dataclass(frozen=True)
class RunFailed(Event):
    """The run is over for good without a result: ``WrongAnswers``, ``RangeExceeded`` or ``SolverFailed``."""

    error: CodedFLError


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
