"""The paper's Figures 1a and 1b and its headline numbers, with every baseline (section V).

One call per figure: ``reproduce("mnist", ...)`` trains every scheme over feature seeds, draws latencies under each
sharing convention and checks the paper's claims on the outcome. Writing it down is ``report``'s business.
What is fixed here is the paper's experiment (facts and choices are explained in the report's notes); everything
measured is measured.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from codedfl.data import datasets
from codedfl.data.datasets import Dataset
from codedfl.data.problem import Problem, make_problem
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.schemes import CodedFedL, CodedKeys, CodedPadded, Conventional, ConventionalFullBatch, DropSlowest
from codedfl.solve.registry import DEFAULT_SOLVER
from codedfl.study import paper
from codedfl.study.claims import SHUFFLED, paper_claims
from codedfl.study.comparison import CENTRAL_MODELS, Entry, Settings, Trained, draw_latencies, seed_job
from codedfl.study.paper import EXPERIMENTS, Experiment
from codedfl.study.parallel import in_parallel, jobs_at_once
from codedfl.study.results import Claim, PaperValue, Results, SchemeResult, Sensitivity, Took
from codedfl.typing import Progress
from codedfl.version import __version__

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
    fleet = fleet or Fleet.load(paper.FLEET)
    began = time.perf_counter()
    data = thinned(datasets.load(experiment.dataset, data_dir), rows)
    settings = experiment_settings(experiment, fleet, draws)
    entries = _entries(fleet.n_devices)
    spread = _shuffled_entries(fleet.n_devices)
    once = replace(settings, conventions=("authors",))
    in_order, at_random = (
        problem_maker(data, fleet.n_devices, n_features, experiment.gamma, partition)
        for partition in ("sorted", "random")
    )
    jobs = [seed_job(in_order, seed, entries, settings) for seed in seeds]
    # The rows dealt out at random: no client drift to be seen. One feature seed is enough for that.
    jobs.append(seed_job(at_random, seeds[0], spread, once))
    *parts, shuffled_part = in_parallel(jobs, progress)
    trained = Trained.joined(parts)
    schemes, traces = draw_latencies(name, trained, entries, settings)
    shuffled, _ = draw_latencies(name + SHUFFLED, shuffled_part, spread, once)
    at_cost = {
        factor: draw_latencies(name, trained, entries, replace(once, fleet=_with_crypto_cost(fleet, factor)))[0]
        for factor in SENSITIVITY
    }
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
        headline_target=experiment.headline_target,
        score_name="accuracy",
        paper=PaperValue(experiment.speedup, experiment.alpha),
        schemes=schemes,
        shuffled=shuffled,
        sensitivity=tuple(
            Sensitivity(factor, tuple(row for row in rows if row.target_accuracy == experiment.headline_target))
            for factor, rows in at_cost.items()
        ),
        claims=_judged(name, at_cost, shuffled),
        notes=NOTES,
        seconds=Took(time.perf_counter() - began, (trained.seconds + shuffled_part.seconds) / jobs_at_once(len(jobs))),
        versions=software_versions(),
        quick=n_features < paper.FEATURES or rows is not None,
        traces=traces,
    )


def _judged(
    name: str, at_cost: Mapping[float, Sequence[SchemeResult]], shuffled: Sequence[SchemeResult]
) -> tuple[Claim, ...]:
    """The paper's claims by its own accounting (pads and sealing cost nothing), then with both charged."""
    return tuple(
        replace(claim, statement=f"{claim.statement} ({words})")
        for factor, words in ((0.0, "as the paper counts"), (1.0, "pads and sealing charged"))
        for claim in paper_claims(name, at_cost[factor], shuffled)
    )


def experiment_settings(experiment: Experiment, fleet: Fleet, draws: int) -> Settings:
    """The paper's experiment on a fleet, by all three conventions of sharing."""
    return Settings(
        fleet,
        experiment.targets,
        conventions=("authors", "per-message", "multicast"),
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


def _entries(n_devices: int) -> list[Entry]:
    """The curves of the figure, the schemes beyond it with their fair rivals, and both steps for the headline."""
    alphas = paper.alphas_for(n_devices)
    coded = [CodedPadded(alpha) for alpha in alphas]
    solvers = ("gd", "cg", DEFAULT_SOLVER)
    beyond = [Entry(CodedKeys(alphas[-2]), solver) for solver in solvers]
    beyond += [Entry(CodedKeys(alphas[-1]), solver) for solver in solvers[1:]]
    baselines = [Conventional(), DropSlowest(paper.DROPPED), *(CodedFedL(delta) for delta in paper.DELTAS)]
    literal = [Entry(scheme, step=paper.STEP_LITERAL) for scheme in (Conventional(), *coded)]
    rivals = [Entry(ConventionalFullBatch(), solver) for solver in solvers]
    return [*(Entry(scheme) for scheme in (*baselines, *coded)), *beyond, *rivals, *literal]


def _shuffled_entries(n_devices: int) -> list[Entry]:
    """Conventional FL, dropping the slowest, and coding."""
    return [Entry(Conventional()), Entry(DropSlowest(paper.DROPPED)), Entry(CodedPadded(n_devices - 2))]


def _with_crypto_cost(fleet: Fleet, factor: float) -> Fleet:
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
