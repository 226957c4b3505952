"""Studies of every kind on made-up clinics, and devices that have approved them: real folders, keys and snapshots.

The keys are those of a rehearsal, so that a rehearsal on the same snapshots is the same study, digest and noise
included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.models.cox import CoxModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.contract.models.residuals import ResidualsModel
from codedfl.contract.models.robust import RobustModel
from codedfl.contract.models.survival import SurvivalModel
from codedfl.contract.models.table import TableModel
from codedfl.contract.roster import Roster, save_roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study, SubModel
from codedfl.contract.toml_file import parse_study
from codedfl.crypto.key_files import DEVICE_KEY
from codedfl.crypto.sealed import Identity
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.device.membership import Membership
from codedfl.privacy.budget import Budget
from codedfl.private_files import make_private_folder, write_private
from codedfl.run.rehearsal import Rehearsed, rehearsal_key, rehearse
from codedfl.sum.device import Device

NAMES = tuple(f"clinic-{i}" for i in range(7))  # two pods: clinic-0 to 3, and clinic-4 to 6
LINEAR = Study(
    "stays",
    (
        NumberColumn("age", (0.0, 110.0), 1.0),
        NumberColumn("crp", (0.0, 300.0), 0.1, missing=5.0),
        CategoryColumn("ward", ("a", "b", "rare", "rarest")),
    ),
    NumberTarget("days", (0.0, 60.0), 1.0),
    max_rows=2000,
    max_rows_per_device=400,
    least_participants=3,
    inference=True,
    models=(SubModel("age alone", ("age",), inference=True),),
    epochs=12,
)
MATRIX = """format = "codedfl-study-2"
name = "pixels"
[matrix]
columns = 6
range = [0, 1]
step = 0.00392156862745098
[target]
name = "y"
classes = [0, 1, 2]
[protection]
least_participants = 3
max_rows = 2000
max_rows_per_device = 400
"""


def studies() -> dict[str, Study]:
    """One of each kind, without roster and server."""
    sorted_out = ClassTarget("ill", ("no", "yes"))
    plain: dict[str, Any] = {"inference": False, "models": ()}
    ranges = tuple(replace(one, scale="range") if isinstance(one, NumberColumn) else one for one in LINEAR.columns)
    noise: dict[str, Any] = {"noise": Budget(8.0, 4), "held_out": 0.0, "columns": ranges, "least_participants": 5}
    return {
        "linear": LINEAR,
        "classes": replace(LINEAR, target=sorted_out, **plain),
        "glm": replace(
            LINEAR,
            target=sorted_out,
            inference=False,
            models=(LogisticModel("all", ("age", "crp", "ward")), LogisticModel("ward alone", ("ward",))),
        ),
        "models": replace(
            LINEAR,
            columns=(*LINEAR.columns, NumberColumn("home", (0.0, 1.0), 1.0, in_model=False)),
            models=(
                PoissonModel("visits", ("age", "crp", "ward")),
                TableModel("by ward", ("ward",)),
                RobustModel("robust", ("age", "crp"), "HC3"),
                ResidualsModel("residuals", ("age", "crp")),
                SurvivalModel("stay", ("ward",), "home", tuple(float(day) for day in range(1, 60))),
                CoxModel("going home", ("age",), "home", tuple(float(day) for day in range(1, 60)), strata="ward"),
            ),
        ),
        "rbf": replace(LINEAR, features="rbf", n_features=12, least_rows=24, **plain),
        "pca-rbf": replace(LINEAR, features="pca-rbf", components=2, n_features=10, least_rows=20, **plain),
        "matrix": parse_study(MATRIX),
        "noise": replace(LINEAR, features="rbf", n_features=8, **plain | noise),
    }


@cache
def tables(kind: str = "linear", names: tuple[str, ...] = NAMES) -> Mapping[str, RawTable]:
    """One for each clinic; two levels of the ward are rare, and one of them is on few devices."""
    found = {}
    for number, name in enumerate(names):
        rng = np.random.default_rng(number)
        n = 110 + 7 * number
        if kind == "matrix":
            y = rng.integers(0, 3, n)
            bright = 0.3 + 0.2 * y[:, None] * np.arange(6) / 6 + rng.normal(0, 0.1, (n, 6))
            X = np.clip(np.round(255 * bright), 0, 255)
            found[name] = as_raw_table({**{f"x{j}": X[:, j] / 255 for j in range(6)}, "y": y}, f"{name}.npz")
            continue
        age = rng.integers(20, 95, n)
        crp = np.round(rng.exponential(20.0, n), 1).astype(object)
        crp[:: 6 + number] = None
        ward = np.where(rng.random(n) < 0.5, "a", "b").astype(object)
        ward[: 12 if number < 4 else 0] = "rare"
        ward[20 : 20 + (8 if number == 5 else 0)] = "rarest"
        days = np.clip(np.round(0.2 * age + rng.normal(5, 3, n) + 4 * (ward == "a")), 0, 60)
        ill = np.where(days + rng.normal(0, 4, n) > 18, "yes", "no")
        columns = {"age": age.tolist(), "crp": crp.tolist(), "ward": ward.tolist(), "days": days.tolist()}
        if kind == "models":
            columns["home"] = (rng.random(n) < 0.5).astype(int).tolist()
        found[name] = as_raw_table({**columns, "ill": ill.tolist()}, f"{name}.csv")
    return found


@dataclass
class Federation:
    """Devices that have approved one study, with everything of theirs below ``folder``.

    approved: who has; others are on the roster and have a key.
    """

    plain: Study
    folder: Path
    kind: str = "linear"
    names: tuple[str, ...] = NAMES
    helpers: tuple[str, ...] = ()
    approved: tuple[str, ...] | None = None
    study: Study = field(init=False)
    roster: Roster = field(init=False)

    def __post_init__(self) -> None:
        keys = {name: Identity(rehearsal_key(name)).public for name in (*self.names, *self.helpers)}
        self.roster = Roster.draft(keys, self.plain.colluders, self.helpers, self.plain.honest)
        server = Identity(rehearsal_key("")).public.hex()
        self.study = replace(self.plain, roster=self.roster.digest().hex(), server_key=server)
        make_private_folder(self.folder)
        save_roster(self.roster, self.roster_file)
        _write_key(self.server_key, rehearsal_key(""))
        for name in keys:
            _write_key(self.folder / name / DEVICE_KEY, rehearsal_key(name))
            place = make_private_folder(self.contract_folder(name).path) / "rows.key"
            write_private(place, [rehearsal_key(name)])  # the same rows are held out in every run of the tests
            if self.approved is None or name in self.approved:
                self.approve(name)

    @property
    def roster_file(self) -> Path:
        return self.folder / "roster.toml"

    @property
    def server_key(self) -> Path:
        return self.folder / "server" / "server.key"

    def contract_folder(self, name: str) -> DeviceFolder:
        return DeviceFolder.of(self.folder, name)

    def approve(self, name: str, study: Study | None = None, table: RawTable | None = None, *accepted: str) -> None:
        """accepted: kinds of findings that the operator accepts."""
        key = self.roster.keys[name]
        if table is None and name not in self.helpers:
            table = tables(self.kind, self.names)[name]
        folder = self.contract_folder(name)
        deciding = Deciding("Ada", "today", accept=dict.fromkeys(accepted, "a test"))
        approve(study or self.study, self.roster, name, key, table, folder, deciding)

    def membership(self, name: str) -> Membership:
        return Membership(name, self.folder, (self.roster,))

    def device(self, name: str) -> Device:
        """As a new process has it."""
        return self.membership(name).device(self.study)

    def snapshots(self, names: tuple[str, ...] | None = None) -> dict[str, Snapshot]:
        found = {name: self.contract_folder(name).snapshot(self.study.digest()) for name in names or self.names}
        return {name: one for name, one in found.items() if one is not None}

    def rehearsed(self, names: tuple[str, ...] | None = None) -> StudyFindings:
        """What a rehearsal on the same rows finds, with these owners."""
        rows = self.snapshots(names)
        return rehearse(Rehearsed(self.plain, self.roster, rows), np.random.default_rng(1)).findings


def federation(kind: str, folder: Path, **options: Any) -> Federation:
    """All clinics, with the study of this kind."""
    changes = {key: options.pop(key) for key in list(options) if key not in Federation.__dataclass_fields__}
    study = replace(studies()[kind], **changes)
    return Federation(study, folder, kind if kind in ("matrix", "models") else "linear", **options)


def same_findings(found: StudyFindings, expected: StudyFindings) -> None:
    """Bit for bit."""
    assert np.array_equal(found.model.theta, expected.model.theta)
    assert found.model.recipe.digest() == expected.model.recipe.digest()
    assert found.total == expected.total
    assert found.merged == expected.merged
    assert (found.rows, found.no_score, found.no_inference) == (
        *(expected.rows, expected.no_score, expected.no_inference),
    )
    assert (found.score is None) == (expected.score is None)
    if found.score is not None and expected.score is not None:
        assert found.score.to_dict() == expected.score.to_dict()
    assert [one.to_dict() for one in found.models] == [one.to_dict() for one in expected.models]
    one, other = found.inference, expected.inference
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.to_dicts() == other.to_dicts()


def _write_key(path: Path, secret: bytes) -> None:
    make_private_folder(path.parent)
    write_private(path, [secret.hex().encode()])
