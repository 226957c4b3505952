"""``codedfl study``: draft a study file, try it on a table, read it in plain words, approve it; and train by one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, get_args

import click
import numpy as np
import typer
from rich.text import Text

from codedfl.cli import options
from codedfl.cli.screen import Screen, check_writable, make_folder, score_name, table
from codedfl.cli.study_result import score_facts, show_inference, show_tables
from codedfl.consent.approvals import approve
from codedfl.consent.words import explain
from codedfl.data.datasets.dataset import Task
from codedfl.data.problem import Problem
from codedfl.data.score_sums import ClassScore, NumberScore
from codedfl.data.studies import Study, load_study
from codedfl.data.studies.check import TableCheck, check_table
from codedfl.data.studies.draft import PARTICIPANTS, draft_study
from codedfl.data.tables import read_file
from codedfl.errors import InvalidInput
from codedfl.files import write_text
from codedfl.fleet.fleet import Fleet
from codedfl.report.rows import seconds as seconds_text
from codedfl.report.run_page import write_run_page
from codedfl.run.inference import Inference, infer
from codedfl.run.study_rehearsal import dealt_out, no_tables, read_folder, rehearse_study
from codedfl.schemes import Conditions
from codedfl.schemes.of_study import inference_scheme_of, scheme_of

app = typer.Typer(help="Write, check, read and approve study files.", no_args_is_help=True)

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file (TOML).")]


@app.command("new")
def new(
    sample: Annotated[Path, typer.Argument(metavar="TABLE", help="A table like those that the devices have.")],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")],
    columns: Annotated[
        str, typer.Option(metavar="A,B", help="Columns to learn from.", show_default="all but the target")
    ] = "",
    drop: Annotated[str, typer.Option(metavar="A,B", help="Columns to leave out.")] = "",
    participants: Annotated[int, typer.Option(min=3, help="Least number of devices.")] = PARTICIPANTS,
    task: Annotated[
        Task | None,
        typer.Option(
            click_type=click.Choice(list(get_args(Task))), help="What the target is for.", show_default="a guess"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the study goes.")] = Path("study.toml"),
) -> None:
    """Draft a study file from a sample, with a comment on every choice. Read it before you hand it on."""
    screen = Screen()
    check_writable("--out", out)
    if out.exists():
        raise InvalidInput(f"--out must be a new file, got {str(out)!r}, which exists")
    if columns and drop:
        raise InvalidInput(f"--drop must be left out with --columns, which says it all, got {drop!r}")
    text = draft_study(
        read_file(sample),
        target,
        sample.name.partition(".")[0],
        _names(drop),
        participants,
        task,
        keep=_names(columns) or None,
    )
    write_text(out, text)
    screen.say(f"wrote {out}: read every line, change what is wrong, then try codedfl study check {out} {sample}")


@app.command("check")
def check(
    study: StudyFile,
    data: Annotated[Path, typer.Argument(metavar="TABLE", help="Your table; it stays on this machine.")],
    json: options.Json = None,
) -> None:
    """Say what of a table would be clipped, missing or unknown. Nothing leaves this machine."""
    screen = Screen(json)
    found = check_table(load_study(study), read_file(data))
    _show_check(screen, found)
    screen.write_json({"command": "study check", **asdict(found), "usable": found.usable})
    if not found.usable:
        raise typer.Exit(2)


@app.command("show")
def show(
    study: StudyFile,
    fleet_name: options.FleetName = "paper",
    devices: Annotated[
        int | None,
        typer.Option(metavar="D", help="Number of devices.", show_default="least_participants of the study"),
    ] = None,
    json: options.Json = None,
) -> None:
    """Say in plain words and numbers what leaves a machine, who sees what, and how long it takes."""
    screen = Screen(json)
    loaded = load_study(study)
    fleet = Fleet.load(fleet_name).scaled_to(devices or loaded.least_participants)
    sections = explain(loaded, fleet)
    screen.say(f"{loaded.name}, with {fleet.n_devices} devices")
    for section in sections:
        screen.say()
        screen.say(section.question)
        for answer in section.answers:
            screen.say(f"  - {answer}")
    answers = [asdict(section) for section in sections]
    screen.write_json({"command": "study show", "digest": loaded.digest().hex(), "answers": answers})


@app.command("approve")
def approve_study(
    study: StudyFile,
    who: Annotated[str, typer.Option(metavar="NAME", help="Who approves it.")],
    file: Annotated[Path, typer.Option(metavar="FILE", help="Where this machine keeps its approvals.")] = Path(
        "approvals.toml"
    ),
) -> None:
    """Record that this machine may take part in exactly this study."""
    screen = Screen()
    check_writable("--file", file)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    approval = approve(load_study(study), file, who=who, when=now)
    screen.say(f"{approval.study} ({approval.digest[:16]}...) is approved by {approval.who} since {approval.when}")


def train_study(
    study_file: Path,
    tables: Path | None,
    fleet_name: str,
    devices: int | None,
    seed: int,
    out: Path | None,
    json: str | None,
    gone: float,
) -> None:
    """What ``codedfl train STUDY --tables PATH`` does: the real protocol on a folder of tables, or on one table."""
    screen = Screen(json)
    study = load_study(study_file)
    if tables is None:
        raise InvalidInput("--tables must name a folder of one table a device, or one table, got none")
    rng = np.random.default_rng(seed)
    if tables.is_dir():
        if devices is not None:
            raise InvalidInput(f"--devices must be left out with a folder of tables, got {devices}")
        parts = read_folder(tables)
        if others := no_tables(tables):
            screen.remark(f"note: no table files, so left out of {tables}: {', '.join(others)}")
    else:
        parts = dealt_out(read_file(tables), devices or study.least_participants, rng)
    folder = make_folder("--out", out or Path("results") / f"train-{study_file.stem}")
    fleet = Fleet.load(fleet_name).scaled_to(len(parts))
    scheme = scheme_of(study, len(parts))
    with screen.busy(f"training {study.name}") as say:

        def on_epoch(epoch: int, seconds: float, score: float) -> None:
            say(f"epoch {epoch}, score {score:.4f}, fleet time {seconds_text(seconds)}")

        done = rehearse_study(study, parts, scheme, Conditions(fleet), rng, on_epoch, _first_of(parts, gone), folder)
    page = write_run_page(folder)
    problem = done.problem
    if problem.clipped:
        counts = problem.clipped.words(problem.recipe.column_names)
        screen.remark(f"warning: clipped to the study's ranges: {counts}")
    model_file = folder / "model.safetensors"
    done.model.save(model_file)
    inference, no_inference = _inferred(study, problem)
    found = done.score
    name = score_name(problem.task)
    score = found.value
    screen.facts(
        [
            ("study", f"{study.name}, {study.digest().hex()[:16]}..."),
            ("tables", f"{problem.n_devices} devices, {problem.n_samples} rows to train on"),
            *score_facts(found),
            *([("scored by", f"{done.scored} of {problem.n_devices} devices")] if gone else []),
            ("fleet time", f"{seconds_text(float(done.trace.seconds[-1]))}, {done.trace.epochs[-1]} epochs"),
            ("model", str(model_file)),
            ("page", str(page)),
        ]
    )
    screen.write_json(
        {
            "command": "train",
            "study": study.name,
            "digest": study.digest().hex(),
            "devices": problem.n_devices,
            "train_rows": problem.n_samples,
            "test_rows": found.rows,
            "scored_devices": done.scored,
            "score_name": name,
            "score": score,
            "mean_absolute_error": found.mean_absolute_error if isinstance(found, NumberScore) else None,
            "confusion": found.confusion.tolist() if isinstance(found, ClassScore) else None,
            "auc": found.auc if isinstance(found, ClassScore) else None,
            "calibration": found.calibration if isinstance(found, ClassScore) else None,
            "epochs": int(done.trace.epochs[-1]),
            "virtual_seconds": float(done.trace.seconds[-1]),
            "clipped": problem.clipped.total,
            "model": str(model_file),
            "coefficients": None if inference is None else inference.to_dicts(),
            "no_inference": no_inference,
        }
    )
    show_tables(screen, found, problem.recipe)
    show_inference(screen, inference, no_inference)
    if study.noise is not None:
        screen.say()
        screen.sentence(study.noise.sentence())


def _inferred(study: Study, problem: Problem) -> tuple[Inference | None, str]:
    """Or why there is none: columns that depend on each other cost neither the model nor its score."""
    if not study.inference:
        return None, ""
    try:
        return infer(problem, inference_scheme_of(study, problem.n_devices)), ""
    except InvalidInput as error:
        return None, str(error)


def _first_of(names: Iterable[str], share: float) -> list[str]:
    """So many of them, rounded up, in the order of the alphabet."""
    ordered = sorted(names)
    return ordered[: math.ceil(share * len(ordered))]


def _show_check(screen: Screen, found: TableCheck) -> None:
    shown = table("column", "kind", "clipped", "missing", "unknown", "in the table")
    for one in found.columns:
        counts = (str(count) if count else "-" for count in (one.n_clipped, one.n_missing, one.n_unknown))
        shown.add_row(Text(one.name), one.kind, *counts, Text(one.seen))
    screen.show(shown)
    for line in (*found.objections, *(one.objection for one in found.columns if one.objection)):
        screen.remark(f"cannot be used: {line}")
    verdict = "can take part" if found.usable else "cannot take part as it is"
    screen.say(f"{found.table}: {found.rows} row{'s' * (found.rows != 1)}, {verdict}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
