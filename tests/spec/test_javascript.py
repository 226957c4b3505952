"""The device in JavaScript (examples/javascript): it passes the vectors, and takes part beside the package's."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.code_lines import ROOT
from experiments.local_study import agree, digits_study, digits_tables
from mixed import SERVER, Federation, OfPackage, secret

from codedfl.contract.device_folder import DeviceFolder
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.device.approved import approved_device
from codedfl.device.study_sums import StudySums
from codedfl.engines.in_process import InProcess
from codedfl.statistics.statistic import Ask
from codedfl.sum.layout import Layout
from codedfl.sum.session import Session
from spec import make_vectors

FOLDER = ROOT / "examples" / "javascript"
COUNTS, SUMS, GRAM = b"counts", b"sums", b"gram"
LAYOUTS = {
    COUNTS: Layout.of_vector(4, 1000, certified=True),
    SUMS: Layout.of_vector(3, 2**75),
    GRAM: Layout(48, 1, 2, 10**6, size=300, columns=2, room=10**4),
}
FEDERATION = Federation({0: ["a", "b", "c"], 1: ["d", "e", "é"]}, 1, LAYOUTS, key_only=("k",))
NODE = shutil.which("node") or ""

pytestmark = pytest.mark.skipif(not NODE, reason="Node is not installed")


def terms_of(name: str) -> dict[str, Any]:
    """What a device is told of the study above."""
    rows = {
        ask.hex(): {"vector": [*map(str, vector)], "matrix": [[*map(str, row)] for row in matrix]}
        for ask, (vector, matrix) in ((ask, FEDERATION.rows(name, ask)) for ask in LAYOUTS)
    }
    given = {"name": name, "secret": secret(name).hex(), "arguments": None, "directions": 2}
    return {**given, "rows": {} if name == "k" else rows, "study": make_vectors.as_json(FEDERATION.study)}


class InJavascript:
    """A device in a process of its own, on two pipes; killed before two of three requests, if it is to be."""

    def __init__(self, folder: Path, terms: str, *, killed: bool = False) -> None:
        self._terms, self._memory = folder / "terms.json", folder / "memory.json"
        self._terms.write_text(terms)
        self._killed, self._asked = killed, 0
        self._begin()

    def _begin(self) -> None:
        command = [NODE, str(FOLDER / "serve.mjs"), str(self._terms), str(self._memory)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def reply(self, request: bytes) -> bytes:
        self._asked += 1
        if self._killed and self._asked % 3:
            self.end()
            self._begin()
        self._process.stdin.write(len(request).to_bytes(4, "big") + request)
        self._process.stdin.flush()
        return self._process.stdout.read(int.from_bytes(self._process.stdout.read(4), "big"))


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[Callable[..., dict[str, Callable[[bytes], bytes]]]]:
    begun: list[InJavascript] = []

    def make(in_javascript: str, *, killed: bool = False) -> dict[str, Callable[[bytes], bytes]]:
        found: dict[str, Callable[[bytes], bytes]] = {}
        for name in FEDERATION.terms.by_name:
            found[name] = FEDERATION.package_device(name, time.time).reply
        for name in in_javascript:
            (tmp_path / name).mkdir()
            begun.append(InJavascript(tmp_path / name, json.dumps(terms_of(name)), killed=killed))
            found[name] = begun[-1].reply
        return found

    yield make
    for one in begun:
        one.end()


def test_it_passes_the_vectors() -> None:
    command = [NODE, str(FOLDER / "vectors.mjs"), str(ROOT / "spec" / "vectors")]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    assert {line.partition(":")[0] for line in made.stdout.splitlines()} == set(make_vectors.PARTS)


def test_it_needs_no_package() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    assert not {name for name in package if name.lower().endswith("dependencies")}
    names = {path.name for path in FOLDER.glob("*.mjs")}
    for name in names:
        lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
        sources = {line.rpartition("from ")[2].strip("';") for line in lines if " from '" in line}
        assert not {one for one in sources if not one.startswith("node:") and one.removeprefix("./") not in names}


@pytest.mark.parametrize(
    ("in_javascript", "killed"),
    [("ad", False), ("bé", True), pytest.param("abcdeék", False, marks=pytest.mark.nightly)],
)
def test_sums_are_those_of_plain_integers(
    devices: Callable[..., dict[str, Callable[[bytes], bytes]]], tmp_path: Path, in_javascript: str, killed: bool
) -> None:
    """Owners, holders, drawers, and one that helps with its key alone; some killed between requests."""
    asks = Session(
        InProcess(devices(in_javascript, killed=killed)), OfPackage(FEDERATION), SERVER, wall=time.time, row_blocks=2
    )
    owners = sorted(FEDERATION.terms.owners)
    assert asks.sum(SUMS) == FEDERATION.expected(SUMS, owners)
    assert asks.sum(GRAM) == FEDERATION.expected(GRAM, owners)
    total = sum(np.array(FEDERATION.rows(name, GRAM)[1]) for name in owners)
    for step in (1, -3):
        e = np.array([[step * (i % 5), i % 3 - 1] for i in range(300)])
        assert np.array_equal(asks.product(GRAM, e), total @ e)
    [certified] = asks.certified(COUNTS)
    certified.check(FEDERATION.terms)
    assert LAYOUTS[COUNTS].numbers_of(LAYOUTS[COUNTS].from_bytes(certified.numbers, 4)) == FEDERATION.expected(
        COUNTS, owners
    )
    asks.close()
    for name in in_javascript:
        kept = json.loads((tmp_path / name / "memory.json").read_text(encoding="utf-8"))
        assert kept["generation"][1] == "" and len(kept["records"]) == 1  # no root is left, and who was in which sum is


@pytest.mark.nightly
def test_in_a_study_that_was_approved(tmp_path: Path) -> None:
    """Another program tells it what follows from the study; the sums are those of the package's devices alone."""
    made = agree(tmp_path / "study", digits_study(2048, features=12, epochs=4, solver="gd"), digits_tables(3))
    study, roster, server = made.study, made.roster, load_identity(made.server_key)
    devices = {}
    for name in made.names:
        home = DeviceFolder.of(made.state(name), name)
        identity = load_identity(made.state(name) / name / DEVICE_KEY)
        devices[name] = approved_device(name, study, roster, identity, home).reply
    name = made.names[1]
    command = [sys.executable, "-m", "experiments.plain_terms", str(made.study_file), str(made.roster_file)]
    command += [str(made.state(name)), name]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    other = InJavascript(tmp_path, printed.stdout)
    found = []
    try:
        for mixed in ({}, {name: other.reply}):
            asks = Session(InProcess({**devices, **mixed}), StudySums(study, roster), server, wall=time.time)
            sums = [asks.sum(Ask(one).encode()) for one in ("cells", "products")]
            layout = StudySums(study, roster).layout(Ask("products").encode())
            e = np.arange(layout.size * layout.columns).reshape(layout.size, layout.columns) - 5
            found.append((sums, asks.product(Ask("products").encode(), e).tolist()))
            asks.close()
    finally:
        other.end()
    assert found[0] == found[1]


@pytest.mark.nightly
def test_it_completes_a_fleet_at_a_broker() -> None:
    """As the device that is killed and returns: the model is the rehearsal's bit for bit, and its root is wiped.

    Its study has features enough for uploads and requests that are pulled by pieces.
    """
    command = [sys.executable, "-m", "experiments.fleet", "--javascript", str(FOLDER), "--features", "1700"]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    assert "the rehearsal's model, bit for bit: True" in made.stdout
    assert "device-2 went on after its return: True" in made.stdout
