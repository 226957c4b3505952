"""Requests lost, doubled and late, devices and server killed anywhere, disks and stores set back: the same sums.

``CODEDFL_FAULT_SCHEDULES`` says how many random schedules each test tries.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray
from weather import Disk, Odds, ServerKilled, Weather

from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.keys import GenerationKeys, digest
from codedfl.sum.known import Known
from codedfl.sum.layout import Layout, Words
from codedfl.sum.session import Patience, Session
from codedfl.sum.store import Store
from codedfl.sum.terms import Terms
from federations import SERVER, MadeUp, identity, terms_of

SCHEDULES = int(os.environ.get("CODEDFL_FAULT_SCHEDULES", "200")) // 10
PATIENCE = Patience(join=1e5, upload=1e5, reply=1e5, retry=5.0, hedge=1.0, lasts=4e6)
COUNTS, GRAM, NAMED = b"counts", b"gram", b"names a content"
CONTENT = b"what the last one needs"
LAYOUTS = {
    COUNTS: Layout.of_vector(3, 10**6),
    NAMED: Layout.of_vector(2, 10**6),
    GRAM: Layout(48, 1, 2, 10**6, 3, columns=1, room=1000),
}
E = [np.array([[1], [0], [-3]]), np.array([[5], [2], [7]])]
ALL = Odds(lost=0.1, doubled=0.1, killed=0.1, set_back=0.3, server=0.02)
NO_ROLLBACK = Odds(lost=0.15, doubled=0.15, killed=0.15, server=0.03)


def numbers(name: str, ask: bytes) -> tuple[list[int], list[int]]:
    rng = random.Random(f"{name}{ask!r}")
    layout = LAYOUTS[ask]
    return [rng.randint(-99, 99) for _ in range(layout.length)], [rng.randint(-99, 99) for _ in range(layout.triangle)]


def expected(names: tuple[str, ...], ask: bytes) -> list[int]:
    return [sum(column) for column in zip(*(numbers(name, ask)[0] for name in names), strict=True)]


def expected_product(names: tuple[str, ...], e: NDArray[np.int64]) -> list[int]:
    size, gram = LAYOUTS[GRAM].size, np.zeros((3, 3), dtype=np.int64)
    for name in names:
        gram[np.triu_indices(size)] += np.array(numbers(name, GRAM)[1])
    return ((gram + np.triu(gram, 1).T) @ e).reshape(-1).tolist()


@dataclass
class Reads(MadeUp):
    """Its numbers are the product of its own and the length of the content that an ask names."""

    disk: Disk | None = None

    def words(self, ask: bytes) -> Words:
        words, factor = super().words(ask), 1
        for one in self.needs(ask):
            content = self.disk.content(one)
            assert content is not None, "the device has it before the contract is asked"
            factor = len(content)
        return words * np.uint64(factor)


@dataclass
class Run:
    """A study on devices and a server that are killed; ``results`` is what it ended with."""

    rng: random.Random
    odds: Odds
    closes: bool = True
    patience: Patience = PATIENCE

    def __post_init__(self) -> None:
        z = self.rng.choice([0, 1, 1, 2])
        groups = [[f"{letter}{i}" for i in range(z + 2 + self.rng.randint(0, 1))] for letter in "ab"]
        self.terms = terms_of(groups, z, ["key-only"] if self.rng.random() < 0.3 else [])
        self.weather = Weather(self.terms.by_name, self.start, self.rng, self.odds)
        for disk in self.weather.disks.values():  # as many arguments and directions as the study needs, and no more
            disk.kept = InMemory(arguments=len(LAYOUTS), directions=len(E))
        self.store = Store()
        self.stores = [self.store._base.serialize()]

    def contract(self, name: str, disk: Disk | None = None) -> MadeUp:
        mine = {ask: numbers(name, ask) for ask in LAYOUTS} if name in self.terms.owners else {}
        return Reads(self.terms, LAYOUTS, mine, needed={NAMED: [digest(CONTENT)]}, disk=disk)

    def start(self, name: str, disk: Disk) -> Device:
        return Device(name, identity(name), self.contract(name, disk), disk, now=lambda: self.weather.now())

    def session(self) -> Session:
        study = MadeUp(self.terms, LAYOUTS)
        session = Session(self.weather, study, SERVER, self.store, patience=self.patience)
        session.offer(CONTENT)
        return session

    def to_the_end(self, steps: Callable[[Session], None]) -> None:
        """Begin again with the store as it is, an older one, or none, until nothing kills the server any more."""
        while True:
            try:
                return steps(self.session())
            except ServerKilled:
                self.stores.append(self.store._base.serialize())
                fate = self.rng.choice(["kept", "kept", "deleted", "set back"])
                if fate != "kept":
                    self.store = Store()
                if fate == "set back":
                    self.store._base.deserialize(self.rng.choice(self.stores))

    def study(self, session: Session) -> None:
        assert session.sum(COUNTS) == expected(session.members()[COUNTS], COUNTS)
        assert session.sum(NAMED) == [len(CONTENT) * one for one in expected(session.members()[NAMED], NAMED)]
        for e in E:
            product = np.asarray(session.product(GRAM, e)).reshape(-1).tolist()
            assert product == expected_product(session.members()[GRAM], e)
        if self.closes and self.rng.random() < 0.3:
            session.close()
            product = np.asarray(session.product(GRAM, E[0])).reshape(-1).tolist()
            assert product == expected_product(session.members()[GRAM], E[0])
        assert session.sum(GRAM) == expected(session.members()[GRAM], GRAM)


def fails(odds: Odds, schedules: int) -> bool:
    """Whether any schedule ends without the result, with a wrong one, or with two replies to one request."""
    for seed in range(schedules):
        run = Run(random.Random(f"mutant {seed}"), odds, patience=Run.patience)
        try:
            run.to_the_end(run.study)
        except Exception:  # whatever a mutant breaks
            return True
        if run.weather.two_replies:
            return True
    return False


@pytest.mark.parametrize("odds", [ALL, NO_ROLLBACK], ids=["with rollbacks", "without"])
@pytest.mark.parametrize("seed", range(max(1, SCHEDULES // 10)))
def test_every_schedule_ends_with_the_sums_of_all_owners(odds: Odds, seed: int) -> None:
    for part in range(10):
        run = Run(random.Random(f"{seed} {part} {odds}"), odds)
        run.to_the_end(run.study)
        assert not run.weather.two_replies
        assert set(run.session().members()[GRAM]) == set(run.terms.owners), "all come back, so all are in the sum"


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_a_group_that_dies_for_good_is_left_out_or_its_upload_stays_in_the_sum(seed: int) -> None:
    patience = Patience(join=500.0, upload=500.0, reply=500.0, retry=5.0, hedge=1.0)
    run = Run(random.Random(f"death {seed}"), Odds(lost=0.1, doubled=0.1, killed=0.1), closes=False, patience=patience)
    doomed = run.rng.sample(run.terms.groups[0], run.rng.randint(1, len(run.terms.groups[0])))
    deaths = {name: run.rng.randint(0, 120) for name in doomed}
    sent = [0]

    def send(device: str, request: bytes, send: Callable[[str, bytes], None] = run.weather.send) -> None:
        sent[0] += 1
        for name, when in deaths.items():
            if when <= sent[0]:
                run.weather.die(name)
        send(device, request)

    with mock.patch.object(run.weather, "send", send):
        run.to_the_end(run.study)
    assert not run.weather.two_replies
    assert set(run.terms.groups[1]) <= set(run.session().members()[GRAM])


# -- rules without which schedules fail


@contextmanager
def random_nonces() -> Iterator[None]:
    """A nonce that is drawn, as seeds were in protocol 3."""
    drawn = random.Random(1)
    with mock.patch.object(GenerationKeys, "nonce", side_effect=lambda *bound: drawn.randbytes(16)):
        yield


@contextmanager
def root_in_memory_only() -> Iterator[None]:
    """The root of the generation is not on the disk before it is used."""
    with mock.patch.object(Disk, "keep"):
        yield


@contextmanager
def each_request_counts() -> Iterator[None]:
    """A direction is counted as often as it is asked for."""

    def answer(self: InMemory, ask: bytes, question: bytes, answer: Callable[..., None] = InMemory.answer) -> None:
        answer(self, ask, question + len(self._questions).to_bytes(4, "big"))

    with mock.patch.object(InMemory, "answer", answer):
        yield


@contextmanager
def pinned_with_the_generation() -> Iterator[None]:
    """The first numbers of a statistic are pinned with the generation's key instead of the device's own."""

    def contribute(self: Disk, ask: bytes, pinned: bytes, kept: Callable[..., None] = Disk.contribute) -> None:
        generation = self.kept.generation()
        assert generation is not None
        kept(self, ask, pinned + generation.root)

    with mock.patch.object(Disk, "contribute", contribute):
        yield


@contextmanager
def no_retry() -> Iterator[None]:
    """What was sent once is not sent again."""
    with mock.patch.object(Run, "patience", Patience(1e3, 1e3, 1e3, retry=1e9, hedge=1.0)):
        yield


@contextmanager
def closed_for_good() -> Iterator[None]:
    """A server that is told that a generation is over gives up its devices."""
    with mock.patch("codedfl.sum.known.Known.over"):
        yield


@contextmanager
def kept_nowhere() -> Iterator[None]:
    """A device says that it has a content, and keeps none."""
    with mock.patch.object(Disk, "put"):
        yield


@contextmanager
def put_once() -> Iterator[None]:
    """A server that has put a content once believes that it stays there."""
    real, put = Known.lacks, set()

    def lacks(known: Known, device: str, code: str) -> bool:
        again = (id(known.store), device, code) in put
        put.add((id(known.store), device, code))
        return not again and real(known, device, code)

    with mock.patch.object(Known, "lacks", lacks):
        yield


@pytest.mark.parametrize(
    "mutant",
    [
        kept_nowhere,
        put_once,
        random_nonces,
        root_in_memory_only,
        each_request_counts,
        pinned_with_the_generation,
        no_retry,
        closed_for_good,
    ],
)
def test_schedules_find_a_rule_that_is_missing(mutant: Callable[[], object]) -> None:
    with mutant():
        assert fails(ALL if mutant is not root_in_memory_only else NO_ROLLBACK, 60)


def test_terms_are_the_same_whatever_the_order_of_participants() -> None:
    terms = terms_of([["a", "b", "c"], ["d", "e", "f", "g"]], 1, ["h"])
    other = Terms(terms.study, terms.server, tuple(reversed(terms.participants)), 1)
    assert other.roles == terms.roles
