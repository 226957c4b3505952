"""``codedfl reproduce``: the paper's figures, headline numbers and claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import click
import typer
from rich.text import Text

from codedfl.cli import options
from codedfl.cli.screen import INTERRUPTED, Screen, make_folder, table
from codedfl.data import datasets
from codedfl.report import headline, write_beyond_report, write_report
from codedfl.report.noise_page import HEADINGS, noise_cells, write_noise_report
from codedfl.report.tables import comparison_table
from codedfl.study import paper
from codedfl.study.beyond import reproduce_beyond
from codedfl.study.noise import FEATURES, reproduce_noise
from codedfl.study.paper import EXPERIMENTS
from codedfl.study.reproduce import reproduce
from codedfl.study.results import Claim, Results

ALL = "all"
BEYOND = "beyond"
NOISE = "noise"
SEEDS = 5
NOISE_SEEDS = 3
QUICK_SEEDS = 1
QUICK_FEATURES = 500
QUICK_ROWS = 10_000
_VERDICTS = {True: "holds", False: "fails", None: "not judged"}


def reproduce_paper(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", click_type=click.Choice([*EXPERIMENTS, BEYOND, NOISE, ALL]))],
    seeds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Feature seeds, from 0 on.", show_default="5, noise 3; 1 with --quick"),
    ] = None,
    draws: Annotated[int, typer.Option(min=1, metavar="N", help="Latencies drawn for each.")] = 100,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"A first look with {QUICK_FEATURES} features and {QUICK_ROWS} rows: not the paper's numbers.",
        ),
    ] = False,
    data_dir: options.DataDir = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Each data set gets a folder in it.", rich_help_panel=options.OUTPUT)
    ] = Path("results"),
    json: options.Json = None,
) -> None:
    """Reproduce the paper's Figures 1a and 1b, its headline numbers and its claims; then go beyond them.

    NAME is mnist (Figure 1a), fashion-mnist (Figure 1b), all (both); beyond: coded keys, Krylov solvers, the one-shot
    floor and large fleets; or noise: accuracy against epsilon, membership tests and an audit.

    Writes results.json, traces.csv, the figure and a report to DIR/NAME. Takes some minutes a data set; Ctrl-C keeps
    the data sets that were finished.
    """
    screen = Screen(json)
    make_folder("--out", out)
    if name == NOISE:
        _noise(screen, range(seeds or (QUICK_SEEDS if quick else NOISE_SEEDS)), quick, data_dir, context.obj, out)
        return
    count = seeds or (QUICK_SEEDS if quick else SEEDS)
    finished: list[Results] = []
    for one in list(EXPERIMENTS) if name == ALL else [name]:
        try:
            results = _run(screen, one, range(count), draws, quick, data_dir, context.obj)
        except KeyboardInterrupt:
            kept = ", ".join(str(out / each.name) for each in finished)
            screen.remark(f"interrupted at {one}: {f'kept {kept}' if finished else 'nothing was finished'}")
            raise typer.Exit(INTERRUPTED) from None
        (write_beyond_report if one == BEYOND else write_report)(out / one, results)
        (_show_beyond if one == BEYOND else _show)(screen, results, out / one)
        finished.append(results)
    if quick:
        screen.remark(
            "note: a quick look on fewer features and rows: no headline can be reached; the paper's claims are about"
            " the whole"
        )
    screen.write_json({"command": "reproduce", "experiments": [each.to_json() for each in finished]})


def _run(
    screen: Screen, name: str, seeds: Sequence[int], draws: int, quick: bool, data_dir: Path | None, command: str
) -> Results:
    for one in EXPERIMENTS.values() if name == BEYOND else [EXPERIMENTS[name]]:
        with screen.fetching() as fetched:
            datasets.fetch_dataset(one.dataset, data_dir, fetched)
    study: Callable[..., Results] = reproduce_beyond if name == BEYOND else partial(reproduce, name)
    with screen.progress() as bar:
        task = bar.add_task(name, total=1.0)
        return study(
            seeds=seeds,
            draws=draws,
            data_dir=data_dir,
            n_features=QUICK_FEATURES if quick else paper.FEATURES,
            rows=QUICK_ROWS if quick else None,
            command=command,
            progress=lambda what, part: bar.update(task, description=f"{name}, {what}", completed=part),
        )


def _noise(screen: Screen, seeds: Sequence[int], quick: bool, data_dir: Path | None, command: str, out: Path) -> None:
    for one in EXPERIMENTS.values():
        with screen.fetching() as fetched:
            datasets.fetch_dataset(one.dataset, data_dir, fetched)
    with screen.progress() as bar:
        task = bar.add_task(NOISE, total=1.0)
        results = reproduce_noise(
            seeds=seeds,
            data_dir=data_dir,
            features=(QUICK_FEATURES,) if quick else FEATURES,
            rows=QUICK_ROWS if quick else None,
            command=command,
            progress=lambda what, part: bar.update(task, description=f"{NOISE}, {what}", completed=part),
        )
    files = write_noise_report(out / NOISE, results)
    shown = table(*HEADINGS)
    for cells in noise_cells(results.rows):
        shown.add_row(*cells)
    screen.show(shown)
    for holds, statement in results.verdicts:
        screen.say(f"{_VERDICTS[holds]}: {statement}")
    screen.files(sorted(files.values()))
    screen.write_json({"command": "reproduce", "experiments": [results.to_json()]})


def _show_beyond(screen: Screen, results: Results, folder: Path) -> None:
    for name, experiment in EXPERIMENTS.items():
        whole = [row for row in results.schemes if row.dataset == name and not row.chunked]
        screen.show(comparison_table(whole, experiment.headline_target, title=experiment.dataset))
        screen.say()
    _show_claims(screen, results.claims, "What this study set out to reach:")
    _show_files(screen, results, folder)


def _show(screen: Screen, results: Results, folder: Path) -> None:
    target = results.targets[-1]
    screen.show(comparison_table(results.schemes, target, title=results.title, score_name=results.score_name))
    screen.say()
    screen.sentence(headline(results))
    screen.say()
    _show_claims(screen, results.claims, "What the paper says:")
    _show_files(screen, results, folder)


def _show_files(screen: Screen, results: Results, folder: Path) -> None:
    took = results.seconds
    screen.say(f"Wrote, after {took.total:.0f} s of which {100 * took.share:.0f} % were linear algebra:")
    screen.files(sorted(folder.iterdir()))
    screen.say()


def _show_claims(screen: Screen, claims: Sequence[Claim], title: str) -> None:
    screen.say(title)
    shown = table("", "claim and evidence", left=2)
    shown.columns[1].no_wrap = False
    for claim in claims:
        style = "bold red" if claim.holds is False else None
        shown.add_row(_VERDICTS[claim.holds], Text(claim.statement), style=style)
        shown.add_row("", Text(claim.evidence), style="dim")
    screen.show(shown)
    holding = sum(claim.holds is True for claim in claims)
    screen.say(f"{holding} of {len(claims)} claims hold.")
    screen.say()
