"""Sums at a broker: ten devices, each a process of its own, and the small broker with TLS, all on the loopback address.

``python -m experiments.bench_broker`` prints three tables:

1. a logistic study of ten sites, whose totals are 66 numbers, by this commit and by f9d367d (protocol 3) in turns:
   seconds per total, messages per total, seconds from "all are here" to the result;
2. sums of 66 numbers without a study around them, beside plain sums over the same broker: nothing hidden, one message
   there and one back per device;
3. the same with 50 ms of delay, without and with 2 % loss, as round trips per sum.

The other commit is checked out in a folder that is deleted at the end. It fails where a figure is beyond its limit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
FORMER = "f9d367d"
DEVICES, NUMBERS, SUMS = 10, 66, 30
MOST_MESSAGES, MOST_SECONDS, MOST_TIMES_PLAIN, MOST_STUDY_SECONDS, MOST_TRIPS = 30, 0.030, 8.0, 0.6, 3.0
TRIP_SECONDS = 0.050


# -- a study, by whichever commit runs this


def study_child(folder: Path) -> None:
    """Run the study with the programs of the commit whose packages are imported; print what was seen."""
    from codedfl.data.tables import as_raw_table
    from codedfl.run.rehearsal import dealt_out
    from experiments.local_fleet import LocalFleet
    from experiments.local_study import agree

    rng = np.random.default_rng(0)
    X = np.round(rng.uniform(0, 1, (3000, 9)), 2)
    y = (rng.random(3000) < 1 / (1 + np.exp(1.0 - X @ np.linspace(-1, 1, 9)))).astype(np.int64)
    table = as_raw_table({**{f"x{j}": X[:, j] for j in range(9)}, "y": y}, "table.csv")
    columns = [{"name": f"x{j}", "kind": "number", "range": [0, 1], "step": 0.01} for j in range(9)]
    content: dict[str, Any] = {
        "name": "sites",
        "column": columns,
        "target": {"name": "y", "classes": [0, 1]},
        "protection": {"max_rows": 4096, "max_rows_per_device": 512, "least_participants": 3},
        "result": {"held_out": 0.0},
        "model": [{"name": "m", "kind": "logistic", "columns": [f"x{j}" for j in range(9)]}],
    }
    made = agree(folder / "fleet", content, dealt_out(table, DEVICES, rng))

    class Counted(LocalFleet):
        def broker_command(self) -> list[str]:
            return [sys.executable, str(Path(__file__)), "counting", str(self.broker.path)]

    with Counted(made, program="small") as fleet:
        words = ("takes part", "has joined")
        fleet.wait_for(lambda: all(any(word in fleet.log_of(one) for word in words) for one in fleet.names), 120.0)
        fleet.start_server()
        if fleet.wait_for_server(300.0):
            raise SystemExit(fleet.log_of("server"))
        print(json.dumps(_seen(fleet.events(), fleet.log_of("broker"))))


def _seen(events: list[dict[str, Any]], broker: str) -> dict[str, Any]:
    here: dict[str, float] = {}
    for one in events:
        if one["event"] == "connected":
            here.setdefault(one["device"], one["time"])
    stages = [(one["time"], one["stage"]) for one in events if one.get("stage")]
    newton = [(begun, ended) for (begun, name), (ended, _) in pairwise(stages) if name == "newton"]
    counts = [tuple(map(float, line.split()[1:])) for line in broker.splitlines() if line.startswith("count ")]

    def at(moment: float) -> float:
        return max((count for when, count in counts if when <= moment), default=0.0)

    ended = next(one["time"] for one in events if one["event"] == "finished")
    return {
        "totals": [ended - begun for begun, ended in newton],
        "messages": (at(newton[-1][1]) - at(newton[0][0])) / len(newton),
        "study": ended - max(here.values()),
    }


def counting_broker(folder: Path) -> None:
    """The small broker of the commit that is imported, telling how many messages it has taken."""
    import asyncio

    from codedfl.mqtt.broker_folder import BrokerFolder, may_publish, may_read
    from codedfl.mqtt.small_broker import SmallBroker

    class Counting(SmallBroker):
        taken = 0

        def _take_publish(self, client: Any, packet: Any) -> None:
            self.taken += 1
            super()._take_publish(client, packet)

    async def run() -> None:
        broker, found, told = Counting(may_publish, may_read), BrokerFolder(folder), -1
        await broker.start(found.listen, found.port, found.tls_context())
        while True:
            await asyncio.sleep(0.01)
            if broker.taken != told:
                told = broker.taken
                print(f"count {time.time():.4f} {told}", flush=True)

    asyncio.run(run())


def study_by(tree: Path) -> dict[str, Any]:
    """What ``study_child`` sees in the checkout ``tree``."""
    path = os.pathsep.join(str(tree / one) for one in ("src", "lab/src", "."))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(Path(__file__)), "study", folder],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"the study must end, got {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "former"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


# -- sums without a study


@dataclass
class MadeUp:
    """What server and devices know of a study of one vector per ask."""

    terms: Any
    name: str = ""

    def layout(self, ask: bytes) -> Any:
        from codedfl.sum.layout import Layout

        del ask
        return Layout.of_vector(NUMBERS, 1 << 40)

    def groups(self, ask: bytes) -> Collection[int]:
        del ask
        return ()

    def needs(self, ask: bytes) -> Collection[bytes]:
        del ask
        return ()

    def vector(self, ask: bytes) -> list[int]:
        rng = np.random.default_rng(list(hashlib.sha256(self.name.encode() + ask).digest()))
        return [int(one) for one in rng.integers(-1000, 1000, NUMBERS)]

    def words(self, ask: bytes) -> Any:
        return self.layout(ask).words_of(self.vector(ask), [])


def identity(name: str) -> Any:
    from codedfl.crypto.sealed import Identity

    return Identity(hashlib.sha256(name.encode()).digest())


def made_up() -> MadeUp:
    from codedfl.sum.terms import Participant, Terms

    people = tuple(Participant(f"device-{i}", identity(f"device-{i}").public, i % 2) for i in range(DEVICES))
    return MadeUp(Terms(hashlib.sha256(b"bench").digest(), identity("server").public, people, 1))


def device_child(kind: str, name: str, url: str, *files: str) -> None:
    from codedfl.engines.mqtt_device import serve
    from codedfl.mqtt.address import BrokerAddress
    from codedfl.sum.device import Device
    from codedfl.sum.in_memory import InMemory

    own = MadeUp(made_up().terms, name)
    plain = np.array(own.vector(b"")).tobytes()
    device = Device(name, identity(name), own, InMemory())
    answer: Callable[[bytes], bytes] = device.reply if kind == "sum" else lambda request: plain + request
    address = BrokerAddress.parse(url, *map(Path, files))
    serve({own.terms.study: answer}, address, name, until=lambda at: at.all_over)


def sums(kind: str, delay: float = 0.0, loss: float = 0.0) -> tuple[list[float], float, float]:
    """Seconds of each sum; messages, and seconds of a processor, per sum."""
    from codedfl.contract.names import SERVER_NAME
    from codedfl.engines.mqtt_server import MqttEngine
    from codedfl.mqtt.broker_folder import BrokerFolder
    from codedfl.mqtt.link import BrokerLink
    from codedfl_lab.training.local_party import local_party
    from experiments.delaying_relay import DelayingRelay
    from experiments.local_programs import HOST, LocalPrograms, free_port

    own = made_up()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        names = list(own.terms.by_name)
        folder = BrokerFolder.create(Path(place) / "broker", [HOST], free_port(), HOST)
        path = os.pathsep.join(str(ROOT / one) for one in ("src", "lab/src", "."))
        programs = LocalPrograms(Path(place), ROOT, {**os.environ, "PYTHONPATH": path})
        stack.callback(programs.stop)
        programs.start(
            "broker", [sys.executable, "-m", "codedfl", "broker", "start", str(folder.path), "--program", "small"]
        )
        programs.wait_for_port("broker", folder.port)
        for seed, name in enumerate(names):
            relay = DelayingRelay(folder.port, delay, loss, seed) if delay else None
            files = local_party(folder, name, Path(place) / name)
            url = f"mqtts://{HOST}:{relay.port if relay else folder.port}"
            more = [str(files.authority), str(files.certificate), str(files.key)]
            programs.start(name, [sys.executable, "-m", "experiments.bench_broker", "device", kind, name, url, *more])
        link = BrokerLink(
            local_party(folder, SERVER_NAME, Path(place) / SERVER_NAME), SERVER_NAME, MqttEngine.will(own.terms.study)
        )
        engine = MqttEngine(link, own.terms.study, names)
        link.open()
        stack.callback(link.close)
        while len(engine.here()) < DEVICES:
            engine.replies(60.0)
        one_sum = _secure(engine, own) if kind == "sum" else _plain(engine, own)
        one_sum(b"first")  # everybody enrols, and role keys are drawn
        taken, before = [], link.messages_in + link.messages_out
        busy = _busy(programs.everyone())
        for number in range(SUMS):
            begun = time.perf_counter()
            one_sum(b"ask %d" % number)
            taken.append(time.perf_counter() - begun)
        messages = (link.messages_in + link.messages_out - before) / SUMS
        busy = (_busy(programs.everyone()) - busy) / SUMS
        engine.leave(over=True)
        link.flush(5.0)
        programs.wait_for("device", 20.0)
    return taken, messages, busy


def _busy(programs: Sequence[int]) -> float:
    """Seconds that these programs and this process have used a processor."""
    from experiments.local_fleet import memory_and_cpu

    return sum(memory_and_cpu(pid)[1] for pid in programs) + time.process_time()


def _secure(engine: Any, own: MadeUp) -> Callable[[bytes], None]:
    from codedfl.sum.session import Session

    session = Session(engine, own, identity("server"), wall=time.time)

    def one_sum(ask: bytes) -> None:
        found = session.sum(ask)
        columns = zip(*(MadeUp(own.terms, name).vector(ask) for name in own.terms.by_name), strict=True)
        assert found == [sum(column) for column in columns]

    return one_sum


def _plain(engine: Any, own: MadeUp) -> Callable[[bytes], None]:
    expected = sum(np.array(MadeUp(own.terms, name).vector(b"")) for name in own.terms.by_name)

    def one_sum(ask: bytes) -> None:
        for name in own.terms.by_name:
            engine.send(name, ask)
        found, total = 0, np.zeros(NUMBERS, dtype=np.int64)
        while found < DEVICES:
            for _, reply in engine.replies(10.0):
                total += np.frombuffer(reply[: 8 * NUMBERS], dtype=np.int64)
                found += 1
        assert (total == expected).all()

    return one_sum


# -- the tables


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="of each commit, in turns; 0 leaves the other commit out")
    options = parser.parse_args(arguments)
    logging.getLogger("codedfl").setLevel(logging.ERROR)
    failed: list[str] = []

    def row(what: str, value: float, unit: str, most: float = float("inf")) -> None:
        ok = value <= most
        print(
            f"  {what:58} {value:9.3g} {unit:9}"
            + ("" if most == float("inf") else f" at most {most:g}{'' if ok else '  FAILS'}")
        )
        if not ok:
            failed.append(what)

    if options.rounds:
        found: dict[str, list[dict[str, Any]]] = {FORMER: [], "this commit": []}
        with checked_out(FORMER) as former:
            study_by(former)  # compiles its kernels
            for _ in range(options.rounds):
                for name, tree in ((FORMER, former), ("this commit", ROOT)):
                    found[name].append(study_by(tree))
        print(f"a logistic study of {DEVICES} sites, totals of {NUMBERS} numbers, TLS, {options.rounds} runs in turns")
        for name, runs in found.items():
            new = name != FORMER
            totals = statistics.median(second for run in runs for second in run["totals"])
            row(f"{name}: seconds per total", totals, "s")
            row(f"{name}: messages per total", statistics.median(run["messages"] for run in runs), "")
            seconds = statistics.median(run["study"] for run in runs)
            row(f"{name}: all here to result", seconds, "s", MOST_STUDY_SECONDS if new else float("inf"))
    print("sums of 66 numbers, no study around them, TLS")
    taken, messages, busy = sums("sum")
    plainly, _, plainly_busy = sums("plain")
    plain = statistics.median(plainly)
    row("seconds per sum", statistics.median(taken), "s", MOST_SECONDS)
    row("messages per sum", messages, "", MOST_MESSAGES)
    row("seconds per plain sum", plain, "s")
    row("a processor's seconds per sum, all programs together", busy, "s")
    row("a processor's seconds per plain sum", plainly_busy, "s")
    row("times a plain sum", statistics.median(taken) / plain, "", MOST_TIMES_PLAIN)
    print("with 50 ms there and back between each device and the broker")
    for loss in (0.0, 0.02):
        taken, _, _ = sums("sum", TRIP_SECONDS / 2, loss)
        row(
            f"round trips per sum, {loss:.0%} loss, median",
            statistics.median(taken) / TRIP_SECONDS,
            "",
            MOST_TRIPS if not loss else float("inf"),
        )
        row(f"round trips per sum, {loss:.0%} loss, mean", statistics.mean(taken) / TRIP_SECONDS, "")
    return len(failed)


if __name__ == "__main__":
    command, *rest = sys.argv[1:] or [""]
    if command == "study":
        study_child(Path(rest[0]))
    elif command == "counting":
        counting_broker(Path(rest[0]))
    elif command == "device":
        device_child(*rest)
    else:
        sys.exit(main(sys.argv[1:]))
