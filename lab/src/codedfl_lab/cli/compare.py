"""``codedfl lab compare``: the paper's schemes on one data set and one fleet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, cast, get_args

import click
import typer

from codedfl.cli import options as common
from codedfl.cli.exit_codes import INTERRUPTED
from codedfl.cli.output_files import make_folder
from codedfl.cli.screen import Screen, score_name
from codedfl.cli.settings import in_settings
from codedfl.errors import CodedFLError, InvalidInput
from codedfl.solve.descent import DERIVED
from codedfl_lab.cli import inputs, options
from codedfl_lab.cli.inputs import Inputs
from codedfl_lab.cli.scheme_choice import DEVICES, FEATURES, RaceOptions, scaled_said
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import CENTRAL_MODELS, Entry, Settings, Trained, draw_latencies, seed_job
from codedfl_lab.comparing.parallel import in_parallel, jobs_at_once
from codedfl_lab.comparing.results import Results, SchemeResult, Took
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.clock import StragglerPolicy
from codedfl_lab.fleet.latency import SharingConvention
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.report.fastest import leading_of
from codedfl_lab.report.files import write_report, write_sweep
from codedfl_lab.report.html import headline
from codedfl_lab.report.rows import kinds
from codedfl_lab.report.sweep import sweep_tables
from codedfl_lab.report.tables import comparison_table
from codedfl_lab.reproduce.scope import software_versions

in_comparison = partial(typer.Option, rich_help_panel="Comparison")
# What separates the schemes and conventional FL still reaches.
TARGETS = {"digits": (0.95, 0.97), "digits-shifted": (0.90, 0.93), "mnist": (0.90, 0.95), "fashion-mnist": (0.80, 0.85)}

NOTES = (
    "Times are virtual: what the fleet would take by the latency model, not what this machine took.",
    CENTRAL_MODELS,
)


def compare_schemes(
    context: typer.Context,
    data_options: options.DataOptions,
    model: options.ModelOptions,
    fleet: options.FleetOptions,
    race: RaceOptions,
    data: common.Data = "digits",
    seeds: Annotated[int, in_comparison(min=1, metavar="N", help="Feature seeds to repeat it over.")] = 3,
    draws: Annotated[int, in_comparison(min=1, metavar="N", help="Latencies drawn for each.")] = 200,
    epochs: Annotated[
        int, in_settings(min=1, metavar="N", help="Give a scheme up after this number of epochs.")
    ] = 1000,
    targets: Annotated[
        str | None,
        in_comparison(
            "--reach",
            metavar="A,B,...",
            help="Test scores to reach, such as 0.9,0.95; the last is the headline. A file has no default.",
            show_default="0.95,0.97 digits; 0.9,0.93 digits-shifted; 0.9,0.95 mnist; 0.8,0.85 fashion-mnist",
        ),
    ] = None,
    sharing: options.SharingOrAll = None,
    policy: Annotated[
        str,
        in_settings(
            "--stragglers",
            click_type=click.Choice(list(get_args(StragglerPolicy))),
            help="What a straggler does when a newer update comes: drop its work, or finish it first.",
        ),
    ] = "restart",
    seed: options.Seed = 0,
    out: Annotated[
        Path | None,
        common.in_output(
            metavar="DIR", help="Where report, figure and tables go.", show_default="results/compare-NAME"
        ),
    ] = None,
    json: common.Json = None,
) -> None:
    """Compare schemes: which reaches a score first on this fleet.

    DATA is digits, digits-shifted, mnist, fashion-mnist, or a .npz, .csv or .parquet file.

    Conventional FL, dropping the slowest, the paper's coded scheme, coded keys, role keys and CodedFedL, or those you
    name, in simulated time, over feature seeds and many draws of the latency. Every descent takes a step that follows
    from the data, by one rule for all. Ctrl-C keeps the seeds that were finished.

    Example: `codedfl lab compare digits`
    """
    began = time.perf_counter()
    screen = Screen(json)
    dataset = inputs.load_data(screen, data, data_options)
    folder = make_folder("--out", inputs.results_folder(out, "compare", data))
    wanted = _targets(dataset, targets)
    every = get_args(SharingConvention)
    cases = _cases(dataset, data_options, model, fleet, race)
    one = sharing or options.usual_sharing(cases[0][1].fleet)
    conventions = cast("tuple[SharingConvention, ...]", every if sharing == options.ALL_SHARING else (one,))
    found: list[Results] = []
    written: list[Path] = []
    interrupted = ""
    for name, chosen, entries in cases:
        settings = Settings(
            Conditions(chosen.fleet, policy=cast(StragglerPolicy, policy)),
            wanted,
            conventions=conventions,
            draws=draws,
            max_epochs=epochs,
            regularisation=chosen.regularisation,
            latency_seed=seed,
        )
        started = time.perf_counter()
        trained, stopped = trained_seeds(screen, chosen, entries, settings, range(seed, seed + seeds))
        if stopped:
            interrupted = f"interrupted: these are {len(trained)} of {seeds} feature seeds"
        if trained:
            with screen.busy("latencies"):
                results = results_of(chosen, entries, settings, Trained.joined(trained), context.obj, started)
            if not results.traces:
                why = next(row.reason for row in results.schemes)
                raise CodedFLError(f"no scheme can be compared on {dataset.name}{name and f' with {name}'}: {why}")
            found.append(results)
            with screen.busy("report"):
                files = write_report(folder / name, results)
            written += [files["report.html"]] if name else files.values()
        if stopped:
            break
    if not found:
        screen.remark("interrupted before the first feature seed was finished: there is nothing to keep")
        raise typer.Exit(INTERRUPTED)
    if race.swept is None:
        _show(screen, found[0])
        chosen, entries = cases[0][1:]
        said = [*options.sharing_said(chosen.fleet, sharing), *scaled_said(entries, chosen.fleet.n_devices)]
        for line in said:
            screen.sentence(line)
        if said:
            screen.say()
    else:
        written += write_sweep(folder, race.swept.name, found).values()
        for table in sweep_tables(race.swept.name, found):
            screen.show(table)
            screen.say()
    screen.say(f"Wrote, after {time.perf_counter() - began:.0f} s:")
    screen.files(dict.fromkeys(written))
    several = {"command": "lab compare", "sweep": race.sweep, "results": [each.to_json() for each in found]}
    screen.write_json(found[0].to_json() if race.swept is None else several)
    if interrupted:
        screen.remark(interrupted + (f", and {len(found)} of {len(cases)} values" if len(cases) > 1 else ""))
        raise typer.Exit(INTERRUPTED)


def _cases(
    dataset: Dataset,
    data: options.DataOptions,
    model: options.ModelOptions,
    fleet: options.FleetOptions,
    race: RaceOptions,
) -> list[tuple[str, Inputs, list[Entry]]]:
    """What to run, all of it checked before anything is: one race, or one for each D or d with a folder of its own."""
    swept = race.swept
    sized = swept is not None and not swept.of_schemes
    if swept is not None and swept.name == DEVICES:
        common.refuse_unread("--devices", fleet.devices, "--sweep D")
    if swept is not None and swept.name == FEATURES:
        common.refuse_unread("--n-features", model.n_features, "--sweep d")
    cases = []
    for value in swept.values if swept is not None and sized else (None,):
        its_fleet = replace(fleet, devices=value) if swept is not None and swept.name == DEVICES else fleet
        its_model = replace(model, n_features=value) if swept is not None and swept.name == FEATURES else model
        chosen = Inputs(dataset, inputs.choose_fleet(dataset, data, its_fleet), data, its_model)
        step = race.step or (paper.STEP if chosen.is_the_paper_s else DERIVED)
        name = f"{swept.name}={value}" if swept is not None and sized else ""
        cases.append((name, chosen, race.entries(chosen.fleet.n_devices, step)))
    return cases


def trained_seeds(
    screen: Screen, chosen: Inputs, entries: Sequence[Entry], settings: Settings, seeds: Sequence[int]
) -> tuple[list[Trained], bool]:
    """The seeds that were finished, and whether Ctrl-C ended it before all were."""
    trained: list[Trained] = []
    try:
        with screen.progress() as bar:
            task = bar.add_task("", total=1.0)

            def report(what: str, fraction: float) -> None:
                bar.update(task, description=what, completed=fraction)

            jobs = [seed_job(chosen.problem, seed, entries, settings) for seed in seeds]
            for one in in_parallel(jobs, report):
                trained.append(one)  # one by one: Ctrl-C keeps those that were finished
    except KeyboardInterrupt:
        return trained, True
    return trained, False


def results_of(
    chosen: Inputs, entries: Sequence[Entry], settings: Settings, together: Trained, command: str, began: float
) -> Results:
    """Latencies drawn for what was trained; ``command`` and ``began`` are put down with it."""
    dataset, fleet = chosen.dataset, chosen.fleet
    schemes, traces = draw_latencies(dataset.name, together, entries, settings)
    made = Results(
        name=f"compare-{dataset.name}",
        title=f"{dataset.name} on the fleet {fleet.name!r}",
        dataset=dataset.name,
        command=command,
        fleet=fleet.name,
        n_devices=fleet.n_devices,
        n_features=together.shape.n_features,
        n_samples=len(dataset.y_train),
        seeds=tuple(together.seeds),
        draws=settings.draws,
        targets=settings.targets,
        headline_target=settings.targets[-1],
        score_name=score_name(dataset.task),
        schemes=schemes,
        notes=NOTES,
        seconds=Took(time.perf_counter() - began, together.seconds / jobs_at_once(len(together.seeds))),
        versions=software_versions(),
        traces=traces,
    )
    return replace(made, from_zero=from_zero(made, entries, settings, together))


def from_zero(
    made: Results, entries: Sequence[Entry], settings: Settings, together: Trained
) -> tuple[SchemeResult, ...]:
    """The leading rows, with what was done before the call charged too."""
    leading = {(one.entry.label, one.entry.solver, one.entry.step) for one in leading_of(made)}
    again = [one for one in entries if (one.scheme.label, one.solver_name, one.step) in leading]
    at = settings.conditions[0].from_zero
    charged = replace(settings, at=at, conventions=(), targets=settings.targets[-1:])
    return draw_latencies(made.dataset, together, again, charged)[0]


def _show(screen: Screen, results: Results) -> None:
    schemes, target, score = results.schemes, results.targets[-1], results.score_name
    tables = kinds(schemes)
    for sharing, step in tables:
        screen.show(
            comparison_table(schemes, target, title=results.title, sharing=sharing, step=step, score_name=score)
        )
        screen.say()
    screen.sentence(headline(results))
    screen.say()
    for leader in leading_of(results):
        screen.sentence(leader.sentence)
    screen.say()


def _targets(data: Dataset, text: str | None) -> tuple[float, ...]:
    if text is None:
        if data.name not in TARGETS:
            raise InvalidInput(f"--reach must be given for {data.name!r}, such as 0.8,0.9; got none")
        return TARGETS[data.name]
    try:
        targets = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--reach must be numbers with commas between, got {text!r}") from None
    if not all(0 < target <= 1 for target in targets) or list(targets) != sorted(set(targets)):
        raise InvalidInput(f"--reach must ascend and lie above 0 and up to 1, got {text!r}")
    return targets
