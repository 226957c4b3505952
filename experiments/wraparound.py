"""What the paper's multiplication does to padded numbers, and what the exact ring does (paper IV-A).

The paper's "Retrieval" proposition says that c x = c (x + r) - c r + O(2^-f), where a product is
floor(a b 2^-f) mapped onto Z_<k>. Let x + r leave Z_<k>: what is stored is x + r -+ 2^k, its product with c is off by
-+c 2^(k-f), and that is no multiple of 2^k, so neither the map nor the subtraction of c r removes it. The chance is
|x| / 2^(k-f) for a number. A Gram matrix of d = 2000 features has four million of them, and each wrong one spoils a
whole row of X'X e, in every epoch. This script counts them:

1. one device: its padded Gram matrix X'X + Xi (eq. 7) under many pads, and its product with e under the worst one;
2. coded answers: some devices add alpha padded matrices each, with the coefficients of the random real code (eq. 9),
   and multiply by e; the server subtracts the same done to the keys. That order favours the paper: b (Xi e) is not
   (b Xi) e in this arithmetic, and a server that took them for equal (step (b) of IV-C) would retrieve nothing;
3. the total that the server decodes (eq. 11), for each choice of D - alpha + 1 of those answers;
4. cases 1 and 3 on the exact ring (``codedfl.exact.ring``), against int64 arithmetic that knows neither ring nor pads.

A row counts as spoilt when its error exceeds what truncation and the rounded code can explain: a proven bound, see
``PaperAnswer.tolerance`` and ``decode_paper``. The constant part C_i (eq. 8) is left out: it has d c numbers, not d^2.

    python -m experiments.wraparound --out results/wraparound
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator, NullLocator
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from codedfl.code.gradient_code import GradientCode, check_alpha
from codedfl.crypto import pads
from codedfl.data import datasets
from codedfl.data.features import RandomFourierFeatures, default_gamma
from codedfl.data.labels import Labels
from codedfl.data.partition import by_sorted_label
from codedfl.exact.fixed_point import Bounds, FixedPoint
from codedfl.exact.ring import Ring
from codedfl.solve.descent import STEP_PAPER, GradientDescent
from codedfl.typing import Planes
from experiments.code_accuracy import round_code
from experiments.paper_arithmetic import Integers, PaperFixedPoint
from experiments.random_real_code import RandomRealCode

Floats = NDArray[np.float64]

# The paper's experiment (section V).
DEVICES = 25
ALPHA = 23
N_FEATURES = 2000
IMAGES = 60_000
CLASSES = 10

# Numbers treated at a time, so that numpy's temporaries stay in the cache.
CACHED = 1 << 15

# Okabe and Ito's palette, told apart with every kind of colour blindness.
SPOILT_COLOUR = "#D55E00"
SOUND_COLOUR = "#B37A00"  # their orange, darker: small points and text on white
EXACT_COLOUR = "#0072B2"
GREY = "#595959"


@dataclass(frozen=True)
class Setting:
    """The size of the demonstration; the defaults are the paper's.

    epochs: of plain descent (step "paper") on all data, which make the update e.
    n_pads: how many pads device 0 tries for case 1.
    answers: how many devices answer in case 2; where the code needs more, as many as it needs.
    """

    devices: int = DEVICES
    alpha: int = ALPHA
    n_features: int = N_FEATURES
    epochs: int = 100
    n_pads: int = 100
    answers: int = 6
    seed: int = 0
    datatype: PaperFixedPoint = field(default_factory=PaperFixedPoint)


@dataclass(frozen=True)
class Outcome:
    """One product X'X e, retrieved from padded data, against the truth.

    wrong_entries: of the retrieved matrix, before e; expected_wrong: what |x| / 2^(k-f) predicts (None on the ring,
        where no wrap does any harm).
    spoilt_rows: rows of the product with an error above ``tolerance``; the errors are in units of the gradient.
    """

    case: str
    arithmetic: str
    wrong_entries: int
    expected_wrong: float | None
    spoilt_rows: tuple[int, ...]
    largest_error: float
    largest_error_elsewhere: float
    tolerance: float


@dataclass(frozen=True)
class Report:
    """Everything measured in one run.

    spoilt_sets: of the ``survivor_sets`` choices of answers, those whose decoded total the paper's arithmetic spoils.
    row_errors: of the total decoded from the worst of them, the largest error in each row.
    median_gradient: of the rows of the true total, each represented by its largest entry.
    """

    images: str
    setting: Setting
    samples: int
    wrong_entries_per_pad: tuple[int, ...]
    expected_per_pad: float
    largest_update: float
    median_gradient: float
    survivor_sets: int
    spoilt_sets: int
    outcomes: tuple[Outcome, ...]
    row_errors: Floats


def blocks(count: int, size: int) -> list[slice]:
    """``count`` numbers, at most ``size`` (at least 1) at a time."""
    step = max(1, size)
    return [slice(start, start + step) for start in range(0, count, step)]


class Triangle:
    """Symmetric d x d matrices as row-major upper triangles, in the order of ``Ring.symmetric``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._indices = np.triu_indices(size)
        self._diagonal = self._indices[0] == self._indices[1]

    def __len__(self) -> int:
        return self.size * (self.size + 1) // 2

    def of(self, square: Floats) -> Floats:
        return square[self._indices]

    def square(self, triangle: NDArray[Any]) -> NDArray[Any]:
        full = np.empty((self.size, self.size), dtype=triangle.dtype)
        full[self._indices] = triangle
        full.T[self._indices] = triangle
        return full

    def total(self, values: NDArray[Any]) -> float:
        """The sum over the whole matrix, where what lies off the diagonal stands twice."""
        return float(2 * values.sum() - values[self._diagonal].sum())


class PaperAnswer:
    """What one device adds up in the paper's sharing phase (eq. 9), what the server does to the keys, and the truth.

    Without a wrap, ``coded`` - ``keys`` is within ``terms`` units of ``plain``: each of the truncated products of a
    padded number differs from that of its key by less than one unit more or less than it should.
    """

    def __init__(self, datatype: PaperFixedPoint, triangle: Triangle) -> None:
        self.datatype = datatype
        self.triangle = triangle
        self.terms = 0
        self.coded: Integers = np.zeros(len(triangle), dtype=np.int64)
        self.keys: Integers = np.zeros(len(triangle), dtype=np.int64)
        self.plain: Floats = np.zeros(len(triangle))  # in units of 2^-f
        self._wraps_of_terms = 0.0

    def add(self, coefficient: float, padded: Integers, key: Integers, secret: Integers) -> None:
        q, b = self.datatype, self.datatype.from_reals(np.array(coefficient))
        for part in blocks(len(self.triangle), CACHED):
            self.coded[part] = q.add(self.coded[part], q.multiply(padded[part], b))
            self.keys[part] = q.add(self.keys[part], q.multiply(key[part], b))
        self.plain += coefficient * secret
        self.terms += 1
        if not float(coefficient).is_integer():  # a whole multiple of 2^k is removed by the map onto Z_<k>
            self._wraps_of_terms += self.triangle.total(np.abs(secret))

    def expected_wrong(self) -> float:
        """Entries with a term that wrapped when it was padded, and entries whose sum wrapped."""
        return self._wraps_of_terms / 2.0**self.datatype.k + self.expected_of_sum()

    def expected_of_sum(self) -> float:
        return self.triangle.total(np.abs(self.plain)) / 2.0**self.datatype.k

    def is_wrong(self) -> NDArray[np.bool_]:
        # Integers, not mapped onto Z_<k>: e is multiplied with coded and with keys, not with their mapped difference.
        difference = (self.coded - self.keys).astype(np.float64)
        wrong: NDArray[np.bool_] = np.abs(difference - self.plain) >= self.terms + 0.5
        return wrong

    def wrong_entries(self) -> int:
        return int(self.triangle.total(self.is_wrong()))

    def retrieve(self, update: Integers) -> Integers:
        """coded e - keys e, as in the Retrieval proposition."""
        q = self.datatype
        coded, keys = self.triangle.square(self.coded), self.triangle.square(self.keys)
        return np.concatenate(
            [
                q.add(q.matmul(coded[rows], update), -q.matmul(keys[rows], update))
                for rows in blocks(self.triangle.size, CACHED // self.triangle.size)
            ]
        )

    def tolerance(self, update: Floats) -> float:
        """What truncation can do to a row: ``terms`` units in each entry before e, one in each of the d products."""
        units = self.terms * np.abs(update).sum(axis=0).max() + self.triangle.size
        return float(np.ldexp(units, -self.datatype.f))


class RingAnswers:
    """The same sums on the exact ring, and the total of the pads, which is all that the server subtracts."""

    def __init__(self, ring: Ring, code: GradientCode, answering: Sequence[int], count: int) -> None:
        self.ring = ring
        self.code = code
        self.coded = {i: ring.zeros(count) for i in answering}
        self.pads = ring.zeros(count)

    def add(self, device: int, padded: Planes, pad: Planes) -> None:
        self.ring.add_scaled(self.pads, [[1]] * len(self.ring.primes), [pad])
        for i, total in self.coded.items():
            if device in self.code.row_support(i):
                place = self.code.row_support(i).index(device)
                self.ring.add_scaled(total, [[row[place]] for row in self.code.coefficients(i)], [padded])

    def decode(self, answers: dict[int, Planes], survivors: Sequence[int]) -> Planes:
        total = self.ring.zeros(*answers[survivors[0]].shape[1:])
        weights = self.code.decoding_vector(survivors).tolist()
        self.ring.add_scaled(total, weights, [answers[i] for i in survivors])
        return total


def synthetic_images(count: int, rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Strokes of four segments on 28 x 28 pixels, ten shapes, each image with its joints moved a little.

    They stand in for MNIST where it is not at hand: mostly black, as much ink, alike within a class, and far enough
    apart for the paper's step to converge.
    """
    row, column = (axis.reshape(-1) for axis in np.mgrid[0:28, 0:28].astype(np.float64))
    joints = rng.uniform(3.0, 25.0, size=(CLASSES, 5, 2))
    labels = rng.integers(CLASSES, size=count)
    images = np.empty((count, len(row)), dtype=np.float32)
    for block in np.array_split(np.arange(count), -(-count // 500)):
        # Corners last, so that each coordinate is a column that broadcasts over the pixels.
        moved = joints[labels[block]] + rng.normal(0.0, 1.5, size=(len(block), 5, 2))
        squares = []
        for start, end in zip(moved.swapaxes(0, 1)[:-1], moved.swapaxes(0, 1)[1:], strict=True):
            (y, x), (dy, dx) = start.T[..., None], (end - start).T[..., None]
            # The point of the segment nearest to a pixel, as a share of the way from its start to its end.
            share = np.clip(((row - y) * dy + (column - x) * dx) / (dy * dy + dx * dx), 0.0, 1.0)
            squares.append((row - y - share * dy) ** 2 + (column - x - share * dx) ** 2)
        images[block] = np.clip(2.0 - np.sqrt(np.min(squares, axis=0)), 0.0, 1.0)
    return images, labels


def load_images(name: str | None, seed: int) -> tuple[str, NDArray[Any], NDArray[Any]]:
    """The training images of ``name``; None takes MNIST if its files are on this machine, else synthetic ones."""
    if name != "synthetic":
        try:
            data = datasets.load("mnist", use_network=name is not None)
            return data.name, data.X_train, data.y_train
        except datasets.DataUnavailable:
            if name is not None:
                raise
    return ("synthetic", *synthetic_images(IMAGES, np.random.default_rng(seed)))


@dataclass(frozen=True)
class GramMatrices:
    """X'X of one device or of all, the same exact sum rounded once to integers of 2^-f and of 2^-gram_bits."""

    paper: Integers
    ring: Integers


@dataclass(frozen=True)
class Shared:
    """What the sharing phase (paper IV-B) leaves at devices and server, and the plaintexts that only a test may know.

    total_magnitude: sum of |X_i'X_i|, entry by entry, in the paper's units; the ``first`` fields are device 0's.
    """

    triangle: Triangle
    fixed_point: FixedPoint
    samples: int
    cross: Floats
    real_code: RandomRealCode
    answers: dict[int, PaperAnswer]
    ring_answers: RingAnswers
    total: GramMatrices
    total_magnitude: Integers
    first: GramMatrices
    first_ring_padded: Planes
    first_ring_pad: Planes


def draw_key(datatype: PaperFixedPoint, count: int, *seed: int) -> Integers:
    """Uniform on Z_<k>. Numpy's generator will do here: nothing is hidden from anybody, only counted."""
    half = 1 << (datatype.k - 1)
    return np.random.default_rng(seed).integers(-half, half, size=count)


def share(images: NDArray[Any], labels: NDArray[Any], setting: Setting) -> Shared:
    """The sharing phase in both arithmetics: images sorted by label and cut into D parts (paper V)."""
    q, triangle = setting.datatype, Triangle(setting.n_features)
    parts = by_sorted_label(labels, setting.devices)
    Y = Labels.for_classes(labels).encode(labels)
    gamma = default_gamma(images.shape[1])
    feature_map = RandomFourierFeatures(images.shape[1], setting.n_features, gamma, setting.seed)
    bounds = Bounds(feature_map.bound, Labels.bound, len(images), max(map(len, parts)))
    fixed_point = FixedPoint.derive(bounds, setting.n_features, setting.devices)
    ring = fixed_point.ring

    rng = np.random.default_rng(setting.seed)
    check_alpha(setting.alpha, setting.devices)
    answers_made = min(setting.devices, max(setting.devices - setting.alpha + 1, setting.answers))
    answering = sorted(rng.choice(setting.devices, answers_made, replace=False).tolist())
    real_code = RandomRealCode(setting.devices, setting.alpha, rng)
    round_code(real_code, q)
    answers = {i: PaperAnswer(q, triangle) for i in answering}
    circulant = GradientCode(setting.devices, setting.alpha, ring.primes)
    ring_answers = RingAnswers(ring, circulant, answering, len(triangle))
    run_id, ring_seeds = rng.bytes(pads.RUN_ID_BYTES), [rng.bytes(pads.SEED_BYTES) for _ in parts]

    magnitude: Integers = np.zeros(len(triangle), dtype=np.int64)
    total = GramMatrices(np.zeros_like(magnitude), np.zeros_like(magnitude))
    cross: Floats = np.zeros((setting.n_features, Y.shape[1]))
    for device, rows in enumerate(track(parts, description="devices", transient=True)):
        X = feature_map.transform(images[rows])
        cross += X.T @ Y[rows]
        secret = gram_matrices(X, fixed_point, triangle, q)
        magnitude += np.abs(secret.paper)
        total.paper[...] += secret.paper
        total.ring[...] += secret.ring

        key = draw_key(q, len(triangle), setting.seed, device)
        padded = q.add(secret.paper, key)
        for i, answer in answers.items():
            if real_code.B[i, device]:
                answer.add(float(real_code.B[i, device]), padded, key, secret.paper)
        ring_pad = pads.expand(ring, ring_seeds[device], run_id, "gram", len(triangle))
        ring_padded = ring.add(ring.from_integers(secret.ring), ring_pad)
        ring_answers.add(device, ring_padded, ring_pad)
        if device == 0:
            first = (secret, ring_padded, ring_pad)
    return Shared(triangle, fixed_point, len(images), cross, real_code, answers, ring_answers, total, magnitude, *first)


def gram_matrices(X: Floats, fixed_point: FixedPoint, triangle: Triangle, datatype: PaperFixedPoint) -> GramMatrices:
    """Sums of products of gridded features are below 2^53: float64 has them exactly, in any order."""
    grid = fixed_point.grid_features(X)
    exact = triangle.of(grid.T @ grid)
    paper, ring = (
        np.rint(np.ldexp(exact, bits - 2 * fixed_point.feature_bits)).astype(np.int64)
        for bits in (datatype.f, fixed_point.gram_bits)
    )
    return GramMatrices(paper, ring)


def descend(gram: Floats, cross: Floats, samples: int, epochs: int) -> Floats:
    """e after ``epochs`` of the paper's descent from Theta^(1) = 0 (eq. 5 and 10), in floats."""
    solver = GradientDescent(epochs, 9e-6, STEP_PAPER)
    solver.start(np.zeros_like(cross), -cross, samples)
    while (request := solver.request()) is not None:
        solver.receive(request, gram @ request)
    assert solver.model is not None
    return solver.model


def compare(
    case: str, arithmetic: str, wrong: int, expected: float | None, row_errors: Floats, tolerance: float
) -> Outcome:
    spoilt = row_errors > tolerance
    return Outcome(
        case=case,
        arithmetic=arithmetic,
        wrong_entries=wrong,
        expected_wrong=expected,
        spoilt_rows=tuple(np.flatnonzero(spoilt).tolist()),
        largest_error=float(row_errors.max()),
        largest_error_elsewhere=float(row_errors[~spoilt].max(initial=0.0)),
        tolerance=tolerance,
    )


def compare_answer(case: str, answer: PaperAnswer, retrieved: Integers, update: Floats) -> Outcome:
    """One device's answer without its keys. float64 is a good enough truth: it errs far less than truncation may."""
    truth = answer.triangle.square(np.ldexp(answer.plain, -answer.datatype.f)) @ update
    errors = np.abs(answer.datatype.to_reals(retrieved) - truth).max(axis=1)
    expected = answer.expected_wrong()
    return compare(case, "paper", answer.wrong_entries(), expected, errors, answer.tolerance(update))


def try_pads(secret: Integers, triangle: Triangle, setting: Setting) -> tuple[tuple[int, ...], PaperAnswer]:
    """Case 1: wrong entries under each of ``n_pads`` pads, and device 0's matrix under the worst (alpha = 1, b = 1)."""
    q = setting.datatype
    counts = []
    for pad in track(range(setting.n_pads), description="pads", transient=True):
        key = draw_key(q, len(triangle), setting.seed, setting.devices + pad)
        counts.append(int(triangle.total(q.add(secret, key) - key != secret)))
    key = draw_key(q, len(triangle), setting.seed, setting.devices + int(np.argmax(counts)))
    answer = PaperAnswer(q, triangle)
    answer.add(1.0, q.add(secret, key), key, secret)
    return tuple(counts), answer


def survivor_sets(shared: Shared) -> list[tuple[int, ...]]:
    """Every choice of as many answers as the code needs."""
    return list(combinations(shared.answers, shared.ring_answers.code.answers_needed))


def decode_paper(
    shared: Shared,
    survivors: Sequence[int],
    retrieved: dict[int, Integers],
    update: Floats,
    truth: Floats,
    largest_parts: float,
) -> tuple[Outcome, Floats]:
    """Case 3: the total of eq. 11 in Q<k,f> and the error of each row.

    largest_parts: the largest entry of sum_i |X_i'X_i e|, or a bound on it.
    """
    answers = [shared.answers[i] for i in survivors]
    q, triangle = answers[0].datatype, shared.triangle
    weights = q.from_reals(shared.real_code.decoding_vector(survivors))
    decoded: Integers = np.zeros_like(retrieved[survivors[0]])
    for weight, i in zip(weights, survivors, strict=True):
        decoded = q.add(decoded, q.multiply(retrieved[i], weight))
    errors = np.abs(q.to_reals(decoded) - truth).max(axis=1)

    # The answers' own tolerances, a unit for each product with a weight, and what A B != 1 makes of the true parts.
    a = q.to_reals(weights)
    tolerance = sum(abs(w) * answer.tolerance(update) for w, answer in zip(a, answers, strict=True))
    code_error = np.abs(a @ shared.real_code.B[list(survivors)] - 1.0).max()
    tolerance += len(a) * 2.0**-q.f + code_error * largest_parts
    wrong = np.logical_or.reduce([answer.is_wrong() for answer in answers])
    # A padded matrix that wrapped is the same one in all answers.
    expected = triangle.total(shared.total_magnitude) / 2.0**q.k + sum(answer.expected_of_sum() for answer in answers)
    return compare("decoded total", "paper", int(triangle.total(wrong)), expected, errors, float(tolerance)), errors


def badness(outcome: Outcome) -> tuple[int, float]:
    return len(outcome.spoilt_rows), outcome.largest_error


class RingRetrieval:
    """Case 4: takes ``pad`` away from a padded matrix and from its product with e, and compares with ``secret``.

    The truth is int64: by the M/8 rule of ``FixedPoint`` all sums are far below 2^63.
    """

    def __init__(self, shared: Shared, update: Floats, pad: Planes, secret: Integers) -> None:
        self.ring, self.triangle = shared.fixed_point.ring, shared.triangle
        integers, bits = shared.fixed_point.round_update(update)
        self.bits = shared.fixed_point.gram_bits + bits
        self.update = self.ring.from_integers(integers)
        self.pad, self.pad_product = pad, self.product(pad)
        self.secret, self.truth = secret, self.triangle.square(secret) @ integers.astype(np.int64)

    def product(self, matrix: Planes) -> Planes:
        """A symmetric matrix, given as its triangle, times e."""
        return self.ring.product(self.ring.symmetric(matrix, self.triangle.size), self.update)

    def compare(self, case: str, matrix: Planes, product: Planes) -> Outcome:
        retrieved_matrix = self.ring.to_integers(self.ring.add(matrix, self.pad, sign=-1))
        retrieved = self.ring.to_integers(self.ring.add(product, self.pad_product, sign=-1))
        wrong = int(self.triangle.total(retrieved_matrix != self.secret))
        errors = np.ldexp(np.abs(retrieved - self.truth).max(axis=1).astype(np.float64), -self.bits)
        return compare(case, "exact ring", wrong, None, errors, 0.0)


def ring_outcomes(shared: Shared, update: Floats) -> list[Outcome]:
    """Device 0 alone, and the worst of all survivor sets."""
    alone = RingRetrieval(shared, update, shared.first_ring_pad, shared.first.ring)
    answers = shared.ring_answers
    total = RingRetrieval(shared, update, answers.pads, shared.total.ring)
    products = {i: total.product(coded) for i, coded in answers.coded.items()}
    totals = [
        total.compare("decoded total", answers.decode(answers.coded, survivors), answers.decode(products, survivors))
        for survivors in survivor_sets(shared)
    ]
    padded = shared.first_ring_padded
    return [alone.compare("device 0", padded, alone.product(padded)), max(totals, key=badness)]


def run(name: str, images: NDArray[Any], labels: NDArray[Any], setting: Setting) -> Report:
    """All cases on one fleet."""
    q = setting.datatype
    shared = share(images, labels, setting)
    gram = shared.triangle.square(q.to_reals(shared.total.paper))
    update_integers = q.from_reals(descend(gram, shared.cross, shared.samples, setting.epochs))
    update = q.to_reals(update_integers)
    truth = gram @ update
    counts, alone = try_pads(shared.first.paper, shared.triangle, setting)
    retrieved = {i: answer.retrieve(update_integers) for i, answer in shared.answers.items()}
    magnitude = shared.triangle.square(q.to_reals(shared.total_magnitude)) @ np.abs(update)
    totals = [
        decode_paper(shared, survivors, retrieved, update, truth, float(magnitude.max()))
        for survivors in survivor_sets(shared)
    ]
    worst_total, row_errors = max(totals, key=lambda total: badness(total[0]))
    return Report(
        images=name,
        setting=setting,
        samples=shared.samples,
        wrong_entries_per_pad=counts,
        expected_per_pad=alone.expected_wrong(),
        largest_update=float(np.abs(update).max()),
        median_gradient=float(np.median(np.abs(truth).max(axis=1))),
        survivor_sets=len(totals),
        spoilt_sets=sum(bool(outcome.spoilt_rows) for outcome, _ in totals),
        outcomes=(
            compare_answer("device 0", alone, alone.retrieve(update_integers), update),
            *(
                compare_answer(f"coded by device {i}", answer, retrieved[i], update)
                for i, answer in shared.answers.items()
            ),
            worst_total,
            *ring_outcomes(shared, update),
        ),
        row_errors=row_errors,
    )


def as_table(report: Report) -> Table:
    setting, counts = report.setting, report.wrong_entries_per_pad
    q = setting.datatype
    table = Table(
        title=f"X'X e retrieved from padded data ({report.images} images)\n"
        f"d = {setting.n_features}, D = {setting.devices}, alpha = {setting.alpha}, k = {q.k}, f = {q.f}",
        caption="expected: from |x| / 2^(k-f) for each number, on average over all pads\n"
        f"device 0: the worst of {len(counts)} pads; {sum(map(bool, counts))} of them wrap,"
        f" {np.mean(counts):.3f} entries a pad\n"
        f"decoded total: the worst of {report.survivor_sets} survivor sets;"
        f" the paper spoils {report.spoilt_sets} of them\n"
        f"size of the true total: {report.median_gradient:.2g} (median of its rows)",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
    )
    for heading in ("arithmetic", "X'X of"):
        table.add_column(heading, no_wrap=True)
    for heading in ("wrong\nentries", "\nexpected", "spoilt\nrows", "largest\nerror", "in sound\nrows"):
        table.add_column(heading, justify="right", no_wrap=True)
    for outcome in report.outcomes:
        table.add_row(
            outcome.arithmetic,
            outcome.case,
            str(outcome.wrong_entries),
            "-" if outcome.expected_wrong is None else f"{outcome.expected_wrong:.2f}",
            str(len(outcome.spoilt_rows)),
            _scientific(outcome.largest_error),
            _scientific(outcome.largest_error_elsewhere),
        )
    return table


def _scientific(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


def draw(report: Report) -> Figure:
    """Error of each row of the decoded total on a log axis; below it, at a zero of its own, that of the exact ring."""
    paper, ring = (
        next(one for one in report.outcomes if (one.arithmetic, one.case) == (arithmetic, "decoded total"))
        for arithmetic in ("paper", "exact ring")
    )
    figure = Figure(figsize=(10.0, 5.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [8, 1]})
    rows = np.arange(len(report.row_errors))
    spoilt = np.isin(rows, paper.spoilt_rows)
    upper.set_yscale("log")
    upper.plot(rows[~spoilt], report.row_errors[~spoilt], ".", color=SOUND_COLOUR, markersize=2)
    upper.vlines(rows[spoilt], paper.tolerance, report.row_errors[spoilt], color=SPOILT_COLOUR, linewidth=1)
    upper.plot(rows[spoilt], report.row_errors[spoilt], "o", color=SPOILT_COLOUR, markersize=6)
    for height, style in ((report.median_gradient, "solid"), (paper.tolerance, "dotted")):
        upper.axhline(height, color=GREY, linewidth=1, linestyle=style, zorder=0)
    _label(upper, report.median_gradient, "size of the true total\n(median of its rows)", GREY)
    _label(upper, paper.tolerance, "the most that truncation\nand the rounded code explain", GREY)
    _label(upper, float(np.median(report.row_errors)), "sound rows", SOUND_COLOUR)
    if paper.spoilt_rows:
        _label(upper, paper.largest_error, "spoilt rows", SPOILT_COLOUR)
    q = report.setting.datatype
    name = f"Q\u27e8{q.k},{q.f}\u27e9, decoded from the worst of {report.survivor_sets} survivor sets:"
    upper.set_title(
        f"{name} {len(paper.spoilt_rows)} of {len(rows)} rows spoilt", loc="left", fontsize=11, color=SPOILT_COLOUR
    )
    upper.margins(x=0.01)
    upper.set_ylabel("largest error of the row")
    upper.yaxis.set_major_locator(LogLocator(100.0, numticks=20))
    upper.yaxis.set_minor_locator(NullLocator())

    sound = np.setdiff1d(rows, ring.spoilt_rows)
    lower.plot(sound, np.zeros(len(sound)), ".", color=EXACT_COLOUR, markersize=3)
    lower.set_title(
        f"exact ring: {len(sound)} of {len(rows)} rows have an error of exactly 0",
        loc="left",
        fontsize=11,
        color=EXACT_COLOUR,
    )
    lower.set_ylim(-1, 1)
    lower.yaxis.set_major_locator(FixedLocator([0]))
    lower.yaxis.set_major_formatter(FixedFormatter(["0"]))
    lower.set_xlabel(f"row of the total gradient (d = {len(rows)})")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _label(axes: Axes, height: float, text: str, colour: str) -> None:
    """To the right of the axes, where it covers nothing."""
    where = axes.get_yaxis_transform()
    axes.annotate(text, (1.01, height), xycoords=where, va="center", color=colour, fontsize=9, annotation_clip=False)


def save(report: Report, out: Path) -> list[Path]:
    """JSON with everything measured (but for the errors row by row, which are the figure) and the figure."""
    out.mkdir(parents=True, exist_ok=True)
    written = [out / "wraparound.json", out / "wraparound.png"]
    record = asdict(report)
    del record["row_errors"]
    written[0].write_text(json.dumps(record, indent=1) + "\n")
    draw(report).savefig(written[1], dpi=160)
    return written


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="experiments.wraparound", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--dataset", choices=("mnist", "synthetic"), help="default: MNIST if its files are here, else synthetic images"
    )
    parser.add_argument("--d", type=int, default=N_FEATURES, help="number of random features")
    parser.add_argument(
        "--alpha", type=int, default=ALPHA, choices=range(1, DEVICES + 1), metavar=f"1..{DEVICES}", help="of the code"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("results/wraparound"))
    options = parser.parse_args(argv)
    console, started = Console(), time.perf_counter()
    setting = Setting(n_features=options.d, alpha=options.alpha, seed=options.seed)
    report = run(*load_images(options.dataset, options.seed), setting)
    console.print(as_table(report))
    for path in save(report, options.out):
        console.print(f"wrote {path}")
    console.print(f"took {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
