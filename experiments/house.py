"""The figures of the house: code lines, untyped mappings, long signatures, inheritance, what a device takes, journeys.

``make house`` prints them. They are thermometers: nothing is built to please them.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from experiments import audited, journeys
from experiments.code_lines import DISTRIBUTIONS, ROOT, by_folder, code_lines

if TYPE_CHECKING:
    from codedfl.data.tables import RawTable
    from experiments.local_study import LocalStudy

MOST_PARAMETERS = 6
LINES_PER_COMMENT = 12
# Where a mistake shows rows or spoils a sum, and a reader cannot see the invariant from the line.
DELICATE = (
    *("sum/device", "sum/pads", "sum/pad_sums", "sum/layout", "sum/keys", "sum/memory", "sum/session", "sum/goals"),
    *("sum/known", "sum/certified", "sum/store", "sum/asking", "mqtt/link"),
    *("engines/frames", "engines/pieces", "engines/mqtt_device"),
)
_JOIN = """
import json, sys
from codedfl.cli import main
try:
    main()
except SystemExit:
    used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))
    names = [name for name in sys.modules if name.split(".")[0] in ("codedfl", "codedfl_lab")]
    print(json.dumps({"modules": len(names), "megabytes": round(used / 1024)}))
"""


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Every module of both distributions."""
    for folder in DISTRIBUTIONS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def untyped_mappings() -> int:
    """How often ``dict[str, Any]`` is written."""
    return sum(
        ast.unparse(node) == "dict[str, Any]"
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
    )


def long_signatures() -> list[str]:
    """Functions with more than six parameters; commands and the constructors of estimators are not counted."""
    found = []
    for path, tree in trees():
        if path.parts[-2] in ("cli", "estimators"):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = sum(one.arg not in ("self", "cls") for one in given)
                if count > MOST_PARAMETERS:
                    found.append(f"{path}:{node.lineno} {node.name} ({count})")
    return found


def longest_inheritance() -> list[str]:
    """The longest chain of our own classes, the base first."""
    bases: dict[str, list[str]] = {}
    for _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]

    def chain(name: str) -> list[str]:
        longest = max((chain(base) for base in bases[name] if base in bases and base != name), key=len, default=[])
        return [*longest, name]

    return max(map(chain, bases), key=len)


def delicate_comments() -> float:
    """Code lines of the delicate modules for each comment in them."""
    paths = [ROOT / "src" / "codedfl" / f"{name}.py" for name in DELICATE]
    return sum(map(code_lines, paths)) / max(1, sum(map(comments, paths)))


def comments(path: Path) -> int:
    """Of one file; several lines that follow each other are one, and what is meant for a tool is none."""
    with path.open("rb") as file:
        found = [one for one in tokenize.tokenize(file.readline) if one.type == tokenize.COMMENT]
    lines = [one.start[0] for one in found if not one.string.startswith(("# noqa", "# type:", "# --"))]
    return sum(line - 1 not in lines for line in lines)


def joining_device() -> dict[str, int]:
    """Modules and memory of ``codedfl site join`` when it connects."""
    from experiments.local_study import LocalStudy

    # The study is made by a process of its own, so that only the device's is measured.
    make = "import pathlib, sys; from experiments import house; house.small_study(pathlib.Path(sys.argv[1]))"
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.executable, "-c", make, name], check=True, cwd=ROOT)
        kit = LocalStudy(Path(name), ("device-0",)).write_kit("device-0", "mqtt://127.0.0.1:1")
        command = [sys.executable, "-c", _JOIN, "site", "join", str(kit), "--state", f"{name}/state-device-0"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def fleet_memory(agree_in: Callable[[Path], LocalStudy] | None = None) -> tuple[int, int]:
    """Megabytes of the largest of the devices at a broker: joined and waiting, and the most that one ever had.

    agree_in: makes the study in a folder; None is five devices with a table of two columns.
    """
    from experiments.local_fleet import LocalFleet

    class Staying(LocalFleet):
        def device_command(self, index: int) -> list[str]:
            return [word for word in super().device_command(index) if word != "--once"]

    def largest(fleet: LocalFleet, what: str) -> int:
        return round(max(_kilobytes(fleet.programs.pid(name), what) for name in fleet.names) * 1024 / 1e6)

    made_in = agree_in or small_study
    with tempfile.TemporaryDirectory() as name, Staying(made_in(Path(name)), program="small") as fleet:
        fleet.wait_for(lambda: all("takes part" in fleet.log_of(name) for name in fleet.names), 60.0)
        waiting = largest(fleet, "VmRSS")
        fleet.start_server()
        if fleet.wait_for_server(300.0):
            raise SystemExit(fleet.log_of("server"))
        return waiting, largest(fleet, "VmHWM")


def _kilobytes(pid: int, what: str) -> int:
    """A process's memory: VmRSS now, VmHWM the most that it ever had."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


def large_study(folder: Path) -> LocalStudy:
    """Four devices whose uploads have 2000 features, 12 MB each."""
    from experiments.local_study import agree, digits_study, digits_tables

    return agree(folder / "large", digits_study(2048, epochs=4, features=2000), digits_tables(4))


def small_table() -> RawTable:
    """Two columns of 600 rows: of 60 rows that a device has, too few may be held out, and it refuses then."""
    import numpy as np

    from codedfl.data.tables import as_raw_table

    rng = np.random.default_rng(0)
    return as_raw_table({"age": rng.integers(20, 90, 600), "days": rng.integers(1, 30, 600)}, "table.csv")


def small_text(table: RawTable) -> str:
    """The study file that is drafted for it."""
    from codedfl.authoring.from_sample import draft_of_table
    from codedfl.authoring.study_text import study_text

    return study_text(draft_of_table(table, "days", "stays", task="regression"))


def small_study(folder: Path) -> LocalStudy:
    """Five devices with two columns, approved."""
    import tomllib

    import numpy as np

    from codedfl.run.rehearsal import dealt_out
    from experiments.local_study import agree

    table = small_table()
    content = tomllib.loads(small_text(table))
    del content["format"]
    return agree(folder, content, dealt_out(table, 5, np.random.default_rng(0)))


def main() -> None:
    """Print all of them."""
    lines = {folder: sum(by_folder(ROOT / folder).values()) for folder in DISTRIBUTIONS}
    for folder, count in lines.items():
        print(f"code lines of {folder}: {count}")
    print(f"code lines together: {sum(lines.values())}")
    print(f"untyped mappings (dict[str, Any]): {untyped_mappings()}")
    long = long_signatures()
    print(f"functions with more than {MOST_PARAMETERS} parameters: {len(long)}", *long, sep="\n  ")
    chain = longest_inheritance()
    print(f"longest inheritance: {len(chain)} ({' < '.join(chain)})")
    loaded = audited.loaded_by_a_device().lines
    print(f"code lines that approve, join and run load: {loaded} ({audited.BEFORE} at 0.3, goal {audited.GOAL})")
    commented = delicate_comments()
    print(f"code lines per comment in delicate code: {commented:.1f} (goal {LINES_PER_COMMENT})")
    device = joining_device()
    print(f"a joining device: {device['modules']} modules of ours, {device['megabytes']} MB")
    waiting, worked = fleet_memory()
    print(f"a device at a broker: {waiting} MB joined and waiting, {worked} MB at most while it works on a table")
    print(f"a device at a broker with uploads of 12 MB: {fleet_memory(large_study)[1]} MB at most")
    for name, journey in journeys.JOURNEYS.items():
        passed = journey()
        print(f"{name} passes through {passed.functions} functions in {passed.files} files")


if __name__ == "__main__":
    main()
