"""The event log of a run: what can be seen of it from outside, one JSON object per line, the same on every engine.

Its schema are the events that have a name (``sum.events``, and those below). A line is ``{"time": seconds, "event":
name, ...}`` with the fields of one of them. Nothing secret can be in it, because there is no field for it: names,
epochs, bytes, seconds and scores, never a row, a key, a request or a reply. ``codedfl server watch`` shows it.

A server that is started again appends: a second ``journal`` line marks the place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

from codedfl.errors import InvalidInput
from codedfl.sum.events import Event, Part
from codedfl.version import __version__

EVENTS_FILE = "events.jsonl"
EVENTS_FORMAT = "codedfl-events-1"

Clock = Literal["wall", "virtual", "order"]


@dataclass(frozen=True)
class Opened(Event):
    """The first line. ``clock``: wall is seconds since 1970, virtual since the run began; order has no real seconds."""

    event: ClassVar[str] = "journal"
    clock: Clock
    format: str
    codedfl: str = ""


@dataclass(frozen=True)
class Begun(Event):
    """What is run.

    ``epochs`` is the most there will be, ``target`` the score that ends it earlier (None: none does). ``directions`` is
    how many directions of the total X'X each epoch but the first can show the server, of ``n_features``; with
    ``reveals_gram`` the first shows all of them. ``exposed``: how many other devices' sums the server learns alone,
    with the worst one and with the worst two devices helping it.
    """

    event: ClassVar[str] = "run"
    title: str
    scheme: str
    solver: str
    epochs: int
    target: float | None
    score_name: str
    n_features: int
    directions: int
    reveals_gram: bool
    server_sees: str
    exposed: tuple[int, int, int]


@dataclass(frozen=True)
class EpochScored(Event):
    """An epoch is over. ``received`` and ``sent`` are bytes since the run began; ``score`` is None if nobody scores."""

    event: ClassVar[str] = "epoch"
    epoch: int
    answers: int
    score: float | None
    received: int
    sent: int


@dataclass(frozen=True)
class Scored(Event):
    """The devices have scored the last model of a study on the ``rows`` that they held out, summed over them."""

    event: ClassVar[str] = "scored"
    score: float
    rows: int


@dataclass(frozen=True)
class Finished(Event):
    """``outcome``: complete, interrupted, or why it ended early. ``received`` and ``sent`` are bytes in all."""

    event: ClassVar[str] = "finished"
    outcome: str
    received: int = 0
    sent: int = 0


class EventLog:
    """Writes events to a file, each whole at once: whoever reads on the way sees whole lines but for the last.

    empty: begin an empty file; otherwise it continues after what is there.
    """

    def __init__(self, path: Path, clock: Clock, now: float, *, empty: bool) -> None:
        self._stream: IO[str] | None = path.open("w" if empty else "a", encoding="utf-8")
        self.note(now, Opened(clock, EVENTS_FORMAT, __version__))

    def note(self, time: float, event: Event) -> None:
        """Write one line; nothing of an event without a name, and nothing once it is closed."""
        if self._stream is not None and event.event:
            content = {name: value for name, value in asdict(event).items() if value is not None}
            self._stream.write(json.dumps({"time": round(time, 6), "event": event.event, **content}) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """What is noted afterwards is not written."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def read_event(path: Path, line: bytes) -> tuple[float, Event]:
    """A line of the log at ``path``: when, and what. A kind that this version does not know is a plain ``Event``."""
    try:
        content = json.loads(line)
        time, name = float(content["time"]), content["event"]
        written_as = content["format"] if name == Opened.event else EVENTS_FORMAT
        if written_as == EVENTS_FORMAT:
            return time, _event(name, content)
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(f"every line of {path} must be an event, got {line[:80]!r}") from None
    raise InvalidInput(f"the event log must have the format {EVENTS_FORMAT}, got {written_as!r}")


def _event(name: str, content: Mapping[str, object]) -> Event:
    """What ``EventLog.note`` wrote: fields that are None are not in a line, and newer versions may write more."""
    kind = next((kind for kind in Event.known if kind.event == name), Event)
    may_lack = {one.name: None for one in fields(kind) if str(one.type).endswith("| None")}
    found = {one.name: _value(content[one.name]) for one in fields(kind) if one.name in content}
    return kind(**(may_lack | found))


def _value(read: Any) -> Any:
    """JSON has no tuples; the only objects within an event are the parts of a quorum."""
    if isinstance(read, dict):
        return Part(tuple(read["members"]), read["needed"])
    return tuple(map(_value, read)) if isinstance(read, list) else read
