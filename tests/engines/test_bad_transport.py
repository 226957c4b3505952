"""Whatever a broker does to messages, and whoever is killed: every schedule ends with the sum, and with no other."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest
from faulty_broker import FaultyBroker, FaultyLink

from codedfl.engines.frames import PIECE_BYTES, PIECES_EACH, Frame, Offered, Piece, read_frame
from codedfl.engines.mqtt_server import MqttEngine
from codedfl.mqtt import topics
from codedfl.mqtt.presence import HERE
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.layout import Layout
from codedfl.sum.session import Patience, Session
from codedfl.sum.store import Store
from codedfl.sum.terms import Terms
from federations import SERVER, MadeUp, identity, terms_of

SCHEDULES = int(os.environ.get("CODEDFL_FAULT_SCHEDULES", "8"))
PATIENCE = Patience(join=1000.0, upload=1000.0, reply=1000.0, retry=3.0, hedge=0.5)


def drawn(seed: str, layout: Layout) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    return [rng.randint(-10, 10) for _ in range(layout.length)], [rng.randint(-10, 10) for _ in range(layout.triangle)]


class World:
    """Devices at a fake broker; their memories are their disks, and outlive them."""

    def __init__(self, broker: FaultyBroker, terms: Terms, asks: dict[bytes, Layout]) -> None:
        self.broker, self.terms, self.asks = broker, terms, asks
        self.disks = {name: InMemory() for name in terms.by_name}
        self.links: dict[str, FaultyLink] = {}
        self.replies: dict[tuple[str, bytes], set[bytes]] = {}
        for name in terms.by_name:
            self.start(name)

    def start(self, name: str) -> None:
        numbers = {ask: drawn(name + ask.decode(), layout) for ask, layout in self.asks.items()}
        contract = MadeUp(self.terms, self.asks, numbers)
        device = Device(name, identity(name), contract, self.disks[name], now=self.broker.clock)
        self.links[name] = self.broker.device(name, {self.terms.study: device.reply})

    def kill(self, name: str, back_after: float) -> None:
        link = self.links.pop(name, None)
        if link is not None:
            self.broker.cut(link, None)
            self.broker.at(back_after, lambda: self.start(name))

    def session(self, store: Store | None = None) -> Session:
        self.engine = self.broker.server(self.terms.study, list(self.terms.by_name))
        return Session(self.engine, MadeUp(self.terms, self.asks), SERVER, store, patience=PATIENCE, row_blocks=3)

    def sum_of(self, ask: bytes) -> list[int]:
        columns = zip(*(drawn(name + ask.decode(), self.asks[ask])[0] for name in self.terms.owners), strict=True)
        return [sum(column) for column in columns]

    def gram(self, ask: bytes) -> np.ndarray:
        size = self.asks[ask].size
        found = np.zeros((size, size), dtype=np.int64)
        for name in self.terms.owners:
            found[np.triu_indices(size)] += np.array(drawn(name + ask.decode(), self.asks[ask])[1])
        return found + np.triu(found, 1).T


TERMS = terms_of([["a", "b", "c"], ["d", "e", "f", "g"]], 1)
SMALL = {b"one": Layout.of_vector(5, 1000), b"two": Layout(48, 1, 3, 1000, 300, columns=2, room=2000)}
LARGE = {b"large": Layout(64, 1, 70_000, 1000, 0, columns=0, room=0)}


def faults(rng: random.Random, rate: float) -> Callable[[str, str, bytes], str]:
    return lambda sender, topic, payload: rng.choice(["lose", "twice", "late"]) if rng.random() < rate else ""


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_lost_late_and_doubled_messages_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    broker = FaultyBroker(faults(rng, 0.2), work=lambda name: rng.expovariate(10.0))
    world = World(broker, TERMS, SMALL)
    session = world.session()
    e = np.array([[rng.randint(-5, 5), rng.randint(-5, 5)] for _ in range(300)])
    assert [session.sum(b"one"), session.sum(b"two")] == [world.sum_of(b"one"), world.sum_of(b"two")]
    assert (session.product(b"two", e) == world.gram(b"two") @ e).all()


class Killed(Exception):
    """The server is, here."""


@pytest.mark.parametrize("keeps", [True, False], ids=["with its cache", "without its cache"])
@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_whoever_is_killed_at_any_moment_the_same_command_ends_with_the_sum(seed: int, keeps: bool) -> None:
    rng = random.Random(seed)
    deaths = iter(sorted(rng.uniform(0, 4) for _ in range(3)))
    next_death = next(deaths)

    def tick() -> None:
        nonlocal next_death
        if rng.random() < 0.05:
            world.kill(rng.choice(sorted(TERMS.by_name)), rng.uniform(0.1, 5.0))
        if rng.random() < 0.02:
            broker.restart()
        if broker.now > next_death:
            next_death = next(deaths, float("inf"))
            raise Killed

    broker = FaultyBroker(faults(rng, 0.05), work=lambda name: rng.expovariate(10.0), tick=tick)
    world = World(broker, TERMS, SMALL)
    store, died = Store(), 0
    while True:
        try:
            session = world.session(store if keeps else None)
            found = [session.sum(b"one"), session.sum(b"two")]
            break
        except Killed:
            died += 1
    assert found == [world.sum_of(b"one"), world.sum_of(b"two")] and died > 0


@pytest.mark.parametrize("seed", range(4))
def test_a_large_upload_comes_in_pieces_through_losses_and_kills(seed: int) -> None:
    rng = random.Random(seed)
    kills = iter((0.6, 1.5))
    at = next(kills)

    def tick() -> None:
        nonlocal at
        if broker.now > at:
            at = next(kills, float("inf"))
            world.kill("b", 0.5)

    broker = FaultyBroker(faults(rng, 0.1), tick=tick)
    world = World(broker, TERMS, LARGE)
    assert world.session().sum(b"large") == world.sum_of(b"large")
    assert max(len(payload) for _, _, _, payload in broker.sent) < 100_000


def test_a_pull_goes_on_where_a_killed_device_stopped() -> None:
    broker, killed = FaultyBroker(), False
    count = -(-150_000 * 8 // PIECE_BYTES)

    def pieces() -> list[Piece]:
        upload = next(frame.digest for frame in frames_of(broker, "b") if isinstance(frame, Offered))
        return [frame for frame in frames_of(broker, "b") if isinstance(frame, Piece) and frame.digest == upload]

    def tick() -> None:
        nonlocal killed
        if not killed and any(isinstance(frame, Piece) for frame in frames_of(broker, "b")):
            assert len(pieces()) < count
            killed = True
            world.kill("b", 0.5)

    broker.tick = tick
    world = World(broker, TERMS, {b"large": Layout(64, 1, 150_000, 1000, 0, columns=0, room=0)})
    assert world.session().sum(b"large") == world.sum_of(b"large") and killed
    assert {piece.index for piece in pieces()} == set(range(count))
    assert len(pieces()) <= count + PIECES_EACH  # no more than what was on the way is sent again


def frames_of(broker: FaultyBroker, sender: str) -> list[Frame]:
    return [read_frame(payload) for _, who, topic, payload in broker.sent if who == sender and topic.endswith("/out")]


def test_a_study_that_is_over_is_told_to_whoever_comes_later() -> None:
    broker = FaultyBroker()
    world = World(broker, TERMS, SMALL)
    world.session().sum(b"one")
    world.engine.leave(over=True)
    late = broker.device("a", {TERMS.study: bytes})
    broker.advance(3.0, lambda: False)
    assert late.device.all_over


def test_a_server_that_ended_and_is_then_reported_lost_has_ended_all_the_same() -> None:
    """Its connection was reset before the broker read that it leaves: devices waited for its end for ever."""
    broker = FaultyBroker()
    world = World(broker, TERMS, SMALL)
    world.session().sum(b"one")
    device = world.links["a"].device
    assert device is not None
    here, lost = topics.server_presence(topics.level_of(TERMS.study)), MqttEngine.will(TERMS.study)
    world.engine.leave(over=True)
    broker.published("server", lost.topic, lost.payload, True)
    broker.advance(3.0, lambda: False)
    assert device.all_over
    broker.published("server", here, HERE, True)
    broker.advance(3.0, lambda: False)
    assert not device.all_over, "a server that is back begins again"
