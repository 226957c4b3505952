"""How long a secure sum takes in one process, and how many bytes travel, by the number of devices.

A federation is set up from nothing (long-term keys, enrolments, role keys) and sums 66 numbers, then sums them by
another request with the keys it has. Goals: bytes and time grow linearly with the number of devices, and
with the commit of the last protocol in the same clone (``--against``), a sum over 300 devices from nothing is at least
ten times faster than its ``secure_sum``. Both sum 66 floats as 660 whole numbers, in turns, in fresh processes;
processor time counts.

    python -m experiments.secure_sums --json sums.json

The exit status is 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from codedfl.crypto.sealed import Identity
from codedfl.engines.in_process import InProcess
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.layout import Layout
from codedfl.sum.one_sum import OneSum
from codedfl.sum.session import Session
from codedfl.sum.terms import Participant, Terms

BEFORE = "f9d367d"
SIZES = (10, 100, 300, 1000)
COMPARED = 300
NUMBERS = 660  # ten whole numbers for each of 66 floats, as ``secure_sum`` has them
_LIMIT = 1 << 47
_ROUNDS = 3
_OLD = """
import sys, time
import numpy as np
from codedfl.run import secure_sum
secure_sum.secure_sum_in_process([np.arange(66.0)] * 5)
vectors = [np.arange(66.0) + i for i in range(int(sys.argv[1]))]
begun = time.process_time()
secure_sum.secure_sum_in_process(vectors)
print(time.process_time() - begun)
"""


@dataclass(frozen=True)
class Sums:
    """One federation: seconds of processor time, bytes and messages of the first sum and of one that follows."""

    devices: int
    first_seconds: float
    next_seconds: float
    first_bytes: int
    next_bytes: int
    next_messages: int


class _Counted:
    def __init__(self) -> None:
        self.bytes = self.messages = 0

    def of(self, reply: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def counted(request: bytes) -> bytes:
            found = reply(request)
            self.bytes += len(request) + len(found)
            self.messages += 2
            return found

        return counted


def measured(n_devices: int) -> Sums:
    """A federation from nothing, and two sums that are right."""
    begun, counted = time.process_time(), _Counted()
    names = [f"device-{i:04}" for i in range(n_devices)]
    keys = {name: Identity(hashlib.sha256(name.encode()).digest()) for name in names}
    server = Identity(bytes(32))
    people = tuple(Participant(name, key.public, 0) for name, key in keys.items())
    layout, asks = Layout.of_vector(NUMBERS, _LIMIT), (b"1", b"22")
    terms = Terms(bytes(32), server.public, people, 1)
    contract = OneSum(terms, asks, layout, lambda: layout.words_of(np.arange(NUMBERS)))
    devices = {name: Device(name, keys[name], contract, InMemory(), now=float) for name in names}
    engine = InProcess({name: counted.of(one.reply) for name, one in devices.items()})
    session = Session(engine, contract, server, wall=float)
    marks = [(begun, 0, 0)]
    for ask in asks:
        if session.sum(ask) != [n_devices * i for i in range(NUMBERS)]:
            raise SystemExit(f"a sum over {n_devices} devices is wrong")
        marks.append((time.process_time(), counted.bytes, counted.messages))
    (t0, _, _), (t1, b1, m1), (t2, b2, m2) = marks
    return Sums(n_devices, t1 - t0, t2 - t1, b1, b2 - b1, m2 - m1)


def in_fresh_process(n_devices: int) -> Sums:
    """``measured`` without what this process has warmed up."""
    command = [sys.executable, "-m", "experiments.secure_sums", "--one", str(n_devices)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=_environment())
    return Sums(**json.loads(done.stdout))


def before(folder: Path, n_devices: int) -> float:
    """Seconds of the commit before, whose source is in ``folder``."""
    command = [sys.executable, "-c", _OLD, str(n_devices)]
    environment = _environment() | {"PYTHONPATH": str(folder / "src")}
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def _environment() -> dict[str, str]:
    return dict(os.environ) | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _source(commit: str, folder: Path) -> bool:
    """Whether the clone has the commit; its source is then in ``folder``."""
    done = subprocess.run(["git", "archive", commit, "src"], check=False, capture_output=True)
    if done.returncode == 0:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return done.returncode == 0


def _against(commit: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        if not _source(commit, Path(name)):
            print(f"{commit} is not in this clone: nothing to compare with")
            return {}
        before(Path(name), 5)  # kernels are compiled once, and kept
        rounds = [(before(Path(name), COMPARED), in_fresh_process(COMPARED).first_seconds) for _ in range(_ROUNDS)]
    old, new = (median(column) for column in zip(*rounds, strict=True))
    return {"before": old, "now": new, "ratio": median(first / second for first, second in rounds)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say whether the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--one", type=int)
    parser.add_argument("--against", default=BEFORE)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    if options.one:
        print(json.dumps(asdict(measured(options.one))))
        return 0
    rows = [in_fresh_process(size) for size in SIZES]
    for row in rows:
        print(
            f"D = {row.devices:4}: from nothing {row.first_seconds:.3f} s, {row.first_bytes / 1e6:.2f} MB; next"
            f" {row.next_seconds:.4f} s, {row.next_bytes / 1e6:.3f} MB, {row.next_messages} messages"
        )
    compared = _against(options.against)
    smaller, larger = rows[1], rows[-1]
    times = larger.devices / smaller.devices
    goals = {
        "time is linear in D": larger.next_seconds <= 1.6 * times * smaller.next_seconds,
        "bytes are linear in D": larger.first_bytes <= 1.2 * times * smaller.first_bytes,
        "at most 30 MB at D = 1000": larger.first_bytes <= 30_000_000,
    }
    if compared:
        print(f"D = {COMPARED} from nothing: {compared['before']:.2f} s before, {compared['now']:.2f} s now")
        goals[f"ten times faster than {options.against}: {compared['ratio']:.1f}"] = compared["ratio"] >= 10
    for goal, met in goals.items():
        print(f"{'met' if met else 'MISSED'}: {goal}")
    if options.json:
        found = {"sums": [asdict(row) for row in rows], "compared": compared, "goals": goals}
        options.json.write_text(json.dumps(found, indent=1))
    return 0 if all(goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
