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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from codedfl.errors import CodedFLError, InvalidInput
from codedfl.solve.descent import DERIVED, STEPS
from codedfl.solve.registry import make_solver, solver_kind
from codedfl.solve.solver import Solver
from codedfl.typing import Floats, Progress
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.comparing.paired import times_faster
from codedfl_lab.comparing.parallel import Job
from codedfl_lab.comparing.results import (
    ExposureResult,
    Gain,
    SchemeResult,
    Speedups,
    Times,
    Took,
    TraceRow,
    finite,
    summary,
)
from codedfl_lab.comparing.simulator import Trajectory, trajectory
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions, Descent, Draws, TrainingTimes, WorkShape, epoch_end_times, models_key
from codedfl_lab.costs.times import models as models_of
from codedfl_lab.fleet.latency import SharingConvention
from codedfl_lab.problems.problem import PAPER_REGULARISATION, Problem
from codedfl_lab.schemes.descriptor import Scheme

CENTRAL_MODELS = (
    "Models are computed centrally once per feature seed (they do not depend on who straggles; a test shows that the"
    " protocol gives the same model bit for bit), and latencies are drawn for them."
)
"""The note under every comparison."""

CANNOT_RUN = (CodedFLError, np.linalg.LinAlgError)
"""What a scheme may end with on a fleet or table that does not suit it: a row then says why."""

TOO_LARGE = "the paper's step is too large for these data, the derived one is not"
GROWS = "its model moves away from the data, epoch after epoch"


class Failure(NamedTuple):
    """Why an entry has no numbers, and whether it ran and diverged."""

    reason: str
    diverged: bool = False


@dataclass(frozen=True)
class Entry:
    """One curve: a scheme, the solver the server runs (descent for the baselines), and the step of all descents.

    The solver is a name, or an object that was never started. The step is "derived", from the data, or the name of one
    that the paper has (``STEPS``).

    Examples
    --------
    >>> from codedfl_lab import RoleKeys
    >>> from codedfl_lab import Entry
    >>> Entry(RoleKeys(1), solver="block-krylov").step
    'derived'
    """

    scheme: Scheme
    solver: str | Solver = "gd"
    step: str = DERIVED

    def __post_init__(self) -> None:
        solver_kind(self.solver)
        if self.step not in (DERIVED, *STEPS):
            raise InvalidInput(f"step must be one of {', '.join((DERIVED, *STEPS))}, got {self.step!r}")
        if self.solver != "gd" and not self.scheme.exact:
            raise InvalidInput(f"solver must be gd for {self.scheme.name} (no exact gradients), got {self.solver!r}")

    @property
    def models_key(self) -> tuple[object, ...]:
        """Entries with the same key have the same models."""
        return (models_key(self.scheme), self.solver, self.step)

    @property
    def solver_name(self) -> str:
        return solver_kind(self.solver).name

    def models(
        self, totals: CentralTotals, epochs: int, regularisation: float, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        """Theta after each epoch, without an end where the scheme takes no solver."""
        solver = None
        if self.scheme.exact and not self.scheme.reveals_gram:
            step = self.step if self.step in STEPS and solver_kind(self.solver).takes_step else None
            solver = make_solver(self.solver, epochs=epochs, regularisation=regularisation, step=step)
        descent = Descent(STEPS.get(self.step), regularisation)
        return models_of(self.scheme, TrainingTimes(totals, solver, descent, at, rng))


@dataclass(frozen=True)
class Settings:
    """How a comparison is run.

    at: the fleet, and by which conventions it is timed.
    targets: ascending; training continues until the last.
    conventions: conventions of sharing, each in place of the one that ``at`` has; empty takes that one alone.

    Examples
    --------
    >>> from codedfl_lab import Conditions, Fleet, Settings
    >>> at = Conditions(Fleet.load("paper"))
    >>> settings = Settings(at, targets=(0.9, 0.95), conventions=("authors", "multicast"), draws=20)
    >>> [one.sharing for one in settings.conditions]
    ['authors', 'multicast']
    """

    at: Conditions
    targets: tuple[float, ...]
    conventions: tuple[SharingConvention, ...] = ()
    draws: int = 200
    max_epochs: int = 1000
    regularisation: float = PAPER_REGULARISATION
    latency_seed: int = 0

    @property
    def conditions(self) -> list[Conditions]:
        """One for each sharing convention."""
        return [replace(self.at, sharing=one) for one in self.conventions or (self.at.sharing,)]


@dataclass(frozen=True)
class Comparison:
    """The outcome: rows of results.json, and of traces.csv."""

    schemes: tuple[SchemeResult, ...]
    traces: tuple[TraceRow, ...]
    seconds: Took


ModelsKey = tuple[object, ...]


@dataclass(frozen=True, eq=False)
class Trained:
    """The trajectories of all entries over all feature seeds; latencies can be drawn for them again and again.

    ``failed`` has the reason of those that could not be trained, in whichever seed.
    """

    runs: dict[ModelsKey, list[Trajectory]]
    seeds: list[int]
    shape: WorkShape
    seconds: float
    failed: dict[ModelsKey, Failure] = field(default_factory=dict)

    def median_epochs(self, entry: Entry, target: float) -> int | None:
        """Over the seeds; None where one of them never gets there."""
        found = [run.epochs_to(target) for run in self.runs[entry.models_key]]
        reached = [epochs for epochs in found if epochs is not None]
        return round(float(np.median(reached))) if len(reached) == len(found) else None

    @classmethod
    def joined(cls, parts: Sequence[Trained]) -> Trained:
        """The seeds of all parts, in their order."""
        return cls(
            {key: [run for part in parts for run in part.runs[key]] for key in parts[0].runs},
            [seed for part in parts for seed in part.seeds],
            parts[0].shape,
            sum(part.seconds for part in parts),
            {key: why for part in parts for key, why in part.failed.items()},
        )


class _Timing(NamedTuple):
    start: Floats  # (draws,)
    ends: Floats  # (draws, epochs)


def compare(
    dataset: str,
    problems: Iterable[tuple[int, Problem]],
    entries: Sequence[Entry],
    settings: Settings,
    progress: Progress | None = None,
) -> Comparison:
    """Train every entry on every problem (one per feature seed, one at a time in memory), then draw latencies.

    Examples
    --------
    >>> from codedfl_lab import make_problem
    >>> from codedfl_lab import RoleKeys
    >>> from codedfl_lab import Conditions, Conventional, Entry, Fleet, Settings, compare
    >>> from codedfl_lab.datasets import load
    >>> problem = make_problem(load("digits"), n_devices=10, n_features=50)
    >>> at = Conditions(Fleet.load("paper").scaled_to(10))
    >>> settings = Settings(at, targets=(0.7,), draws=10, max_epochs=100)
    >>> entries = [Entry(Conventional()), Entry(RoleKeys(1), "block-krylov")]
    >>> slow, fast = compare("digits", [(0, problem)], entries, settings).schemes
    >>> fast.time_to_target_s.median < slow.time_to_target_s.median
    True
    """
    began = time.perf_counter()
    parts = [train_one(seed, problem, entries, settings, progress) for seed, problem in problems]
    if not parts:
        raise InvalidInput("problems must hold at least one, got none")
    trained = Trained.joined(parts)
    rows, traces = draw_latencies(dataset, trained, entries, settings)
    return Comparison(rows, traces, Took(time.perf_counter() - began, trained.seconds))


def seed_job(
    make_problem: Callable[[int], Problem], seed: int, entries: Sequence[Entry], settings: Settings
) -> Job[Trained]:
    """Makes the problem and trains on it: for ``in_parallel``, which works on a few seeds at once."""

    def run(progress: Progress) -> Trained:
        progress(f"seed {seed}: features", 0.0)
        return train_one(seed, make_problem(seed), entries, settings, progress)

    return run


def train_one(
    seed: int, problem: Problem, entries: Sequence[Entry], settings: Settings, progress: Progress | None = None
) -> Trained:
    """One feature seed. An entry that cannot be trained does not keep the others from it."""
    say = progress or (lambda _what, _fraction: None)
    began = time.perf_counter()
    conditions = settings.conditions[0]
    distinct = {entry.models_key: entry for entry in entries}
    runs: dict[ModelsKey, list[Trajectory]] = {key: [] for key in distinct}
    failed: dict[ModelsKey, Failure] = {}
    # The Gram matrices are about half of the work on a problem.
    totals = CentralTotals(problem, lambda part: say(f"seed {seed}: Gram matrices", part / 2))
    reference: dict[str, int] = {}  # epochs that conventional FL took on this problem, by step, once it has run
    for index, (key, entry) in enumerate(distinct.items()):
        say(f"seed {seed}: {entry.scheme.label}", (1 + index / len(distinct)) / 2)
        # Descent at the literal step needs about twice the epochs.
        limit = settings.max_epochs * (2 if entry.step == "literal" else 1)
        drifting = not entry.scheme.exact and not isinstance(entry.scheme, Conventional)
        if entry.step in reference and drifting:
            # A baseline that drifts may never get there: half as long again as conventional FL is long enough.
            limit = min(limit, math.ceil(1.5 * reference[entry.step]))
        try:
            entry.scheme.check(settings.at.fleet.n_devices)
            rng = np.random.default_rng([settings.latency_seed, seed])
            models = entry.models(totals, limit, settings.regularisation, conditions, rng)
            run = trajectory(models, totals, max_epochs=limit, target=settings.targets[-1])
        except CANNOT_RUN as error:
            failed[key] = Failure(str(error))
            continue
        if run.diverged and run.epochs_to(settings.targets[-1]) is None:
            failed[key] = Failure(TOO_LARGE if entry.step in STEPS else GROWS, diverged=True)
            continue
        runs[key].append(run)
        if isinstance(entry.scheme, Conventional):
            reference[entry.step] = int(run.epochs[-1])
    return Trained(runs, [seed], WorkShape.of(problem, totals.precision), time.perf_counter() - began, failed)


def draw_latencies(
    dataset: str, trained: Trained, entries: Sequence[Entry], settings: Settings
) -> tuple[tuple[SchemeResult, ...], tuple[TraceRow, ...]]:
    """Attach latencies to the trajectories, under each of the sharing conventions; traces are of the first."""
    rows: list[SchemeResult] = []
    traces: list[TraceRow] = []
    for at in settings.conditions:
        drawn = _Drawn.of(dataset, trained, entries, settings, at)
        found = {(entry, target): drawn.row(entry, target) for entry in entries for target in settings.targets}
        for (entry, target), row in found.items():
            rival = found.get((Entry(ConventionalFullBatch(), entry.solver, entry.step), target))
            rows.append(row if rival is None or not entry.scheme.exact else replace(row, gain=_gain(row, rival)))
        if not traces:
            traces += [one for entry in drawn.timings for one in drawn.traces(entry)]
    return tuple(rows), tuple(traces)


def _gain(row: SchemeResult, rival: SchemeResult) -> Gain:
    """The speed-up split into what the solver brings, which conventional FL could have as well, and the rest."""
    total, by_solver = row.speedup_over_conventional.median, rival.speedup_over_conventional.median
    return Gain() if not total or not by_solver else Gain(by_solver, total / by_solver)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Latencies drawn under one convention: the times of every entry that can run, and why the others cannot."""

    dataset: str
    trained: Trained
    at: Conditions
    draws: int
    timings: dict[Entry, _Timing]
    failed: dict[Entry, Failure]

    @classmethod
    def of(cls, dataset: str, trained: Trained, entries: Sequence[Entry], settings: Settings, at: Conditions) -> _Drawn:
        failed = {entry: trained.failed[entry.models_key] for entry in entries if entry.models_key in trained.failed}
        # Entries of one scheme (other steps, other solvers) differ in their models only: one set of latencies serves
        # all.
        longest: dict[Scheme, int] = {}
        for entry in entries:
            if entry not in failed:
                epochs = max(int(run.epochs[-1]) for run in trained.runs[entry.models_key])
                longest[entry.scheme] = max(epochs, longest.get(entry.scheme, 0))
        by_scheme: dict[Scheme, _Timing | Failure] = {}
        for scheme, epochs in longest.items():
            streams = np.random.default_rng([settings.latency_seed, 1]).spawn(2)  # the same for every scheme
            try:
                by_scheme[scheme] = _Timing(
                    *epoch_end_times(scheme, trained.shape, at, epochs, Draws(settings.draws, *streams))
                )
            except CANNOT_RUN as error:
                by_scheme[scheme] = Failure(str(error))
        timings: dict[Entry, _Timing] = {}
        for entry in entries:
            if entry not in failed:
                found = by_scheme[entry.scheme]
                if isinstance(found, Failure):
                    failed[entry] = found
                else:
                    timings[entry] = found
        return cls(dataset, trained, at, settings.draws, timings, failed)

    def row(self, entry: Entry, target: float) -> SchemeResult:
        """One entry at one target."""
        seeds = len(self.trained.seeds)
        row = SchemeResult(
            dataset=self.dataset,
            scheme=entry.scheme.name,
            label=entry.scheme.label,
            parameters=entry.scheme.parameters,
            solver=entry.solver_name,
            sharing=self.at.sharing,
            step=entry.step,
            target_accuracy=target,
            chunked=self.at.chunk_bits is not None,
            private=entry.scheme.private,
            seeds=seeds,
            exposure=_exposure(entry.scheme, self.at.fleet.n_devices),
            seconds=np.full((seeds, self.draws), np.inf),
            final=np.full(seeds, np.nan),
        )
        if entry in self.failed:
            return replace(row, reason=self.failed[entry].reason, diverged=self.failed[entry].diverged)
        runs, timing = self.trained.runs[entry.models_key], self.timings[entry]
        own = _seconds_to(runs, timing, target)
        epochs = [run.epochs_to(target) for run in runs]
        final = np.array([run.scores[-1] for run in runs])
        # From the second epoch on: the first may wait for devices that the sharing phase keeps busy.
        several = timing.ends.shape[1] > 1
        lengths = np.diff(timing.ends, axis=1) if several else timing.ends - timing.start[:, None]
        return replace(
            row,
            seeds_reached=int(np.isfinite(own[:, 0]).sum()),
            epochs_to_target=summary([math.inf if count is None else float(count) for count in epochs]),
            time_to_target_s=_times(own),
            speedup_over_conventional=_speedups(own, self._baseline_seconds(entry, target)),
            sharing_s=float(timing.start.mean()),
            epoch_s_mean=float(lengths.mean()),
            final_accuracy=summary(final.tolist()),
            seconds=own,
            final=final,
        )

    def _baseline_seconds(self, entry: Entry, target: float) -> Floats | None:
        """The row of conventional descent with the same step; None if it was not run."""
        for other, timing in self.timings.items():
            if isinstance(other.scheme, Conventional) and other.solver == "gd" and other.step == entry.step:
                return _seconds_to(self.trained.runs[other.models_key], timing, target)
        return None

    def traces(self, entry: Entry) -> list[TraceRow]:
        """Every scored epoch of every seed."""
        mean_ends = self.timings[entry].ends.mean(axis=0)
        return [
            TraceRow(
                dataset=self.dataset,
                label=entry.scheme.label,
                scheme=entry.scheme.name,
                solver=entry.solver_name,
                step=entry.step,
                seed=seed,
                epoch=int(epoch),
                seconds=float(f"{mean_ends[epoch - 1]:.6g}"),  # digits, not decimals: a small model takes milliseconds
                accuracy=round(float(score), 5),
            )
            for seed, run in zip(self.trained.seeds, self.trained.runs[entry.models_key], strict=True)
            for epoch, score in zip(run.epochs, run.scores, strict=True)
        ]


@functools.lru_cache(maxsize=256)
def _exposure(scheme: Scheme, n_devices: int) -> ExposureResult:
    """What the scheme says of itself; nothing where it does not fit the fleet."""
    try:
        found = scheme.exposure(n_devices)
    except CANNOT_RUN:
        return ExposureResult()
    return ExposureResult(found.server_alone, found.one_colluder, found.two_colluders)


def _times(own: Floats) -> Times:
    over_seeds = summary(own.mean(axis=1).tolist())
    p5, p95 = np.quantile(own, (0.05, 0.95)) if np.isfinite(own).all() else (math.inf, math.inf)
    return Times(**vars(over_seeds), p5=finite(float(p5)), p95=finite(float(p95)))


def _speedups(own: Floats, baseline: Floats | None) -> Speedups:
    """Seed by seed, over those in which the baseline reaches the target; 0 where only the baseline does."""
    if baseline is None:
        return Speedups()
    reached = np.isfinite(baseline[:, 0])
    own, baseline = own[reached], baseline[reached]
    found = times_faster(own, baseline)
    over_seeds = summary((baseline.mean(axis=1) / own.mean(axis=1)).tolist())
    low, high = (None if end is None else finite(end) for end in (found.low, found.high))
    return Speedups(**vars(over_seeds), seeds_compared=len(own), low=low, high=high)


def _seconds_to(runs: Sequence[Trajectory], timing: _Timing, target: float) -> Floats:
    """Times, (seeds, draws), infinite in a seed that never gets there."""
    never = np.full(len(timing.start), np.inf)
    reached = [run.epochs_to(target) for run in runs]
    return np.array([never if epoch is None else timing.ends[:, epoch - 1] for epoch in reached])
