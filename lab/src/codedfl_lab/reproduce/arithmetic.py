"""The paper's own system beside ours: Q<48,24>, Tandon's code rounded to f bits, both phases; Propositions 1 to 3.

Each size is trained twice in the paper's arithmetic, with its k = 48 bits and with 62, and once with ours; devices,
features, solver, step and stragglers are the same. Wherever the paper leaves a choice, the one that favours it is
taken: X'X is rounded once from its exact value, and the server does to the keys what the devices did to padded data.

A row of a gradient counts as spoilt when its error exceeds what truncation and the rounded code can explain, which is a
proven bound (``PaperRun.tolerance``).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from codedfl.errors import DataUnavailable
from codedfl.solve.descent import STEPS, GradientDescent, StepSchedule, derived_step
from codedfl.typing import Floats, Progress
from codedfl_lab import datasets
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.results import Claim, Written
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions, WorkShape, epoch_load
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import FleetLatency, epoch_arrivals
from codedfl_lab.paper import PaperFixedPoint, TandonCode
from codedfl_lab.problems.problem import make_problem
from codedfl_lab.reproduce.paper_run import PaperRun, PaperTraining, PlainSums
from codedfl_lab.reproduce.scope import software_versions
from codedfl_lab.schemes.coded_padded import CodedPadded

DATATYPES = (PaperFixedPoint(48, 24), PaperFixedPoint(62, 24))
TINY = PaperFixedPoint(8, 4)  # small enough to try every secret, key and factor
MOST_SETS = 500
OURS = "exact ring"
MACHINE_EPOCHS = 5
MACHINE_FEATURES = 500
"""Up to this number of features the first epochs are also run by the real state machines, which at the paper's size
take as long as all the rest; ours is otherwise computed centrally, with the same bits."""


@dataclass(frozen=True)
class Size:
    """What is trained: ``step`` is the paper's, or None for one that follows from the data."""

    dataset: str
    devices: int
    alpha: int
    n_features: int
    epochs: int
    step: str | None = None


SMALL = (Size("digits", 5, 3, 100, 60), Size("digits", 25, 23, 500, 60))
PAPER = Size("mnist", paper.DEVICES, paper.BEST_ALPHA, paper.FEATURES, 60, paper.STEP)
STAND_IN = Size("digits", paper.DEVICES, paper.BEST_ALPHA, paper.FEATURES, 60)
"""Where MNIST is not on this machine."""


@dataclass(frozen=True)
class TinyResult:
    """Every secret, key and factor of a datatype with few numbers.

    secrets, uniform: how many secrets there are, and for how many of them x + r is uniform over all keys r.
    triples, failed: of c, x and r with c x in range, and those for which c (x + r) - c r is more than 2^-f off.
    failed_without_wrap: those of the failed in which x + r did not wrap around.
    """

    k: int
    f: int
    secrets: int
    uniform: int
    triples: int
    failed: int
    failed_without_wrap: int


@dataclass(frozen=True, kw_only=True)
class ArithmeticRow(Size):
    """One size in one datatype; ``epochs`` are those of its training.

    padded, wrapped, expected: numbers that were padded, those that left the range, and how many that should be.
    answers, answers_spoilt: devices that answer at the exact model's update, and those with a spoilt row.
    sets, sets_spoilt, rows_spoilt: survivor sets, those with a spoilt row in the total, and the most rows of one set.
    code_error: the largest entry of |A B - 1| over these sets.
    largest_error, tolerance, typical: of a row of a total; what can be explained; and the median row's size.
    epochs_spoilt, first_spoilt: epochs with a spoilt total, and the first one.
    accuracy, exact_accuracy, distance: of its last model and of ours, and |model - ours| / |ours|.
    exact_wrong: of our exact product with that update, entries that differ from int64 arithmetic, which knows no ring;
        and of A B of our code in these sets, entries that are not 1.
    machines_agree: whether the real state machines have our model bit for bit; None where they were not run.
    """

    samples: int
    k: int
    f: int
    padded: int
    wrapped: int
    expected: float
    answers: int
    answers_spoilt: int
    sets: int
    sets_spoilt: int
    rows_spoilt: int
    code_error: float
    largest_error: float
    tolerance: float
    typical: float
    epochs_spoilt: int
    first_spoilt: int | None
    accuracy: float
    exact_accuracy: float
    distance: float
    exact_wrong: int
    machines_agree: bool | None

    @property
    def datatype(self) -> str:
        return f"Q<{self.k},{self.f}>"

    @property
    def words(self) -> str:
        return f"{self.dataset}, D = {self.devices}, d = {self.n_features}"


@dataclass(frozen=True)
class ArithmeticResults(Written):
    """The outcome; ``scores`` has the test accuracy after each epoch, by size and arithmetic."""

    tiny: TinyResult
    rows: tuple[ArithmeticRow, ...]
    claims: tuple[Claim, ...]
    scores: dict[str, dict[str, list[float]]]
    quick: bool
    command: str
    seconds: float
    versions: dict[str, str]

    name: str = "arithmetic"


def reproduce_arithmetic(
    *,
    sizes: Sequence[Size] | None = None,
    data_dir: Path | None = None,
    seed: int = 0,
    command: str = "",
    progress: Progress | None = None,
) -> ArithmeticResults:
    """Run the study; ``sizes`` other than the usual make a quick look."""
    began, say = time.perf_counter(), progress or (lambda *_: None)
    tiny = try_everything(TINY)
    rows: list[ArithmeticRow] = []
    scores: dict[str, dict[str, list[float]]] = {}
    chosen = [*SMALL, _largest(data_dir)] if sizes is None else sizes
    for index, size in enumerate(chosen):
        say(f"{size.dataset}, d = {size.n_features}", index / len(chosen))
        found, curves = _compare(size, data_dir, seed)
        rows += found
        scores[found[0].words] = curves
    return ArithmeticResults(
        tiny=tiny,
        rows=tuple(rows),
        claims=tuple(judge(tiny, rows)),
        scores=scores,
        quick=sizes is not None,
        command=command,
        seconds=time.perf_counter() - began,
        versions=software_versions(),
    )


def _largest(data_dir: Path | None) -> Size:
    try:
        datasets.fetch_dataset(PAPER.dataset, data_dir, use_network=False)
    except DataUnavailable:
        return STAND_IN
    return PAPER


def try_everything(q: PaperFixedPoint) -> TinyResult:
    """Propositions 1 and 2 without any sampling.

    Paper: Proposition 1, Proposition 2. Shown by ``codedfl lab reproduce arithmetic``.
    """
    half = 1 << (q.k - 1)
    numbers = np.arange(-half, half)
    x, r = numbers[:, None], numbers[None, :]
    padded = q.add(x, r)
    uniform = int((np.sort(padded, axis=1) == numbers).all(axis=1).sum())
    wraps = padded != x + r
    triples = failed = unexplained = 0
    for c in numbers:
        factor = np.array(c)
        wanted = (c * x) >> q.f
        fits = np.abs(wanted) < half
        retrieved = q.add(q.multiply(padded, factor), -q.multiply(r, factor))
        wrong = fits & (np.abs(q.wrap(retrieved - wanted)) > 1)
        triples += int(fits.sum()) * len(numbers)
        failed += int(wrong.sum())
        unexplained += int((wrong & ~wraps).sum())
    return TinyResult(q.k, q.f, len(numbers), uniform, triples, failed, unexplained)


def _compare(size: Size, data_dir: Path | None, seed: int) -> tuple[list[ArithmeticRow], dict[str, list[float]]]:
    """A row for each datatype, and the accuracy after each epoch, ours as well."""
    data = datasets.load(size.dataset, data_dir)
    problem = make_problem(data, n_devices=size.devices, partition_name="sorted", n_features=size.n_features, seed=seed)
    fleet = Fleet.load(paper.FLEET).scaled_to(size.devices)
    rng, scheme = np.random.default_rng(seed), CodedPadded(size.alpha)
    arrivals = epoch_arrivals(FleetLatency(fleet), epoch_load(scheme, WorkShape.of(problem), fleet), size.epochs, rng)
    survivors = np.argsort(arrivals, axis=1)[:, : size.devices - size.alpha + 1]
    answering = sorted(set(survivors.reshape(-1).tolist()))
    plain, code = PlainSums(problem, DATATYPES[0].f), TandonCode(size.devices, size.alpha, rng)
    runs = [PaperRun(plain, code.rounded(q), answering) for q in DATATYPES]
    with ThreadPoolExecutor(len(runs)) as pool:
        for device in range(size.devices):
            shared = plain.of_device(device)
            list(pool.map(lambda run: run.share(device, *shared, seed), runs))  # noqa: B023 (used at once)
    step = STEPS[size.step] if size.step else derived_step([plain.gram / problem.n_samples], paper.REGULARISATION)
    ours = list(CentralTotals(problem).train(_descent(size.epochs, step)))
    agree = None
    if size.n_features <= MACHINE_FEATURES:
        made = simulate(scheme, problem, _descent(MACHINE_EPOCHS, step), Conditions(fleet), rng)
        agree = np.array_equal(made.model, ours[MACHINE_EPOCHS - 1])
    # One core for the linear algebra of each: two threads whose products use both would wait for each other.
    with threadpool_limits(limits=1), ThreadPoolExecutor(len(runs)) as pool:
        trained = list(pool.map(lambda run: run.train(_descent(size.epochs, step), survivors), runs))
    scores = {OURS: problem.scores(ours)}
    rows = []
    for run, made_of_it in zip(runs, trained, strict=True):
        scores[str(run.datatype)] = problem.scores(made_of_it.models)
        rows.append(_row(size, run, made_of_it, ours[-1], scores, agree))
    return rows, scores


def _descent(epochs: int, step: StepSchedule) -> GradientDescent:
    return GradientDescent(epochs, paper.REGULARISATION, step)


def _row(
    size: Size,
    run: PaperRun,
    trained: PaperTraining,
    ours: Floats,
    scores: Mapping[str, Sequence[float]],
    agree: bool | None,
) -> ArithmeticRow:
    """What was counted: in the training, and in all survivor sets at the update that makes our last model."""
    q, problem = run.datatype, run.plain.problem
    update = run.on_grid(ours)
    retrieved = {i: run.system.retrieve(i, update) for i in run.answering}
    needed = size.devices - size.alpha + 1
    sets = list(itertools.islice(itertools.combinations(run.answering, needed), MOST_SETS))
    decoded = [run.row_errors(update, {i: retrieved[i] for i in chosen}) for chosen in sets]
    wrong = [int((errors > bound).sum()) for errors, bound in decoded]
    worst = int(np.argmax([errors.max() for errors, _ in decoded]))
    numbers = problem.n_features * (problem.n_features + problem.n_outputs)
    return ArithmeticRow(
        **{**vars(size), "epochs": len(trained.models)},
        samples=problem.n_samples,
        k=q.k,
        f=q.f,
        padded=size.devices * numbers,
        wrapped=run.system.wrapped,
        expected=run.plain.expected_wraps(q.k),
        answers=len(retrieved),
        answers_spoilt=run.spoilt_answers(update, retrieved),
        sets=len(sets),
        sets_spoilt=sum(map(bool, wrong)),
        rows_spoilt=max(wrong),
        code_error=max(map(run.code.error, sets)),
        largest_error=float(decoded[worst][0].max()),
        tolerance=decoded[worst][1],
        typical=float(np.median(np.abs(run.plain.gradient(q.to_reals(update))).max(axis=1))),
        epochs_spoilt=sum(trained.spoilt),
        first_spoilt=trained.spoilt.index(True) + 1 if any(trained.spoilt) else None,
        accuracy=scores[str(q)][-1],
        exact_accuracy=scores[OURS][-1],
        distance=float(np.linalg.norm(trained.models[-1] - ours) / np.linalg.norm(ours)),
        exact_wrong=run.plain.wrong_on_ring(ours) + run.plain.wrong_in_code(size.alpha, sets),
        machines_agree=agree,
    )


def judge(tiny: TinyResult, rows: Sequence[ArithmeticRow]) -> list[Claim]:
    """Propositions 1 to 3, one by one, at each size; then what is said of ours.

    Paper: Proposition 3. Shown by ``codedfl lab reproduce arithmetic``.
    """
    every = f"Q<{tiny.k},{tiny.f}>, all numbers"
    share = 100 * tiny.failed / tiny.triples
    claims = [
        _claim(
            "Proposition 1: a padded number is uniform, whatever the secret",
            every,
            tiny.uniform == tiny.secrets,
            f"so it is for {tiny.uniform} of {tiny.secrets} secrets over all keys: addition modulo 2^k is one to one",
        ),
        _claim(
            "Proposition 2: c x = c (x + r) - c r, up to 2^-f",
            every,
            tiny.failed == 0,
            f"fails for {tiny.failed} of {tiny.triples} choices of c, x and r ({share:.0f} %),"
            f" {tiny.failed - tiny.failed_without_wrap} of them where x + r wraps around",
        ),
    ]
    for row in rows:
        where = f"{row.words}, {row.datatype}"
        claims += [
            _claim(
                "Proposition 2: the server retrieves a device's coded gradient",
                where,
                row.answers_spoilt == 0,
                f"{row.wrapped} of {row.padded} padded numbers wrap ({row.expected:.2g} expected), and coded sums of"
                f" them may; {row.answers_spoilt} of {row.answers} answers have a spoilt row",
            ),
            _claim(
                f"Proposition 3: any {row.devices - row.alpha + 1} devices give the total gradient",
                where,
                row.sets_spoilt == 0,
                f"spoilt in {row.sets_spoilt} of {row.sets} survivor sets, {row.rows_spoilt} of {row.n_features} rows"
                f" at most; largest error {row.largest_error:.1e} where rows are about {row.typical:.1e};"
                f" |A B - 1| is at most {row.code_error:.1e}",
            ),
            _claim(
                "Proposition 3: the model is the one of gradient descent",
                where,
                row.epochs_spoilt == 0,
                f"after {row.epochs} epochs accuracy {100 * row.accuracy:.1f} % against {100 * row.exact_accuracy:.1f}"
                f" %, {row.distance:.1e} away from the exact model, in parts of it"
                + ("" if row.first_spoilt is None else f"; the first spoilt total comes in epoch {row.first_spoilt}"),
            ),
        ]
    for size, same in itertools.groupby(rows, key=lambda row: row.words):
        row = next(same)
        machines = (
            f"have this model bit for bit after {MACHINE_EPOCHS} epochs" if row.machines_agree else "do not agree"
        )
        claims.append(
            _claim(
                "Ours: every total is exact, whoever straggles",
                size,
                row.exact_wrong == 0 and row.machines_agree is not False,
                f"{row.exact_wrong} wrong entries of X'X e against int64 and of A B in {row.sets} survivor sets"
                + ("" if row.machines_agree is None else f"; state machines with pads and masks {machines}"),
            )
        )
    return claims


def _claim(statement: str, where: str, holds: bool, evidence: str) -> Claim:
    return Claim(statement, where, None, "holds" if holds else "fails", evidence)
