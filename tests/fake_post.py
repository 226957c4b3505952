"""A stand-in for Flower's grid: nodes that work first in, first out, in virtual time, with faults on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from codedfl.engine.calls import Call, Failed, Reply, Step
from codedfl.engine.conductor import Conductor, Patience
from codedfl.engine.device_host import DeviceHost
from codedfl.crypto.key_files import load_identity
from codedfl.engine.letters import Letter, Parcel
from codedfl.engine.state_folder import StateFolder
from codedfl.protocol.messages import Kind, Message, Update
from codedfl.protocol.server import Server
from lab_party import LabParty
from scenario import Scenario

EXPIRES = 20.0  # seconds until a call without a reply is reported as failed


class Killed(Exception):
    """The server app's process ends here."""


@dataclass
class FakePost:
    """``hosts`` by node id. A host is called anew from its folder each time, as a new process would be.

    delay: seconds a node takes for a call. fault: "", "lose call", "lose reply", "damage call" or "damage reply";
        the latter two with " start" behind hit the first byte of each message, else the one in the middle.
    tick: called before everything the server app asks for; tests kill the server app there.
    """

    look_seconds = 2.0
    linger_seconds = 1.0
    turned_away = ()

    hosts: dict[int, DeviceHost]
    delay: Callable[[DeviceHost, Call], float] = lambda host, call: 0.3
    fault: Callable[[DeviceHost, Call], str] = lambda host, call: ""
    tick: Callable[[], None] = lambda: None
    now: float = 0.0
    handled: list[tuple[str, Call]] = field(default_factory=list)
    _pending: dict[str, tuple[float, int, Call]] = field(default_factory=dict)
    _busy: dict[int, float] = field(default_factory=dict)
    _replies: dict[str, Reply] = field(default_factory=dict)
    _count: int = 0

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def nodes(self) -> set[int]:
        self.tick()
        return set(self.hosts)

    def called(self, node: int) -> str:
        return f"node {node}"

    def push(self, calls: list[tuple[int, Call]]) -> list[str | None]:
        self.tick()
        numbers: list[str | None] = []
        for node, call in calls:
            if node not in self.hosts:
                numbers.append(None)
                continue
            waiting = [number for number, (_, other, _) in self._pending.items() if other == node]
            assert not waiting or not isinstance(call, Step), "a node must have one call at a time"
            self._count += 1
            due = max(self.now, self._busy.get(node, 0.0)) + self.delay(self.hosts[node], call)
            self._busy[node] = due
            self._pending[f"call-{self._count}"] = (due, node, call)
            numbers.append(f"call-{self._count}")
        return numbers

    def pull(self, numbers: set[str]) -> list[tuple[str, Reply]]:
        self.tick()
        for number, (due, node, call) in list(self._pending.items()):
            if due <= self.now:
                self._work(number, node, call)
        return [(number, self._replies.pop(number)) for number in sorted(numbers & set(self._replies))]

    def _work(self, number: str, node: int, call: Call) -> None:
        host = self.hosts.get(node)
        what = "lose call" if host is None else self.fault(host, call)
        if host is not None and what != "lose call":
            start = what.endswith(" start")
            reply = host.handle(damaged(call, start) if what.startswith("damage call") else call)
            reply = damaged(reply, start) if what.startswith("damage reply") else reply
            self.handled.append((host.name, call))
            if what != "lose reply":
                del self._pending[number]
                self._replies[number] = reply
                return
        self._pending[number] = (float("inf"), -1, call)
        self._replies[number] = Failed("the call has expired")
        del self._pending[number]
        self.now += EXPIRES / 20  # not at once


def damaged(what: Any, start: bool) -> Any:
    """The same with one bit flipped in every message it carries."""
    if isinstance(what, Step):
        return replace(what, parcel=damaged(what.parcel, start))
    if not isinstance(what, Parcel):
        return what
    letters = tuple(Letter(flipped(letter.head, start), letter.bulk) for letter in what.letters)
    return replace(what, letters=letters, newest=flipped(what.newest, start))


def flipped(data: bytes, start: bool) -> bytes:
    place = 0 if start else len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] if data else data


def make_hosts(scenario: Scenario, folder: Path, **options: Any) -> dict[int, DeviceHost]:
    """The devices of a scenario as nodes 100, 101, ...; each with a folder and a key of its own."""
    server = load_identity(folder / "server" / "identity.key").public
    hosts = {}
    for i, name in enumerate(scenario.names):
        home = folder / name
        identity = load_identity(home / "identity.key")
        hosts[100 + i] = DeviceHost(name, identity, home / "runs", server, LabParty(scenario, i, identity), **options)
    return hosts


def party_of(host: DeviceHost) -> LabParty:
    assert isinstance(host.party, LabParty)
    return host.party


def make_conductor(
    scenario: Scenario, post: FakePost, folder: Path, make_solver: Callable[[], Any], **options: Any
) -> Conductor:
    """A server app that starts, or goes on from the checkpoint in ``folder``."""
    identity = load_identity(folder / "server" / "identity.key")

    spare = options.pop("spare", 0)

    def make_server(introduced: Mapping[str, bytes]) -> Server:
        assert sorted(introduced) == list(introduced)
        plan = replace(scenario.plan, names=tuple(introduced), spare=spare)
        return Server(plan, make_solver(), identity=identity, roster=introduced)

    patience = options.pop("patience", Patience(scenario.n_devices, scenario.n_devices, 600.0, 30.0, 30.0))
    checkpoint = StateFolder(folder / "server" / "checkpoint")
    return Conductor(post, identity.public, make_server, checkpoint, patience, clock=post.clock, **options)


def is_step(call: Call) -> bool:
    return isinstance(call, Step)


def leftovers(folder: Path) -> list[str]:
    """Files of runs, on the nodes and on the server; keys and lock files stay."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".key", ".lock")]
    return [str(path.relative_to(folder)) for path in files]


def epoch_of(call: object) -> int:
    """The epoch of the update in a call; 0 if there is none."""
    if not isinstance(call, Step) or not call.parcel.newest:
        return 0
    message = Message.decode(call.parcel.newest)
    return Update.decode(message.body).epoch if message.kind is Kind.UPDATE else 0


def without_nodes(post: FakePost, nodes: list[int], when: Callable[[], bool]) -> None:
    def tick() -> None:
        if when():
            for node in nodes:
                post.hosts.pop(node, None)

    post.tick = tick
