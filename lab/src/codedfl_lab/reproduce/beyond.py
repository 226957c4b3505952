"""Faster than the paper at its privacy level: coded keys, Krylov solvers, the one-shot floor, large fleets.

``reproduce_beyond`` trains the schemes of both figures with every solver, with uploads in one lump and in chunks, and
draws the speed-up against the number of devices with the planner's choice marked.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from codedfl.solve.registry import BLOCK_KRYLOV
from codedfl.typing import Progress
from codedfl_lab import datasets
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import (
    Entry,
    Settings,
    Timed,
    Trained,
    draw_latencies,
    timed_latencies,
    train_seeds,
)
from codedfl_lab.comparing.paired import times_faster
from codedfl_lab.comparing.paper import EXPERIMENTS, Experiment
from codedfl_lab.comparing.parallel import jobs_at_once
from codedfl_lab.comparing.results import (
    Goal,
    PeerRow,
    Results,
    ScalingRow,
    SchemeResult,
    Sensitivity,
    Took,
    TraceRow,
    Verdict,
    finite,
)
from codedfl_lab.costs import (
    CodedKeys,
    CodedPadded,
    Conditions,
    Conventional,
    ConventionalFullBatch,
    OneShot,
    RoleKeys,
    Scheme,
    WorkShape,
    epoch_end_times,
)
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.planning.planner import gram_directions
from codedfl_lab.reproduce.peers import peer_rows
from codedfl_lab.reproduce.reproduce import (
    as_the_paper,
    experiment_settings,
    problem_maker,
    software_versions,
    thinned,
    with_crypto_cost,
)

CHUNK_BITS = 12_000  # a packet of 1 500 bytes, each with its own retransmissions
FLEET_SIZES = (25, 50, 120, 250, 500, 1000)
GROUP_SIZE = 25


@dataclass(frozen=True)
class _Aim:
    """What this study sets out to reach on one data set."""

    dataset: str
    scheme: str
    solver: str
    rival: str
    rival_solver: str
    times: float
    z: int | None = None  # of a scheme that bears so many colluders


SENSITIVITY = ((0.0, False), (1.0, False), (2.0, False), (4.0, False), (1.0, True), (2.0, True))
"""Times the fleet's price of pads and sealing, and whether a device's own pads are charged too.

Twice the price is about what ``make bench`` measures beside a kernel with AVX-512.
"""
SOLVERS = ("gd", "nesterov", "cg", BLOCK_KRYLOV)
COLLUDERS = {1: 150.0, 4: 125.0, 9: 90.0}  # z, and how many times faster than conventional FL it shall be


def _aims(dataset: str, with_cg: float) -> list[_Aim]:
    """``with_cg``: how many times faster coded keys with conjugate gradient shall be than conventional FL."""
    return [
        _Aim(dataset, "coded-keys", "gd", "conventional", "gd", 13.0),
        _Aim(dataset, "coded-keys", "cg", "conventional", "gd", with_cg),
        _Aim(dataset, "coded-keys", "cg", "conventional-full-batch", "cg", 8.0),
        _Aim(dataset, "coded-keys", BLOCK_KRYLOV, "conventional", "gd", 150.0),
        _Aim(dataset, "coded-keys", BLOCK_KRYLOV, "conventional-full-batch", BLOCK_KRYLOV, 6.5),
        *(_Aim(dataset, "role-keys", BLOCK_KRYLOV, "conventional", "gd", goal, z) for z, goal in COLLUDERS.items()),
        _Aim(dataset, "role-keys", BLOCK_KRYLOV, "conventional-full-batch", BLOCK_KRYLOV, 6.5, 1),
    ]


AIMS = (*_aims("mnist", 100.0), *_aims("fashion-mnist", 150.0))

NOTES = (
    "Coded keys: one padded upload a device, the pads' 32-byte seeds are coded instead of the data. Privacy is that of"
    " the paper's scheme; the server sees the total only.",
    "Every scheme with exact gradients can run any solver, conventional FL included (full batch, stored Gram matrix).",
    "'chunked' sends every message in packets of 12 000 bits with their own retransmissions, as real links do, for all"
    " schemes alike; otherwise a failed transmission repeats the whole message.",
    "Large fleets repeat the paper's mix of devices, each with as many samples as in the paper; epochs to the target"
    " are those at 25 devices, since exact models do not depend on who holds what. Above 50 devices coded schemes use"
    " groups of about 25.",
)


def beyond_entries(n_devices: int) -> list[Entry]:
    """Who takes part in the race beyond the paper: every exact scheme with every solver, and conventional FL."""
    alphas = sorted({paper.to_scale(alpha, n_devices) for alpha in (16, 20, 23, 25)})
    entries = [as_the_paper(Conventional()), *(as_the_paper(ConventionalFullBatch(), solver) for solver in SOLVERS)]
    entries += [
        as_the_paper(CodedPadded(alpha), solver) for alpha in alphas[-2:] for solver in SOLVERS if solver != "nesterov"
    ]
    entries += [as_the_paper(CodedKeys(alpha), solver) for alpha in alphas for solver in SOLVERS]
    roles = [RoleKeys(z) for z in COLLUDERS if 2 * (z + 1) <= n_devices]
    entries += [as_the_paper(scheme, solver) for scheme in roles for solver in ("gd", BLOCK_KRYLOV)]
    return [*entries, *(as_the_paper(OneShot(alpha)) for alpha in alphas[-2:])]


def sensitivity(
    name: str, trained: Trained, settings: Settings, entries: Sequence[Entry]
) -> dict[tuple[float, bool], tuple[SchemeResult, ...]]:
    """The rows of a few entries, by the first sharing convention, at other prices of pads and sealing."""
    return {
        (factor, own_pads): draw_latencies(
            name,
            trained,
            entries,
            replace(
                settings,
                fleet=with_crypto_cost(settings.fleet, factor),
                conventions=settings.conventions[:1],
                own_pads_charged=own_pads,
            ),
        )[0]
        for factor, own_pads in SENSITIVITY
    }


def reproduce_beyond(
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
    """Run the study."""
    began = time.perf_counter()
    fleet = fleet or Fleet.load(paper.FLEET)
    entries = beyond_entries(fleet.n_devices)
    timed: list[Timed] = []
    traces: list[TraceRow] = []
    scaling: list[ScalingRow] = []
    peers: list[PeerRow] = []
    at_prices: dict[tuple[float, bool], tuple[SchemeResult, ...]] = dict.fromkeys(SENSITIVITY, ())
    racers = [
        as_the_paper(Conventional()),
        *(
            as_the_paper(one, BLOCK_KRYLOV)
            for one in (ConventionalFullBatch(), CodedKeys(fleet.n_devices), RoleKeys(1))
        ),
    ]
    algebra = 0.0
    for index, (name, experiment) in enumerate(EXPERIMENTS.items()):
        data = thinned(datasets.load(experiment.dataset, data_dir), rows)
        settings = replace(experiment_settings(experiment, fleet, draws), targets=(experiment.headline_target,))
        problem = problem_maker(data, fleet.n_devices, n_features, experiment.gamma, "sorted")
        parts = list(train_seeds(problem, seeds, entries, settings, _part(progress, index, len(EXPERIMENTS))))
        trained = Trained.joined(parts)
        algebra += trained.seconds / jobs_at_once(len(parts))
        for chunk_bits in (None, CHUNK_BITS):
            found, curves = timed_latencies(name, trained, entries, replace(settings, chunk_bits=chunk_bits))
            timed += [
                replace(one, row=replace(one.row, gram_directions=_gram_directions(one.row, trained.shape)))
                for one in found
            ]
            traces += curves if chunk_bits is None else ()
        for price, found_rows in sensitivity(name, trained, settings, racers).items():
            at_prices[price] += found_rows
        scaling += speedup_against_devices(name, experiment, trained, settings)
        peers += peer_rows(name, experiment.headline_target, trained, settings)
    return Results(
        name="beyond",
        title="Beyond the paper: MNIST and Fashion-MNIST",
        dataset=", ".join(EXPERIMENTS),
        command=command,
        fleet=fleet.name,
        n_devices=fleet.n_devices,
        n_features=n_features,
        seeds=tuple(seeds),
        draws=draws,
        score_name="accuracy",
        schemes=tuple(one.row for one in timed),
        claims=tuple(judge_goals(timed)),
        sensitivity=tuple(Sensitivity(factor, rows, own) for (factor, own), rows in at_prices.items()),
        scaling=tuple(scaling),
        peers=tuple(peers),
        notes=NOTES,
        seconds=Took(time.perf_counter() - began, algebra),
        versions=software_versions(),
        quick=n_features < paper.FEATURES or rows is not None,
        traces=tuple(traces),
    )


def _part(progress: Progress | None, index: int, count: int) -> Progress | None:
    """The progress of one data set of several as that of the whole."""
    if progress is None:
        return None
    return lambda what, fraction: progress(what, (index + fraction) / count)


def judge_goals(schemes: Sequence[Timed]) -> list[Goal]:
    """Each aim under each convention of the results, by the best alpha; judged as the paper's claims are."""
    sharings = dict.fromkeys(one.row.sharing for one in schemes)
    judged = []
    for aim in AIMS:
        for sharing, chunked in itertools.product(sharings, (False, True)):
            here = [
                one
                for one in schemes
                if (one.row.dataset, one.row.sharing, one.row.chunked) == (aim.dataset, sharing, chunked)
            ]
            mine = [
                one for one in here if (one.row.scheme, one.row.solver, one.row.z) == (aim.scheme, aim.solver, aim.z)
            ]
            theirs = [one for one in here if (one.row.scheme, one.row.solver) == (aim.rival, aim.rival_solver)]
            best = max(mine, key=lambda one: one.row.speedup_over_conventional.median or 0.0, default=None)
            if best is not None and theirs:
                judged.append(_judge(aim, best, theirs[0]))
    return judged


def _judge(aim: _Aim, best: Timed, rival: Timed) -> Goal:
    """It holds where the whole interval reaches the goal, and fails where the whole interval falls short of it."""
    faster = times_faster(best.seconds, rival.seconds)
    row, ratio = best.row, None if faster.median is None else finite(faster.median)
    evidence = f"{aim.rival} with {aim.rival_solver} does not reach the target"
    verdict: Verdict = "not judged"
    if ratio is not None:
        evidence = f"{ratio:.1f} times, {row.label}, median over {faster.seeds} seeds"
    if ratio is not None and faster.low is not None and faster.high is not None:
        evidence += f", {faster.low:.1f} to {faster.high:.1f}"
        verdict = "holds" if faster.low >= aim.times else "fails" if faster.high < aim.times else "tie"
    borne = "" if aim.z is None else f" and z = {aim.z}"
    return Goal(
        statement=f"{aim.scheme} with {aim.solver}{borne} is at least {aim.times:g} times faster than {aim.rival} with"
        f" {aim.rival_solver} (sharing {row.sharing}{', chunked' if row.chunked else ''})",
        dataset=aim.dataset,
        target_accuracy=row.target_accuracy,
        verdict=verdict,
        evidence=evidence,
        sharing=row.sharing,
        charged=True,
        scheme=aim.scheme,
        solver=aim.solver,
        rival=aim.rival,
        rival_solver=aim.rival_solver,
        chunked=row.chunked,
        goal=aim.times,
        speedup=ratio,
        z=aim.z,
    )


def _gram_directions(row: SchemeResult, shape: WorkShape) -> int | None:
    """What the median seed gives away; None if it never gets there."""
    epochs = row.epochs_to_target.median
    return None if epochs is None else gram_directions(shape, round(epochs), reveals_gram=row.scheme == OneShot.name)


def speedup_against_devices(
    name: str, experiment: Experiment, trained: Trained, settings: Settings
) -> list[ScalingRow]:
    """Seconds, and times faster than conventional FL, on the fleet's mix at other sizes.

    For every scheme and solver the fastest of a few alphas is taken, as the planner would; ``chosen`` marks the
    fastest of all.
    """
    per_device = int(trained.shape.samples.max())
    rows: list[ScalingRow] = []
    for size in FLEET_SIZES:
        at = Conditions(settings.fleet.scaled_to(size), "multicast", settings.policy, CHUNK_BITS)
        shape = replace(trained.shape, samples=np.full(size, per_device))
        best: dict[tuple[str, str], tuple[float, Scheme]] = {}
        for scheme, entry in _scaled_schemes(size):
            epochs = trained.median_epochs(entry, experiment.headline_target)
            if epochs is None:
                continue
            _, ends = epoch_end_times(scheme, shape, at, epochs, 20, np.random.default_rng([size, 3]))
            seconds, method = float(ends[:, -1].mean()), (scheme.name, entry.solver_name)
            if method not in best or seconds < best[method][0]:
                best[method] = seconds, scheme
        conventional = best.get((Conventional.name, "gd"))
        if conventional is None:
            continue  # it never gets there, so nothing is so many times faster
        # One-shot is the floor: it shows the server the whole total Gram matrix.
        fastest = min((method for method in best if method[0] != OneShot.name), key=lambda method: best[method][0])
        rows += [
            ScalingRow(
                dataset=name,
                devices=size,
                scheme=scheme.name,
                solver=method[1],
                label=scheme.label,
                parameters=scheme.parameters,
                sharing=at.sharing,
                chunked=at.chunk_bits is not None,
                seconds=seconds,
                speedup=conventional[0] / seconds,
                chosen=method == fastest,
            )
            for method, (seconds, scheme) in best.items()
        ]
    return rows


def _scaled_schemes(size: int) -> list[tuple[Scheme, Entry]]:
    """(scheme at this size, the entry whose trajectory it shares)."""
    groups = 1 if size <= 2 * GROUP_SIZE else round(size / GROUP_SIZE)
    members = size // groups
    found: list[tuple[Scheme, Entry]] = [
        (Conventional(), as_the_paper(Conventional())),
        *((ConventionalFullBatch(), as_the_paper(ConventionalFullBatch(), solver)) for solver in ("cg", BLOCK_KRYLOV)),
    ]
    found += [(RoleKeys.default_for(size), as_the_paper(RoleKeys(1), solver)) for solver in ("gd", BLOCK_KRYLOV)]
    for alpha in sorted({max(1, round(part * members)) for part in (0.4, 0.64, 0.8, 0.92, 1.0)}):
        found += [
            (CodedPadded(alpha, groups), as_the_paper(CodedPadded(1))),
            (CodedKeys(alpha, groups), as_the_paper(CodedKeys(1))),
            (CodedKeys(alpha, groups), as_the_paper(CodedKeys(1), "cg")),
            (CodedKeys(alpha, groups), as_the_paper(CodedKeys(1), BLOCK_KRYLOV)),
            (OneShot(alpha, groups), as_the_paper(OneShot(1))),
        ]
    return found
