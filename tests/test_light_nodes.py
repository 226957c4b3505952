"""What a device's process loads, up to the moment in which it connects: its own side, on both engines, and no more.

Every call of Flower starts a process, and small machines take seconds for each package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from experiments.house import fleet_memory
from experiments.local_study import LocalStudy, agree

from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.study_text import study_text
from codedfl.data.tables import as_raw_table
from codedfl.run.rehearsal import dealt_out

HEAVY = ("scipy", "sklearn", "matplotlib", "pandas", "pyarrow", "ray", "onnxruntime")
NOT_OURS_TO_RUN = (
    *("numba", "codedfl_lab", "codedfl.run", "codedfl.estimators", "codedfl.report"),
    *("codedfl.engines.mqtt_server", "codedfl.sum.session"),
)
MOST_MEGABYTES = 75
MOST_TIMES_AS_LONG = 1.5
TIMED = 9  # starts of each kind at least, of which the fastest counts; on a busy machine up to three times as many

TELL = """
def tell():
    import json, os
    with open("/proc/self/status") as status:
        used = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    print(json.dumps({"modules": list(sys.modules), "megabytes": used / 1024}), flush=True)
    os._exit(0)
"""
# Nobody listens there: the first attempt to connect ends the command.
NOBODY = "mqtt://127.0.0.1:1"
JOIN = f"""
import sys
{TELL}
from codedfl.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 2
    tell()
"""
# What it is told to, in the order in which a device loaded it; some modules are made by others, and not found by name.
THIRD_PARTY = f"""
import importlib, sys
{TELL}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
tell()
"""
FLOWER = f"""
import sys
{TELL}
from flwr.app import Context, RecordDict
from codedfl.flower.client import make_client_app, member_of
make_client_app()
config = dict(zip(["kit", "state-dir"], sys.argv[1:]))
membership, study = member_of(Context(1, 2, config, RecordDict(), {{}}))
membership.device(study)
tell()
"""


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> LocalStudy:
    rng = np.random.default_rng(0)
    table = as_raw_table({"age": rng.integers(20, 90, 600), "days": rng.integers(1, 30, 600)}, "table.csv")
    tables = dealt_out(table, 5, rng)
    content = tomllib.loads(study_text(draft_of_table(table, "days", "stays", task="regression")))
    del content["format"]
    return agree(tmp_path_factory.mktemp("study"), content, tables)


@pytest.fixture(scope="module")
def bytecode(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """As installed packages have it, whatever this process was told."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode"))}


def started(code: str, env: dict[str, str], *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    begun = time.perf_counter()
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    seconds = time.perf_counter() - begun
    assert done.returncode == 0 and done.stdout, done.stderr
    looked = (
        "the kit must be a readable file" if "approve" in arguments else f"the broker must be reachable at {NOBODY}"
    )
    assert code != JOIN or looked in done.stderr, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "seconds": seconds}


def approve(_approved: LocalStudy, env: dict[str, str]) -> dict[str, Any]:
    """Up to the moment in which it looks for the kit, which is not there."""
    return started(JOIN, env, "site", "approve", "no-such.kit", "--who", "somebody")


def join(approved: LocalStudy, env: dict[str, str]) -> dict[str, Any]:
    name = approved.names[0]
    return started(JOIN, env, "site", "join", approved.write_kit(name, NOBODY), "--state", approved.state(name))


def third_party(modules: list[str]) -> list[str]:
    return [name for name in modules if name.split(".")[0] not in (*sys.stdlib_module_names, "codedfl", "__main__")]


def within(modules: list[str], packages: tuple[str, ...]) -> list[str]:
    return [name for name in modules if name in packages or name.startswith(tuple(f"{one}." for one in packages))]


def test_a_joining_device_loads_its_own_side_only(approved: LocalStudy, bytecode: dict[str, str]):
    found = join(approved, bytecode)
    assert {"codedfl.engines.mqtt_device", "codedfl.sum.device"} <= {*found["modules"]}
    assert within(found["modules"], HEAVY) == []
    assert within(found["modules"], NOT_OURS_TO_RUN) == []
    assert found["megabytes"] <= MOST_MEGABYTES
    commands = {name for name in found["modules"] if name.startswith("codedfl.cli.")}
    assert not commands & {f"codedfl.cli.{name}" for name in ("study", "serve", "predict", "privacy", "roster")}


def test_a_device_that_has_worked_is_light_too():
    """Five devices at the small broker, as processes, from joining to a finished study: the most that one ever had."""
    waiting, worked = fleet_memory()
    assert waiting <= worked <= MOST_MEGABYTES


def test_a_node_of_flower_loads_its_own_side_only(approved: LocalStudy, bytecode: dict[str, str]):
    name = approved.names[0]
    found = started(FLOWER, bytecode, approved.write_kit(name), approved.state(name))
    assert {"codedfl.flower.client", "codedfl.sum.device"} <= {*found["modules"]}
    assert within(found["modules"], HEAVY) == []
    assert within(found["modules"], (*NOT_OURS_TO_RUN, "codedfl.mqtt", "codedfl.cli")) == []


@pytest.mark.parametrize("command", [approve, join])
def test_a_device_starts_nearly_as_fast_as_what_it_is_made_of(
    command: Callable[[LocalStudy, dict[str, str]], dict[str, Any]], approved: LocalStudy, bytecode: dict[str, str]
):
    """By the clock, the fastest of several starts in turns: whatever else a machine does only makes one longer.

    So both are started until each had a quiet moment; a start that is too long is so at every moment.
    """
    theirs = third_party(command(approved, bytecode)["modules"])  # and writes the bytecode
    assert set(theirs) <= {*started(THIRD_PARTY, bytecode, *theirs)["modules"]}
    ours, without_ours = list[float](), list[float]()
    for turn in range(3 * TIMED):
        ours.append(command(approved, bytecode)["seconds"])
        without_ours.append(started(THIRD_PARTY, bytecode, *theirs)["seconds"])
        if turn >= TIMED - 1 and min(ours) <= MOST_TIMES_AS_LONG * min(without_ours):
            break
    assert min(ours) <= MOST_TIMES_AS_LONG * min(without_ours)


def test_the_listing_sees_what_a_simulation_loads(bytecode: dict[str, str]):
    """That the tests above can fail."""
    code = f"import sys\n{TELL}\n"
    code += "from codedfl_lab import simulate\nfrom codedfl import CodedRidge\nsimulate, CodedRidge\ntell()"
    modules = started(code, bytecode)["modules"]
    assert {"scipy.linalg", "sklearn.base"} <= set(within(modules, HEAVY))
    seen = set(within(modules, NOT_OURS_TO_RUN))
    assert {"codedfl_lab.comparing.simulator", "codedfl_lab.costs", "codedfl.estimators"} <= seen
