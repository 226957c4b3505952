"""What happens in the sums of a study, for logs, screens and pages. Nothing secret has a field here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Event:
    """Something that happened; ``event`` is its name in the event log, empty if it is not written there."""

    event: ClassVar[str] = ""


@dataclass(frozen=True)
class OfDevice(Event):
    """Something that happens to one device."""

    device: str


@dataclass(frozen=True)
class DeviceState(OfDevice):
    """waiting, enrolled, uploaded, done; gone if it is not waited for any more; refused if it does not take part."""

    event: ClassVar[str] = "state"
    state: str


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
class RolesNamed(Event):
    """Who holds which role: one reply of each role is enough."""

    event: ClassVar[str] = "roles"
    holders: tuple[tuple[str, ...], ...]


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
