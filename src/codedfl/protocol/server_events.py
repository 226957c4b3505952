"""What happens to a server: ``protocol.events`` says what events are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from codedfl.errors import CodedFLError
from codedfl.protocol.events import Event


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
