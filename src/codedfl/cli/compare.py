"""``codedfl compare``: the paper's schemes on one data set and one fleet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast, get_args

import click
import typer

from codedfl.cli import inputs, options
from codedfl.cli.conclusion import conclusion
from codedfl.cli.inputs import Inputs
from codedfl.cli.scheme_choice import paper_entries
from codedfl.cli.screen import INTERRUPTED, Screen, make_folder, score_name
from codedfl.data.datasets import Dataset
from codedfl.errors import InvalidInput
from codedfl.fleet.clock import StragglerPolicy
from codedfl.fleet.latency import SharingConvention
from codedfl.report import write_report
from codedfl.report.leaders import leading_four
from codedfl.report.tables import comparison_table
from codedfl.study import paper
from codedfl.study.comparison import CENTRAL_MODELS, Settings, Trained, draw_latencies, train_seeds
from codedfl.study.parallel import jobs_at_once
from codedfl.study.reproduce import software_versions
from codedfl.study.results import Results, Took

COMPARISON = "Comparison"
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
    data: options.Data = "digits",
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Feature seeds to repeat it over.", rich_help_panel=COMPARISON)
    ] = 3,
    draws: Annotated[
        int, typer.Option(min=1, metavar="N", help="Latencies drawn for each.", rich_help_panel=COMPARISON)
    ] = 200,
    epochs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Give a scheme up after so many.", rich_help_panel=COMPARISON)
    ] = 1000,
    targets: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Test scores to reach, such as 0.9,0.95; the last is the headline. A file has no default.",
            show_default="0.95,0.97 digits; 0.9,0.93 digits-shifted; 0.9,0.95 mnist; 0.8,0.85 fashion-mnist",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    sharing: options.SharingOrAll = options.DEFAULT_SHARING,
    policy: Annotated[
        str,
        typer.Option(
            click_type=click.Choice(list(get_args(StragglerPolicy))),
            help="What a straggler does when a newer update comes: drop its work, or finish it first.",
            rich_help_panel=COMPARISON,
        ),
    ] = "restart",
    seed: options.Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where report, figure and tables go.",
            show_default="results/compare-NAME",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    json: options.Json = None,
) -> None:
    """Compare the paper's schemes: who reaches a target first on this fleet.

    DATA is digits, digits-shifted, mnist, fashion-mnist, or a .npz, .csv or .parquet file.

    Conventional FL, dropping the slowest, the paper's coded scheme, coded keys and CodedFedL, in virtual time, over
    feature seeds and many draws of the latency. Ctrl-C keeps the seeds that were finished.
    """
    began = time.perf_counter()
    screen = Screen(json)
    dataset = inputs.load_data(screen, data, data_options)
    folder = make_folder("--out", inputs.results_folder(out, "compare", data))
    chosen = Inputs(dataset, inputs.choose_fleet(dataset, data_options, fleet), data_options, model)
    every = get_args(SharingConvention)
    settings = Settings(
        chosen.fleet,
        _targets(dataset, targets),
        conventions=cast("tuple[SharingConvention, ...]", every if sharing == options.ALL_SHARING else (sharing,)),
        policy=cast(StragglerPolicy, policy),
        draws=draws,
        max_epochs=epochs,
        regularisation=chosen.regularisation,
        latency_seed=seed,
    )
    entries = paper_entries(chosen.fleet.n_devices)
    trained: list[Trained] = []
    interrupted = False
    try:
        with screen.progress() as bar:
            task = bar.add_task("", total=1.0)

            def report(what: str, fraction: float) -> None:
                bar.update(task, description=what, completed=fraction)

            for one in train_seeds(chosen.problem, range(seed, seed + seeds), entries, settings, report):
                trained.append(one)  # one by one: Ctrl-C keeps those that were finished
    except KeyboardInterrupt:
        interrupted = True
        if not trained:
            screen.remark("interrupted before the first feature seed was finished: there is nothing to keep")
            raise typer.Exit(INTERRUPTED) from None
    together = Trained.joined(trained)
    with screen.busy("latencies"):
        schemes, traces = draw_latencies(dataset.name, together, entries, settings)
    results = Results(
        name=f"compare-{dataset.name}",
        title=f"{dataset.name} on the fleet {chosen.fleet.name!r}",
        dataset=dataset.name,
        command=context.obj,
        fleet=chosen.fleet.name,
        n_devices=chosen.fleet.n_devices,
        n_features=together.shape.n_features,
        n_samples=len(dataset.y_train),
        seeds=tuple(together.seeds),
        draws=draws,
        targets=settings.targets,
        headline_target=settings.targets[-1],
        score_name=score_name(dataset.task),
        schemes=schemes,
        notes=NOTES,
        seconds=Took(time.perf_counter() - began, together.seconds / jobs_at_once(seeds)),
        versions=software_versions(),
        traces=traces,
    )
    with screen.busy("report"):
        written = write_report(folder, results)
    _show(screen, results, settings.conventions)
    screen.say(f"Wrote, after {time.perf_counter() - began:.0f} s:")
    screen.files(written.values())
    screen.write_json(results.to_json())
    if interrupted:
        screen.remark(f"interrupted: these are {len(trained)} of {seeds} feature seeds")
        raise typer.Exit(INTERRUPTED)


def _show(screen: Screen, results: Results, conventions: Sequence[str]) -> None:
    schemes, target, score = results.schemes, results.targets[-1], results.score_name
    for convention in conventions:
        screen.show(comparison_table(schemes, target, title=results.title, sharing=convention, score_name=score))
        screen.say()
    screen.sentence(conclusion(schemes, results.dataset, target, conventions[0], score))
    screen.say()
    for leader in leading_four(schemes, target, conventions[0], paper.STEP):
        screen.sentence(leader.sentence)
    screen.say()


def _targets(data: Dataset, text: str | None) -> tuple[float, ...]:
    if text is None:
        if data.name not in TARGETS:
            raise InvalidInput(f"--targets must be given for {data.name!r}, such as 0.8,0.9; got none")
        return TARGETS[data.name]
    try:
        targets = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInput(f"--targets must be numbers with commas between, got {text!r}") from None
    if not all(0 < target <= 1 for target in targets) or list(targets) != sorted(set(targets)):
        raise InvalidInput(f"--targets must ascend and lie above 0 and up to 1, got {text!r}")
    return targets
