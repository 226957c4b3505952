"""A broker that is a dictionary, in virtual time: connections, wills and retained messages, with faults on demand."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from codedfl.engine.conductor import Conductor, Patience
from codedfl.crypto.key_files import load_identity
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.state_journal import StateJournal
from codedfl.mqtt.daemon import DeviceDaemon
from codedfl.mqtt.link import Connected, Disconnected, Event, Received, Will
from codedfl.mqtt.post import MqttPost
from codedfl.protocol.server import Server
from lab_party import LabParty
from scenario import Scenario

STUDY, DIGEST = "digits", bytes(32)
TURN_SECONDS = 1.0  # a daemon looks after itself at least so often


class FakeLink:
    """One party's connection; ``owner`` works when something has come in, and is busy then for a while."""

    def __init__(self, broker: FakeBroker, name: str, will: Will) -> None:
        self.broker, self.name, self.will = broker, name, will
        self.connected = False
        self.topics: set[str] = set()
        self.waiting: list[Event] = []
        self.owner: DeviceDaemon | None = None
        self.busy = False

    def subscribe(self, *topics: str) -> None:
        if self.connected:
            self.topics |= set(topics)
            for topic, payload in list(self.broker.retained.items()):
                if self.reads(topic):
                    self.broker.send(self, topic, payload)

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        if self.connected:
            self.broker.published(self.name, topic, payload, retain)

    def events(self, seconds: float) -> list[Event]:
        if self.owner is None:  # the server waits, and meanwhile the world goes on
            self.broker.advance(seconds, lambda: bool(self.waiting))
        found, self.waiting = self.waiting, []
        return found

    def reads(self, topic: str) -> bool:
        return any(matches(filter_, topic) for filter_ in self.topics)


def matches(filter_: str, topic: str) -> bool:
    levels, parts = filter_.split("/"), topic.split("/")
    return len(levels) == len(parts) and all(one in ("+", other) for one, other in zip(levels, parts, strict=True))


@dataclass
class FakeBroker:
    """fault: "", "lose", "twice" or "late" for a message from a party; work: seconds a device is busy with a batch."""

    fault: Callable[[str, str, bytes], str] = lambda sender, topic, payload: ""
    work: Callable[[str], float] = lambda device: 0.05
    tick: Callable[[], None] = lambda: None
    latency: float = 0.01
    now: float = 0.0
    retained: dict[str, bytes] = field(default_factory=dict)
    links: list[FakeLink] = field(default_factory=list)
    sent: list[tuple[str, str, bytes]] = field(default_factory=list)
    _due: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _count: Any = field(default_factory=itertools.count)
    _epoch: int = 0  # counts restarts: what was on the way in an older one is lost

    def clock(self) -> float:
        return self.now

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._count), what))

    def connect(self, name: str, will: Will) -> FakeLink:
        link = FakeLink(self, name, will)
        self.links.append(link)
        self.at(0.0, lambda: self.join(link))
        return link

    def join(self, link: FakeLink) -> None:
        if link in self.links and not link.connected:
            for other in self.links:
                if other.name == link.name and other.connected:
                    self.cut(other, 5.0)  # a second connection under the same name takes the place of the first
            link.connected = True
            self._hand(link, Connected())

    def cut(self, link: FakeLink, comes_back: float | None = 1.0) -> None:
        """The connection breaks; with ``comes_back`` it is made anew after so long, else its party is dead."""
        if not link.connected:
            return
        link.connected, link.topics = False, set()
        if comes_back is None:
            self.links.remove(link)
        else:
            self._hand(link, Disconnected())
            self.at(comes_back, lambda: self.join(link))
        self.published(link.name, link.will.topic, link.will.payload, True)

    def restart(self) -> None:
        """Killed and started again: it has forgotten everything, wills included."""
        self._epoch += 1
        self.retained.clear()
        for i, link in enumerate(self.links):
            if link.connected:
                link.connected, link.topics = False, set()
                self._hand(link, Disconnected())
                self.at(1.0 + 0.3 * i, partial(self.join, link))

    def published(self, sender: str, topic: str, payload: bytes, retain: bool) -> None:
        self.sent.append((sender, topic, payload))
        if retain:
            self.retained.pop(topic, None)
            if payload:
                self.retained[topic] = payload
        fault = "" if retain else self.fault(sender, topic, payload)
        for link in self.links:
            if link.connected and link.reads(topic) and fault != "lose":
                self.send(link, topic, payload, 0.7 if fault == "late" else 0.0)
                if fault == "twice":
                    self.send(link, topic, payload, 0.3)

    def send(self, link: FakeLink, topic: str, payload: bytes, later: float = 0.0) -> None:
        epoch = self._epoch

        def arrive() -> None:
            if link.connected and epoch == self._epoch:
                self._hand(link, Received(topic, payload))

        self.at(self.latency + later, arrive)

    def _hand(self, link: FakeLink, event: Event) -> None:
        link.waiting.append(event)
        if link.owner is not None and not link.busy:
            link.busy = True
            self.at(self.work(link.name), lambda: self._turn(link))

    def _turn(self, link: FakeLink) -> None:
        link.busy = False
        if link.owner is not None and link in self.links:
            link.owner.turn(0.0)

    def look_after(self, link: FakeLink) -> None:
        if link in self.links:
            if not link.busy:
                self._turn(link)
            self.at(TURN_SECONDS, lambda: self.look_after(link))

    def advance(self, seconds: float, stop: Callable[[], bool]) -> None:
        until = self.now + seconds
        self.tick()
        while not stop() and self._due and self._due[0][0] <= until:
            self.now, _, what = heapq.heappop(self._due)
            what()
        if not stop():
            self.now = max(self.now, until)


@dataclass
class Fleet:
    """The devices and the server of a scenario at one broker."""

    scenario: Scenario
    folder: Path
    broker: FakeBroker
    devices: dict[str, FakeLink] = field(default_factory=dict)
    patience: Patience | None = None

    def __post_init__(self) -> None:
        for name in self.scenario.names:
            self.start(name)

    def host(self, name: str, key: str = "identity.key") -> ResidentHost:
        home, server = self.folder / name, load_identity(self.folder / "server" / "identity.key").public
        identity = load_identity(home / key)
        party = LabParty(self.scenario, self.scenario.names.index(name), identity)
        return ResidentHost(name, identity, home / "runs", server, party)

    def start(self, name: str, host: ResidentHost | None = None, digest: bytes = DIGEST) -> FakeLink:
        link = self.broker.connect(name, DeviceDaemon.will(STUDY, name))
        link.owner = DeviceDaemon(link, host or self.host(name), STUDY, digest, clock=self.broker.clock)
        self.broker.look_after(link)
        self.devices[name] = link
        return link

    def kill(self, name: str) -> None:
        """As a power cut: the broker notices, the process is gone with all its memory."""
        link = self.devices[name]
        self.broker.cut(link, None)
        if link in self.broker.links:
            self.broker.links.remove(link)

    def conductor(self, make_solver: Callable[[], Any], **options: Any) -> Conductor:
        """A server that starts, or goes on from its checkpoint; one before it is gone."""
        for link in list(self.broker.links):
            if link.name == "server":
                self.broker.cut(link, None)
                if link in self.broker.links:
                    self.broker.links.remove(link)
        link = self.broker.connect("server", MqttPost.will(STUDY))
        post = MqttPost(link, STUDY, DIGEST, clock=self.broker.clock)
        identity = load_identity(self.folder / "server" / "identity.key")
        scenario = self.scenario

        def make_server(introduced: Mapping[str, bytes]) -> Server:
            plan = replace(scenario.plan, names=tuple(sorted(introduced)))
            return Server(plan, make_solver(), identity=identity, roster=introduced)

        count = scenario.n_devices
        patience = self.patience or Patience(count, count, 600.0, 60.0, 60.0)
        checkpoint = StateJournal(self.folder / "server" / "checkpoint")
        return Conductor(post, identity.public, make_server, checkpoint, patience, clock=self.broker.clock, **options)

    def leftovers(self) -> list[str]:
        """Files of runs, on the devices and on the server; keys and lock files apart."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return [str(path.relative_to(self.folder)) for path in files if path.suffix not in (".key", ".lock")]
