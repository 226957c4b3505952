"""Faster than the paper at its privacy level: coded keys, Krylov solvers, the one-shot floor, large fleets.

``reproduce_beyond`` trains the schemes of both figures with every solver, with uploads in one lump and in chunks, and
draws the speed-up against the number of devices with the planner's choice marked.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

from codedfl.protocol.schemes.coded_keys import CodedKeys, OneShot
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl.solve.registry import BLOCK_KRYLOV
from codedfl.typing import Progress
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import Entry, Trained, draw_latencies, train_seeds
from codedfl_lab.comparing.paired import times_faster
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.parallel import jobs_at_once
from codedfl_lab.comparing.results import (
    AtSize,
    Goal,
    Results,
    SchemeResult,
    Sensitivity,
    Took,
    TraceRow,
    Verdict,
    finite,
)
from codedfl_lab.comparing.timed_scheme import gram_directions
from codedfl_lab.costs.times import WorkShape
from codedfl_lab.reproduce.reproduce import as_the_paper
from codedfl_lab.reproduce.scope import Scope, software_versions, with_crypto_cost
from codedfl_lab.reproduce.sizes import CHUNK_BITS, peers_at_sizes, speedups_against_devices

SENSITIVITY = ((0.0, False), (1.0, False), (2.0, False), (4.0, False), (1.0, True), (2.0, True))
"""Times the fleet's price of pads and sealing, and whether a device's own pads are charged too.

Twice the price is about what ``make bench`` measures beside a kernel with AVX-512.
"""
SOLVERS = ("gd", "nesterov", "cg", BLOCK_KRYLOV)
COLLUDERS = {1: 150.0, 4: 125.0, 9: 90.0}  # z, and how many times faster than conventional FL it shall be


def _aims(dataset: str, with_cg: float) -> list[Goal]:
    """``with_cg``: how many times faster coded keys with conjugate gradient shall be than conventional FL."""
    keys, rival, plain = CodedKeys.name, ConventionalFullBatch.name, Conventional.name
    roles = [(RoleKeys.name, BLOCK_KRYLOV, plain, "gd", goal, z) for z, goal in COLLUDERS.items()]
    wanted: list[tuple[str, str, str, str, float, int | None]] = [
        (keys, "gd", plain, "gd", 13.0, None),
        (keys, "cg", plain, "gd", with_cg, None),
        (keys, "cg", rival, "cg", 8.0, None),
        (keys, BLOCK_KRYLOV, plain, "gd", 150.0, None),
        (keys, BLOCK_KRYLOV, rival, BLOCK_KRYLOV, 6.5, None),
        *roles,
        (RoleKeys.name, BLOCK_KRYLOV, rival, BLOCK_KRYLOV, 6.5, 1),
    ]
    return [Goal("", dataset, None, "not judged", "", *aim, charged=True) for aim in wanted]


AIMS = (*_aims("mnist", 100.0), *_aims("fashion-mnist", 150.0))
"""What this study sets out to reach, not judged yet."""

NOTES = (
    "Coded keys: one padded upload per device, the pads' 32-byte seeds are coded instead of the data. Privacy is that"
    " of the paper's scheme; the server sees the total only.",
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


def racers(n_devices: int) -> list[Entry]:
    """Who is timed at other prices of pads and sealing."""
    solving = (ConventionalFullBatch(), CodedKeys(n_devices), RoleKeys(1))
    return [as_the_paper(Conventional()), *(as_the_paper(one, BLOCK_KRYLOV) for one in solving)]


def reproduce_beyond(scope: Scope, progress: Progress | None = None) -> Results:
    """Run the study."""
    began = time.perf_counter()
    entries, racing = beyond_entries(scope.fleet.n_devices), racers(scope.fleet.n_devices)
    rows: list[SchemeResult] = []
    traces: list[TraceRow] = []
    scaling: list[AtSize] = []
    peers: list[AtSize] = []
    at_prices: dict[tuple[float, bool], tuple[SchemeResult, ...]] = dict.fromkeys(SENSITIVITY, ())
    algebra = 0.0
    for index, (name, experiment) in enumerate(EXPERIMENTS.items()):
        settings = scope.settings(experiment, (experiment.headline_target,))
        problem = scope.problems(scope.data(experiment), experiment, "sorted")
        parts = list(train_seeds(problem, scope.seeds, entries, settings, _part(progress, index, len(EXPERIMENTS))))
        trained = Trained.joined(parts)
        algebra += trained.seconds / jobs_at_once(len(parts))
        for chunk_bits in (None, CHUNK_BITS):
            packed = replace(settings, at=replace(settings.at, chunk_bits=chunk_bits))
            found, curves = draw_latencies(name, trained, entries, packed)
            rows += [replace(row, gram_directions=_gram_directions(row, trained.shape)) for row in found]
            traces += curves if chunk_bits is None else ()
        once = replace(settings, conventions=settings.conventions[:1])
        for factor, own_pads in SENSITIVITY:
            priced = with_crypto_cost(once, factor, own_pads=own_pads)
            at_prices[factor, own_pads] += draw_latencies(name, trained, racing, priced)[0]
        scaling += speedups_against_devices(name, trained, settings)
        peers += peers_at_sizes(name, trained, settings)
    return Results(
        name="beyond",
        title="Beyond the paper: MNIST and Fashion-MNIST",
        dataset=", ".join(EXPERIMENTS),
        command=scope.command,
        fleet=scope.fleet.name,
        n_devices=scope.fleet.n_devices,
        n_features=scope.n_features,
        seeds=tuple(scope.seeds),
        draws=scope.draws,
        score_name="accuracy",
        schemes=tuple(rows),
        claims=tuple(judge_goals(rows)),
        sensitivity=tuple(Sensitivity(factor, found, own) for (factor, own), found in at_prices.items()),
        scaling=tuple(scaling),
        peers=tuple(peers),
        notes=NOTES,
        seconds=Took(time.perf_counter() - began, algebra),
        versions=software_versions(),
        quick=scope.quick,
        traces=tuple(traces),
    )


def _part(progress: Progress | None, index: int, count: int) -> Progress | None:
    """The progress of one data set of several as that of the whole."""
    if progress is None:
        return None
    return lambda what, fraction: progress(what, (index + fraction) / count)


def judge_goals(schemes: Sequence[SchemeResult]) -> list[Goal]:
    """Each aim under each convention of the results, by the best alpha; judged as the paper's claims are."""
    sharings = dict.fromkeys(one.sharing for one in schemes)
    judged = []
    for aim in AIMS:
        for sharing, chunked in itertools.product(sharings, (False, True)):
            here = [
                one for one in schemes if (one.dataset, one.sharing, one.chunked) == (aim.dataset, sharing, chunked)
            ]
            mine = [one for one in here if (one.scheme, one.solver, one.z) == (aim.scheme, aim.solver, aim.z)]
            theirs = [one for one in here if (one.scheme, one.solver) == (aim.rival, aim.rival_solver)]
            best = max(mine, key=lambda one: one.speedup_over_conventional.median or 0.0, default=None)
            if best is not None and theirs:
                judged.append(_judge(aim, best, theirs[0]))
    return judged


def _judge(aim: Goal, row: SchemeResult, rival: SchemeResult) -> Goal:
    """It holds where the whole interval reaches the goal, and fails where the whole interval falls short of it."""
    faster = times_faster(row.seconds, rival.seconds)
    ratio = None if faster.median is None else finite(faster.median)
    evidence = f"{aim.rival} with {aim.rival_solver} does not reach the target"
    verdict: Verdict = "not judged"
    if ratio is not None:
        evidence = f"{ratio:.1f} times, {row.label}, median over {faster.seeds} seeds"
    if ratio is not None and faster.low is not None and faster.high is not None:
        evidence += f", {faster.low:.1f} to {faster.high:.1f}"
        verdict = "holds" if faster.low >= aim.goal else "fails" if faster.high < aim.goal else "tie"
    borne = "" if aim.z is None else f" and z = {aim.z}"
    return replace(
        aim,
        statement=f"{aim.scheme} with {aim.solver}{borne} is at least {aim.goal:g} times faster than {aim.rival} with"
        f" {aim.rival_solver} (sharing {row.sharing}{', chunked' if row.chunked else ''})",
        target_accuracy=row.target_accuracy,
        verdict=verdict,
        evidence=evidence,
        sharing=row.sharing,
        chunked=row.chunked,
        speedup=ratio,
    )


def _gram_directions(row: SchemeResult, shape: WorkShape) -> int | None:
    """What the median seed gives away; None if it never gets there."""
    epochs = row.epochs_to_target.median
    return None if epochs is None else gram_directions(shape, round(epochs), reveals_gram=row.scheme == OneShot.name)
