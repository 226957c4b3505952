"""Who wins on fleets where users look: heavy tails, congested places, devices that come and go, drifting speeds.

MNIST to the paper's target on the paper's devices, and on their mix at 300, under every shipped fleet. Uploads and
answers are drawn one by one in packets, since mean times would hide who is waited for. Each scheme is set against the
strongest baseline on the same features, seed by seed and draw by draw. Besides the schemes as they are, what a scheme
can do about late uploads: begin with the whole groups that are there (``groups_first``), and send fewer features.

Models of exact schemes do not depend on who straggles and are trained once for a seed. Those of dropping and of
beginning early do: they are trained for every fleet, with latencies drawn once for a training. At 300 devices the rows
of a device are as many as at 25, and epochs are those of 25.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from codedfl.solve.registry import BLOCK_KRYLOV
from codedfl.typing import Floats, Progress
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import CANNOT_RUN, Entry
from codedfl_lab.comparing.paired import times_faster
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.parallel import in_parallel
from codedfl_lab.comparing.results import Written, finite
from codedfl_lab.comparing.simulator import trajectory
from codedfl_lab.costs import groups_first as _costs  # how its times and models follow is registered there
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions, Draws, WorkShape, epoch_end_times
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.problems.problem import Problem
from codedfl_lab.reproduce.beyond import low_frequency_problems
from codedfl_lab.reproduce.reproduce import as_the_paper
from codedfl_lab.reproduce.scope import ClaimScope, software_versions
from codedfl_lab.reproduce.sizes import CHUNK_BITS
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import Scheme
from codedfl_lab.schemes.groups_first import GroupsFirst
from codedfl_lab.schemes.role_keys import RoleKeys

del _costs
FLEETS = ("paper", "heavy-tailed", "congested", "coming-and-going", "drifting", "fast-processors")
SIZES = (25, 300)
DATASET = "mnist"
USUAL, FEWER = "paper's", "low frequencies"
DEALT, EARLY = "role-keys, blocks, 32 bits", "the same, whole groups first"
Verdict = Literal["wins", "tie", "loses", "baseline", "never"]


@dataclass(frozen=True)
class Entrant:
    """Who takes part, at any size.

    by_fleet: its models depend on who straggles. then: the words of the racer whose model it has as well, when that has
    one, so that it is there at the earlier of both.
    """

    words: str
    scheme: Callable[[int], Scheme]
    solver: str = BLOCK_KRYLOV
    features: str = USUAL
    by_fleet: bool = False
    sizes: tuple[int, ...] = SIZES
    baseline: bool = False
    then: str = ""

    def entry(self, size: int) -> Entry:
        return as_the_paper(self.scheme(size), self.solver)


def dealt(size: int) -> RoleKeys:
    """Role keys with blocks of about two and a half holders per cell, on the narrow ring."""
    *_, most = RoleKeys.tolerating(1, size)
    return replace(most, narrow=True)


def early(size: int) -> GroupsFirst:
    """The same that begins with seven of eight groups of three, or as large a share of more groups."""
    return replace(GroupsFirst.default_for(size), narrow=True, blocks=dealt(size).blocks)


RACERS = (
    Entrant("conventional FL", lambda _size: Conventional(), "gd", baseline=True),
    Entrant("dropping the slowest fifth", DropSlowest.default_for, "gd", by_fleet=True, sizes=SIZES[:1], baseline=True),
    Entrant("conventional FL, full batch", lambda _size: ConventionalFullBatch(), baseline=True),
    Entrant("coded-padded", lambda size: CodedPadded(paper.to_scale(paper.BEST_ALPHA, size)), sizes=SIZES[:1]),
    Entrant("coded-keys", lambda size: CodedKeys(paper.to_scale(paper.BEST_ALPHA, size)), sizes=SIZES[:1]),
    Entrant("role-keys", RoleKeys.default_for),
    Entrant(DEALT, dealt),
    Entrant(EARLY, early, by_fleet=True, then=DEALT),
    Entrant("conventional FL, full batch", lambda _size: ConventionalFullBatch(), features=FEWER, baseline=True),
    Entrant(DEALT, dealt, features=FEWER),
)


@dataclass(frozen=True)
class FleetRow:
    """One scheme on one fleet.

    Attributes
    ----------
    fleet, devices, features : str, int, str
        Where, and on which features.
    words, label : str
        Who, as it stands in the table, and with all parameters.
    private : bool
        Whether the server sees no single device.
    epochs : float or None
        Median over the seeds, of its own models; None where they never get there.
    seconds : float or None
        To the target, median over the seeds of means over draws.
    sharing_s : float
        Of them, before the first epoch.
    faster, low, high : float or None
        Times faster than the strongest baseline on the same features, with its 95 % interval, paired by seed and draw.
    verdict : str
        By the whole interval; of baselines and who never gets there, that.
    """

    fleet: str
    devices: int
    features: str
    words: str
    label: str
    private: bool
    epochs: float | None
    seconds: float | None
    sharing_s: float
    faster: float | None
    low: float | None
    high: float | None
    verdict: Verdict


@dataclass(frozen=True)
class FleetsResults(Written):
    """The outcome of the study."""

    rows: tuple[FleetRow, ...]
    target: float
    seeds: tuple[int, ...]
    draws: int
    latency_models: dict[str, list[str]]
    quick: bool
    command: str
    seconds: float
    versions: dict[str, str]

    name: str = "fleets"

    def of(self, fleet: str, devices: int) -> list[FleetRow]:
        return [row for row in self.rows if (row.fleet, row.devices) == (fleet, devices)]


Epochs = dict[tuple[Entrant, str], int | None]
"""To the target in one seed, by racer and fleet; one for all fleets stands under each."""


def reproduce_fleets(scope: ClaimScope, progress: Progress | None = None) -> FleetsResults:
    """Run the study."""
    began = time.perf_counter()
    target = EXPERIMENTS[DATASET].headline_target if not scope.quick else 0.9
    fleets = {name: Fleet.load(name) for name in FLEETS}
    found = list(in_parallel([_job(scope, seed, fleets, target) for seed in scope.seeds], progress))
    shape = found[0][1]
    epochs = [one for one, _ in found]
    rows = [
        row
        for size in SIZES
        for name, fleet in fleets.items()
        for row in _rows(name, fleet.scaled_to(size), epochs, shape, scope.draws)
    ]
    return FleetsResults(
        rows=tuple(rows),
        target=target,
        seeds=tuple(scope.seeds),
        draws=scope.draws,
        latency_models={name: list(fleet.latency_models) for name, fleet in fleets.items()},
        quick=scope.quick,
        command=scope.command,
        seconds=time.perf_counter() - began,
        versions=software_versions(),
    )


def conditions(fleet: Fleet) -> Conditions:
    """Drawn one by one, in packets."""
    return Conditions(fleet, "per-message", chunk_bits=CHUNK_BITS)


Shapes = dict[str, WorkShape]


def _job(
    scope: ClaimScope, seed: int, fleets: dict[str, Fleet], target: float
) -> Callable[[Progress], tuple[Epochs, Shapes]]:
    def run(progress: Progress) -> tuple[Epochs, Shapes]:
        experiment = EXPERIMENTS[DATASET]
        made = {
            USUAL: scope.problems(scope.data(experiment), experiment, "sorted"),
            FEWER: low_frequency_problems(scope),
        }
        epochs: Epochs = {}
        shapes: Shapes = {}
        for part, (features, problem_of) in enumerate(made.items()):
            problem = problem_of(seed)
            shapes[features] = WorkShape.of(problem)
            say = _within(progress, seed, features, part / len(made), 1 / len(made))
            epochs |= dict(_epochs(problem, features, seed, fleets, target, say))
        return epochs, shapes

    return run


def _within(progress: Progress, seed: int, features: str, start: float, share: float) -> Progress:
    return lambda what, part: progress(f"seed {seed}, {features} features: {what}", start + share * part)


def _epochs(
    problem: Problem, features: str, seed: int, fleets: dict[str, Fleet], target: float, say: Progress
) -> Iterator[tuple[tuple[Entrant, str], int | None]]:
    """What each racer needs; of those whose models depend on who straggles, for every fleet."""
    totals = CentralTotals(problem, lambda part: say("Gram matrices", part / 2))
    taking_part = [racer for racer in RACERS if racer.features == features]
    known: dict[tuple[object, ...], int | None] = {}
    most = EXPERIMENTS[DATASET].max_epochs
    for place, racer in enumerate(taking_part):
        entry = racer.entry(problem.n_devices)
        for name, fleet in fleets.items():
            say(f"{racer.words}, {name}", (1 + place / len(taking_part)) / 2)
            key = (*entry.models_key, name if racer.by_fleet else "")
            if key not in known:
                rng = np.random.default_rng([seed, 33])
                try:
                    models = entry.models(totals, most, paper.REGULARISATION, conditions(fleet), rng)
                    known[key] = trajectory(models, totals, max_epochs=most, target=target).epochs_to(target)
                except CANNOT_RUN:
                    known[key] = None
            yield (racer, name), known[key]


def _rows(name: str, fleet: Fleet, epochs: list[Epochs], shapes: Shapes, draws: int) -> list[FleetRow]:
    """All racers on one fleet, and how they compare with the strongest baseline on their features."""
    size, times, starts = fleet.n_devices, {}, {}
    racers = [racer for racer in RACERS if size in racer.sizes]
    for racer in racers:
        counts = [one[racer, name] for one in epochs]
        shape = replace(shapes[racer.features], samples=np.full(size, int(shapes[racer.features].samples.max())))
        most = max((count for count in counts if count is not None), default=1)
        streams = np.random.default_rng([size, 33]).spawn(2)
        start, ends = epoch_end_times(racer.scheme(size), shape, conditions(fleet), most, Draws(draws, *streams))
        never = np.full(draws, math.inf)
        times[racer] = np.array([never if count is None else ends[:, count - 1] for count in counts])
        starts[racer] = float(start.mean())
    by_words = {(racer.words, racer.features): racer for racer in racers}
    for racer in racers:
        if racer.then:
            times[racer] = np.minimum(times[racer], times[by_words[racer.then, racer.features]])
    rows = []
    for racer in racers:
        rivals = [one for one in racers if one.baseline and one.features == racer.features]
        strongest = min(rivals, key=lambda one: _median(times[one]))
        against = times_faster(times[racer], times[strongest])
        counts = [one[racer, name] for one in epochs]
        seconds = _median(times[racer])
        faster, low, high = (
            None if end is None else finite(end) for end in (against.median, against.low, against.high)
        )
        rows.append(
            FleetRow(
                fleet=name,
                devices=size,
                features=racer.features,
                words=racer.words,
                label=racer.scheme(size).label,
                private=racer.scheme(size).private,
                epochs=finite(float(np.median([math.inf if count is None else count for count in counts]))),
                seconds=finite(seconds),
                sharing_s=starts[racer],
                faster=faster,
                low=low,
                high=high,
                verdict=_verdict(racer, seconds, against.low, against.high),
            )
        )
    return rows


def _median(seconds: Floats) -> float:
    return float(np.median(seconds.mean(axis=1)))


def _verdict(racer: Entrant, seconds: float, low: float | None, high: float | None) -> Verdict:
    if racer.baseline:
        return "baseline"
    if not math.isfinite(seconds):
        return "never"
    if low is not None and low > 1:
        return "wins"
    return "loses" if high is not None and high < 1 else "tie"
