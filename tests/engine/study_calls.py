"""A study's server and hosts, call by call: every call is at hand, to be changed, repeated or cut short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from codedfl.analyses.study_plan import StudyRun

from approved_studies import Federation, federation
from codedfl.contract.merging import merged_study
from codedfl.crypto.sealed import Identity
from codedfl.engine.calls import Step
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.letters import Letter, Line, Parcel
from codedfl.engine.resident_host import ResidentHost
from codedfl.protocol.events import Turn
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.run.rehearsal import rehearsal_key
from codedfl.statistics.statistic import Ask


@dataclass
class Called:
    """One run of a study: the server that asks for a total, and the lines to its devices.

    change: what a server that is not honest does to its own machine before it invites.
    """

    of: Federation
    ask: Ask
    hosts: dict[str, DeviceHost]
    key: Identity = field(default_factory=lambda: Identity(rehearsal_key("")))
    change: Callable[[Server], object] = lambda server: None
    server: Server = field(init=False)
    lines: dict[str, Line] = field(init=False)
    replies: list[tuple[str, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        run = StudyRun(self.of.study, self.of.roster, self.ask)
        names = tuple(self.hosts)
        self.server = Server(run.plan(names), run.solver(), identity=self.key)
        self.change(self.server)
        self.lines = {name: Line() for name in names}
        self._put(self.server.invite())

    def _put(self, turn: Turn) -> None:
        for outgoing in turn.outgoing:
            if outgoing.kind not in (Kind.UPDATE, Kind.FINISH):
                for name in outgoing.receivers:
                    self.lines[name].put(Letter.of(outgoing.message))

    def step(self, name: str) -> Step:
        """The next call of a device."""
        newest = {one: out.data for out in self.server.resend().outgoing for one in out.receivers}
        parcel = self.lines[name].parcel(newest.get(name, b""))
        return Step(self.server.run, name, parcel, ask=b"" if parcel.first else self.ask.encode())

    def deliver(self, name: str) -> object:
        """One call and its reply."""
        reply = self.hosts[name].handle(self.step(name))
        self.replies.append((name, reply))
        if isinstance(reply, Parcel) and not self.over:
            for letter in self.lines[name].take(reply):
                self._put(self.server.receive(letter.head, letter.bulk))
            if reply.newest:
                self._put(self.server.receive(reply.newest))
        return reply

    @property
    def over(self) -> bool:
        return self.server.phase is Phase.FINISHED

    def finish(self) -> Called:
        """To the end, of which everybody is told."""
        self.until(lambda: self.over)
        self.turn()
        return self

    def turn(self) -> None:
        for name in self.hosts:
            self.deliver(name)

    def until(self, what: Callable[[], bool]) -> Called:
        """Turn after turn, for as long as there is something to wait for."""
        for _ in range(100):
            if what():
                return self
            self.turn()
        raise AssertionError("it must come to that")

    def until_step(self, kind: Kind, name: str) -> Step:
        """The call that brings a message of this kind to a device, undelivered."""
        for _ in range(100):
            call = self.step(name)
            if kind in kinds_in(call):
                return call
            self.turn()
        raise AssertionError(f"there must be a {kind}")


def kinds_in(call: Step) -> set[Kind]:
    wires = [letter.head for letter in call.parcel.letters]
    return {Message.decode(wire).kind for wire in (*wires, *filter(None, [call.parcel.newest]))}


def called(
    of: Federation,
    ask: Ask,
    kind: type[DeviceHost] = ResidentHost,
    names: tuple[str, ...] | None = None,
    **options: Any,
) -> Called:
    return Called(of, ask, {name: of.host(name, kind) for name in names or tuple(of.roster.keys)}, **options)


def pod_of_three(kind: str, folder: Path, **options: Any) -> Federation:
    """As small as a federation can be."""
    return federation(kind, folder, names=("clinic-0", "clinic-1", "clinic-2"), **options)


def memory_of(of: Federation, name: str) -> dict[str, bytes]:
    """Every byte that a device has on its disk; locks are empty."""
    files = [path for path in (of.folder / name).rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(of.folder)): path.read_bytes() for path in files}


def score_at(of: Federation, number: int) -> Ask:
    """The score of some model."""
    merged = of.rehearsed().merged
    length = len(merged_study(of.study, merged).design_names) + 1
    classes = 2
    return Ask("score", merged, np.full(length * classes, float(number)))
