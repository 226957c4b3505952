"""``codedfl lab train``: the real protocol on the user's data, in one process and in virtual time."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from codedfl.cli import options as common
from codedfl.cli.exit_codes import INTERRUPTED
from codedfl.cli.output_files import make_folder
from codedfl.cli.screen import Screen
from codedfl.errors import CodedFLError, InvalidInput, RangeExceeded
from codedfl.report.run_page import write_run_page
from codedfl.version import __version__
from codedfl_lab.cli import inputs, options
from codedfl_lab.cli.inputs import Inputs
from codedfl_lab.cli.training import TrainingRun
from codedfl_lab.cli.training_choice import TrainingOptions
from codedfl_lab.planning.planner import draws_features
from codedfl_lab.training.noise import noise_of_run


def train(
    data: common.Data,
    data_options: options.DataOptions,
    model: options.ModelOptions,
    training: TrainingOptions,
    fleet: options.FleetOptions,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None,
        common.in_output(
            metavar="DIR", help="Where model, trace, event log and page go.", show_default="results/train-NAME"
        ),
    ] = None,
    json: common.Json = None,
) -> None:
    """Train a model with the coded protocol and save it.

    DATA is digits, digits-shifted, mnist, fashion-mnist, or a .csv, .csv.gz, .parquet or .npz file. A study is run by
    codedfl study rehearse.

    Server and devices run in this process, with the real arithmetic and the real messages; a latency model decides
    whose answers come first, so the times shown are those the fleet would take. Of all epochs the model is kept that
    every second test row prefers, and the other test rows score it; with --reach, the first that reaches the score.
    Ctrl-C keeps the model so far.

    Example: `codedfl lab train digits --scheme coded-padded --reach 0.95`
    """
    screen = Screen(json)
    dataset = inputs.load_data(screen, data, data_options)
    folder = make_folder("--out", inputs.results_folder(out, "train", data))
    chosen = Inputs(dataset, inputs.choose_fleet(dataset, data_options, fleet), data_options, model)
    scheme = training.scheme_for(chosen.fleet.n_devices)
    budget = training.budget
    if budget is not None and dataset.public_range is None:
        raise InvalidInput(
            f"data must have public ranges with --epsilon, since means and deviations are sums over rows, got {data}:"
            " write a study file with the ranges"
        )
    with screen.busy("preprocessing") as say:
        problem = chosen.problem(seed, say)
    if training.narrow and not draws_features(problem):
        raise InvalidInput(f"narrow must be left out unless features are random, got {problem.feature_map.name}")
    n_devices = problem.n_devices
    noise, level = noise_of_run(scheme, problem.recipe, problem.bounds, n_devices, budget, training.precision)
    solver = training.make_solver(scheme, chosen.regularisation, level)
    run = TrainingRun(screen, problem, scheme, solver, training, chosen.fleet, noise)
    run.introduce(chosen.regularisation)
    stopped: KeyboardInterrupt | CodedFLError | None = None
    try:
        run.train(np.random.default_rng(seed), folder)
    except (KeyboardInterrupt, CodedFLError) as reason:
        stopped = reason
    about = {
        "columns": None if dataset.columns is None else list(dataset.columns),
        "label": data_options.label,
        "scheme": scheme.name,
        **scheme.parameters,
        "solver": training.solver.name,
        "step": training.step_name,
        "regularisation": chosen.regularisation,
        "codedfl": __version__,
        **({} if budget is None else {**asdict(budget), "shortened": run.shortened}),
    }
    try:
        outcome = run.save(folder, about, interrupted=stopped is not None)
        if outcome is not None:
            write_run_page(folder)
    except OSError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="codedfl-"))
        run.save(elsewhere, about, interrupted=stopped is not None)
        raise CodedFLError(f"--out must be on a disk with room, got {error}; the model is in {elsewhere}") from None
    if run.watch is not None and run.watch.failure is not None:
        screen.remark(f"note: the event log ends early: {run.watch.failure}")
    if outcome is not None:
        screen.write_json(outcome)
    if stopped is None:
        run.conclude(folder)
        if budget is not None:
            screen.say()
            screen.sentence(budget.sentence())
        return
    kept = "no epoch was finished, so there is no model to keep"
    if outcome is not None:
        kept = f"kept {outcome['model']}, the model after epoch {outcome['kept_epoch']}"
    if isinstance(stopped, KeyboardInterrupt):
        screen.remark(f"interrupted: {kept}")
        raise typer.Exit(INTERRUPTED)
    why = str(stopped)
    if isinstance(stopped, RangeExceeded) and training.step is not None:
        why = f"the step is too large for these features ({stopped}): leave out step, which then suits them"
    raise CodedFLError(f"{why}; {kept}") from stopped
