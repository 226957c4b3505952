"""What happens in the sums of a study, for logs, screens and pages. Nothing secret has a field here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal


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
class Connected(OfDevice):
    """A device can be reached."""

    event: ClassVar[str] = "connected"


@dataclass(frozen=True)
class Disconnected(OfDevice):
    """It cannot."""

    event: ClassVar[str] = "disconnected"


@dataclass(frozen=True)
class Sent(Event):
    """Bytes that have left for devices."""

    bytes: int


@dataclass(frozen=True)
class DeviceState(OfDevice):
    """waiting, enrolled, uploaded, done; gone if it is not waited for any more; refused if it does not take part."""

    event: ClassVar[str] = "state"
    state: str


@dataclass(frozen=True)
class UploadComing(OfDevice):
    """A piece of a device's large reply has come: ``here`` of its ``bytes``."""

    here: int
    bytes: int


@dataclass(frozen=True)
class UploadTaken(OfDevice):
    """The whole upload of a device has come in."""

    event: ClassVar[str] = "uploaded"
    bytes: int


@dataclass(frozen=True)
class Listed(Event):
    """Whose rows are in the sum."""

    event: ClassVar[str] = "listed"
    names: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """Of these ``members``, ``needed`` replies are waited for."""

    members: tuple[str, ...]
    needed: int


@dataclass(frozen=True)
class Members(Event):
    """Who takes part, and whose replies end an epoch: those of all ``parts``, each of this kind."""

    event: ClassVar[str] = "members"
    names: tuple[str, ...]
    kind: Literal["role", "cell", "group"]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class SumBegun(Event):
    """A sum of a study is asked for, by the name of its statistic; epochs and replies that follow are of this one."""

    event: ClassVar[str] = "stage"
    stage: str


@dataclass(frozen=True)
class PhaseBegun(Event):
    """gathering, sharing (owners upload), training (products are asked for), finished."""

    event: ClassVar[str] = "phase"
    phase: str


@dataclass(frozen=True)
class EpochStarted(Event):
    """Products with an e are asked for."""

    epoch: int


@dataclass(frozen=True)
class Replied(OfDevice):
    """A holder's reply that was in time, or late."""

    event: ClassVar[str] = "answer"
    epoch: int
    bytes: int


@dataclass(frozen=True)
class RepliedLate(OfDevice):
    """A holder's reply that nobody waited for any more."""

    event: ClassVar[str] = "late answer"
    epoch: int
    bytes: int


@dataclass(frozen=True)
class EpochEnded(Event):
    """The product is known."""

    epoch: int


@dataclass(frozen=True)
class WrongReply(OfDevice):
    """A device replied otherwise than others did to the same request, and is excluded."""

    event: ClassVar[str] = "liar"
    epoch: int
