"""Many schemes on one fleet and one data set, over feature seeds and latency draws: the tables behind the figures.

Models and latencies are independent for every scheme whose model does not depend on stragglers, so the trajectory of
each feature seed is computed once and combined with draws of the latency; coded schemes that differ only in alpha
share one trajectory, as they make the same model bit for bit.

A seed that never reaches the target counts as infinitely late, in every statistic; it is never dropped.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from codedfl.data.problem import PAPER_REGULARISATION, Problem
from codedfl.errors import InvalidInput
from codedfl.fleet.clock import StragglerPolicy
from codedfl.fleet.fleet import Fleet
from codedfl.fleet.latency import LatencyModel, SharingConvention
from codedfl.run.simulator import Trajectory, trajectory
from codedfl.schemes import Conditions, Conventional, Descent, Scheme, WorkShape, epoch_end_times
from codedfl.schemes.central import CentralTotals
from codedfl.schemes.scheme import Grouping
from codedfl.solve.descent import STEPS
from codedfl.solve.registry import make_solver, solver_kind
from codedfl.solve.solver import Solver
from codedfl.typing import Floats


@dataclass(frozen=True)
class Entry:
    """One curve: a scheme, the solver the server runs (descent for the baselines), and the step's name.

    The solver is a name, or an object that was never started.
    """

    scheme: Scheme
    solver: str | Solver = "gd"
    step: str = "paper"

    def __post_init__(self) -> None:
        solver_kind(self.solver)
        if self.step not in STEPS:
            raise InvalidInput(f"step must be one of {', '.join(STEPS)}, got {self.step!r}")
        if self.solver != "gd" and not self.scheme.exact:
            raise InvalidInput(f"solver must be gd for {self.scheme.name} (no exact gradients), got {self.solver!r}")

    @property
    def models_key(self) -> tuple[object, ...]:
        """Entries with the same key have the same models."""
        return (self.scheme.models_key, self.solver, self.step)

    @property
    def solver_name(self) -> str:
        return solver_kind(self.solver).name

    def make_solver(self, epochs: int, regularisation: float) -> Solver | None:
        if not self.scheme.exact:
            return None
        step = self.step if solver_kind(self.solver).takes_step else None
        return make_solver(self.solver, epochs=epochs, regularisation=regularisation, step=step)


@dataclass(frozen=True)
class Settings:
    """How a comparison is run. ``targets`` are ascending; training goes on until the last."""

    fleet: Fleet
    targets: tuple[float, ...]
    conventions: tuple[SharingConvention, ...] = ("authors",)
    policy: StragglerPolicy = "restart"
    chunk_bits: float | None = None
    draws: int = 200
    max_epochs: int = 1000
    score_every: int = 1
    regularisation: float = PAPER_REGULARISATION
    latency_seed: int = 0
    latency: LatencyModel | None = None
    call_overhead: float = 0.0
    grouping: Grouping = "by-speed"

    def conditions(self, convention: SharingConvention) -> Conditions:
        """Of one sharing convention; ``Conditions`` has the rest in words."""
        return Conditions(
            self.fleet, convention, self.policy, self.chunk_bits, self.latency, self.call_overhead, self.grouping
        )


@dataclass
class Comparison:
    """The outcome: ``schemes`` as results.json holds them, ``traces`` as rows of traces.csv."""

    dataset: str
    schemes: list[dict[str, Any]] = field(default_factory=list)
    traces: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Trained:
    """The trajectories of all entries over all feature seeds; latencies can be drawn for them again and again."""

    runs: dict[tuple[object, ...], list[Trajectory]]
    seeds: list[int]
    shape: WorkShape
    seconds: float


@dataclass(frozen=True, eq=False)
class _Timing:
    start: Floats  # (draws,)
    ends: Floats  # (draws, epochs)


def compare(
    dataset: str,
    problems: Iterable[tuple[int, Problem]],
    entries: Sequence[Entry],
    settings: Settings,
    progress: Callable[[str, float], None] | None = None,
) -> Comparison:
    """Train every entry on every problem (one per feature seed), then draw latencies."""
    began = time.perf_counter()
    trained = train_all(problems, entries, settings, progress)
    outcome = draw_latencies(dataset, trained, entries, settings)
    outcome.seconds = {"total": time.perf_counter() - began, "linear_algebra": trained.seconds}
    return outcome


def train_all(
    problems: Iterable[tuple[int, Problem]],
    entries: Sequence[Entry],
    settings: Settings,
    progress: Callable[[str, float], None] | None = None,
) -> Trained:
    """The trajectories. Problems are taken one at a time, so that only one is in memory.

    ``progress`` is told what is being done and which fraction of the problem is over.
    """
    say = progress or (lambda _what, _fraction: None)
    conditions = settings.conditions(settings.conventions[0])
    distinct = {entry.models_key: entry for entry in entries}
    runs: dict[tuple[object, ...], list[Trajectory]] = {key: [] for key in distinct}
    seeds: list[int] = []
    seconds = 0.0
    shape: WorkShape | None = None
    for seed, problem in problems:
        tick = time.perf_counter()
        totals = CentralTotals(problem, functools.partial(_half, say, f"seed {seed}: Gram matrices"))
        shape = WorkShape.of(problem, totals.precision)
        seeds.append(seed)
        reference: int | None = None  # epochs that conventional FL took on this problem, once it has run
        for index, (key, entry) in enumerate(distinct.items()):
            say(f"seed {seed}: {entry.scheme.label}", (1 + index / len(distinct)) / 2)
            # Descent at the literal step needs about twice the epochs.
            limit = settings.max_epochs * (2 if entry.step == "literal" else 1)
            drifting = not entry.scheme.exact and not isinstance(entry.scheme, Conventional)
            if reference is not None and drifting:
                # A baseline that drifts may never get there: half as long again as conventional FL is long enough.
                limit = min(limit, math.ceil(1.5 * reference))
            run = trajectory(
                entry.scheme,
                totals,
                entry.make_solver(limit, settings.regularisation),
                Descent(STEPS[entry.step], settings.regularisation),
                conditions,
                np.random.default_rng([settings.latency_seed, seed]),
                max_epochs=limit,
                target=settings.targets[-1],
                score_every=settings.score_every if solver_kind(entry.solver).takes_step else 1,
            )
            runs[key].append(run)
            if isinstance(entry.scheme, Conventional) and entry.step == "paper":
                reference = int(run.epochs[-1])
        seconds += time.perf_counter() - tick
    if shape is None:
        raise InvalidInput("problems must hold at least one, got none")
    return Trained(runs, seeds, shape, seconds)


def _half(say: Callable[[str, float], None], what: str, fraction: float) -> None:
    """The Gram matrices are about half of the work on a problem."""
    say(what, fraction / 2)


def draw_latencies(dataset: str, trained: Trained, entries: Sequence[Entry], settings: Settings) -> Comparison:
    """Attach latencies to the trajectories, under each of the sharing conventions."""
    outcome = Comparison(dataset)
    for convention in settings.conventions:
        _combine(outcome, entries, trained, settings, convention)
    return outcome


def _combine(
    outcome: Comparison,
    entries: Sequence[Entry],
    trained: Trained,
    settings: Settings,
    convention: SharingConvention,
) -> None:
    runs = trained.runs
    conditions = settings.conditions(convention)
    # Entries of one scheme (other steps, other solvers) differ in their models only: one set of latencies serves all.
    longest: dict[Scheme, int] = {}
    for entry in entries:
        epochs = max(int(run.epochs[-1]) for run in runs[entry.models_key])
        longest[entry.scheme] = max(epochs, longest.get(entry.scheme, 0))
    by_scheme: dict[Scheme, _Timing] = {}
    for scheme, epochs in longest.items():
        rng = np.random.default_rng([settings.latency_seed, 1])
        by_scheme[scheme] = _Timing(*epoch_end_times(scheme, trained.shape, conditions, epochs, settings.draws, rng))
    timings = {entry: by_scheme[entry.scheme] for entry in entries}
    for entry in entries:
        baseline = _baseline(entries, entry)
        for target in settings.targets:
            own = [_seconds_to(run, timings[entry], target) for run in runs[entry.models_key]]
            reference = (
                [_seconds_to(run, timings[baseline], target) for run in runs[baseline.models_key]] if baseline else None
            )
            outcome.schemes.append(
                {
                    "dataset": outcome.dataset,
                    "scheme": entry.scheme.name,
                    "label": entry.scheme.label,
                    **entry.scheme.parameters,
                    "solver": entry.solver_name,
                    "sharing": convention,
                    "step": entry.step,
                    "target_accuracy": target,
                    **_statistics(entry, runs[entry.models_key], own, reference, timings[entry], target),
                }
            )
        if convention == settings.conventions[0]:
            outcome.traces.extend(
                _trace_rows(outcome.dataset, entry, runs[entry.models_key], trained.seeds, timings[entry])
            )


def _baseline(entries: Sequence[Entry], entry: Entry) -> Entry | None:
    """Conventional descent with the same step."""
    for other in entries:
        if isinstance(other.scheme, Conventional) and other.solver == "gd" and other.step == entry.step:
            return other
    return None


def _seconds_to(run: Trajectory, timing: _Timing, target: float) -> Floats | None:
    epoch = run.epochs_to(target)
    return None if epoch is None else timing.ends[:, epoch - 1]


def _statistics(
    entry: Entry,
    runs: Sequence[Trajectory],
    own: Sequence[Floats | None],
    reference: Sequence[Floats | None] | None,
    timing: _Timing,
    target: float,
) -> dict[str, Any]:
    epochs = [math.inf if run.epochs_to(target) is None else float(run.epochs_to(target) or 0) for run in runs]
    means = [math.inf if seconds is None else float(seconds.mean()) for seconds in own]
    reached = [seconds for seconds in own if seconds is not None]
    pooled = np.concatenate(reached) if len(reached) == len(own) else np.array([])
    speedups = []
    for mine, theirs in zip(own, reference or [None] * len(own), strict=True):
        if theirs is not None:
            speedups.append(0.0 if mine is None else float(theirs.mean() / mine.mean()))
    lengths = np.diff(timing.ends, axis=1) if timing.ends.shape[1] > 1 else timing.ends - timing.start[:, None]
    return {
        "seeds": len(own),
        "seeds_reached": len(reached),
        "epochs_to_target": summary(epochs),
        "time_to_target_s": {
            **summary(means),
            "p5": _finite(float(np.quantile(pooled, 0.05))) if len(pooled) else None,
            "p95": _finite(float(np.quantile(pooled, 0.95))) if len(pooled) else None,
        },
        "speedup_over_conventional": {**summary(speedups), "seeds_compared": len(speedups)},
        "sharing_s": float(timing.start.mean()),
        "epoch_s_mean": float(lengths.mean()),
        "final_accuracy": summary([float(run.scores[-1]) for run in runs]),
        "private": entry.scheme.private,
    }


def summary(values: Sequence[float]) -> dict[str, float | None]:
    """Median, mean, min and max; None stands for infinity (never reached) and for no values at all."""
    if not values:
        return {"median": None, "mean": None, "min": None, "max": None}
    array = np.array(values)
    ordered = {"median": np.median(array), "mean": array.mean(), "min": array.min(), "max": array.max()}
    return {name: _finite(float(value)) for name, value in ordered.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _trace_rows(
    dataset: str, entry: Entry, runs: Sequence[Trajectory], seeds: Sequence[int], timing: _Timing
) -> list[dict[str, Any]]:
    mean_ends = timing.ends.mean(axis=0)
    return [
        {
            "dataset": dataset,
            "label": entry.scheme.label,
            "scheme": entry.scheme.name,
            "solver": entry.solver_name,
            "step": entry.step,
            "seed": seed,
            "epoch": int(epoch),
            "seconds": round(float(mean_ends[epoch - 1]), 3),
            "accuracy": round(float(score), 5),
        }
        for seed, run in zip(seeds, runs, strict=True)
        for epoch, score in zip(run.epochs, run.scores, strict=True)
    ]
