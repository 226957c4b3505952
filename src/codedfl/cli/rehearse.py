"""``codedfl train STUDY --tables PATH``: the rehearsal of a study on a folder of tables, or on one table dealt out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from codedfl.analyses.driving import findings_json
from codedfl.cli.screen import Screen, make_folder, score_name
from codedfl.cli.study_result import show_findings
from codedfl.contract.policy import Policy, load_policy
from codedfl.contract.roster import load_roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.contract.toml_file import load_study
from codedfl.data.recipe import Clipped
from codedfl.data.tables import read_file
from codedfl.errors import InvalidInput
from codedfl.report.run_page import write_run_page
from codedfl.run.rehearsal import Rehearsed, dealt_out, made_up_roster, no_tables, read_folder, rehearse
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.report.rows import seconds as seconds_text


def rehearse_study(
    screen: Screen,
    study_file: Path,
    tables: Path | None,
    *,
    fleet_name: str,
    devices: int | None,
    seed: int,
    out: Path | None,
    gone: float,
    roster_file: Path | None,
    policy_file: Path | None,
) -> None:
    """Every device is judged as it would judge itself; those that would refuse are named, and leave with their pods."""
    study = load_study(study_file)
    if tables is None:
        raise InvalidInput("--tables must name a folder of one table per device, or one table, got none")
    rng = np.random.default_rng(seed)
    if tables.is_dir():
        if devices is not None:
            raise InvalidInput(f"--devices must be left out with a folder of tables, got {devices}")
        parts = read_folder(tables)
        if others := no_tables(tables):
            screen.remark(f"note: no table files, so left out of {tables}: {', '.join(others)}")
    else:
        parts = dealt_out(read_file(tables), devices or study.least_participants, rng)
    roster = made_up_roster(study, parts) if roster_file is None else load_roster(roster_file)
    rehearsed = Rehearsed(study, roster)
    refusals = rehearsed.approve(parts, Policy() if policy_file is None else load_policy(policy_file))
    for name, reason in refusals.items():
        screen.remark(f"{name} would refuse: {reason}")
    if len(rehearsed.snapshots) < study.least_participants:
        raise InvalidInput(
            f"the study must have at least {study.least_participants} devices (least_participants) that take part, got"
            f" {len(rehearsed.snapshots)}"
        )
    folder = make_folder("--out", out or Path("results") / f"train-{study_file.stem}")
    fleet = Fleet.load(fleet_name).scaled_to(len(rehearsed.snapshots))
    with screen.busy(f"rehearsing {study.name}") as say:

        def on_epoch(epoch: int, seconds: float) -> None:
            say(f"epoch {epoch}, fleet time {seconds_text(seconds)}")

        done = rehearse(rehearsed, fleet, rng, on_epoch=on_epoch, gone=_first_of(parts, gone), folder=folder)
    page, model_file = write_run_page(folder), folder / "model.safetensors"
    clipped = _clipped(study, rehearsed.snapshots.values())
    if clipped:
        screen.remark(f"warning: clipped to the study's ranges: {clipped.words(study.table_columns.names)}")
    findings = done.findings
    findings.model.save(model_file)
    screen.write_json(
        {
            "command": "train",
            **findings_json(study, findings),
            "devices": len(rehearsed.snapshots),
            "score_name": score_name(study.task),
            "epochs": done.epochs,
            "virtual_seconds": done.seconds,
            "clipped": clipped.total,
            "model": str(model_file),
        }
    )
    show_findings(
        screen,
        study,
        findings,
        ("devices", f"{len(rehearsed.snapshots)} in {len(roster.pods)} pod{'s' * (len(roster.pods) != 1)}"),
        ("fleet time", f"{seconds_text(done.seconds)}, {done.epochs} exchanges"),
        ("model", str(model_file)),
        ("page", str(page)),
    )
    if study.noise is not None:
        screen.say()
        screen.sentence(study.noise.sentence())


def _clipped(study: Study, snapshots: Iterable[Snapshot]) -> Clipped:
    total = Clipped(np.zeros(len(study.columns), dtype=np.int64))
    for one in snapshots:
        total = total + one.clipped
    return total


def _first_of(names: Iterable[str], share: float) -> list[str]:
    """That share of them, rounded up, in the order of the alphabet."""
    ordered = sorted(names)
    return ordered[: math.ceil(share * len(ordered))]
