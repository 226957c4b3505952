"""Real processes on real files, killed at every system call by which they write: the same sums, the same replies.

A device with its ledger, and a server with its cache. ``CODEDFL_FAULT_SCHEDULES`` says how many of the calls are tried
(``make faults``: all of them).
"""

from __future__ import annotations

import functools
import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from experiments.local_study import LocalStudy, agree, digits_study, digits_tables
from traced import Calls, Killed, Traced, can_trace, pack_message, read_message
from weather import Disk, Odds, Weather
from weather import Killed as DeviceKilled

from codedfl.contract.device_folder import DeviceFolder
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.device.approved import LedgerMemory, approved_device
from codedfl.device.study_sums import StudySums
from codedfl.engines.in_process import InProcess
from codedfl.statistics.statistic import Ask
from codedfl.sum import wire
from codedfl.sum.device import Device
from codedfl.sum.memory import Generation
from codedfl.sum.session import Patience, Session
from codedfl.sum.store import Store

TRIED = int(os.environ.get("CODEDFL_FAULT_SCHEDULES", "200")) // 20
PATIENCE = Patience(join=1e5, upload=1e5, reply=1e5, retry=5.0, hedge=1.0, lasts=4e6)
CELLS, PRODUCTS = Ask("cells").encode(), Ask("products").encode()
VICTIM = "device-1"

pytestmark = pytest.mark.skipif(not can_trace(), reason="this machine lets no process trace its child")


@pytest.fixture(scope="module")
def agreed(tmp_path_factory: pytest.TempPathFactory) -> LocalStudy:
    return agree(tmp_path_factory.mktemp("study"), digits_study(2048, features=50, epochs=4), digits_tables(3))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def study_of(session: Session, sums: StudySums) -> list[list[int]]:
    """Sums and products of one study, and its end."""
    layout = sums.layout(PRODUCTS)
    directions = [np.eye(layout.size, layout.columns, k, dtype=np.int64) * 3 for k in (0, -20)]
    found = [session.sum(CELLS), session.sum(PRODUCTS)]
    found += [np.asarray(session.product(PRODUCTS, e)).reshape(-1).tolist() for e in directions]
    session.close()
    return found


def parties(made: LocalStudy) -> StudySums:
    return StudySums(made.study, made.roster)


def started(made: LocalStudy, name: str, state: Path) -> Device:
    identity = load_identity(state / name / DEVICE_KEY)
    return approved_device(name, made.study, made.roster, identity, DeviceFolder.of(state, name))


def others(made: LocalStudy, names: tuple[str, ...]) -> dict[str, Device]:
    """Fresh ones: what they have frozen is read once."""
    found = {}
    for name in names:
        known = _contracts.setdefault((made.folder, name), started(made, name, made.state(name)))
        found[name] = Device(name, known._identity, known._contract, Disk())
    return found


_contracts: dict[tuple[Path, str], Device] = {}


def points(calls: int, seed: str) -> list[int]:
    """At which of so many calls to kill."""
    numbers = range(1, calls + 1)
    return list(numbers) if calls <= TRIED else sorted(random.Random(seed).sample(numbers, TRIED))


# -- a device


@dataclass
class Process:
    """A device of ``Weather`` that is a process; the next one finds what this one has left on the disk."""

    start: Callable[[], Device]
    calls: Calls
    left: list[tuple[bytes, bytes]]  # requests and replies, of all processes so far
    killed: Callable[[], None]

    def __post_init__(self) -> None:
        self._process = Traced(self._body, self.calls)
        for request, reply in self.left:
            if all(wire.kind_of(one) != "close" for one, _ in self.left):
                self._process.tell(request)
                assert self._process.told() == reply, "the reply to a request is the same bytes"

    def _body(self, read: BinaryIO, write: BinaryIO) -> None:
        device = self.start()
        while request := read_message(read):
            write.write(pack_message(device.reply(request)))
            getattr(device._memory, "flush", lambda: None)()

    def reply(self, request: bytes) -> bytes:
        self._process.tell(request)
        try:
            reply = self._process.told()
        except Killed:
            self.close()
            self.killed()
            raise DeviceKilled from None
        self.left.append((request, reply))
        return reply

    def close(self) -> None:
        self._process.close()


@dataclass
class OfDevice:
    """A study in which one device is killed at a call."""

    made: LocalStudy
    state: Path
    start: Callable[[LocalStudy, str, Path], Device] = started
    left: list[tuple[bytes, bytes]] = field(default_factory=list)

    def study(self, kill_at: int) -> int:
        """The results are checked; returns how many calls there were."""
        shutil.copytree(self.made.state(VICTIM), self.state)
        calls, processes = Calls(kill_at), list[Process]()
        rest = others(self.made, tuple(name for name in self.made.names if name != VICTIM))

        def make(name: str, disk: Disk) -> Device | Process:
            if name != VICTIM:
                return rest[name]
            start = functools.partial(self.start, self.made, VICTIM, self.state)
            processes.append(Process(start, calls, self.left, self.check_disk))
            return processes[-1]

        weather = Weather(self.made.names, make, random.Random(0), Odds())  # type: ignore[arg-type]
        server = load_identity(self.made.server_key)
        try:
            session = Session(weather, parties(self.made), server, patience=PATIENCE, wall=time.time)
            assert study_of(session, parties(self.made)) == expected(self.made)
            assert not weather.two_replies
        finally:
            processes[-1].close()
        self.check_disk()
        return calls.count

    def check_disk(self) -> None:
        """Whatever has left is in the ledger, and is there once."""
        base, digest = DeviceFolder.of(self.state, VICTIM).base, self.made.study.digest()
        generation = base.generation(digest)
        with base.ledger() as ledger:
            uploads = [one.statistic for one in ledger.contributions]
            questions = list(ledger.questions)
        base.close()
        said = [wire.parsed(request) for request, reply in self.left if is_ok(reply)]
        kinds = [found.kind for found, _, _ in said]
        assert "enrol" not in kinds or generation is not None
        assert "close" in kinds or "enrol" not in kinds or generation[1], "its root"
        assert "close" not in kinds or generation[1] == b"", "no root any more"
        assert len(set(uploads)) == len(uploads) >= kinds.count("upload")
        directions = {common.e for _, common, _ in said if isinstance(common, wire.AnswerCommon) and common.e}
        assert len(set(questions)) == len(questions) >= len(directions)


def is_ok(reply: bytes) -> bool:
    return wire.decode(reply, wire.Reply, "a reply").kind == "ok"


def expected(made: LocalStudy) -> list[list[int]]:
    """The sums where nothing goes wrong."""
    if made.folder not in _expected:
        lines = {name: one.reply for name, one in others(made, made.names).items()}
        session = Session(InProcess(lines), parties(made), load_identity(made.server_key), wall=time.time)
        _expected[made.folder] = study_of(session, parties(made))
    return _expected[made.folder]


_expected: dict[Path, list[list[int]]] = {}


def test_a_device_that_is_killed_at_any_call_has_lost_nothing(agreed: LocalStudy, tmp_path: Path) -> None:
    calls = OfDevice(agreed, tmp_path / "undisturbed").study(-1)
    assert calls > 50
    for at in points(calls, "device"):
        OfDevice(agreed, tmp_path / str(at)).study(at)


class Late(LedgerMemory):
    """Writes after the reply has left what has to be on the disk before it."""

    def __init__(self, of: LedgerMemory, what: str) -> None:
        super().__init__(of._sums, of._base)
        self._what, self._later = what, list[Callable[[], None]]()
        self._root: Generation | None = None

    def flush(self) -> None:
        while self._later:
            self._later.pop()()

    def generation(self) -> Generation | None:
        return self._root or super().generation()

    def keep(self, generation: Generation) -> None:
        if self._what != "root":
            return super().keep(generation)
        self._root = generation
        self._later.append(functools.partial(super().keep, generation))
        return None

    def contribute(self, ask: bytes, pinned: bytes) -> None:
        if self._what != "pin":
            return super().contribute(ask, pinned)
        return self._later.append(functools.partial(super().contribute, ask, pinned))

    def answer(self, ask: bytes, question: bytes) -> None:
        if self._what != "direction":
            return super().answer(ask, question)
        return self._later.append(functools.partial(super().answer, ask, question))


@pytest.mark.parametrize("what", ["root", "pin", "direction"])
def test_a_device_that_writes_after_its_reply_is_found(agreed: LocalStudy, tmp_path: Path, what: str) -> None:
    def late(made: LocalStudy, name: str, state: Path) -> Device:
        device = started(made, name, state)
        device._memory = Late(device._memory, what)  # type: ignore[arg-type]
        return device

    order = random.Random(what).sample(range(60), 60)
    assert any(loses(OfDevice(agreed, tmp_path / str(at), late), at) for at in order)


def loses(one: OfDevice, at: int) -> bool:
    """Whether something has left before it was on the disk, or is said otherwise afterwards."""
    try:
        one.study(at)
    except AssertionError:
        return True
    return False


# -- a server


class OnPipes:
    """An ``Engine`` in the server's process; the devices are in its parent."""

    def __init__(self, names: tuple[str, ...], read: BinaryIO, write: BinaryIO) -> None:
        self._names, self._read, self._write = names, read, write
        self._sent: list[tuple[str, bytes]] = []

    def here(self) -> tuple[str, ...]:
        return self._names

    def send(self, device: str, request: bytes) -> None:
        self._sent.append((device, request))

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        found, self._sent = self._sent, []
        return [(name, self._reply(name, request)) for name, request in found]

    def _reply(self, name: str, request: bytes) -> bytes:
        self._write.write(pack_message(name.encode() + b"|" + request))
        return read_message(self._read)

    def now(self) -> float:
        return time.monotonic()


def serve(made: LocalStudy, cache: Path, read: BinaryIO, write: BinaryIO) -> None:
    """The server's process: at the end it tells what it has found."""
    identity, engine = load_identity(made.server_key), OnPipes(made.names, read, write)
    found = study_of(Session(engine, parties(made), identity, Store(cache), wall=time.time), parties(made))
    write.write(pack_message(b"|" + repr(found).encode()))


def served(made: LocalStudy, cache: Path, kill_at: int, deleted: bool) -> int:
    """The same command until it ends; returns how many calls there were."""
    calls, devices = Calls(kill_at), others(made, made.names)
    while True:
        process = Traced(functools.partial(serve, made, cache), calls)
        try:
            while True:
                name, _, data = process.told().partition(b"|")
                if not name:
                    assert data.decode() == repr(expected(made))
                    return calls.count
                process.tell(devices[name.decode()].reply(data))
        except Killed:
            assert calls.count == kill_at, "it ended by itself, without a result"
            for path in cache.parent.glob(f"{cache.name}*") if deleted else ():
                path.unlink()
        finally:
            process.close()


@pytest.mark.parametrize("deleted", [False, True], ids=["its cache kept", "its cache deleted"])
def test_a_server_that_is_killed_at_any_call_ends_with_the_sums(
    agreed: LocalStudy, tmp_path: Path, deleted: bool
) -> None:
    calls = served(agreed, tmp_path / "undisturbed", -1, deleted)
    assert calls > 50
    for at in points(calls, f"server {deleted}"):
        served(agreed, tmp_path / f"killed at {at}", at, deleted)
