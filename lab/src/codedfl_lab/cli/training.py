"""One training as ``codedfl lab train`` shows it: what is said before, on the way and at the end, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from codedfl.cli.screen import Screen, score_name
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.data.features.scattering import WaveletScattering
from codedfl.exact.row_noise import RowNoise
from codedfl.files import write_bytes
from codedfl.report.event_log import Begun
from codedfl.report.run_page import PAGE_FILE
from codedfl.report.run_watch import RunWatch
from codedfl.report.text import score as score_text
from codedfl.report.text import seconds as seconds_text
from codedfl.solve.solver import Solver
from codedfl.typing import Floats
from codedfl_lab.cli.options import sharing_said, usual_sharing
from codedfl_lab.cli.training_choice import TrainingOptions
from codedfl_lab.comparing.results import csv_bytes
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.problems.problem import Problem, model_of
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.schemes.role_keys import RoleKeys
from codedfl_lab.training.held_out import HeldOut

_PARTITIONS = {
    "sorted": "rows sorted by label and cut",
    "dirichlet": "rows dealt out by Dirichlet shares",
    "random": "rows dealt out at random",
    "device": "rows as the device column says",
}
MODEL_FILE = "model.safetensors"
TRACE_FILE = "trace.csv"


@dataclass
class TrainingRun:
    """One run and what it has finished so far; the lists grow together, one entry per epoch."""

    screen: Screen
    problem: Problem
    scheme: CodedScheme
    solver: Solver
    options: TrainingOptions
    fleet: Fleet
    noise: RowNoise | None = None
    epochs: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    watch: RunWatch | None = None

    def __post_init__(self) -> None:
        self.held_out = HeldOut(self.problem, chooses=self.options.target is None and self._tested)

    @property
    def model(self) -> Floats | None:
        """The one that is kept; None before the first epoch is finished."""
        return self.held_out.model

    @property
    def score_name(self) -> str:
        return score_name(self.problem.task)

    @property
    def _tested(self) -> bool:
        """Whether there is a score: R^2 is not defined where the target of the test rows is the same everywhere."""
        return self.problem.task == "classification" or len(np.unique(self.problem.y_test)) > 1

    @property
    def protection(self) -> str:
        return self.scheme.exposure(self.problem.n_devices).words

    @property
    def shortened(self) -> int:
        """Training rows longer than the noise is made for; 0 without noise."""
        if self.noise is None:
            return 0
        squares = np.einsum("ij,ij->i", self.problem.X, self.problem.X, dtype=np.float64)
        return int(np.count_nonzero(squares > self.noise.clip_norm**2))

    def introduce(self, regularisation: float) -> None:
        problem, D = self.problem, self.problem.n_devices
        what = f"{problem.n_outputs} classes" if problem.task == "classification" else "a number to predict"
        features = f"features: {problem.feature_map.name}"
        if isinstance(problem.feature_map, LinearFeatures):
            features = "features: the columns and an intercept"
        elif isinstance(problem.feature_map, RandomFourierFeatures):
            features = f"random features, gamma = {problem.feature_map.gamma:.3g}"
        elif isinstance(problem.feature_map, WaveletScattering):
            features = f"features: wavelet scattering over {2**problem.feature_map.scales} pixels, and a constant"
        rows = f"{problem.n_samples} rows to train on, {len(problem.y_test)} to test on"
        self.screen.facts(
            [
                ("data", f"{problem.name}: {rows}, {what}"),
                ("devices", f"{D} of the fleet {self.fleet.name!r}, {_PARTITIONS[problem.provenance['partition']]}"),
                ("model", f"{problem.n_features} {features}, lambda = {regularisation:g}"),
                ("scheme", f"{self.scheme.label}: an epoch ends with {ends_with(self.scheme, D)}"),
                ("privacy", self.protection),
                ("solver", f"{self.options.solver.words}, at most {self.options.n_epochs} epochs"),
            ]
        )

    def begun(self) -> Begun:
        """What the event log says of it."""
        exposure = self.scheme.exposure(self.problem.n_devices)
        return Begun(
            title=self.problem.name,
            scheme=self.scheme.label,
            solver=self.options.solver.words,
            epochs=self.options.n_epochs,
            target=self.options.target,
            score_name=self.score_name,
            n_features=self.problem.n_features,
            directions=self.problem.n_outputs,
            reveals_gram=self.scheme.reveals_gram,
            server_sees=self.scheme.server_sees,
            exposed=(exposure.server_alone, exposure.one_colluder, exposure.two_colluders),
        )

    def train(self, rng: np.random.Generator, folder: Path) -> None:
        """To the end; ``folder`` gets the event log."""
        total, target = self.options.n_epochs, self.options.target
        with self.screen.progress() as bar, ExitStack() as watching:
            # How long this machine takes for the sharing phase is not known before it is over: the bar only moves.
            task = bar.add_task("sharing phase", total=None)

            clock: Callable[[], float] = float  # 0 until there is one
            watch = self.watch = RunWatch(folder, lambda: clock(), "virtual", private=False)
            watching.enter_context(watch.told_how_it_ends())
            watch.take(self.begun())

            def watched(now: Callable[[], float]) -> RunWatch:
                nonlocal clock
                clock = now
                return watch

            def on_epoch(epoch: int, seconds: float, score: float) -> None:
                self.epochs.append(epoch)
                self.seconds.append(seconds)
                self.scores.append(score)
                assert self.solver.model is not None
                self.held_out.take(epoch, self.solver.model)
                if epoch == 1:
                    bar.reset(task, total=total)
                shown = score_text(score, self.score_name)
                state = f"epoch {epoch}/{total}, {self.score_name} {shown}, fleet time {seconds_text(seconds)}"
                bar.update(task, completed=epoch, description=state)

            simulate(
                self.scheme,
                self.problem,
                self.solver,
                Conditions(self.fleet, usual_sharing(self.fleet)),
                rng,
                precision=self.options.precision,
                noise=self.noise,
                stop_when=None if target is None else lambda theta: self.problem.score(theta) >= target,
                on_epoch=on_epoch,
                watched=watched,
            )

    def save(self, folder: Path, about: Mapping[str, Any], *, interrupted: bool) -> dict[str, Any] | None:
        """Write model and trace; returns what --json tells. None, and no files, before the first epoch is finished."""
        if self.model is None:
            return None
        problem, kept = self.problem, self.held_out
        score = kept.score if self._tested else None
        record = {**about, "protection": self.protection, "epochs": self.epochs[-1], "score": score}
        record |= {"kept_epoch": kept.epoch, "scored_on": kept.rows}
        model_file, trace_file = folder / MODEL_FILE, folder / TRACE_FILE
        model_of(problem, self.model, **record).save(model_file)
        columns = (self.epochs, self.seconds, self.scores)
        write_bytes(trace_file, csv_bytes(("epoch", "seconds", "score"), zip(*columns, strict=True)))
        return {
            "command": "lab train",
            **problem.provenance,
            **record,
            "task": problem.task,
            "train_rows": problem.n_samples,
            "test_rows": len(problem.y_test),
            "n_features": problem.n_features,
            "n_outputs": problem.n_outputs,
            "score_name": self.score_name,
            "last_score": kept.last_score if self._tested else None,
            "target": self.options.target,
            "fleet": self.fleet.name,
            "virtual_seconds": self.seconds[-1],
            "clipped": problem.clipped.total,
            "interrupted": interrupted,
            "model": str(model_file),
            "trace": str(trace_file),
            "page": str(folder / PAGE_FILE),
        }

    def _words(self, score: float) -> str:
        return score_text(score, self.score_name)

    def conclude(self, folder: Path) -> None:
        """The outcome of a training that went to its end."""
        kept, rows = self.held_out, f"{self.held_out.rows} test rows"
        score = f"{self._words(kept.score)} on {rows} after {kept.last} epochs"
        if not self._tested:
            score = "not known: the rows to test on all have the same target"
        elif kept.epoch < kept.last:
            score = f"{self._words(kept.score)} on {rows} after epoch {kept.epoch}, kept because the other test rows"
            score += f" prefer it; {self._words(kept.last_score)} after the last, {kept.last}"
        elif self.options.target is not None and kept.score < self.options.target:
            score += f"; the target {self._words(self.options.target)} was not reached"
        self.screen.say()
        shortened = f"{self.shortened} training rows were longer than the noise is made for"
        self.screen.facts(
            [
                (self.score_name, score),
                ("fleet time", f"{seconds_text(self.seconds[-1])}, the sharing phase included"),
                *(("", line) for line in sharing_said(self.fleet, None)),
                ("clipped", f"{self.problem.clipped.total} training values lay outside the common range"),
                *([] if self.noise is None else [("shortened", shortened)]),
                ("model", str(folder / MODEL_FILE)),
                ("trace", str(folder / TRACE_FILE)),
                ("page", str(folder / PAGE_FILE)),
            ]
        )


def ends_with(scheme: CodedScheme, n_devices: int) -> str:
    """Whose answers an epoch waits for, in words."""
    quorum = scheme.quorum(n_devices)
    if len(quorum.parts) == 1:
        return f"the first {quorum.answers_needed} of {n_devices} answers"
    each = max(part.needed for part in quorum.parts)
    part = "role" if isinstance(scheme, RoleKeys) else "group"
    return f"{quorum.answers_needed} of {n_devices} answers, the first{f' {each}' * (each > 1)} of each {part}"
