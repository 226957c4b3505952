"""A study that devices on this machine have agreed to: keys, a roster, the study file and one approval per device.

Everything is made as operators make it, with ``approve`` for each device; only here all of them are on one machine, in
one folder. The digits of scikit-learn stand for anybody's pixels (``digits_study``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.kit import ENDING, Kit
from codedfl.contract.policy import Policy
from codedfl.contract.roster import Roster, load_roster, save_roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.contract.toml_file import FORMAT, load_study
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.run.rehearsal import Rehearsal, Rehearsed, rehearse
from codedfl_lab import datasets
from codedfl_lab.problems.partition import at_random

DIGITS_STEP = 1 / 16  # scikit-learn's pixels have 17 values
_DEVICES_PER_CLASS = 3


@dataclass(frozen=True)
class LocalStudy:
    """The files of a study in ``folder``, and who takes part.

    study_file, roster_file, server_key: what the server is told; every device has the same study and roster.
    names: of the devices, in the order of their tables.
    """

    folder: Path
    names: tuple[str, ...]

    @property
    def study_file(self) -> Path:
        return self.folder / "study.toml"

    @property
    def roster_file(self) -> Path:
        return self.folder / "roster.toml"

    @property
    def server_state(self) -> Path:
        return self.folder / "server-state"

    @property
    def server_key(self) -> Path:
        return self.server_state / "server.key"

    @property
    def study(self) -> Study:
        return load_study(self.study_file)

    @property
    def roster(self) -> Roster:
        return load_roster(self.roster_file)

    def kit_file(self, name: str) -> Path:
        """The kit of a device, or of the server, without a broker until a fleet has one."""
        return self.folder / "kits" / f"{name}{ENDING}"

    def write_kit(self, name: str, broker: str = "", authority: str = "", certificate: str = "") -> Path:
        """Write the kit of a party; returns its file."""
        text = self.study_file.read_text(encoding="utf-8")
        path = self.kit_file(name)
        Kit(name, text, self.roster, broker, authority, certificate).save(path)
        return path

    def state(self, name: str) -> Path:
        """The state folder of a device's machine; each has one of its own."""
        return self.folder / f"state-{name}"

    def snapshots(self) -> dict[str, Snapshot]:
        """The rows that the approvals froze."""
        digest = self.study.digest()
        return {name: DeviceFolder.of(self.state(name), name).frozen(digest) for name in self.names}

    def rehearsed(self) -> Rehearsal:
        """The same study by the same protocol in this process, in virtual time."""
        ready = Rehearsed(self.study, self.roster, self.snapshots())
        return rehearse(ready, np.random.default_rng(0))

    def secrets_left(self, but: Sequence[str] = ()) -> list[str]:
        """Devices that still have keys of a generation; none when all were told of the end."""
        return [name for name in self.names if name not in but and self._root(name)]

    def _root(self, name: str) -> bytes:
        base = DeviceFolder.of(self.state(name), name).base
        found = base.generation(self.study.digest())
        base.close()
        return b"" if found is None else found[1]


def _accepted(finding: DisclosureFinding) -> str:
    """Public rows, on one machine: whatever is found is accepted, on record."""
    return f"public rows on one machine ({finding.kind})"


def agree(
    folder: Path, content: Mapping[str, Any], tables: Mapping[str, RawTable], pods: int | None = None
) -> LocalStudy:
    """Make keys, roster and study file, and approve the study on every device.

    content: of the study file, by section; the roster's digest and the server's key are added.
    tables: by the devices' names.
    pods: how many there are, each of neighbours in the order of names; None are as many as there can be.
    """
    made = LocalStudy(folder, tuple(tables))
    folder.mkdir(parents=True, exist_ok=True)
    keys = {name: load_identity(made.state(name) / name / DEVICE_KEY).public for name in tables}
    colluders = content["protection"].get("colluders", 1)
    roster = Roster.draft(keys, colluders if pods is None else len(keys) // pods - 2)
    save_roster(roster, made.roster_file)
    parties = {"roster": roster.digest().hex(), "server_key": load_identity(made.server_key).public.hex()}
    protection = {**content["protection"], **parties}
    text = tomli_w.dumps({"format": FORMAT, **content, "protection": protection})
    made.study_file.write_text(text, encoding="utf-8")
    study = made.study
    for name, table in tables.items():
        made.write_kit(name)
        home = DeviceFolder.of(made.state(name), name)
        allowed = Policy(smallest_cell=1)
        approve(study, roster, name, keys[name], table, home, Deciding("somebody", "today", allowed, ask=_accepted))
    return made


def digits_study(
    rows: int,
    *,
    name: str = "digits",
    features: int = 200,
    epochs: int = 7,
    solver: str = "block-krylov",
    regularisation: float = 9e-6,
    held_out: float = 0.0,
    least_participants: int = 3,
    **protection: Any,
) -> dict[str, Any]:
    """Content of a study of 8 x 8 pixels with random features, of at most ``rows`` rows; 0 features are linear ones.

    Pixels are public here, and some of them are dark but in one picture: smallest_cell = 1.
    """
    kind = {"kind": "rbf", "count": features} if features else {"kind": "linear"}
    limits = {"max_rows": rows, "max_rows_per_device": rows, "least_participants": least_participants}
    return {
        "name": name,
        "purpose": "to tell handwritten digits apart",
        "matrix": {"columns": 64, "range": [0, 1], "step": DIGITS_STEP},
        "target": {"name": "label", "classes": list(range(10))},
        "features": kind,
        "protection": {**limits, "smallest_cell": 1, **protection},
        "training": {"solver": solver, "epochs": epochs, "regularisation": regularisation},
        "result": {"held_out": held_out},
    }


def digits_tables(devices: int, alike: bool = True) -> dict[str, RawTable]:
    """The training rows of the digits, dealt out at random.

    alike: else every class is on three devices only, the fewest that a study with z = 1 allows.
    """
    data = datasets.load("digits", use_network=False)
    rng = np.random.default_rng(0)
    parts = at_random(len(data.y_train), devices, rng) if alike else _by_class(data.y_train, devices, rng)
    width = len(str(devices - 1))
    return {
        f"device-{i:0{width}d}": pixels_table(data.X_train[rows], data.y_train[rows]) for i, rows in enumerate(parts)
    }


def _by_class(y: np.ndarray, devices: int, rng: np.random.Generator) -> list[np.ndarray]:
    dealt: list[list[np.ndarray]] = [[] for _ in range(devices)]
    for place, one in enumerate(np.unique(y)):
        for turn, rows in enumerate(np.array_split(rng.permutation(np.flatnonzero(y == one)), _DEVICES_PER_CLASS)):
            dealt[(_DEVICES_PER_CLASS * place + turn) % devices].append(rows)
    return [np.concatenate(parts) for parts in dealt]


def pixels_table(X: np.ndarray, y: np.ndarray) -> RawTable:
    """Columns x0, x1, ... and label, as an .npz with X and label has them."""
    return as_raw_table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, "label": y}, "digits.npz")
