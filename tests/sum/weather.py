"""An engine on which everything goes wrong: messages are lost, doubled, late; devices and the server are killed."""

from __future__ import annotations

import copy
import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from codedfl.sum import wire
from codedfl.sum.device import Device, Generation
from codedfl.sum.in_memory import InMemory
from codedfl.sum.keys import digest

_MOST_WAITS = 6_000


class Killed(BaseException):
    """A device's process ends here."""


class ServerKilled(BaseException):
    """The server's process ends here."""


@dataclass
class Disk:
    """A ``Memory`` that a device is killed at: before or after what it was to keep is on the disk."""

    kept: InMemory = field(default_factory=InMemory)
    fuse: int = -1  # calls until the device is killed; -1 is never

    def _burn(self) -> None:
        self.fuse -= self.fuse >= 0
        if self.fuse == 0:
            self.fuse = -1
            raise Killed

    def generation(self) -> Generation | None:
        return self.kept.generation()

    def keep(self, generation: Generation) -> None:
        self._burn()
        self.kept.keep(generation)
        self._burn()

    def contribute(self, ask: bytes, pinned: bytes) -> None:
        self._burn()
        self.kept.contribute(ask, pinned)
        self._burn()

    def answer(self, ask: bytes, question: bytes) -> None:
        self._burn()
        self.kept.answer(ask, question)
        self._burn()

    def closed(self, generation: int, record: Sequence[tuple[bytes, Sequence[str]]]) -> None:
        self._burn()
        self.kept.closed(generation, record)
        self._burn()

    def put(self, content: bytes) -> None:
        self._burn()
        self.kept.put(content)
        self._burn()

    def content(self, digest: bytes) -> bytes | None:
        return self.kept.content(digest)


@dataclass(frozen=True)
class Odds:
    """How often what happens."""

    lost: float = 0.0
    doubled: float = 0.0
    killed: float = 0.0
    set_back: float = 0.0  # of the killed
    server: float = 0.0  # of all calls of the engine


class Weather:
    """An ``Engine`` of devices that are processes with disks. ``make`` starts a device on its disk.

    two_replies: devices that gave two different replies to one request, with the same keys.
    """

    def __init__(
        self, names: Collection[str], make: Callable[[str, Disk], Device], rng: random.Random, odds: Odds
    ) -> None:
        self._make, self._rng, self._odds = make, rng, odds
        self.disks = {name: Disk() for name in names}
        self._old: dict[str, list[InMemory]] = defaultdict(list)
        self._devices = {name: make(name, self.disks[name]) for name in names}
        self._down: dict[str, float] = {}
        self._order = itertools.count()
        self._due: list[tuple[float, int, bool, str, bytes]] = []
        self._given: dict[tuple[str, bytes, bytes], bytes] = {}
        self._now = 0.0
        self._waits = 0
        self.two_replies: set[str] = set()
        self.calm = False  # nothing goes wrong any more

    def now(self) -> float:
        return self._now

    def here(self) -> Collection[str]:
        return {name for name in self._devices if self._down.get(name, 0.0) <= self._now}

    def die(self, name: str) -> None:
        """For good."""
        self._down[name] = float("inf")

    def _happens(self, odds: float) -> bool:
        return not self.calm and self._rng.random() < odds

    def _server_may_be_killed(self) -> None:
        if self._happens(self._odds.server):
            raise ServerKilled

    def send(self, device: str, request: bytes) -> None:
        self._server_may_be_killed()
        self._travels(True, device, request)

    def _travels(self, to_device: bool, device: str, data: bytes) -> None:
        for _ in range(1 + self._happens(self._odds.doubled)):
            if not self._happens(self._odds.lost):
                late = self._rng.choice([0.01, 0.01, 0.3, 2.0, 30.0]) * self._rng.random()
                heapq.heappush(self._due, (self._now + late, next(self._order), to_device, device, data))

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        self._server_may_be_killed()
        self._waits += 1
        assert self._waits < _MOST_WAITS, "this schedule does not end"
        until = self._now + seconds
        while self._due and self._due[0][0] <= until:
            self._now, _, to_device, device, data = heapq.heappop(self._due)
            if not to_device:
                return [(device, data)]
            if self._down.get(device, 0.0) <= self._now:
                self._works(device, data)
        self._now = until
        return []

    def _works(self, name: str, request: bytes) -> None:
        disk = self.disks[name]
        if self._happens(self._odds.killed):
            disk.fuse = self._rng.randint(1, 6)
        self._old[name].append(copy.deepcopy(disk.kept))
        try:
            reply = self._devices[name].reply(request)
            if disk.fuse > 0:  # killed with the reply in its hands
                raise Killed
        except Killed:
            self._dies(name)
            return
        finally:
            disk.fuse = -1
        self._note(name, request, reply)
        self._travels(False, name, reply)

    def _dies(self, name: str) -> None:
        if self._happens(self._odds.set_back):
            self.disks[name].kept = copy.deepcopy(self._rng.choice(self._old[name]))
        if self._rng.random() < 0.5:  # what servers have put is a cache
            self.disks[name].kept._contents.clear()
        self._devices[name] = self._make(name, self.disks[name])
        self._down[name] = self._now + self._rng.choice([0.0, 1.0, 20.0])

    def _note(self, name: str, request: bytes, data: bytes) -> None:
        """Invariant under test: with the same keys, the reply to a request is always the same bytes."""
        reply = wire.decode(data, wire.Reply, "a reply")
        if reply.kind != "ok":
            return
        # Only a device whose disk was set back may have other keys in one generation.
        key = reply.enrolment.public if reply.enrolment and self._odds.set_back else b""
        if self._given.setdefault((name, key, digest(request)), data) != data:
            self.two_replies.add(name)
