"""``codedfl train``: the real protocol on the user's data, in one process and in virtual time."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, cast

import click
import numpy as np
import typer
from numpy.typing import NDArray

from codedfl.cli import inputs, options
from codedfl.cli.screen import INTERRUPTED, Screen, make_folder, score_name
from codedfl.cli.study import train_study
from codedfl.cli.training_choice import choose, refuse_unread
from codedfl.data.datasets import Task
from codedfl.data.features import RandomFourierFeatures
from codedfl.data.model import TrainedModel
from codedfl.data.problem import Problem, make_problem
from codedfl.errors import CodedFLError, InvalidInput, RangeExceeded
from codedfl.fleet.fleet import Fleet
from codedfl.report.rows import score as score_text
from codedfl.report.rows import seconds as seconds_text
from codedfl.run.secure_sum import secure_moments_in_process
from codedfl.run.simulator import simulate
from codedfl.schemes import CodedKeys, CodedPadded, CodedScheme, Conditions, OneShot
from codedfl.solve.descent import STEPS
from codedfl.solve.registry import DEFAULT_SOLVER, make_solver
from codedfl.solve.solver import Solver
from codedfl.version import __version__

TRAINING = "Training"
_PARTITIONS = {
    "sorted": "rows sorted by label and cut",
    "dirichlet": "rows dealt out by Dirichlet shares",
    "random": "rows dealt out at random",
    "device": "rows as the device column says",
}


def train(
    data: options.Data,
    label: options.Label = None,
    device: options.Device = None,
    task: Annotated[
        str | None,
        typer.Option(
            click_type=click.Choice(["classification", "regression"]),
            help="What a file's labels are.",
            show_default="decided by the labels",
            rich_help_panel=options.DATA,
        ),
    ] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(help="Part of a file's rows to test on.", show_default="0.2", rich_help_panel=options.DATA),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Columns of a file to learn from.", show_default="all", rich_help_panel=options.DATA
        ),
    ] = None,
    drop: Annotated[
        str | None, typer.Option(metavar="A,B", help="Columns of a file to leave out.", rich_help_panel=options.DATA)
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="With a study file as DATA: a folder of one table a device, or one table to deal out.",
            rich_help_panel=options.DATA,
        ),
    ] = None,
    partition: options.Partition = None,
    concentration: Annotated[
        float | None,
        typer.Option(
            help="Of --partition dirichlet: small makes the devices differ more.", rich_help_panel=options.DATA
        ),
    ] = None,
    data_dir: options.DataDir = None,
    features: Annotated[
        str,
        typer.Option(
            click_type=click.Choice(["rbf", "linear"]),
            help="Random features of a Gaussian kernel, or the columns themselves.",
            rich_help_panel=options.MODEL,
        ),
    ] = "rbf",
    n_features: options.NFeatures = None,
    gamma: Annotated[
        float | None,
        typer.Option(
            help="Of the kernel exp(-gamma |x - x'|^2).",
            show_default="15.68 / (columns x width^2), the width being 1 for pixels and 8 for standardised columns",
            rich_help_panel=options.MODEL,
        ),
    ] = None,
    regularisation: options.Regularisation = None,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Take scheme, alpha, groups, solver and epochs from a file that codedfl plan wrote.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    scheme_name: Annotated[
        str | None,
        typer.Option(
            "--scheme",
            click_type=click.Choice([CodedPadded.name, CodedKeys.name, OneShot.name]),
            help="The paper's scheme, the one that codes 32-byte seeds instead of data, or one answer and a closed "
            "form (the server then learns the whole total of X'X).",
            show_default=CodedKeys.name,
            rich_help_panel=TRAINING,
        ),
    ] = None,
    alpha: Annotated[
        int | None,
        typer.Option(
            help="Devices that can answer for each other: an epoch ends with the first D - alpha + 1 answers. "
            "1 is uncoded, D is replication.",
            show_default="D - 2, at least 1",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    groups: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Groups with a code each; alpha then counts within a group.",
            show_default="1",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    solver_name: Annotated[
        str | None,
        typer.Option(
            "--solver",
            metavar="NAME",
            help="What the server does with exact gradients: block-krylov, cg (conjugate gradient), nesterov "
            "(Nesterov's method), gd (gradient descent, the paper's), or one that another package adds.",
            show_default=DEFAULT_SOLVER,
            rich_help_panel=TRAINING,
        ),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            click_type=click.Choice(list(STEPS)),
            help="Step of gd: 12, which fits the paper's figures, or 6, which its text states; nesterov takes half.",
            show_default="derived from the largest eigenvalue of X'X, in five epochs",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="At most so many; block-krylov and cg end by themselves when they have converged.",
            show_default="50 for block-krylov and cg, 500 for the descents",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(
            help="Stop when the test score (accuracy, or R^2) reaches it, such as 0.95.", rich_help_panel=TRAINING
        ),
    ] = None,
    spare: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="K",
            help="Answers to wait for beyond D - alpha + 1: one detects a wrong answer, 2t find t liars.",
            rich_help_panel=TRAINING,
        ),
    ] = 0,
    precision: Annotated[
        int | None,
        typer.Option(
            metavar="BITS",
            help="Fraction bits of X'X e to ask for; more than two primes give take a third (9 bytes a number).",
            show_default="what two primes give",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    devices: options.Devices = None,
    fleet_name: options.FleetName = "paper",
    seed: options.Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where model and trace go.",
            show_default="results/train-NAME",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    json: options.Json = None,
) -> None:
    """Train a model with the coded protocol and save it.

    DATA is digits, mnist, fashion-mnist, a .csv, .csv.gz, .parquet or .npz file, or a study file (.toml), which then
    says everything but --tables, the fleet and where the model goes.

    Server and devices run in this process, with the real arithmetic and the real messages; a latency model decides
    whose answers come first, so the times shown are those the fleet would take. Ctrl-C keeps the model so far.
    """
    if data.lower().endswith(".toml"):
        train_study(Path(data), tables, fleet_name, devices, seed, out, json)
        return
    if tables is not None:
        raise InvalidInput(f"--tables must go with a study file, got {data!r}")
    screen = Screen(json)
    if target is not None and not target <= 1:
        raise InvalidInput(f"--target must be at most 1, the best score there is, got {target}")
    choice = choose(plan_file, scheme_name, alpha, groups, solver_name, epochs, spare)
    refuse_unread(features, n_features, gamma, partition, concentration, choice.solver, step)
    dataset = inputs.load_data(
        screen,
        data,
        data_dir,
        label=label,
        device=device,
        task=cast("Task | None", task),
        test_fraction=test_fraction,
        columns=_listed(columns),
        drop=_listed(drop) or (),
    )
    for note in dataset.notes:
        screen.remark(f"note: {note}")
    folder = make_folder("--out", out or Path("results") / f"train-{dataset.name}")
    fleet = inputs.choose_fleet(fleet_name, dataset, partition, devices)
    scheme = choice.scheme_for(fleet.n_devices)
    scheme.check(fleet.n_devices)
    weight = inputs.choose_regularisation(dataset, regularisation)
    total_epochs = choice.solver.default_epochs if choice.epochs is None else choice.epochs
    solver = make_solver(
        choice.solver.name, epochs=total_epochs, regularisation=weight, step=step, gram=scheme.reveals_gram
    )
    with screen.busy("preprocessing") as say:
        problem = make_problem(
            dataset,
            n_devices=fleet.n_devices,
            partition_name=partition,
            features=features,
            n_features=inputs.count_features(dataset, n_features),
            gamma=gamma,
            seed=seed,
            concentration=concentration,
            secure_moments=secure_moments_in_process,
            progress=say,
        )
    if problem.clipped:
        counts = problem.clipped.words(problem.recipe.column_names)
        screen.remark(f"warning: clipped at the ends of their ranges: {counts}")
    training = _Training(screen, problem, scheme, solver, total_epochs, fleet, target, precision)
    training.introduce(choice.solver.words, weight)
    stopped: KeyboardInterrupt | CodedFLError | None = None
    try:
        training.run(np.random.default_rng(seed))
    except (KeyboardInterrupt, CodedFLError) as reason:
        stopped = reason
    about = {
        "columns": None if dataset.columns is None else list(dataset.columns),
        "label": label,
        "scheme": scheme.name,
        **scheme.parameters,
        "solver": choice.solver.name,
        "step": step or "derived" if choice.solver.takes_step else None,
        "regularisation": weight,
        "codedfl": __version__,
    }
    outcome = training.save(folder, about, interrupted=stopped is not None)
    if outcome is not None:
        screen.write_json(outcome)
    if stopped is None:
        assert outcome is not None
        training.conclude(outcome)
        return
    kept = "no epoch was finished, so there is no model to keep"
    if outcome is not None:
        kept = f"kept {outcome['model']}, the model after epoch {outcome['epochs']}"
    if isinstance(stopped, KeyboardInterrupt):
        screen.remark(f"interrupted: {kept}")
        raise typer.Exit(INTERRUPTED)
    why = str(stopped)
    if isinstance(stopped, RangeExceeded) and step is not None:
        why = f"the step is too large for these features ({stopped}): leave out --step, which then suits them"
    raise CodedFLError(f"{why}; {kept}") from stopped


def _listed(names: str | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(name.strip() for name in names.split(",") if name.strip())


@dataclass
class _Training:
    """One run and what it has finished so far; the lists grow together, an entry an epoch."""

    screen: Screen
    problem: Problem
    scheme: CodedScheme
    solver: Solver
    total_epochs: int
    fleet: Fleet
    target: float | None
    precision: int | None
    epochs: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    model: NDArray[np.float64] | None = None

    @property
    def score_name(self) -> str:
        return score_name(self.problem.task)

    def introduce(self, solver: str, regularisation: float) -> None:
        problem, D = self.problem, self.problem.n_devices
        needed = self.scheme.quorum(D).answers_needed
        what = f"{problem.n_outputs} classes" if problem.task == "classification" else "a number to predict"
        features = "features: the columns and an intercept"
        if isinstance(problem.feature_map, RandomFourierFeatures):
            features = f"random features, gamma = {problem.feature_map.gamma:.3g}"
        rows = f"{problem.n_samples} rows to train on, {len(problem.y_test)} to test on"
        self.screen.facts(
            [
                ("data", f"{problem.name}: {rows}, {what}"),
                ("devices", f"{D} of the fleet {self.fleet.name!r}, {_PARTITIONS[problem.provenance['partition']]}"),
                ("model", f"{problem.n_features} {features}, lambda = {regularisation:g}"),
                ("scheme", f"{self.scheme.label}: an epoch ends with the first {needed} of {D} answers"),
                ("solver", f"{solver}, at most {self.total_epochs} epochs"),
            ]
        )

    def run(self, rng: np.random.Generator) -> None:
        total, target = self.total_epochs, self.target
        with self.screen.progress() as bar:
            # How long this machine takes for the sharing phase is not known before it is over: the bar only moves.
            task = bar.add_task("sharing phase", total=None)

            def on_epoch(epoch: int, seconds: float, score: float) -> None:
                self.epochs.append(epoch)
                self.seconds.append(seconds)
                self.scores.append(score)
                self.model = self.solver.model
                if epoch == 1:
                    bar.reset(task, total=total)
                shown = score_text(score, self.score_name)
                state = f"epoch {epoch}/{total}, {self.score_name} {shown}, fleet time {seconds_text(seconds)}"
                bar.update(task, completed=epoch, description=state)

            simulate(
                self.scheme,
                self.problem,
                self.solver,
                Conditions(self.fleet),
                rng,
                precision=self.precision,
                stop_when=None if target is None else lambda theta: self.problem.score(theta) >= target,
                on_epoch=on_epoch,
            )

    def save(self, folder: Path, about: dict[str, Any], interrupted: bool) -> dict[str, Any] | None:
        """Write model and trace; returns what --json tells. None, and no files, before the first epoch is finished."""
        if self.model is None:
            return None
        problem = self.problem
        record = {**about, "epochs": self.epochs[-1], "score": self.scores[-1]}
        model_file, trace_file = folder / "model.safetensors", folder / "trace.csv"
        TrainedModel.of(problem, self.model, **record).save(model_file)
        with trace_file.open("w", newline="", encoding="utf-8") as stream:
            rows = csv.writer(stream, lineterminator="\n")
            rows.writerow(("epoch", "seconds", "score"))
            rows.writerows(zip(self.epochs, self.seconds, self.scores, strict=True))
        best = int(np.argmax(self.scores))
        return {
            "command": "train",
            **problem.provenance,
            **record,
            "task": problem.task,
            "train_rows": problem.n_samples,
            "test_rows": len(problem.y_test),
            "n_features": problem.n_features,
            "n_outputs": problem.n_outputs,
            "score_name": self.score_name,
            "best_score": self.scores[best],
            "best_epoch": self.epochs[best],
            "target": self.target,
            "fleet": self.fleet.name,
            "virtual_seconds": self.seconds[-1],
            "clipped": problem.clipped.total,
            "interrupted": interrupted,
            "model": str(model_file),
            "trace": str(trace_file),
        }

    def conclude(self, outcome: dict[str, Any]) -> None:
        score, best = (score_text(outcome[key], self.score_name) for key in ("score", "best_score"))
        score += f" on the test rows after {outcome['epochs']} epochs"
        if outcome["best_score"] > outcome["score"]:
            score += f" (best: {best} after {outcome['best_epoch']})"
        if self.target is not None and outcome["score"] < self.target:
            score += f"; the target {score_text(self.target, self.score_name)} was not reached"
        self.screen.say()
        self.screen.facts(
            [
                (self.score_name, score),
                ("fleet time", f"{seconds_text(outcome['virtual_seconds'])}, the sharing phase included"),
                ("clipped", f"{outcome['clipped']} training values lay outside the common range"),
                ("model", outcome["model"]),
                ("trace", outcome["trace"]),
            ]
        )
