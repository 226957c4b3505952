"""The paper's own system beside ours: Q<48,24>, Tandon's code rounded to f bits, both phases; Propositions 1 to 3.

Each size is trained twice in the paper's arithmetic, with its k = 48 bits and with 62, and once with ours; devices,
features, solver, step and stragglers are the same. Wherever the paper leaves a choice, the one that favours it is
taken: X'X is rounded once from its exact value, and the server does to the keys what the devices did to padded data.

A row of a gradient counts as spoilt when its error exceeds what truncation and the rounded code can explain, which is a
proven bound (``_Run.tolerance``).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from codedfl.data.problem import Problem, make_problem
from codedfl.errors import DataUnavailable
from codedfl.exact.gram import symmetric
from codedfl.solve.descent import STEPS, GradientDescent, StepSchedule, derived_step
from codedfl.typing import Floats, Progress
from codedfl_lab import datasets
from codedfl_lab.code.gradient_code import GradientCode
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.results import Claim, Written
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions, WorkShape, epoch_load
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import FleetLatency, epoch_arrivals
from codedfl_lab.paper import Integers, PaperFixedPoint, PaperSystem, TandonCode
from codedfl_lab.paper.system import whole_matrix
from codedfl_lab.primes.fixed_point import FixedPoint
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


class _Plain:
    """The sums that no party has: of X'X and G^(1) = -X'Y over all devices, in units of 2^-f, and of their sizes."""

    def __init__(self, problem: Problem, f: int) -> None:
        self.problem, self.f = problem, f
        self._grid = FixedPoint.derive(problem.bounds, problem.n_features, problem.n_devices)
        self._upper = np.triu_indices(problem.n_features)
        self._gram, self._sizes, self._ours = (np.zeros(len(self._upper[0])) for _ in range(3))
        self._first, self._first_sizes = (np.zeros((problem.n_features, problem.n_outputs)) for _ in range(2))

    def of_device(self, device: int) -> tuple[Integers, Integers]:
        """X'X (its upper triangle) and G^(1) of one device, rounded once; they are added to the sums."""
        grid, (X, Y) = self._grid, self._rows(device)
        exact = (X.T @ X)[self._upper]
        self._ours += grid.round_gram(exact)
        gram = np.rint(np.ldexp(exact, self.f - 2 * grid.feature_bits))
        first = np.rint(np.ldexp(-(X.T @ Y), self.f - grid.feature_bits - grid.label_bits))
        for total, part in ((self._gram, gram), (self._first, first)):
            total += part
        for total, part in ((self._sizes, gram), (self._first_sizes, first)):
            total += np.abs(part)
        return gram.astype(np.int64), first.astype(np.int64)

    def _rows(self, device: int) -> tuple[Floats, Floats]:
        rows = self.problem.rows_of(device)
        return self._grid.grid_features(self.problem.X[rows]), self._grid.grid_labels(self.problem.Y[rows])

    def expected_wraps(self, k: int) -> float:
        """|x| / 2^k for each padded number x, counted in whole matrices."""
        sizes = np.concatenate([self._sizes, self._first_sizes.reshape(-1)])
        return whole_matrix(sizes, self.problem.n_features) / 2.0**k

    @cached_property
    def gram(self) -> Floats:
        return self._square(self._gram)

    @cached_property
    def _gram_sizes(self) -> Floats:
        return self._square(self._sizes)

    def _square(self, triangle: Floats) -> Floats:
        return symmetric(np.ldexp(triangle, -self.f), self.problem.n_features)

    def gradient(self, update: Floats) -> Floats:
        """The true total. float64 is good enough: it errs far less than truncation may."""
        return self.gram @ update + np.ldexp(self._first, -self.f)

    def sizes(self, update: Floats) -> float:
        """A bound on the entries of sum_i |X_i'X_i e + G_i|."""
        return float((self._gram_sizes @ np.abs(update) + np.ldexp(self._first_sizes, -self.f)).max())

    def wrong_on_ring(self, update: Floats) -> int:
        """Entries of the ring's X'X e that are not those of int64, which all sums fit by the rule of M/8."""
        grid, ring = self._grid, self._grid.ring
        integers, _ = grid.round_update(update)
        triangle = ring.symmetric(ring.from_integers(self._ours), self.problem.n_features)
        product = ring.to_integers(ring.product(triangle, ring.from_integers(integers)))
        truth = symmetric(self._ours, self.problem.n_features).astype(np.int64) @ integers.astype(np.int64)
        return int(np.count_nonzero(product != truth))

    def wrong_in_code(self, alpha: int, sets: Sequence[Sequence[int]]) -> int:
        """Entries of A B that are not 1 modulo their prime, of our code. int64 is exact: D products below 2^48."""
        code = GradientCode(self.problem.n_devices, alpha, self._grid.ring.primes)
        return sum(
            int(np.count_nonzero(a @ B[list(chosen)] % p != 1))
            for chosen in sets
            for a, B, p in zip(code.decoding_vector(chosen), code.matrix(), code.primes, strict=True)
        )

    def parts(self, update: Floats) -> list[Floats]:
        """The gradient of each device, from its rows."""
        found, bits = [], self._grid.feature_bits
        for device in range(self.problem.n_devices):
            X, Y = self._rows(device)
            residual = np.ldexp(X @ update, -bits) - np.ldexp(Y, -self._grid.label_bits)
            found.append(np.ldexp(X.T @ residual, -bits))
        return found


class _Trained(NamedTuple):
    """The model after each epoch, and whether the total was spoilt."""

    models: list[Floats]
    spoilt: list[bool]


class _Run:
    """The paper's system on one problem in one datatype, and what is true."""

    def __init__(self, plain: _Plain, code: TandonCode, answering: Sequence[int]) -> None:
        problem = plain.problem
        self.plain, self.code, self.answering = plain, code, answering
        self.system = PaperSystem(code, problem.n_features, problem.n_outputs, answering)
        self.datatype = self.system.datatype

    def share(self, device: int, gram: Integers, first: Integers, seed: int) -> None:
        """Phase 1 of one device, whose keys come from the seed."""
        self.system.share(device, gram, first, np.random.default_rng([seed, device]))

    def on_grid(self, update: Floats) -> Integers:
        """e in Q<k,f>, by the modulo map where it is out of range."""
        return self.datatype.wrap(np.rint(np.ldexp(update, self.datatype.f)).astype(np.int64))

    def tolerance(self, update: Floats) -> float:
        """What truncation can do to a row of an answer without its keys.

        Each of alpha products that make an entry of the coded matrix, or of the constant, may be a unit off, and each
        of the d products of a row with e.
        """
        units = self.code.alpha * (np.abs(update).sum(axis=0).max() + 1) + self.plain.problem.n_features
        return float(np.ldexp(units, -self.datatype.f))

    def spoilt_answers(self, update: Integers, retrieved: Mapping[int, Integers]) -> int:
        """Devices with a row that truncation does not explain; X'X was rounded by half a unit before it was padded."""
        reals, q = self.datatype.to_reals(update), self.datatype
        parts = self.plain.parts(reals)
        rounding = np.ldexp((np.abs(reals).sum(axis=0).max() + 1) / 2, -q.f)
        spoilt = 0
        for i, found in retrieved.items():
            truth = sum((b * part for b, part in zip(self.code.B[i], parts, strict=True)), np.zeros(reals.shape))
            bound = self.tolerance(reals) + np.abs(self.code.B[i]).sum() * rounding
            spoilt += bool((np.abs(q.to_reals(found) - truth) > bound).any())
        return spoilt

    def row_errors(self, update: Integers, retrieved: Mapping[int, Integers]) -> tuple[Floats, float]:
        """For the total decoded from these answers: the largest error of each row, and what can be explained of it.

        That is the answers' own tolerances, a unit for each product with a weight, and what A B != 1 makes of parts.
        """
        q, reals = self.datatype, self.datatype.to_reals(update)
        survivors = sorted(retrieved)
        weights = self.code.decoding_vector(survivors)
        errors = np.abs(q.to_reals(self.system.decode(retrieved)) - self.plain.gradient(reals)).max(axis=1)
        bound = np.abs(weights).sum() * self.tolerance(reals) + np.ldexp(len(weights), -q.f)
        return errors, float(bound + self.code.error(survivors) * self.plain.sizes(reals))

    def train(self, solver: GradientDescent, survivors: NDArray[np.int64]) -> _Trained:
        """Phase 2 by itself."""
        q, shape = self.datatype, (self.plain.problem.n_features, self.plain.problem.n_outputs)
        models, spoilt = [], []
        first = update = np.zeros(shape)
        for epoch, fastest in enumerate(survivors.tolist()):
            sent = self.on_grid(update)
            retrieved = {i: self.system.retrieve(i, sent) for i in fastest}
            errors, bound = self.row_errors(sent, retrieved)
            total = q.to_reals(self.system.decode(retrieved))
            if epoch == 0:
                first = total
                solver.start(np.zeros(shape), total, self.plain.problem.n_samples)
            else:
                solver.receive(q.to_reals(sent), total - first)
            assert solver.model is not None
            models.append(solver.model)
            spoilt.append(bool((errors > bound).any()))
            requested = solver.request()
            if requested is None:
                break
            update = requested
        return _Trained(models, spoilt)


def _compare(size: Size, data_dir: Path | None, seed: int) -> tuple[list[ArithmeticRow], dict[str, list[float]]]:
    """A row for each datatype, and the accuracy after each epoch, ours as well."""
    data = datasets.load(size.dataset, data_dir)
    problem = make_problem(data, n_devices=size.devices, partition_name="sorted", n_features=size.n_features, seed=seed)
    fleet = Fleet.load(paper.FLEET).scaled_to(size.devices)
    rng, scheme = np.random.default_rng(seed), CodedPadded(size.alpha)
    arrivals = epoch_arrivals(FleetLatency(fleet), epoch_load(scheme, WorkShape.of(problem), fleet), size.epochs, rng)
    survivors = np.argsort(arrivals, axis=1)[:, : size.devices - size.alpha + 1]
    answering = sorted(set(survivors.reshape(-1).tolist()))
    plain, code = _Plain(problem, DATATYPES[0].f), TandonCode(size.devices, size.alpha, rng)
    runs = [_Run(plain, code.rounded(q), answering) for q in DATATYPES]
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
    run: _Run,
    trained: _Trained,
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
