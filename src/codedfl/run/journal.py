"""The journal of a run: what can be seen of it from outside, one JSON object a line, the same on every engine.

Flower and MQTT servers (``codedfl.engine``) write it in wall-clock time, simulations in virtual time. The events below
are its whole schema: a line is ``{"time": seconds, "event": name, ...}`` with the fields of one of them. Nothing secret
can be in it, because there is no field for it: names, epochs, bytes, seconds and scores, never a row, a key, a seed, an
answer, an update or a model. ``codedfl watch`` makes a page of it (``codedfl.report.run_state``).

A server that goes on from its checkpoint appends: a second ``journal`` line marks the place.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

from codedfl.protocol.server import Server
from codedfl.version import __version__
from codedfl_lab.costs import CodedScheme

JOURNAL_FILE = "events.jsonl"
JOURNAL_FORMAT = "codedfl-events-1"

Clock = Literal["wall", "virtual"]


@dataclass(frozen=True)
class Event:
    """What can be told; ``event`` is its name in the file, ``known`` are all kinds that have one."""

    event: ClassVar[str]
    known: ClassVar[list[type[Any]]] = []

    def __init_subclass__(cls) -> None:
        if "event" in vars(cls):
            Event.known.append(cls)


@dataclass(frozen=True)
class OfDevice(Event):
    """Something that happens to one device."""

    device: str


@dataclass(frozen=True)
class Answer(OfDevice):
    """Of so many bytes, when this epoch was being asked for."""

    epoch: int
    bytes: int


@dataclass(frozen=True)
class Opened(Event):
    """The first line. ``clock``: wall is seconds since 1970, virtual is seconds since the run began."""

    event: ClassVar[str] = "journal"
    clock: Clock
    format: str = JOURNAL_FORMAT
    codedfl: str = __version__


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
class StageBegun(Event):
    """A total that a study asks for, by the name of its statistic: cells, gram, products or score.

    Answers, epochs and members that follow are of this one. A run that only trains has no such line.
    """

    event: ClassVar[str] = "stage"
    stage: str


@dataclass(frozen=True)
class Members(Event):
    """The participants are fixed. ``parts``: whose answers end an epoch, so many ``needed`` of these ``members``."""

    @dataclass(frozen=True)
    class Part:
        """A role of role keys, a group of a gradient code, or everybody."""

        members: tuple[str, ...]
        needed: int

    event: ClassVar[str] = "members"
    names: tuple[str, ...]
    kind: Literal["role", "group"]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class PhaseBegun(Event):
    """joining, sharing, training, finished."""

    event: ClassVar[str] = "phase"
    phase: str


@dataclass(frozen=True)
class Connected(OfDevice):
    """A device can be reached."""

    event: ClassVar[str] = "connected"


@dataclass(frozen=True)
class Disconnected(OfDevice):
    """It cannot."""

    event: ClassVar[str] = "disconnected"


@dataclass(frozen=True)
class DeviceState(OfDevice):
    """waiting, joined, shared, ready, done; gone if it is not waited for any more."""

    event: ClassVar[str] = "state"
    state: str


@dataclass(frozen=True)
class Uploaded(OfDevice):
    """The whole bulk of a device's sharing phase has come in."""

    event: ClassVar[str] = "uploaded"
    bytes: int


@dataclass(frozen=True)
class Answered(Answer):
    """An answer that came in time: before its epoch ended."""

    event: ClassVar[str] = "answer"


@dataclass(frozen=True)
class AnsweredLate(Answer):
    """An answer that came when ``epoch`` was being asked for already: it is to an earlier one, and not used."""

    event: ClassVar[str] = "late answer"


@dataclass(frozen=True)
class Lied(OfDevice):
    """A device was found to have answered ``epoch`` wrongly, and is excluded."""

    event: ClassVar[str] = "liar"
    epoch: int


@dataclass(frozen=True)
class EpochEnded(Event):
    """An epoch is over. ``received`` and ``sent`` are bytes since the run began; ``score`` is None if nobody scores."""

    event: ClassVar[str] = "epoch"
    epoch: int
    answers: int
    score: float | None
    received: int
    sent: int


@dataclass(frozen=True)
class Scored(Event):
    """The devices have scored the last model of a study: on so many ``rows`` that they held out, summed over them."""

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


class RunJournal:
    """Writes events to a file, each whole at once: whoever reads on the way sees whole lines but for the last.

    anew: begin an empty file; otherwise it goes on behind what is there.
    """

    def __init__(self, path: Path, clock: Clock, now: float, *, anew: bool) -> None:
        self._stream: IO[str] | None = path.open("w" if anew else "a", encoding="utf-8")
        self.note(now, Opened(clock))

    def note(self, time: float, event: Event) -> None:
        """Write one line; nothing once it is closed."""
        if self._stream is not None:
            told = {name: value for name, value in asdict(event).items() if value is not None}
            self._stream.write(json.dumps({"time": round(time, 6), "event": event.event, **told}) + "\n")
            self._stream.flush()

    def close(self) -> None:
        """What is told afterwards is not written."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def begun(
    title: str,
    scheme: CodedScheme,
    n_devices: int,
    *,
    solver: str,
    epochs: int,
    target: float | None,
    score_name: str,
    n_features: int,
    n_outputs: int,
) -> Begun:
    """What a scheme on so many devices has to say of itself."""
    exposure = scheme.exposure(n_devices)
    return Begun(
        title=title,
        scheme=scheme.label,
        solver=solver,
        epochs=epochs,
        target=target,
        score_name=score_name,
        n_features=n_features,
        directions=n_outputs,
        reveals_gram=scheme.reveals_gram,
        server_sees=scheme.server_sees,
        exposed=(exposure.server_alone, exposure.one_colluder, exposure.two_colluders),
    )


def members_of(server: Server) -> Members:
    """Who takes part in a server's run, and whose answers end an epoch. Only once the participants are fixed."""
    assert server.agreement is not None
    names = server.agreement.names
    parts = tuple(Members.Part(tuple(names[i] for i in part.members), part.needed) for part in server.quorum.parts)
    return Members(tuple(names), "role" if server.agreement.roles else "group", parts)


def new_liars(server: Server, known: Collection[str]) -> list[Lied]:
    """Those the server has found out beside the ``known`` ones."""
    if server.agreement is None:
        return []
    return [Lied(name, epoch) for name, epoch in server.liars.items() if name not in known]
