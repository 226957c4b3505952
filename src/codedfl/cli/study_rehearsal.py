"""``codedfl study rehearse``: a study on a folder of tables, or on one table dealt out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from codedfl.additions import TIMINGS, additions, load_addition
from codedfl.analyses.driving import findings_json
from codedfl.cli import options
from codedfl.cli.add_to import AddTo, kept_total
from codedfl.cli.output_files import make_folder
from codedfl.cli.screen import Screen, score_name
from codedfl.cli.study_result import devices_fact, leave_without_models, show_findings
from codedfl.contract.policy import Policy, load_policy
from codedfl.contract.roster import load_roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.contract.toml_file import load_study
from codedfl.contract.words import printable
from codedfl.data.clipped import Clipped
from codedfl.data.tables import no_tables, read_file
from codedfl.errors import InvalidInput
from codedfl.report.run_page import write_run_page
from codedfl.report.study_files import MODEL_FILE, write_results
from codedfl.report.text import seconds as seconds_text
from codedfl.run.rehearsal import (
    MakeDelay,
    Rehearsed,
    alike_devices,
    copied_ledgers,
    dealt_out,
    made_up_roster,
    read_folder,
    rehearse,
)


def rehearse_study(
    study_file: options.StudyFile,
    tables: Annotated[
        Path, typer.Option(metavar="PATH", help="A folder of one table per device, or one table to deal out.")
    ],
    devices: Annotated[
        int | None,
        typer.Option(metavar="D", help="How many devices one table is dealt out to.", show_default="the study's least"),
    ] = None,
    gone: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, metavar="SHARE", help="This share of the devices uploads and answers nothing."),
    ] = 0.0,
    roster_file: Annotated[
        Path | None,
        typer.Option(
            "--roster",
            metavar="FILE",
            help="The roster whose disclosure groups are rehearsed.",
            show_default="groups as codedfl roster new drafts them",
        ),
    ] = None,
    policy_file: Annotated[
        Path | None,
        typer.Option(
            "--policy", metavar="FILE", help="The policy that every device has.", show_default="the usual one"
        ),
    ] = None,
    ledgers: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Copies of devices' state folders, whose ledgers are judged with.", show_default="none"
        ),
    ] = None,
    fleet: Annotated[
        str | None,
        typer.Option(
            metavar="FLEET",
            help="Whose times are taken: paper, or a fleet file (codedfl-lab).",
            show_default="devices that are all alike",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the times, and of how a table is dealt out.")] = 0,
    out: Annotated[
        Path | None,
        options.in_output(
            metavar="DIR", help="Where model, event log and page go.", show_default="results/rehearse-NAME"
        ),
    ] = None,
    add_to: AddTo = None,
    json: options.Json = None,
) -> None:
    """Run a study on tables of this machine, as a dry run.

    Server and devices run the real protocol in this process, in simulated time. Every device is judged as it would
    judge itself, with --ledgers over all that it approved before: what its operator would be asked is said; those that
    would refuse are named, and leave with their disclosure groups. On the same rows the
    findings are those of the federation bit for bit. With held_out above 0 each device draws by a key of its own
    which rows it holds out, so a rehearsal trains on other rows than the federation will.

    Example: `codedfl study rehearse study.toml --tables folder`
    """
    screen = Screen(json)
    study, before = load_study(study_file), kept_total(add_to)
    rng = np.random.default_rng(seed)
    if tables.is_dir():
        if devices is not None:
            raise InvalidInput(f"--devices must be left out with a folder of tables, got {devices}")
        parts = read_folder(tables)
        say_left_out(screen, tables)
    else:
        parts = dealt_out(read_file(tables), devices or study.least_participants, rng)
    empty = [name for name, part in parts.items() if not len(part)]
    roster = made_up_roster(study, parts, empty) if roster_file is None else load_roster(roster_file)
    if helping := set(empty) & set(roster.helpers):
        screen.remark(f"note: without rows, so they only help: {', '.join(sorted(helping))}")
    rehearsed = Rehearsed(study, roster)
    policy = Policy() if policy_file is None else load_policy(policy_file)
    if ledgers is not None and roster_file is None:
        screen.remark("note: without --roster nothing is said of disclosure groups: their keys are made up")
    refusals = rehearsed.approve(parts, policy, None if ledgers is None else copied_ledgers(ledgers, parts))
    for name, found in rehearsed.findings.items():
        for finding in found:
            screen.remark(f"{name} would be asked ({finding.kind}): {printable(finding.words)}")
    for name, reason in refusals.items():
        screen.remark(f"{name} would refuse: {printable(reason)}")
    for pod in roster.pods:
        if (absent := pod - set(rehearsed.snapshots)) and pod - absent:
            named, because = (", ".join(sorted(who)) for who in (pod - absent, absent))
            screen.remark(f"left out with their disclosure group, because of {because}: {named}")
    if len(rehearsed.snapshots) < study.least_participants:
        raise InvalidInput(
            f"the study must have at least {study.least_participants} devices (least_participants) that take part, got"
            f" {len(rehearsed.snapshots)}"
        )
    folder = make_folder("--out", out or Path("results") / f"rehearse-{study_file.stem}")
    timing = alike_devices if fleet is None else _fleet_timing(fleet)
    with screen.busy(f"rehearsing {study.name}") as say:

        def on_epoch(epoch: int, seconds: float) -> None:
            del seconds
            say(f"exchange {epoch}")

        losses = _first_of(parts, gone)
        done = rehearse(rehearsed, rng, timing, on_epoch=on_epoch, gone=losses, folder=folder, before=before)
    run_page, model_file = write_run_page(folder), folder / MODEL_FILE
    clipped = _clipped(study, rehearsed.snapshots.values())
    if clipped:
        screen.remark(f"warning: clipped to the study's ranges: {clipped.words(study.table_columns.names)}")
    findings = done.findings
    page = write_results(folder, study, findings, rehearsed.owners, roster.owners, rehearsal=True)
    screen.write_json(
        {
            "command": "study rehearse",
            **findings_json(study, findings),
            "devices": min(map(len, rehearsed.owners.values())),
            "score_name": score_name(study.task),
            "epochs": done.epochs,
            "virtual_seconds": done.seconds,
            "model": None if findings.model is None else str(model_file),
        }
    )
    show_findings(
        screen,
        study,
        findings,
        devices_fact(roster, rehearsed.owners),
        ("exchanges", f"{done.epochs}" + (f", {seconds_text(done.seconds)} on the fleet {fleet!r}" if fleet else "")),
        *([] if findings.model is None else [("model", str(model_file))]),
        ("results", str(page)),
        ("the run", str(run_page)),
    )
    if study.noise is not None:
        screen.say()
        screen.sentence(study.noise.sentence())
    leave_without_models(screen, findings)


def _fleet_timing(name: str) -> MakeDelay:
    entry = additions(TIMINGS).get("fleet")
    if entry is None:
        raise InvalidInput(f"--fleet must be left out without codedfl-lab (pip install codedfl-lab), got {name!r}")
    made: MakeDelay = load_addition(entry, "timing")(name)
    return made


def _clipped(study: Study, snapshots: Iterable[Snapshot]) -> Clipped:
    total = Clipped(np.zeros(len(study.columns), dtype=np.int64))
    for one in snapshots:
        total = total + one.clipped
    return total


def _first_of(names: Iterable[str], share: float) -> list[str]:
    """That share of them, rounded up, in the order of the alphabet."""
    ordered = sorted(names)
    return ordered[: math.ceil(share * len(ordered))]


def say_left_out(screen: Screen, tables: Path | None) -> None:
    """Name what is in a folder of tables and not read."""
    if tables is not None and tables.is_dir() and (others := no_tables(tables)):
        how = " (save sheets as CSV UTF-8)" if any(one.lower().endswith((".xlsx", ".xls")) for one in others) else ""
        screen.remark(f"note: no table files, so left out of {tables}: {', '.join(others)}{how}")
