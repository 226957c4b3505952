"""Faster than the paper at its privacy level: role keys with row blocks, Krylov solvers, the one-shot floor.

``reproduce_beyond`` trains the schemes of both figures with every solver, with uploads in one lump and in chunks,
judges the goals of ``AIMS`` at every price of ``PRICES``, and draws the speed-up against the number of devices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from codedfl.data.features.pca_rbf import PrincipalFourierFeatures, low_frequencies
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.data.problem import Problem, make_problem
from codedfl.solve.registry import BLOCK_KRYLOV
from codedfl.typing import Progress
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import Entry, Settings, Trained, draw_latencies, seed_job
from codedfl_lab.comparing.paired import times_faster
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.parallel import in_parallel, jobs_at_once
from codedfl_lab.comparing.results import (
    AtPrice,
    AtSize,
    Claim,
    GoalVerdict,
    Price,
    Results,
    SchemeResult,
    ScoreGoal,
    Took,
    TraceRow,
    finite,
)
from codedfl_lab.comparing.timed_scheme import gram_directions
from codedfl_lab.costs.times import WorkShape
from codedfl_lab.fleet.fleet import RATED_BITS
from codedfl_lab.reproduce.reproduce import as_the_paper
from codedfl_lab.reproduce.scope import ClaimScope, software_versions, with_price
from codedfl_lab.reproduce.sizes import CHUNK_BITS, at_size, peers_at_sizes, speedups_against_devices
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.schemes.role_keys import RoleKeys

PRICES = (
    Price(),
    Price(own_pads=True),
    Price(public_keys=True),
    *(Price(factor) for factor in (0.0, 2.0, 4.0)),
    Price(whole_work=True),
)
"""The headline's first. Twice the price of pads is about what ``make bench`` measures beside a kernel with AVX-512."""
SOLVERS = ("gd", "nesterov", "cg", BLOCK_KRYLOV)
COLLUDERS = (1, 4, 9)
DCT = "dct-rbf"
DCT_FEATURES = 1000
_MOST_TIMES = 100_000  # drawn at once for a fleet: fewer draws of larger ones


class Course(NamedTuple):
    """Where a race is run: on which data, by how many devices, on which features."""

    dataset: str
    devices: int
    features: str = RandomFourierFeatures.name


def _aims() -> list[ScoreGoal]:
    names = RoleKeys.name, BLOCK_KRYLOV, Conventional.name, "gd"
    ours = ScoreGoal("mnist", *names)
    fair = replace(ours, rival=ConventionalFullBatch.name, rival_solver=BLOCK_KRYLOV, z=1)
    fashion = "fashion-mnist"
    return [
        *(replace(ours, z=z, goal=goal) for z, goal in ((1, 400.0), (4, 200.0), (9, 120.0))),
        replace(fair, goal=16.0),
        *(replace(ours, dataset=fashion, z=z, goal=goal) for z, goal in ((1, 500.0), (4, 260.0), (9, 160.0))),
        replace(fair, dataset=fashion),
        *(replace(ours, devices=1000, z=z, goal=goal) for z, goal in ((1, 380.0), (4, 150.0))),
        *(replace(ours, devices=10_000, z=z) for z in (1, 4)),
        replace(ours, features=DCT, z=1, goal=800.0),
        replace(fair, features=DCT, rival_features=DCT),
        replace(ours, scheme=ConventionalFullBatch.name),
        replace(ours, scheme=CodedPadded.name, solver="gd"),
        replace(ours, scheme=CodedKeys.name),
    ]


AIMS = tuple(_aims())
"""What this study sets out to reach, not judged yet; those without a goal are shown beside."""

NOTES = (
    "Role keys: one padded upload per device, signed; z + 1 roles hold the pads' 32-byte seeds, and with K blocks every"
    " holder keeps a K-th of the rows. Coded keys: the seeds are coded instead of the data, with the privacy of the"
    " paper's scheme. The server sees the total only.",
    "Every scheme with exact gradients can run any solver, conventional FL included (full batch, stored Gram matrix).",
    "'chunked' sends every message in packets of 12 000 bits with their own retransmissions, as real links do, for all"
    " schemes alike; otherwise a failed transmission repeats the whole message.",
    "Large fleets repeat the paper's mix of devices, each with as many samples as in the paper; epochs to the target"
    " are those at 25 devices, since exact models do not depend on who holds what. Above 50 devices gradient codes use"
    " groups of about 25.",
    f"{DCT}: {DCT_FEATURES} random features, of the paper's kernel width, of a picture's low frequencies (2-D DCT),"
    " which are the same for all: nothing is learnt and nothing sent for them.",
)


def roles_for(z: int, n_devices: int) -> list[RoleKeys]:
    """The variants of which a race takes the fastest: none where devices are too few."""
    return [replace(one, narrow=narrow) for one in RoleKeys.tolerating(z, n_devices) for narrow in (False, True)]


def beyond_entries(n_devices: int) -> list[Entry]:
    """Who takes part in the race beyond the paper: every exact scheme with every solver, and conventional FL."""
    alphas = sorted({paper.to_scale(alpha, n_devices) for alpha in (16, 20, 23, 25)})
    entries = [as_the_paper(Conventional()), *(as_the_paper(ConventionalFullBatch(), solver) for solver in SOLVERS)]
    entries += [
        as_the_paper(CodedPadded(alpha), solver) for alpha in alphas[-2:] for solver in SOLVERS if solver != "nesterov"
    ]
    entries += [as_the_paper(CodedKeys(alpha), solver) for alpha in alphas for solver in SOLVERS]
    roles = [scheme for z in COLLUDERS for scheme in roles_for(z, n_devices)]
    entries += [as_the_paper(scheme, BLOCK_KRYLOV) for scheme in roles]
    entries.append(as_the_paper(RoleKeys(1)))
    return [*entries, *(as_the_paper(OneShot(alpha)) for alpha in alphas[-2:])]


def racers(course: Course, fleet_size: int) -> list[Entry]:
    """Who is timed for the goals of a course; gradient codes at ``fleet_size`` only, without groups."""
    wanted = {aim.z for aim in AIMS if Course(aim.dataset, aim.devices, aim.features) == course}
    roles = [one for z in COLLUDERS if z in wanted for one in roles_for(z, course.devices) if one.narrow]
    found = [as_the_paper(Conventional())]
    found += [as_the_paper(scheme, BLOCK_KRYLOV) for scheme in (ConventionalFullBatch(), *roles)]
    if None in wanted:
        found.append(as_the_paper(CodedPadded(paper.to_scale(paper.BEST_ALPHA, fleet_size))))
        found.append(as_the_paper(CodedKeys(fleet_size), BLOCK_KRYLOV))
    return found


def reproduce_beyond(scope: ClaimScope, progress: Progress | None = None) -> Results:
    """Run the study."""
    began = time.perf_counter()
    size = scope.fleet.n_devices
    entries = beyond_entries(size)
    rows: list[SchemeResult] = []
    traces: list[TraceRow] = []
    scaling: list[AtSize] = []
    peers: list[AtSize] = []
    claims: list[Claim] = []
    timed: dict[Course, Timed] = {}
    algebra = 0.0
    parts = len(EXPERIMENTS) + 1
    for index, (name, experiment) in enumerate(EXPERIMENTS.items()):
        settings = scope.settings(experiment, (experiment.headline_target,))
        problem = scope.problems(scope.data(experiment), experiment, "sorted")
        trained = _trained(problem, scope, entries, settings, _part(progress, index, parts))
        algebra += trained.seconds / jobs_at_once(len(trained.seeds))
        for chunk_bits in (None, CHUNK_BITS):
            packed = replace(settings, at=replace(settings.at, chunk_bits=chunk_bits))
            found, curves = draw_latencies(name, trained, entries, packed)
            rows += [replace(row, gram_directions=_gram_directions(row, trained.shape)) for row in found]
            traces += curves if chunk_bits is None else ()
        claims.append(same_epochs(name, trained, experiment.headline_target))
        on_it = {Course(aim.dataset, aim.devices) for aim in AIMS if aim.dataset == name}
        timed |= {course: time_course(course, trained, settings) for course in sorted(on_it)}
        scaling += speedups_against_devices(name, trained, settings)
        peers += peers_at_sizes(name, trained, settings)
        if name == "mnist":
            course = Course(name, size, DCT)
            pictures = _trained(
                _low_frequencies(scope), scope, racers(course, size), settings, _part(progress, parts - 1, parts)
            )
            timed[course] = time_course(course, pictures, settings)
    return Results(
        name="beyond",
        title="Beyond the paper: MNIST and Fashion-MNIST",
        dataset=", ".join(EXPERIMENTS),
        command=scope.command,
        fleet=scope.fleet.name,
        n_devices=size,
        n_features=scope.n_features,
        seeds=tuple(scope.seeds),
        draws=scope.draws,
        score_name="accuracy",
        schemes=tuple(rows),
        claims=tuple(claims),
        goals=tuple(judge(aim, timed) for aim in AIMS),
        scaling=tuple(scaling),
        peers=tuple(peers),
        notes=NOTES,
        seconds=Took(time.perf_counter() - began, algebra),
        versions=software_versions(),
        quick=scope.quick,
        traces=tuple(traces),
    )


def _trained(
    problem: Callable[[int], Problem],
    scope: ClaimScope,
    entries: Sequence[Entry],
    settings: Settings,
    progress: Progress | None,
) -> Trained:
    return Trained.joined(
        list(in_parallel([seed_job(problem, seed, entries, settings) for seed in scope.seeds], progress))
    )


def _part(progress: Progress | None, index: int, count: int) -> Progress | None:
    """The progress of one data set of several as that of the whole."""
    if progress is None:
        return None
    return lambda what, fraction: progress(what, (index + fraction) / count)


def _low_frequencies(scope: ClaimScope) -> Callable[[int], Problem]:
    """MNIST on random features of the low frequencies of its pictures, by the seed of these features."""
    experiment = EXPERIMENTS["mnist"]
    data, basis = scope.data(experiment), low_frequencies(28)
    count = min(DCT_FEATURES, scope.n_features)

    def problem(seed: int) -> Problem:
        random = RandomFourierFeatures(basis.components.shape[1], count, experiment.gamma, seed)
        features = PrincipalFourierFeatures(basis, random)
        return make_problem(
            data, n_devices=scope.fleet.n_devices, partition_name="sorted", features=features, seed=seed
        )

    return problem


Method = tuple[str, str, int | None]  # scheme, solver and z
Timed = dict[Method, list[SchemeResult]]
"""The fastest variant of each method of a course, at every price."""


def time_course(course: Course, trained: Trained, settings: Settings) -> Timed:
    """Which variant is fastest is decided at the headline's price."""
    entries = racers(course, settings.at.fleet.n_devices)
    trained, sized = at_size(course.devices, trained, settings)
    sized = replace(sized, conventions=sized.conventions[:1], draws=min(sized.draws, _MOST_TIMES // course.devices))
    timed: Timed = {}
    for price in PRICES:
        shape = replace(trained.shape, least_work_bits=RATED_BITS if price.whole_work else 0)
        # Whoever is not coded pays for sealing alone, so only the price of that is another one.
        asked = [one for one in entries if not timed or price.factor != 1 or isinstance(one.scheme, CodedScheme)]
        found, _ = draw_latencies(course.dataset, replace(trained, shape=shape), asked, with_price(sized, price))
        if not timed:
            rows = sorted(zip(asked, found, strict=True), key=_late, reverse=True)
            chosen = {_method(row): (entry, row) for entry, row in rows}  # the last stays: the fastest
            entries = [entry for entry, _ in chosen.values()]
            timed = {method: [row] for method, (_, row) in chosen.items()}
            continue
        again = {_method(row): row for row in found}
        for method, known in timed.items():
            known.append(again.get(method, known[0]))
    return timed


def _late(timed: tuple[Entry, SchemeResult]) -> float:
    return timed[1].time_to_target_s.median or math.inf


def _method(row: SchemeResult) -> Method:
    return row.scheme, row.solver, row.z


def judge(aim: ScoreGoal, timed: Mapping[Course, Timed]) -> ScoreGoal:
    """With a figure at every price; the verdict is that of the headline's median and interval."""
    ours = timed[Course(aim.dataset, aim.devices, aim.features)][aim.scheme, aim.solver, aim.z]
    theirs = timed[Course(aim.dataset, aim.devices, aim.rival_features)][aim.rival, aim.rival_solver, None]
    prices = []
    for price, mine, other in zip(PRICES, ours, theirs, strict=True):
        found = times_faster(mine.seconds, other.seconds)
        ends = (found.median, found.low, found.high)
        prices.append(AtPrice(price, *(None if one is None else finite(one) for one in ends)))
    verdict: GoalVerdict = "no goal"
    if aim.goal is not None:
        reached = [end is not None and end >= aim.goal for end in (prices[0].speedup, prices[0].low)]
        verdict = "missed" if not reached[0] else "met" if reached[1] else "met, interval reaches below"
    time_s = ours[0].time_to_target_s.median
    return replace(aim, verdict=verdict, label=ours[0].label, time_s=time_s, prices=tuple(prices))


def same_epochs(dataset: str, trained: Trained, target: float) -> Claim:
    """Whether numbers of 32 bits reach the target in the epochs of 48, seed by seed."""
    wide, narrow = (
        [run.epochs_to(target) for run in trained.runs[as_the_paper(RoleKeys(narrow=one), BLOCK_KRYLOV).models_key]]
        for one in (False, True)
    )
    return Claim(
        "numbers of 32 bits take the epochs of 48 bits to the target, in every seed",
        *(dataset, target, "holds" if wide == narrow else "fails"),
        f"epochs with 48 bits {', '.join(map(str, wide))}; with 32 bits {', '.join(map(str, narrow))}",
    )


def _gram_directions(row: SchemeResult, shape: WorkShape) -> int | None:
    """What the median seed gives away; None if it never gets there."""
    epochs = row.epochs_to_target.median
    return None if epochs is None else gram_directions(shape, round(epochs), reveals_gram=row.scheme == OneShot.name)
