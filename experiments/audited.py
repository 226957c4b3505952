"""What somebody must read who wants to know what a data owner's machine runs: the code lines that its processes load.

``python -m experiments.audited`` counts them. A linear study and one with random features are approved under the
usual policy and run by real programs, with a census, a server and a broker, from the first message to the last; every
process of a device says at its end which modules it has loaded, whichever of its threads did. A module counts with all
of its code lines.

Each is the first study of its device. What others need is loaded with them, and not counted: a later study on the same
rows (``contract.matching``, ``contract.between_studies``), times, clusters and tables (``contract.model_cells``),
noise, requests of more than 96 kB (``engines.pieces``), a log or root of a target, and a further kind of model.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from codedfl.crypto.key_files import DEVICE_KEY
from codedfl.data.tables import RawTable
from codedfl.errors import CodedFLError
from codedfl.private_files import make_private_folder, write_private
from experiments.code_lines import ROOT, code_lines
from experiments.local_fleet import LocalFleet
from experiments.local_study import LocalStudy, agree, digits_study, digits_tables

BEFORE = 19_176  # at 0.3
GOAL = 8_000
LIMIT = 8_790  # with a census, the policy that everybody has, and a judgement over all approvals
_SECONDS = 300.0
_FEATURES = {"linear": 0, "rbf": 50}
_DEVICES, _SMALLEST_CELL = 6, 5  # two disclosure groups, and a census first, as the studies have that people draft


@dataclass(frozen=True)
class Loaded:
    """The files of modules that processes of a device have loaded."""

    approving: frozenset[Path]
    joined: frozenset[Path]

    @property
    def files(self) -> frozenset[Path]:
        return self.approving | self.joined

    @property
    def lines(self) -> int:
        """Of code, each file once."""
        return sum(map(code_lines, self.files))


def loaded_by_a_device() -> Loaded:
    """By both studies together; every file once."""
    with tempfile.TemporaryDirectory() as name:
        both = [_of_study(Path(name), kind, features) for kind, features in _FEATURES.items()]
    approving, joined = (frozenset().union(*parts) for parts in zip(*both, strict=True))
    return Loaded(approving, joined)


def _of_study(folder: Path, kind: str, features: int) -> tuple[frozenset[Path], frozenset[Path]]:
    tables = digits_tables(_DEVICES)
    content = digits_study(1 << 11, name=kind, features=features, epochs=3, smallest_cell=_SMALLEST_CELL)
    made = agree(folder / kind, content, tables)
    table = made.folder / "table.csv"
    _write(tables[made.names[0]], table)
    return _approving(made, table), _joined(made)


def _approving(made: LocalStudy, table: Path) -> frozenset[Path]:
    """``codedfl site approve`` where nothing was approved before, with the same key."""
    name, told, fresh = made.names[0], made.folder / "approving.txt", made.folder / "fresh"
    make_private_folder(fresh / name)
    write_private(fresh / name / DEVICE_KEY, [(made.state(name) / name / DEVICE_KEY).read_bytes()])
    given = ("--table", table, "--who", "somebody", "--state", fresh)
    command = [*traced(told), "site", "approve", made.kit_file(name), *given]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise CodedFLError(f"the study must be approved, got {done.stderr}")
    return read(told)


def _write(table: RawTable, file: Path) -> None:
    """As a CSV: most hospitals have nothing else."""
    with file.open("w", encoding="utf-8") as stream:
        columns = [table.columns[name] for name in table.names]
        csv.writer(stream).writerows([table.names, *zip(*columns, strict=True)])


def _joined(made: LocalStudy) -> frozenset[Path]:
    class Traced(LocalFleet):
        def device_command(self, index: int) -> list[str]:
            command = super().device_command(index)
            return [*traced(made.folder / f"joined-{index}.txt"), *command[command.index("site") :]]

    with Traced(made, program="small") as fleet:
        fleet.start_server()
        if fleet.wait_for_server(_SECONDS):
            raise CodedFLError(f"the study must run, got {fleet.log_of('server')[-800:]}")
        fleet.programs.wait_for("device", _SECONDS)
    return frozenset().union(*map(read, made.folder.glob("joined-*.txt")))


def traced(told: Path) -> list[str]:
    """How ``codedfl`` starts that writes into ``told`` what it has loaded."""
    return [sys.executable, "-m", "experiments.loaded_modules", str(told)]


def read(told: Path) -> frozenset[Path]:
    return frozenset(map(Path, told.read_text(encoding="utf-8").splitlines()))


def _by_folder(files: Iterable[Path]) -> dict[Path, int]:
    found: dict[Path, int] = {}
    for one in files:
        found[one.parent] = found.get(one.parent, 0) + code_lines(one)
    return found


def main() -> None:
    """Print them, the largest files first."""
    loaded = loaded_by_a_device()
    for one in sorted(loaded.files, key=code_lines, reverse=True):
        when = "approve" * (one in loaded.approving) + " join" * (one in loaded.joined)
        print(f"{code_lines(one):6d}  {one.relative_to(ROOT)}  {when.strip()}")
    print(f"{loaded.lines:6d}  in {len(loaded.files)} files (at 0.3: {BEFORE}; goal: {GOAL})")


if __name__ == "__main__":
    main()
