"""``codedfl lab reproduce``: the paper's figures, headline numbers and claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import click
import typer
from rich.text import Text

from codedfl.cli import options as common
from codedfl.cli.exit_codes import INTERRUPTED
from codedfl.cli.output_files import make_folder
from codedfl.cli.screen import Screen, table
from codedfl.data.encoders import load_encoder
from codedfl.errors import InvalidInput
from codedfl.report.text import number
from codedfl.typing import Progress
from codedfl_lab import datasets
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.results import Claim, Preparation, Racer, Results, Timed, Took
from codedfl_lab.report.arithmetic_page import arithmetic_headline, arithmetic_table, write_arithmetic_report
from codedfl_lab.report.beyond_page import (
    COLUMN_WORDS,
    GOALS,
    PEER_HEADS,
    peer_lines,
    prepared_lines,
    racer_words,
    scaling_lines,
)
from codedfl_lab.report.files import write_beyond_report, write_report
from codedfl_lab.report.fleets_page import HEADINGS as FLEET_HEADINGS
from codedfl_lab.report.fleets_page import fleet_cells, losses, write_fleets_report
from codedfl_lab.report.frozen_page import HEADINGS as FROZEN_HEADINGS
from codedfl_lab.report.frozen_page import SHOWN, frozen_cells, verdicts, write_frozen_report
from codedfl_lab.report.html import headline
from codedfl_lab.report.noise_page import HEADINGS, noise_cells, write_noise_report
from codedfl_lab.report.rows import dataset_name
from codedfl_lab.report.tables import comparison_table
from codedfl_lab.reproduce.arithmetic import SMALL, ArithmeticResults, reproduce_arithmetic
from codedfl_lab.reproduce.beyond import reproduce_beyond
from codedfl_lab.reproduce.fleets import SIZES, FleetsResults, reproduce_fleets
from codedfl_lab.reproduce.frozen_data import frozen_on
from codedfl_lab.reproduce.frozen_results import FrozenResults, FrozenSizes
from codedfl_lab.reproduce.noise import FEATURES, NoiseResults, reproduce_noise
from codedfl_lab.reproduce.reproduce import reproduce
from codedfl_lab.reproduce.scope import ClaimScope

Found = Results | ArithmeticResults | NoiseResults | FrozenResults | FleetsResults

ALL = "all"
ARITHMETIC = "arithmetic"
BEYOND = "beyond"
NOISE = "noise"
FROZEN = "frozen"
FLEETS = "fleets"
SEEDS = 5
NAMES = [*EXPERIMENTS, ALL, ARITHMETIC, BEYOND, FLEETS, NOISE, FROZEN]
NOISE_SEEDS = 3
DRAWS = 100
QUICK_SEEDS = 1
QUICK_FEATURES = 500
QUICK_ROWS = 10_000


def reproduce_paper(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", click_type=click.Choice(NAMES))],
    seeds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Feature seeds, from 0 on.", show_default="5, noise 3; 1 with --quick"),
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Latencies drawn for each.", show_default=str(DRAWS))
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"A first look with {QUICK_FEATURES} features and {QUICK_ROWS} rows: not the paper's numbers. With"
            " arithmetic, the small sizes only.",
        ),
    ] = False,
    data_dir: common.DataDir = None,
    encoder: Annotated[
        Path | None,
        common.in_data(
            metavar="FILE", help="Of frozen: an encoder's file (codedfl lab data encoder efficientnet-lite0)."
        ),
    ] = None,
    narrower: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Of frozen: an encoder of the same pictures to fewer numbers, whose one upload stands beside. May be"
            " repeated.",
        ),
    ] = None,
    gradient_seeds: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Of frozen: seeds of the gradient methods.", show_default="as many as --seeds"
        ),
    ] = None,
    out: Annotated[Path, common.in_output(metavar="DIR", help="Each data set gets a folder in it.")] = Path("results"),
    json: common.Json = None,
) -> None:
    """Reproduce the paper's Figures 1a and 1b, its headline numbers and its claims; then go beyond them.

    NAME is mnist (Figure 1a), fashion-mnist (Figure 1b), all (both); arithmetic: the paper's own fixed-point system
    beside ours, Propositions 1 to 3 one by one; beyond: coded keys, Krylov solvers, the one-shot floor and large
    fleets; fleets: who wins where stragglers have heavy tails, share places, come and go, or drift; noise: accuracy
    against epsilon, membership tests and an audit; or frozen: heads on frozen features of CIFAR-10 (or of mails, if
    --encoder names an encoder of texts) beside FedAvg, FedProx and Scaffold.

    Writes results.json, traces.csv, the figure and a report to DIR/NAME. Takes some minutes per data set; Ctrl-C keeps
    the data sets that were finished. Frozen takes hours: it keeps every finished part in DIR/frozen/parts, and the same
    command continues from there.

    Example: `codedfl lab reproduce arithmetic --quick`
    """
    screen = Screen(json)
    for option, value, unread in (
        ("--seeds", seeds, (ARITHMETIC,)),
        ("--draws", draws, (ARITHMETIC, NOISE)),
        ("--encoder", encoder, tuple(one for one in NAMES if one != FROZEN)),
        ("--narrower", narrower or None, tuple(one for one in NAMES if one != FROZEN)),
        ("--gradient-seeds", gradient_seeds, tuple(one for one in NAMES if one != FROZEN)),
    ):
        if value is not None and name in unread:
            raise InvalidInput(f"{option} must be left out with {name}, which does not read it, got {value}")
    if name == FROZEN and encoder is None:
        raise InvalidInput(
            "--encoder must name an encoder's file: codedfl lab data encoder efficientnet-lite0 makes one"
        )
    make_folder("--out", out if name == ALL else out / name)
    usual = NOISE_SEEDS if name == NOISE else SEEDS
    scope = ClaimScope(
        seeds=range(seeds or (QUICK_SEEDS if quick else usual)),
        draws=draws or DRAWS,
        n_features=QUICK_FEATURES if quick else paper.FEATURES,
        rows=QUICK_ROWS if quick else None,
        data_dir=data_dir,
        command=context.obj,
    )
    sizes = None if quick else FrozenSizes(seeds=len(scope.seeds), gradient_seeds=gradient_seeds, draws=scope.draws)
    finished: list[Found] = []
    for one in list(EXPERIMENTS) if name == ALL else [name]:
        try:
            with screen.progress() as bar:
                task = bar.add_task(one, total=1.0)

                def say(what: str, part: float, one: str = one) -> None:
                    bar.update(task, description=f"{one}, {what}", completed=part)  # noqa: B023 (used at once)

                results = (
                    _study(screen, one, scope, quick, say)
                    if encoder is None
                    else frozen_on(
                        load_encoder(encoder),
                        scope,
                        sizes,
                        say,
                        out / one / "parts",
                        [load_encoder(path) for path in narrower or ()],
                    )
                )
        except KeyboardInterrupt:
            kept = ", ".join(str(out / each.name) for each in finished)
            screen.remark(f"interrupted at {one}: {f'kept {kept}' if finished else 'nothing was finished'}")
            raise typer.Exit(INTERRUPTED) from None
        _show(screen, results, out / one)
        finished.append(results)
    if quick and name not in (ARITHMETIC, NOISE, FROZEN):
        screen.remark(
            "note: a quick look on fewer features and rows: no headline can be reached; the paper's claims are about"
            " the whole"
        )
    screen.write_json({"command": "lab reproduce", "experiments": [each.to_json() for each in finished]})


def _study(screen: Screen, name: str, scope: ClaimScope, quick: bool, say: Progress) -> Found:
    """Fetch the data of a study and run it. Without MNIST the study of arithmetic takes the embedded digits."""
    if name == ARITHMETIC:
        sizes = SMALL if quick else None
        return reproduce_arithmetic(sizes=sizes, data_dir=scope.data_dir, command=scope.command, progress=say)
    for one in [EXPERIMENTS[name]] if name in EXPERIMENTS else EXPERIMENTS.values():
        with screen.fetching() as fetched:
            datasets.fetch_dataset(one.dataset, scope.data_dir, fetched)
    if name == NOISE:
        return reproduce_noise(scope, say, features=(QUICK_FEATURES,) if quick else FEATURES)
    if name == FLEETS:
        return reproduce_fleets(scope, say)
    return reproduce_beyond(scope, say) if name == BEYOND else reproduce(name, scope, say)


def _show(screen: Screen, results: Found, folder: Path) -> None:
    """Write a study down, and say what it found."""
    if isinstance(results, ArithmeticResults):
        write_arithmetic_report(folder, results)
        screen.show(arithmetic_table(results.rows))
        _show_claims(screen, results.claims, arithmetic_headline(results))
    elif isinstance(results, FrozenResults):
        write_frozen_report(folder, results)
        _show_lines(screen, FROZEN_HEADINGS[:SHOWN], [cells[:SHOWN] for cells in frozen_cells(results.rows)], left=3)
        for sentence in verdicts(results):
            screen.sentence(sentence)
    elif isinstance(results, FleetsResults):
        write_fleets_report(folder, results)
        for size in SIZES:
            screen.say(f"\n{size} devices, in simulated time, against the strongest baseline on the same features")
            rows = [row for row in results.rows if row.devices == size]
            _show_lines(screen, FLEET_HEADINGS, fleet_cells(rows), left=3)
        screen.sentence("Where coded schemes do not win:")
        for sentence in losses(results):
            screen.sentence(f"- {sentence}")
    elif isinstance(results, NoiseResults):
        write_noise_report(folder, results)
        _show_lines(screen, HEADINGS, noise_cells(results.rows))
        _show_claims(screen, results.claims, "What this study set out to show:")
    elif results.name == BEYOND:
        write_beyond_report(folder, results)
        for name, experiment in EXPERIMENTS.items():
            whole = [row for row in results.schemes if row.dataset == name and not row.chunked]
            screen.show(comparison_table(whole, experiment.headline_target, title=experiment.dataset))
            screen.say()
        _show_goals(screen, results.goals)
        _show_prepared(screen, results.preparations)
        _show_sizes(screen, results)
        _show_claims(screen, results.claims, "What it rests on:")
    else:
        write_report(folder, results)
        target = results.targets[-1]
        screen.show(comparison_table(results.schemes, target, title=results.title, score_name=results.score_name))
        screen.say()
        screen.sentence(headline(results))
        _show_claims(screen, results.claims, "What the paper says:")
    took = results.seconds
    said = (
        f"{took.total:.0f} s, {took.linear_algebra:.0f} s of it linear algebra"
        if isinstance(took, Took)
        else f"{took:.0f} s"
    )
    screen.say(f"Wrote, after {said}:")
    screen.files(sorted(path for path in folder.iterdir() if path.is_file()))
    screen.say()


def _show_goals(screen: Screen, goals: Sequence[Racer]) -> None:
    """What the study set out to reach, and what it reached from the call and from zero."""
    columns = [COLUMN_WORDS[at.column].replace(" ", "\n", 1) for at in goals[0].columns]
    shown = table("data, scheme", *columns)
    shown.columns[0].no_wrap = False
    for racer in goals:
        missed = any(at.verdict == "missed" for at in racer.columns)
        said = Text("\n".join(racer_words(racer)))
        shown.add_row(said, *map(_reached, racer.columns), style="bold red" if missed else None)
    screen.sentence("Times faster than conventional FL as in the paper; than the strongest baseline; the goal:")
    screen.show(shown)
    screen.sentence(GOALS)
    verdicts = Counter(at.verdict for racer in goals for at in racer.columns if at.goal is not None)
    counted = "; ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    screen.sentence(f"Of {verdicts.total()} goals: {counted}.")


def _reached(at: Timed) -> str:
    """One cell: figures one below the other, so that all fit 80 characters."""
    faster, over = ("–" if one is None else number(one) for one in (at.speedup, at.over_strongest))
    goal = [] if at.goal is None else [f"goal {at.goal:g}", at.verdict.partition(",")[0]]
    return "\n".join([faster, over, *goal])


def _show_prepared(screen: Screen, found: Sequence[Preparation]) -> None:
    """What is done before the call, and what it costs."""
    for label, devices in dict.fromkeys((one.label, one.devices) for one in found):
        screen.say(f"\nBefore the call, mean seconds: {label}, {devices} devices")
        heads, lines = prepared_lines([one for one in found if (one.label, one.devices) == (label, devices)])
        _show_lines(screen, heads, lines)


def _show_sizes(screen: Screen, results: Results) -> None:
    """Other sizes of the fleet, and other secure aggregation beside ours."""
    for name in dict.fromkeys(row.dataset for row in results.scaling):
        heads, lines = scaling_lines([row for row in results.scaling if row.dataset == name])
        screen.say(f"\n{dataset_name(name)} on fleets of other sizes: times faster than conventional FL")
        _show_lines(screen, heads, lines)
    for name in dict.fromkeys(row.dataset for row in results.peers):
        screen.say(f"\n{dataset_name(name)} beside other secure aggregation, one convention for all")
        lines = peer_lines([row for row in results.peers if row.dataset == name])
        _show_lines(screen, [head.replace(" ", "\n") for head in PEER_HEADS], lines, left=2)


def _show_lines(screen: Screen, heads: Sequence[str], lines: Iterable[Sequence[str]], left: int = 1) -> None:
    shown = table(*heads, left=left)
    shown.columns[left - 1].no_wrap = False
    for cells in lines:
        shown.add_row(*map(Text, cells))
    screen.show(shown)


def _show_claims(screen: Screen, claims: Sequence[Claim], title: str) -> None:
    """Each claim once, by the first convention of the results, and what other conventions say of it."""
    screen.say()
    screen.sentence(title)
    shown = table("", "claim and evidence", left=2)
    shown.columns[1].no_wrap = False
    found: dict[tuple[str, str], list[Claim]] = {}
    for claim in claims:
        found.setdefault((claim.statement, claim.dataset), []).append(claim)
    several = len({dataset for _, dataset in found}) > 1
    for (statement, dataset), same in found.items():
        style = "bold red" if same[0].verdict == "fails" else None
        shown.add_row(same[0].verdict, Text(statement), style=style)
        shown.add_row("", Text(f"{dataset}: " * several + same[0].evidence + _elsewhere(same)), style="dim")
    screen.show(shown)
    verdicts = Counter(same[0].verdict for same in found.values())
    counted = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    screen.say(f"Of {len(found)} claims: {counted}.{_by_which(claims)}")
    screen.say()


def _elsewhere(same: Sequence[Claim]) -> str:
    """Such as ". Fails under per-message, multicast; ..."; nothing where no other convention changes the verdict."""
    other: dict[str, list[str]] = {}
    for claim in same[1:]:
        if claim.verdict != same[0].verdict:
            other.setdefault(claim.verdict, []).append(f"{claim.sharing}{', charged' * bool(claim.charged)}")
    return "".join(f". {verdict.capitalize()} by: {'; '.join(where)}" for verdict, where in other.items())


def _by_which(claims: Sequence[Claim]) -> str:
    first = next((claim for claim in claims if claim.charged is False), None)
    if first is None:
        return ""
    return f" Sharing {first.sharing}, pads and sealing free; other conventions are named where they differ."
