"""The paper's Figures 1a and 1b and its headline numbers, with every baseline (section V).

One call per figure: ``reproduce("mnist", ...)`` trains every scheme over feature seeds, draws latencies under each
sharing convention, with pads and sealing free and charged, and judges the paper's claims under each of these six.
Writing it down is ``report``'s business. What is fixed here is the paper's experiment (facts and choices are explained
in the report's notes and in docs/methods.md); everything measured is measured.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import replace

from codedfl.errors import InvalidInput
from codedfl.solve.registry import DEFAULT_SOLVER
from codedfl.typing import Progress
from codedfl_lab.baselines.coded_fedl import CodedFedL
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import CENTRAL_MODELS, Entry, Trained, draw_latencies, seed_job
from codedfl_lab.comparing.paired import LEAST_SEEDS
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.parallel import in_parallel, jobs_at_once
from codedfl_lab.comparing.results import Claim, PaperValue, Results, SchemeResult, Took
from codedfl_lab.reproduce.claims import SHUFFLED, accuracy_claims, paper_claims
from codedfl_lab.reproduce.scope import CONVENTIONS, ClaimScope, software_versions, without_price
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.coded_padded import CodedPadded

as_the_paper = functools.partial(Entry, step=paper.STEP)
"""An entry whose descent takes the paper's step, not one that follows from the data."""

NOTES = (
    "Pads and sealing are charged in MACs per number to all schemes alike; the paper counts none, and its claims are"
    " judged with and without.",
    CENTRAL_MODELS,
)


def reproduce(name: str, scope: ClaimScope, progress: Progress | None = None) -> Results:
    """Run one figure (``report`` writes it down).

    Paper: V, Figure 1a, Figure 1b. Shown by ``codedfl lab reproduce all``.
    """
    if name not in EXPERIMENTS:
        raise InvalidInput(f"experiment must be one of {', '.join(EXPERIMENTS)}, got {name!r}")
    experiment = EXPERIMENTS[name]
    target, n_devices, seeds = experiment.headline_target, scope.fleet.n_devices, scope.seeds
    began = time.perf_counter()
    data = scope.data(experiment)
    settings = scope.settings(experiment, experiment.targets)
    entries, spread = paper_entries(n_devices), _shuffled_entries(n_devices)
    in_order, at_random = (scope.problems(data, experiment, partition) for partition in ("sorted", "random"))
    jobs = [seed_job(in_order, seed, entries, settings) for seed in seeds]
    # The rows dealt out at random: no client drift to be seen. As many seeds as a verdict needs.
    jobs += [seed_job(at_random, seed, spread, settings) for seed in seeds[:LEAST_SEEDS]]
    parts = list(in_parallel(jobs, progress))
    trained, trained_spread = Trained.joined(parts[: len(seeds)]), Trained.joined(parts[len(seeds) :])
    without = without_price(settings)
    rows, traces = draw_latencies(name, trained, entries, settings)
    rows_spread, _ = draw_latencies(name + SHUFFLED, trained_spread, spread, settings)
    free, _ = draw_latencies(name, trained, entries, without)
    free_spread, _ = draw_latencies(name + SHUFFLED, trained_spread, spread, without)
    return Results(
        name=name,
        title=experiment.title,
        dataset=experiment.dataset,
        command=scope.command,
        fleet=scope.fleet.name,
        n_devices=n_devices,
        n_features=scope.n_features,
        n_samples=len(data.y_train),
        seeds=tuple(seeds),
        draws=scope.draws,
        targets=experiment.targets,
        headline_target=target,
        score_name="accuracy",
        paper=PaperValue(experiment.speedup, experiment.alpha),
        schemes=rows,
        shuffled=tuple(_of(rows_spread, "authors")),
        claims=(
            *_judged(name, free, free_spread, charged=False),
            *_judged(name, rows, rows_spread, charged=True),
            *accuracy_claims(name, _of(rows, "authors"), _of(rows_spread, "authors")),
        ),
        notes=NOTES,
        seconds=Took(time.perf_counter() - began, (trained.seconds + trained_spread.seconds) / jobs_at_once(len(jobs))),
        versions=software_versions(),
        quick=scope.quick,
        traces=traces,
    )


def _judged(
    name: str, schemes: Sequence[SchemeResult], shuffled: Sequence[SchemeResult], *, charged: bool
) -> list[Claim]:
    """The paper's claims under each sharing convention, one for all schemes at a time."""
    return [
        replace(claim, sharing=sharing, charged=charged)
        for sharing in CONVENTIONS
        for claim in paper_claims(name, _of(schemes, sharing), _of(shuffled, sharing))
    ]


def _of(rows: Sequence[SchemeResult], sharing: str) -> list[SchemeResult]:
    return [one for one in rows if one.sharing == sharing]


def paper_entries(n_devices: int) -> list[Entry]:
    """The curves of the figure, the schemes beyond it their strongest baselines, and both steps for the headline."""
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
