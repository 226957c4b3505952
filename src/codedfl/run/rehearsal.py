"""A study on tables of this machine, by the real protocol in virtual time: what a federation would make of them.

The rehearsal is the run: the same analyses ask for the same totals, of parties on the same terms, with the rows that an
approval would freeze. Only the driver differs, so on the same rows the findings are the same bit for bit, whoever
straggles. Which rows are held out is drawn by each device's key, and those of a rehearsal are its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from codedfl.analyses.driving import drive
from codedfl.analyses.study_analysis import Answer, StudyFindings
from codedfl.analyses.study_plan import StudyRun, too_few
from codedfl.contract.approval import approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.policy import Policy
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.data.tables import RawTable, read_file, table_files
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.protocol.device import Device
from codedfl.protocol.names import plain_name
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl.protocol.server import Server
from codedfl.run.event_log import Begun, Clock, begun
from codedfl.run.virtual_time import AlikeDevices, MakeTiming, RunShape, run_in_virtual_time
from codedfl.run.virtual_watch import VirtualWatch
from codedfl.solve.whole_total import TakesTotal
from codedfl.statistics.statistic import Ask


def read_folder(folder: Path) -> dict[str, RawTable]:
    """One table per device, named by its file without the ending; one without rows is a device without rows."""
    files = {plain_name(name): path for name, path in table_files(folder).items()}
    if len(files) < len(table_files(folder)):
        raise InvalidInput(f"tables must have one file per device, got several of one name in {str(folder)!r}")
    return {name: read_file(path, empty=True) for name, path in files.items()}


def dealt_out(table: RawTable, n_devices: int, rng: np.random.Generator) -> dict[str, RawTable]:
    """One table's rows dealt out at random to ``n_devices``: what there is to rehearse with on one machine."""
    if len(table) < n_devices:
        raise InvalidInput(f"{table.name} must have a row for each of {n_devices} devices, got {len(table)}")
    parts = np.array_split(rng.permutation(len(table)), n_devices)
    return {f"device-{i:0{len(str(n_devices - 1))}d}": table.rows(np.sort(part)) for i, part in enumerate(parts)}


def rehearsal_key(name: str) -> bytes:
    """Stands for the key of a device of this name, which a rehearsal does not have."""
    return hashlib.sha256(f"codedfl rehearsal {name}".encode()).digest()


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What was found, how many virtual seconds the totals took together, and in how many epochs."""

    findings: StudyFindings
    seconds: float
    epochs: int


def made_up_roster(study: Study, names: Iterable[str], helpers: Iterable[str] = ()) -> Roster:
    """The roster of a rehearsal: these devices with made-up keys, in pods as ``codedfl roster new`` drafts them."""
    keys = {name: Identity(rehearsal_key(name)).public for name in names}
    return Roster.draft(keys, study.colluders, tuple(helpers), honest=study.honest)


class Rehearsed:
    """A study with made-up keys and the rows of real tables, ready to be asked for totals.

    study: its roster and its server's key are replaced by made-up ones.
    roster: all devices; its keys are replaced by made-up ones.
    snapshots: the rows of each device that takes part, by its name. ``approve`` puts them there.
    """

    def __init__(self, study: Study, roster: Roster, snapshots: Mapping[str, Snapshot] | None = None) -> None:
        self._identities = {name: Identity(rehearsal_key(name)) for name in (*roster.keys, "")}
        members = (replace(one, key=self._identities[one.name].public) for one in roster.members)
        self.roster = Roster(tuple(members))
        server_key = self._identities[""].public.hex()
        self.study = replace(study, roster=self.roster.digest().hex(), server_key=server_key)
        self.snapshots = dict(snapshots or {})
        self.owners: dict[str, list[str]] = {}  # whose rows are in which total
        self.epochs = 0
        self.seconds = 0.0

    def approve(self, tables: Mapping[str, RawTable], policy: Policy) -> dict[str, str]:
        """Let every device judge the study as it would by itself; returns who would refuse, and why."""
        refusals = {}
        with TemporaryDirectory() as folder:
            for name, table in tables.items():
                device = DeviceFolder(Path(folder) / name, rehearsal_key(name))
                helps = not len(table) and name in self.roster.helpers
                party = (name, self._identities[name].public, None if helps else table, device)
                try:
                    approve(self.study, self.roster, *party, who="a rehearsal", when="now", policy=policy)
                except InvalidInput as error:
                    refusals[name] = str(error)
                if not helps and name not in refusals:
                    self.snapshots[name] = device.frozen(self.study.digest())
        return refusals

    def answer(
        self,
        ask: Ask,
        timing: MakeTiming,
        rng: np.random.Generator,
        on_epoch: Callable[[int, float], None] = lambda _epoch, _seconds: None,
        gone: Collection[str] = (),
        watch: VirtualWatch | None = None,
    ) -> Answer:
        """The total that is asked for, by server and devices on the study's own terms."""
        run = StudyRun(self.study, self.roster, ask)
        names = tuple(name for name in self.roster.keys if name in self.snapshots or name in self.roster.helpers)
        plan, solver = run.plan(names), run.solver()
        server = Server(plan, solver, identity=self._identities[""])
        digest = self.study.digest()
        devices = [
            Device(
                plan,
                name,
                run.contribution(self.snapshots[name]) if name in self.snapshots else None,
                identity=self._identities[name],
                noise_seed=self._identities[name].tag(b"codedfl noise|" + digest) if self.study.noise else b"",
            )
            for name in names
        ]
        before, p = self.seconds, run.parameters
        if watch is not None:
            watch.stage(ask.statistic, before, run.trains)
        shape = RunShape(len(names), p.n_features, p.n_outputs, self.study.max_rows_per_device)

        def ended(epoch: int, seconds: float) -> None:
            self.seconds, self.epochs = before + seconds, self.epochs + 1
            on_epoch(epoch, self.seconds)

        blocks = plan.blocks_among(len(plan.holders))
        reserve = plan.reserve if blocks > 1 else 0
        scheme = RoleKeys(self.study.colluders, len(plan.holders), blocks=blocks, reserve=reserve)
        when = timing(scheme, shape, rng)
        model = run_in_virtual_time(server, devices, when, on_epoch=ended, gone=gone, watch=watch)
        self.owners[ask.statistic] = sorted(server.owner_names)
        return solver.numbers if isinstance(solver, TakesTotal) else model


def rehearse(
    rehearsed: Rehearsed,
    rng: np.random.Generator,
    timing: MakeTiming = AlikeDevices,
    *,
    on_epoch: Callable[[int, float], None] = lambda _epoch, _seconds: None,
    gone: Collection[str] = (),
    folder: Path | None = None,
) -> Rehearsal:
    """All analyses of a study on the rows of its devices.

    timing: whose answers come first; a fleet's times are ``codedfl_lab``'s.
    gone: devices that upload and then answer nothing.
    folder: where the event log of the run goes; None writes none.
    """
    study = rehearsed.study
    absent = sorted(set(rehearsed.roster.owners) - set(rehearsed.snapshots))
    if objection := too_few(study, rehearsed.roster, {*rehearsed.snapshots, *rehearsed.roster.helpers}):
        raise NotEnoughDevices(f"{objection}; not taking part: {', '.join(absent)}", absent)
    clock: Clock = "order" if timing is AlikeDevices else "virtual"
    watch = None if folder is None else VirtualWatch(folder, begun_study(study, len(rehearsed.snapshots)), clock)
    with watch or nullcontext():
        findings = drive(study, lambda ask: rehearsed.answer(ask, timing, rng, on_epoch, gone, watch))
    return Rehearsal(findings, rehearsed.seconds, rehearsed.epochs)


def begun_study(study: Study, n_devices: int, epochs: int | None = None) -> Begun:
    """What a run of a study has to say of itself; ``epochs`` are those of one total, else the study's."""
    return begun(
        study.name,
        RoleKeys(study.colluders, study.holders or 0),
        n_devices,
        solver=study.solver,
        epochs=study.epochs if epochs is None else epochs,
        target=None,
        score_name="accuracy" if study.task == "classification" else "R^2",
        n_features=study.feature_count,
        n_outputs=study.target.labels().n_outputs,
    )
