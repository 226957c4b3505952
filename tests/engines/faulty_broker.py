"""A broker that is a dictionary, on a clock that jumps: messages are lost, late or doubled, parties die and return."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from codedfl.engines.mqtt_device import MqttDevice, ReplyBytes
from codedfl.engines.mqtt_server import MqttEngine
from codedfl.mqtt.link import LinkDown, LinkEvent, LinkUp, Received, Will
from codedfl.mqtt.small_broker import matches


class FaultyLink:
    """One party's connection; ``device`` works when something has come in, and is busy then for a while."""

    def __init__(self, broker: FaultyBroker, name: str, will: Will) -> None:
        self.broker, self.name, self.will = broker, name, will
        self.connected = False
        self.topics: set[str] = set()
        self.waiting: list[LinkEvent] = []
        self.device: MqttDevice | None = None
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

    def events(self, seconds: float) -> list[LinkEvent]:
        if self.device is None:  # the server waits, and meanwhile the world goes on
            self.broker.advance(seconds, lambda: bool(self.waiting))
        found, self.waiting = self.waiting, []
        return found

    def reads(self, topic: str) -> bool:
        return any(matches(filter_, topic) for filter_ in self.topics)


@dataclass
class FaultyBroker:
    """fault: "", "lose", "twice" or "late" for a message from a party; work: seconds a device is busy with a turn."""

    fault: Callable[[str, str, bytes], str] = lambda sender, topic, payload: ""
    work: Callable[[str], float] = lambda device: 0.05
    tick: Callable[[], None] = lambda: None
    latency: float = 0.01
    now: float = 0.0
    retained: dict[str, bytes] = field(default_factory=dict)
    links: list[FaultyLink] = field(default_factory=list)
    sent: list[tuple[float, str, str, bytes]] = field(default_factory=list)
    _due: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _count: Any = field(default_factory=itertools.count)
    _life: int = 0  # counts restarts: what was on the way in an earlier one is lost

    def clock(self) -> float:
        return self.now

    def at(self, seconds: float, what: Callable[[], object]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._count), what))

    def connect(self, name: str, will: Will) -> FaultyLink:
        link = FaultyLink(self, name, will)
        self.links.append(link)
        self.at(0.0, lambda: self.join(link))
        return link

    def join(self, link: FaultyLink) -> None:
        if link in self.links and not link.connected:
            for other in self.links:
                if other.name == link.name and other.connected:
                    self.cut(other, 5.0)  # a second connection under the same name takes the place of the first
            link.connected = True
            self._hand(link, LinkUp())

    def cut(self, link: FaultyLink, comes_back: float | None = 1.0) -> None:
        """The connection breaks; with ``comes_back`` it is made anew after so long, else its party is dead."""
        if comes_back is None and link in self.links:
            self.links.remove(link)
        if not link.connected:
            return
        link.connected, link.topics = False, set()
        if comes_back is not None:
            self._hand(link, LinkDown())
            self.at(comes_back, lambda: self.join(link))
        self.published(link.name, link.will.topic, link.will.payload, True)

    def restart(self) -> None:
        """Killed and started again: it has forgotten everything, wills included."""
        self._life += 1
        self.retained.clear()
        for i, link in enumerate(self.links):
            if link.connected:
                link.connected, link.topics = False, set()
                self._hand(link, LinkDown())
                self.at(1.0 + 0.3 * i, partial(self.join, link))

    def published(self, sender: str, topic: str, payload: bytes, retain: bool) -> None:
        self.sent.append((self.now, sender, topic, payload))
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

    def send(self, link: FaultyLink, topic: str, payload: bytes, later: float = 0.0) -> None:
        life = self._life

        def arrive() -> None:
            if link.connected and life == self._life:
                self._hand(link, Received(topic, payload))

        self.at(self.latency + later, arrive)

    def _hand(self, link: FaultyLink, event: LinkEvent) -> None:
        link.waiting.append(event)
        self._wake(link)

    def _wake(self, link: FaultyLink) -> None:
        if link.device is not None and not link.busy:
            link.busy = True
            self.at(self.work(link.name), lambda: self._turn(link))

    def _turn(self, link: FaultyLink) -> None:
        link.busy = False
        if link.device is not None and link in self.links:
            link.device.turn(0.0)
            if link.device.is_busy:
                self._wake(link)

    def advance(self, seconds: float, stop: Callable[[], bool]) -> None:
        until = self.now + seconds
        self.tick()
        while not stop() and self._due and self._due[0][0] <= until:
            self.now, _, what = heapq.heappop(self._due)
            what()
        if not stop():
            self.now = max(self.now, until)

    # -- parties

    def device(self, name: str, studies: Mapping[bytes, ReplyBytes]) -> FaultyLink:
        link = self.connect(name, MqttDevice.will(name))
        link.device = MqttDevice(link, name, studies, clock=self.clock)
        self._look_after(link)
        return link

    def _look_after(self, link: FaultyLink) -> None:
        """A device looks after itself at least so often: for pieces that must be asked for again."""
        if link in self.links:
            self._wake(link)
            self.at(5.0, lambda: self._look_after(link))

    def server(self, study: bytes, devices: list[str]) -> MqttEngine:
        """A server that starts; one before it is gone."""
        for link in [link for link in self.links if link.name == "server"]:
            self.cut(link, None)
        link = self.connect("server", MqttEngine.will(study))
        return MqttEngine(link, study, devices, clock=self.clock)
