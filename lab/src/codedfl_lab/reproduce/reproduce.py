"""The paper's Figures 1a and 1b and its headline numbers, with every baseline (section V).

One call per figure: ``reproduce("mnist", ...)`` trains every scheme over feature seeds, draws latencies under each
sharing convention, with pads and sealing free and charged, and judges the paper's claims under each of these six.
Writing it down is ``report``'s business. What is fixed here is the paper's experiment (facts and choices are explained
in the report's notes and in docs/methods.md); everything measured is measured.
"""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import numpy as np

from codedfl.data.dataset import Dataset
from codedfl.data.problem import Problem, make_problem
from codedfl.errors import InvalidInput
from codedfl.solve.registry import DEFAULT_SOLVER
from codedfl.typing import Progress
from codedfl.version import __version__
from codedfl_lab import datasets
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import CENTRAL_MODELS, Entry, Settings, Timed, Trained, seed_job, timed_latencies
from codedfl_lab.comparing.paired import LEAST_SEEDS
from codedfl_lab.comparing.paper import EXPERIMENTS, Experiment
from codedfl_lab.comparing.parallel import in_parallel, jobs_at_once
from codedfl_lab.comparing.results import Claim, PaperValue, Results, Sensitivity, Took
from codedfl_lab.costs import CodedFedL, CodedKeys, CodedPadded, Conventional, ConventionalFullBatch, DropSlowest
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import SharingConvention
from codedfl_lab.reproduce.claims import SHUFFLED, accuracy_claims, paper_claims

as_the_paper = functools.partial(Entry, step=paper.STEP)
"""An entry whose descent takes the paper's step, not one that follows from the data."""

CONVENTIONS: tuple[SharingConvention, ...] = get_args(SharingConvention)
SENSITIVITY = (0.0, 1.0, 4.0)  # times the fleet's cost of pads and sealing

NOTES = (
    "Pads and sealing are charged in MACs per number to all schemes alike (the paper counts none); the sensitivity"
    " table shows 0, 1 and 4 times the measured cost.",
    CENTRAL_MODELS,
)


def reproduce(
    name: str,
    *,
    seeds: Sequence[int] = range(5),
    draws: int = 200,
    data_dir: Path | None = None,
    n_features: int = paper.FEATURES,
    rows: int | None = None,
    fleet: Fleet | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Results:
    """Run one figure (``report`` writes it down).

    ``n_features`` and ``rows`` (of the training data) below the paper's make a quick look; the report then says so.
    """
    if name not in EXPERIMENTS:
        raise InvalidInput(f"experiment must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
    experiment = EXPERIMENTS[name]
    target = experiment.headline_target
    fleet = fleet or Fleet.load(paper.FLEET)
    began = time.perf_counter()
    data = thinned(datasets.load(experiment.dataset, data_dir), rows)
    settings = experiment_settings(experiment, fleet, draws)
    entries = paper_entries(fleet.n_devices)
    spread = _shuffled_entries(fleet.n_devices)
    in_order, at_random = (
        problem_maker(data, fleet.n_devices, n_features, experiment.gamma, partition)
        for partition in ("sorted", "random")
    )
    jobs = [seed_job(in_order, seed, entries, settings) for seed in seeds]
    # The rows dealt out at random: no client drift to be seen. As many seeds as a verdict needs.
    jobs += [seed_job(at_random, seed, spread, settings) for seed in seeds[:LEAST_SEEDS]]
    parts = list(in_parallel(jobs, progress))
    trained, trained_spread = Trained.joined(parts[: len(seeds)]), Trained.joined(parts[len(seeds) :])
    at_cost = {factor: replace(settings, fleet=with_crypto_cost(fleet, factor)) for factor in SENSITIVITY}
    timed, traces = timed_latencies(name, trained, entries, settings)
    timed_spread, _ = timed_latencies(name + SHUFFLED, trained_spread, spread, settings)
    free, _ = timed_latencies(name, trained, entries, at_cost[0.0])
    free_spread, _ = timed_latencies(name + SHUFFLED, trained_spread, spread, at_cost[0.0])
    dear, _ = timed_latencies(name, trained, entries, replace(at_cost[SENSITIVITY[-1]], conventions=("authors",)))
    return Results(
        name=name,
        title=experiment.title,
        dataset=experiment.dataset,
        command=command,
        fleet=fleet.name,
        n_devices=fleet.n_devices,
        n_features=n_features,
        n_samples=len(data.y_train),
        seeds=tuple(seeds),
        draws=draws,
        targets=experiment.targets,
        headline_target=target,
        score_name="accuracy",
        paper=PaperValue(experiment.speedup, experiment.alpha),
        schemes=tuple(one.row for one in timed),
        shuffled=tuple(one.row for one in _of(timed_spread, "authors")),
        sensitivity=tuple(
            Sensitivity(factor, tuple(one.row for one in _of(found, "authors") if one.row.target_accuracy == target))
            for factor, found in zip(SENSITIVITY, (free, timed, dear), strict=True)
        ),
        claims=(
            *_judged(name, free, free_spread, charged=False),
            *_judged(name, timed, timed_spread, charged=True),
            *accuracy_claims(name, _of(timed, "authors"), _of(timed_spread, "authors")),
        ),
        notes=NOTES,
        seconds=Took(time.perf_counter() - began, (trained.seconds + trained_spread.seconds) / jobs_at_once(len(jobs))),
        versions=software_versions(),
        quick=n_features < paper.FEATURES or rows is not None,
        traces=traces,
    )


def _judged(name: str, schemes: Sequence[Timed], shuffled: Sequence[Timed], *, charged: bool) -> list[Claim]:
    """The paper's claims under each sharing convention, one for all schemes at a time."""
    return [
        replace(claim, sharing=sharing, charged=charged)
        for sharing in CONVENTIONS
        for claim in paper_claims(name, _of(schemes, sharing), _of(shuffled, sharing))
    ]


def _of(timed: Sequence[Timed], sharing: SharingConvention) -> list[Timed]:
    return [one for one in timed if one.row.sharing == sharing]


def experiment_settings(experiment: Experiment, fleet: Fleet, draws: int) -> Settings:
    """The paper's experiment on a fleet, by all three conventions of sharing."""
    return Settings(
        fleet,
        experiment.targets,
        conventions=CONVENTIONS,
        draws=draws,
        max_epochs=experiment.max_epochs,
    )


def problem_maker(
    data: Dataset, n_devices: int, n_features: int, gamma: float, partition: str
) -> Callable[[int], Problem]:
    """From a feature seed to its problem, made when it is asked for."""
    return lambda seed: make_problem(
        data, n_devices=n_devices, partition_name=partition, n_features=n_features, gamma=gamma, seed=seed
    )


def paper_entries(n_devices: int) -> list[Entry]:
    """The curves of the figure, the schemes beyond it with their fair rivals, and both steps for the headline."""
    alphas = paper.alphas_for(n_devices)
    coded = [CodedPadded(alpha) for alpha in alphas]
    solvers = ("gd", "cg", DEFAULT_SOLVER)
    beyond = [as_the_paper(CodedKeys(alphas[-2]), solver) for solver in solvers]
    beyond += [as_the_paper(CodedKeys(alphas[-1]), solver) for solver in solvers[1:]]
    baselines = [Conventional(), DropSlowest(paper.DROPPED), *(CodedFedL(delta) for delta in paper.DELTAS)]
    literal = [Entry(scheme, step=paper.STEP_LITERAL) for scheme in (Conventional(), *coded)]
    rivals = [as_the_paper(ConventionalFullBatch(), solver) for solver in solvers]
    return [*(as_the_paper(scheme) for scheme in (*baselines, *coded)), *beyond, *rivals, *literal]


def _shuffled_entries(n_devices: int) -> list[Entry]:
    """Conventional FL, dropping the slowest, and coding."""
    return [
        as_the_paper(Conventional()),
        as_the_paper(DropSlowest(paper.DROPPED)),
        as_the_paper(CodedPadded(n_devices - 2)),
    ]


def with_crypto_cost(fleet: Fleet, factor: float) -> Fleet:
    """The fleet with pads and sealing at another price."""
    return replace(
        fleet,
        pad_macs_per_number=factor * fleet.pad_macs_per_number,
        seal_macs_per_number=factor * fleet.seal_macs_per_number,
    )


def thinned(data: Dataset, rows: int | None) -> Dataset:
    """Every n-th training row, about ``rows`` of them; None takes all."""
    if rows is None or rows >= len(data.y_train):
        return data
    if rows < 1:
        raise InvalidInput(f"rows must be at least 1, got {rows}")
    keep = np.linspace(0, len(data.y_train) - 1, rows).astype(np.int64)
    return replace(data, X_train=data.X_train[keep], y_train=data.y_train[keep])


def software_versions() -> dict[str, str]:
    """What the numbers were made with."""
    return {
        "python": platform.python_version(),
        "codedfl": __version__,
        **{name: version(name) for name in ("numpy", "scikit-learn")},
    }
