"""A study on tables of this machine, by the real protocol in virtual time: what a federation would make of them.

The rehearsal is the run: the same analyses ask for the same sums, of the same devices, with the rows that an approval
would freeze. Only the engine differs, so on the same rows the findings are the same bit for bit, whoever straggles.
Which rows are held out is drawn by each device's key, and those of a rehearsal are its own.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from codedfl.analyses.driving import drive
from codedfl.analyses.kept import NOTHING_KEPT, KeptSum
from codedfl.analyses.study_analysis import StudyFindings
from codedfl.analyses.summing import StudyTotals, too_few
from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.ledger import Approval
from codedfl.contract.ledger_base import LEDGER_FILE, LedgerBase
from codedfl.contract.names import plain_name
from codedfl.contract.policy import Policy
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.data.tables import RawTable, read_file, table_files
from codedfl.device.approved import ApprovedStudy, LedgerMemory
from codedfl.device.study_sums import StudySums
from codedfl.engines.virtual_time import Delay, VirtualTime
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.report.event_log import Clock
from codedfl.report.run_watch import RunWatch, begun_study
from codedfl.sum.asking import Engine
from codedfl.sum.device import Device
from codedfl.sum.session import Session
from codedfl.sum.store import Store
from codedfl.sum.wire import kind_of

MakeDelay = Callable[[StudySums, np.random.Generator], Delay]
"""How long each reply takes, in a study on a fleet."""


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


def alike_devices(sums: StudySums, rng: np.random.Generator) -> Delay:
    """Devices that are all alike: each reply takes half a second to one and a half. Who is first is chance."""
    del sums
    return lambda _device, _request, _reply: float(rng.uniform(0.5, 1.5))


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What was found, how many simulated seconds the sums took together, and how many exchanges."""

    findings: StudyFindings
    seconds: float
    epochs: int


def made_up_roster(study: Study, names: Iterable[str], helpers: Iterable[str] = ()) -> Roster:
    """The roster of a rehearsal: these devices with made-up keys, in groups as ``codedfl roster new`` drafts them."""
    keys = {name: Identity(rehearsal_key(name)).public for name in names}
    return Roster.draft(keys, study.colluders, tuple(helpers), honest=study.honest)


def copied_ledgers(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Of a folder of copies of state folders (NAME/contract) those of these devices; refused where there are none."""
    found = {name: folder / name / "contract" for name in names}
    found = {name: path for name, path in found.items() if (path / LEDGER_FILE).is_file()}
    if not found:
        raise InvalidInput(
            f"ledgers must be a folder with a copy of the state folder of a device (NAME/contract/{LEDGER_FILE}), got"
            f" {str(folder)!r} without one of these tables"
        )
    return found


def _copied(ledger: Path, to: Path) -> Path:
    """A copy that may be written, as private as the state of a device: the one that was given is not touched."""
    shutil.copytree(ledger, to)
    for path in (to, *to.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return to


class Rehearsed:
    """A study with made-up keys and the rows of real tables, ready to be asked for sums.

    study: its roster and its server's key are replaced by made-up ones.
    roster: all devices; its keys are replaced by made-up ones.
    snapshots: the rows of each device that takes part, by its name. ``approve`` puts them there.
    """

    def __init__(self, study: Study, roster: Roster, snapshots: Mapping[str, Snapshot] | None = None) -> None:
        self._asked_roster = roster
        self._identities = {name: Identity(rehearsal_key(name)) for name in (*roster.keys, "")}
        members = (replace(one, key=self._identities[one.name].public) for one in roster.members)
        self.roster = Roster(tuple(members))
        self._made_up = self.roster == roster
        server_key = self._identities[""].public.hex()
        self.study = replace(study, roster=self.roster.digest().hex(), server_key=server_key)
        self.sums = StudySums(self.study, self.roster)
        self.snapshots = dict(snapshots or {})
        self.owners: dict[str, list[str]] = {}  # whose rows are in which sum
        self.findings: dict[str, list[DisclosureFinding]] = {}  # what its operator would be asked about, by device

    def approve(
        self, tables: Mapping[str, RawTable], policy: Policy, ledgers: Mapping[str, Path] | None = None
    ) -> dict[str, str]:
        """Let every device judge the study as it would by itself; returns who would refuse, and why.

        What an operator would be asked about is in ``findings``, and taken for accepted. ledgers: for a device a copy
        of its folder (``copied_ledgers``), with which the study is judged, and whose key draws the rows held out.
        """
        refusals = {}
        with TemporaryDirectory() as folder:
            for name, table in tables.items():
                rows_key, helps = rehearsal_key(name), not len(table) and name in self.roster.helpers
                deciding = Deciding("a rehearsal", "now", policy, ask=self._asked(name))
                try:
                    if ledgers and name in ledgers and not helps:
                        copy = DeviceFolder(_copied(ledgers[name], Path(folder) / "ledgers" / name))
                        rows_key = copy.rows_key()
                        self._judge(name, table, copy, deciding)
                        deciding = Deciding("a rehearsal", "now", policy, ask=lambda _finding: "judged with its ledger")
                    device = DeviceFolder(Path(folder) / name, rows_key)
                    party = (name, self._identities[name].public, None if helps else table, device)
                    approve(self.study, self.roster, *party, deciding)
                except InvalidInput as error:
                    refusals[name] = str(error)
                if not helps and name not in refusals:
                    self.snapshots[name] = device.frozen(self.study.digest())
        return refusals

    def _asked(self, name: str) -> Callable[[DisclosureFinding], str]:
        def ask(finding: DisclosureFinding) -> str:
            self.findings.setdefault(name, []).append(finding)
            return "a rehearsal"

        return ask

    def _judge(self, name: str, table: RawTable, copy: DeviceFolder, deciding: Deciding) -> None:
        """With what the device approved before, and with the keys of its roster: a made-up one has no known groups."""
        roster, policy = self._asked_roster, deciding.policy
        if self._made_up:
            deciding = replace(deciding, policy=replace(policy, on_groups="allow"))
        study = replace(self.study, roster=roster.digest().hex())
        approve(study, roster, name, roster.member(name).key, table, copy, deciding, dry_run=True)

    def devices(self) -> dict[str, Device]:
        """Those that take part, as their operators would run them."""
        names = [name for name in self.roster.keys if name in self.snapshots or name in self.roster.helpers]
        return {name: self._device(name) for name in names}

    def _device(self, name: str) -> Device:
        identity, rows, study = self._identities[name], self.snapshots.get(name), self.study
        seed = identity.tag(b"codedfl noise|" + study.digest()) if study.noise is not None else b""
        ledger = LedgerBase()
        memory = LedgerMemory(self.sums, ledger)
        contract = ApprovedStudy(self.sums, None if rows is None else lambda: rows, seed, memory.content)
        with ledger.ledger() as approved:
            pod, own = self.roster.pod_of(name), study.statistics
            who = (study.digest(), study.name, study.edition, "a rehearsal", "now", pod, own, None)
            approved.approvals.append(Approval(*who, study.width, 0 if rows is None else len(rows), 0))
        return Device(name, identity, contract, memory, now=lambda: 0.0)

    def totals(
        self, engine: Engine, watch: RunWatch | None = None, on_epoch: Callable[[int], object] = lambda _epoch: None
    ) -> StudyTotals:
        """Who answers the asks of the study's analyses, over an engine of ``devices``."""
        store, watch = Store(), watch or RunWatch()
        session = Session(
            engine,
            self.sums,
            self._identities[""],
            store,
            spare=self.study.spare_replies,
            row_blocks=self.study.row_blocks,
            tell=watch.take,
            wall=lambda: 0.0,
            random_bytes=lambda count: hashlib.sha256(b"codedfl rehearsal").digest()[:count],
        )
        return StudyTotals(self.sums, session, store, on_epoch, watch.take)

    def run(
        self,
        delay: Delay,
        on_epoch: Callable[[int, float], object] = lambda _epoch, _seconds: None,
        folder: Path | None = None,
        clock: Clock = "virtual",
        before: KeptSum = NOTHING_KEPT,
    ) -> Rehearsal:
        """All analyses, each sum asked of the devices; ``folder`` gets the event log, ``before`` is added to."""
        engine = VirtualTime({name: one.reply for name, one in self.devices().items()}, delay)
        watch = RunWatch(folder, engine.now, clock, private=False)
        exchanges = 0

        def ended(epoch: int) -> None:
            nonlocal exchanges
            exchanges += 1
            watch.ended(epoch, None)
            on_epoch(exchanges, engine.now())

        with closing(watch):
            watch.take(begun_study(self.sums))
            totals = self.totals(engine, watch, ended)
            with watch.told_how_it_ends():
                findings = drive(self.study, totals.answer, before)
        self.owners = totals.owners
        return Rehearsal(findings, engine.now(), exchanges)


def rehearse(
    rehearsed: Rehearsed,
    rng: np.random.Generator,
    timing: MakeDelay = alike_devices,
    *,
    on_epoch: Callable[[int, float], object] = lambda _epoch, _seconds: None,
    gone: Collection[str] = (),
    folder: Path | None = None,
    before: KeptSum = NOTHING_KEPT,
) -> Rehearsal:
    """All analyses of a study on the rows of its devices.

    timing: how long replies take; a fleet's times are ``codedfl_lab``'s.
    gone: devices that upload and then answer for no role.
    folder: where the event log of the run goes; None writes none.
    before: a kept total of others, to which the study is added.
    """
    before.check(rehearsed.study, rehearsed.roster.owners)
    absent = sorted(set(rehearsed.roster.owners) - set(rehearsed.snapshots))
    if objection := too_few(rehearsed.sums, {*rehearsed.snapshots, *rehearsed.roster.helpers}):
        raise NotEnoughDevices(f"{objection}; not taking part: {', '.join(absent)}", absent)
    delay = timing(rehearsed.sums, rng)

    def with_losses(device: str, request: bytes, reply: bytes) -> float | None:
        lost = device in gone and kind_of(request) in ("answer", "certify")
        return None if lost else delay(device, request, reply)

    clock: Clock = "order" if timing is alike_devices else "virtual"
    return rehearsed.run(with_losses, on_epoch, folder, clock, before)
