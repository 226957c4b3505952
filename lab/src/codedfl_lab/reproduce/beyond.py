"""Faster than the paper at its privacy level: role keys with row blocks, Krylov solvers, the one-shot floor.

``reproduce_beyond`` trains the schemes of both figures with every solver, with uploads in one lump and in chunks,
times the races of ``AIMS`` from the call and from zero, and draws the speed-up against the number of devices. All
cryptography is charged as published for a microcontroller (``costs.prices``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from codedfl.data.features.pca_rbf import PrincipalFourierFeatures, low_frequencies
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.solve.registry import BLOCK_KRYLOV
from codedfl.typing import Progress
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import Entry, Settings, Trained, draw_latencies, seed_job
from codedfl_lab.comparing.paired import times_faster
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.parallel import in_parallel, jobs_at_once
from codedfl_lab.comparing.results import (
    AtSize,
    Claim,
    GoalVerdict,
    Preparation,
    Racer,
    Results,
    SchemeResult,
    Timed,
    Took,
    TraceRow,
    finite,
)
from codedfl_lab.comparing.timed_scheme import gram_directions
from codedfl_lab.costs.coded import role_steps
from codedfl_lab.costs.prices import RING_MULTIPLE, at_published_prices
from codedfl_lab.costs.times import Beginning, WorkShape, order_of_devices
from codedfl_lab.problems.problem import Problem, make_problem
from codedfl_lab.reproduce.reproduce import as_the_paper
from codedfl_lab.reproduce.scope import ClaimScope, software_versions
from codedfl_lab.reproduce.sizes import CHUNK_BITS, at_size, peers_at_sizes, speedups_against_devices
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.role_keys import RoleKeys

COLUMNS = ("call", "zero", "ring")
"""Where time begins: at the call, or at nothing; then from the call with products at the ring's measured multiple."""
SOLVERS = ("gd", "nesterov", "cg", BLOCK_KRYLOV)
COLLUDERS = (1, 4, 9)
DCT = "dct-rbf"
DCT_FEATURES = 800
_MOST_TIMES = 100_000  # drawn at once for a fleet: fewer draws of larger ones


Method = tuple[str, str, int | None]
"""Scheme, solver and z."""
RBF = RandomFourierFeatures.name


class Course(NamedTuple):
    """Where a race is run: on which data, by how many devices, on which features."""

    dataset: str
    devices: int
    features: str = RBF

    @property
    def on_the_papers_features(self) -> Course:
        return self._replace(features=RBF)


@dataclass(frozen=True)
class Aim:
    """Who is to be how many times faster than conventional FL on a course, from the call and from zero."""

    course: Course
    scheme: str = RoleKeys.name
    solver: str = BLOCK_KRYLOV
    z: int | None = None
    call: float | None = None
    zero: float | None = None

    @property
    def method(self) -> Method:
        return self.scheme, self.solver, self.z


def _aims() -> Iterator[Aim]:
    mnist, fashion = Course("mnist", 25), Course("fashion-mnist", 25)
    yield Aim(mnist, z=1, call=450.0, zero=100.0)
    yield from (Aim(mnist, z=z, call=goal) for z, goal in ((4, 320.0), (9, 270.0)))
    yield Aim(Course("mnist", 25, DCT), z=1, zero=100.0)
    yield Aim(Course("mnist", 1000), z=1, call=900.0, zero=100.0)
    yield Aim(Course("mnist", 1000), z=4)
    yield Aim(Course("mnist", 1000, DCT), z=1, zero=100.0)
    yield Aim(Course("mnist", 10_000), z=1, call=1200.0, zero=1.0)
    yield Aim(Course("mnist", 10_000), z=4)
    yield Aim(Course("mnist", 10_000, DCT), z=1, zero=1.0)
    yield from (Aim(fashion, z=z) for z in COLLUDERS)
    yield Aim(mnist, CodedPadded.name, "gd")
    yield Aim(mnist, CodedKeys.name)
    yield from (Aim(course, ConventionalFullBatch.name) for course in (mnist, Course("mnist", 25, DCT)))


AIMS = tuple(_aims())
"""What this study sets out to reach; those without a goal are shown beside."""

NOTES = (
    "Role keys: one padded upload per device; z + 1 roles have keys to the pads, and with K blocks every holder keeps a"
    " K-th of the rows, 256 at least. Coded keys: the seeds are coded instead of the data, with the privacy of the"
    " paper's scheme. The server sees the total only.",
    "Every scheme with exact gradients can run any solver, conventional FL included (full batch, stored Gram matrix).",
    "'chunked' sends every message in packets of 12 000 bits with their own retransmissions, as real links do, for all"
    " schemes alike; otherwise a failed transmission repeats the whole message.",
    "Large fleets repeat the paper's mix of devices, each with as many samples as in the paper; epochs to the target"
    " are those at 25 devices, since exact models do not depend on who holds what. Above 50 devices gradient codes use"
    " groups of about 25.",
    "From the call: keys were exchanged, pads added up and uploads sealed before it, which takes no bulk of numbers to"
    " travel; what that costs each class of devices is in the table of preparations. From zero: all of it is charged,"
    " step after step. Cryptography costs what wolfSSL takes on a Cortex-M4 (codedfl_lab.costs.prices).",
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
    """Who is timed on a course; gradient codes at ``fleet_size`` only, without groups."""
    wanted = {aim.z for aim in AIMS if aim.course == course}
    roles = [one for z in COLLUDERS if z in wanted for one in roles_for(z, course.devices) if one.narrow]
    found = [as_the_paper(Conventional())]
    found += [as_the_paper(scheme, BLOCK_KRYLOV) for scheme in (ConventionalFullBatch(), *roles)]
    if any(aim.course == course and aim.scheme == CodedKeys.name for aim in AIMS):
        found.append(as_the_paper(CodedPadded(paper.to_scale(paper.BEST_ALPHA, fleet_size))))
        found.append(as_the_paper(CodedKeys(fleet_size), BLOCK_KRYLOV))
    return found


def reproduce_beyond(scope: ClaimScope, progress: Progress | None = None) -> Results:
    """Run the study."""
    began = time.perf_counter()
    scope = replace(scope, fleet=at_published_prices(scope.fleet))
    size = scope.fleet.n_devices
    entries = beyond_entries(size)
    rows: list[SchemeResult] = []
    traces: list[TraceRow] = []
    scaling: list[AtSize] = []
    peers: list[AtSize] = []
    claims: list[Claim] = []
    preparations: list[Preparation] = []
    timed: dict[Course, Times] = {}
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
        timed |= {course: time_course(course, trained, settings) for course in _courses(name, RBF)}
        scaling += speedups_against_devices(name, trained, settings)
        peers += peers_at_sizes(name, trained, settings)
        if name == "mnist":
            entries_dct = racers(Course(name, size, DCT), size)
            part = _part(progress, parts - 1, parts)
            pictures = _trained(low_frequency_problems(scope), scope, entries_dct, settings, part)
            timed |= {course: time_course(course, pictures, settings) for course in _courses(name, DCT)}
            preparations = [
                one for course in PREPARED if course in timed for one in prepared(course, timed, trained, settings)
            ]
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
        preparations=tuple(preparations),
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


def low_frequency_problems(scope: ClaimScope) -> Callable[[int], Problem]:
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


def _courses(dataset: str, features: str) -> list[Course]:
    return sorted({aim.course for aim in AIMS if (aim.course.dataset, aim.course.features) == (dataset, features)})


Times = dict[str, dict[Method, SchemeResult]]
"""By column, the fastest variant of each method of a course."""


def time_course(course: Course, trained: Trained, settings: Settings) -> Times:
    """Every method in every column; which of its variants is fastest is decided in each."""
    entries = racers(course, settings.at.fleet.n_devices)
    trained, sized = at_size(course.devices, trained, settings)
    sized = replace(sized, conventions=sized.conventions[:1], draws=min(sized.draws, _MOST_TIMES // course.devices))
    timed: Times = {}
    for column in COLUMNS:
        begins: Beginning = "zero" if column == "zero" else "call"
        shape = replace(trained.shape, ring_multiple=RING_MULTIPLE if column == "ring" else None)
        asked = replace(sized, at=replace(sized.at, begins=begins))
        found, _ = draw_latencies(course.dataset, replace(trained, shape=shape), entries, asked)
        slowest_first = sorted(found, key=_late, reverse=True)
        timed[column] = {_method(row): row for row in slowest_first}  # the last stays: the fastest
    return timed


def _late(row: SchemeResult) -> float:
    return row.time_to_target_s.median or math.inf


def _method(row: SchemeResult) -> Method:
    return row.scheme, row.solver, row.z


CONVENTIONAL: Method = (Conventional.name, "gd", None)
STRONGEST: Method = (ConventionalFullBatch.name, BLOCK_KRYLOV, None)


def judge(aim: Aim, timed: Mapping[Course, Times]) -> Racer:
    """In every column, beside conventional FL as in the paper and the strongest baseline on the same features."""
    course, goals = aim.course, {"call": aim.call, "zero": aim.zero}
    columns = []
    for column in COLUMNS:
        ours = timed[course][column][aim.method]
        papers = timed[course.on_the_papers_features][column][CONVENTIONAL]
        strongest = timed[course][column][STRONGEST]
        columns.append(_in_column(column, goals.get(column), ours, papers, strongest))
    return Racer(course.dataset, aim.scheme, aim.solver, aim.z, course.devices, course.features, tuple(columns))


def _in_column(
    column: str, goal: float | None, ours: SchemeResult, papers: SchemeResult, strongest: SchemeResult
) -> Timed:
    found = times_faster(ours.seconds, papers.seconds)
    speedup, low, high = (None if one is None else finite(one) for one in (found.median, found.low, found.high))
    verdict: GoalVerdict = "no goal"
    if goal is not None:
        reached = [end is not None and end >= goal for end in (speedup, low)]
        verdict = "missed" if not reached[0] else "met" if reached[1] else "met, interval reaches below"
    over = times_faster(ours.seconds, strongest.seconds).median
    return Timed(
        column,
        ours.label,
        ours.time_to_target_s.median,
        speedup,
        low,
        high,
        None if over is None else finite(over),
        goal,
        verdict,
    )


PREPARED = (Course("mnist", 25), Course("mnist", 25, DCT), Course("mnist", 1000))
"""The courses whose preparations are shown: what the fastest variant from the call has done before it."""


def prepared(
    course: Course, timed: Mapping[Course, Times], trained: Trained, settings: Settings
) -> Iterator[Preparation]:
    """Mean seconds of each step, by class of devices; those who hold no keys have no steps of holders."""
    chosen = timed[course]["call"][RoleKeys.name, BLOCK_KRYLOV, 1]
    (scheme,) = (one for one in roles_for(1, course.devices) if one.label == chosen.label)
    sized, asked = at_size(course.devices, trained, settings)
    shape, at = sized.shape, asked.at
    if course.features == DCT:
        shape = replace(shape, n_features=min(DCT_FEATURES, shape.n_features))
    order = order_of_devices(scheme, shape, at, np.random.default_rng(0))
    classes = at.fleet.class_of_device[order]
    for step in role_steps(scheme, shape, at.fleet):
        seconds = at.in_order(order).times.mean_compute_times(step.macs)
        for number, kind in enumerate(at.fleet.classes):
            mine = seconds[(classes == number) & (step.macs > 0)]
            if mine.size:
                yield Preparation(
                    f"{scheme.label}, {shape.n_features} features", course.devices, step.words, kind.name, mine.mean()
                )


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
