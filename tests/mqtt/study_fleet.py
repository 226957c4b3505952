"""The devices and the server of a study at one broker, which is a dictionary in virtual time (``fake_broker``)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_broker import FakeBroker, FakeLink

from approved_studies import Federation, federation
from codedfl.analyses.study_analysis import StudyFindings
from codedfl.engine.calls import Call, Reply, Step
from codedfl.engine.conductor import Patience
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.study_run import Serving, serve_study
from codedfl.mqtt.daemon import DeviceDaemon
from codedfl.mqtt.post import MqttPost
from codedfl.statistics.statistic import Ask

PATIENCE = Patience(join_seconds=20.0, gone_seconds=10.0, farewell_seconds=10.0)


class Killed(Exception):
    """A process ends here."""


class Mortal(DeviceDaemon):
    """A device whose process may end while it works on a call: before anything is done, or before the reply leaves."""

    before: Callable[[Call], None] = staticmethod(lambda call: None)
    after: Callable[[Call], None] = staticmethod(lambda call: None)
    died: Callable[[], None] = staticmethod(lambda: None)

    def turn(self, seconds: float) -> None:
        try:
            super().turn(seconds)
        except Killed:
            self.died()

    def _reply(self, call: Call) -> Reply:
        self.before(call)
        reply = super()._reply(call)
        self.after(call)
        return reply


@dataclass
class StudyFleet:
    """Every device that has approved runs from the start.

    asked: which statistic each device was asked for, in the order of steps.
    kills: how often each device has been called before its process ends, and whether that is before the call is worked
        on, or after; it is started again after a while.
    """

    of: Federation
    broker: FakeBroker = field(default_factory=FakeBroker)
    patience: Patience = PATIENCE
    devices: dict[str, FakeLink] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    kills: dict[str, dict[int, str]] = field(default_factory=dict)
    post: MqttPost = field(init=False)  # of the server that was started last

    def __post_init__(self) -> None:
        for name in self.of.approved or self.of.roster.keys:
            self.start(name)

    @property
    def output(self) -> Path:
        return self.of.folder / "output"

    def start(self, name: str, host: ResidentHost | None = None, digest: bytes | None = None) -> None:
        study = self.of.study
        link = self.broker.connect(name, Mortal.will(study.name, name))
        host = host or self.of.host(name, ResidentHost)
        daemon = Mortal(link, host, study.name, digest or study.digest(), clock=self.broker.clock)

        def before(call: Call) -> None:
            self.calls[name] += 1
            if isinstance(call, Step) and call.ask:
                self.asked.append((name, Ask.decode(call.ask, study).statistic))
            die("before")

        def die(where: str) -> None:
            if self.kills.get(name, {}).get(self.calls[name]) == where:
                raise Killed

        def died() -> None:
            self.kill(name)
            self.broker.at(2.0, lambda: self.start(name))

        daemon.before, daemon.after, daemon.died = before, lambda call: die("after"), died
        link.owner = daemon
        self.broker.look_after(link)
        self.devices[name] = link

    def kill(self, *names: str) -> None:
        """As a power cut: the broker notices, the process is gone with all its memory."""
        for link in [self.devices.pop(name) for name in names if name in self.devices]:
            self.broker.cut(link, None)
            if link in self.broker.links:
                self.broker.links.remove(link)

    def serve(self, **options: Any) -> StudyFindings:
        """The same command each time; a server before it is gone."""
        for link in [link for link in self.broker.links if link.name == "server"]:
            self.broker.cut(link, None)
            if link in self.broker.links:
                self.broker.links.remove(link)
        study = self.of.study
        link = self.broker.connect("server", MqttPost.will(study.name))
        post = self.post = MqttPost(link, study.name, study.digest(), clock=self.broker.clock)
        serving = Serving(self.output, self.of.server_key, self.of.roster, self.patience)
        return serve_study(post, study, serving, clock=self.broker.clock, **options)

    def when_asked(self, statistic: str, what: Callable[[], object]) -> None:
        """Do something once, as soon as a device is asked for this total."""
        done: list[bool] = []

        def tick() -> None:
            if not done and any(one == statistic for _, one in self.asked):
                done.append(True)
                what()

        self.broker.tick = tick

    def serve_killed(self, rng: random.Random, low: int, high: int) -> tuple[StudyFindings, int]:
        """The server dies again and again, after a while that ``rng`` draws; returns how often it was started."""
        budget, starts = 0, 0

        def tick() -> None:
            nonlocal budget
            budget -= 1
            if budget < 0:
                raise Killed

        self.broker.tick = tick
        while True:
            budget, starts = rng.randrange(low, high), starts + 1
            assert starts < 200, "it must come to its end"
            try:
                return self.serve(), starts
            except Killed:
                pass


def fleet_of(kind: str, folder: Path, broker: FakeBroker | None = None, **options: Any) -> StudyFleet:
    """All devices of the study of this kind."""
    return StudyFleet(federation(kind, folder, **options), broker or FakeBroker())
