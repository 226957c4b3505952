"""Heads on frozen features: closed forms from one secure sum beside FedAvg, FedProx and Scaffold on the same features.

Every method sees the same embeddings, the same training rows and the same rows to be chosen by; nobody sees the test
rows. Rows are sorted by label or dealt out by Dirichlet draws, over 25, 100 and 1000 devices. Embeddings are computed
once for each row whatever follows, so no method is charged for them. The sum X'X costs a device 0.2 % of what its
embeddings cost; times are given without it, as the paper has it, and with it.

Closed forms are of integers, so that the sum over any devices is the same: that is checked for every split, and for the
first seed number by number. Noise is that of `codedfl_lab.planning.noisy_totals`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from codedfl.analyses.heads import ClassSums, Head, all_heads
from codedfl.data.dataset import Dataset
from codedfl.data.problem import make_problem
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.typing import Floats, Integers, Progress, Singles
from codedfl_lab.baselines.gradient_heads import GradientHead, accuracy, candidates, trained
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.results import Written
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import Bulk, FleetLatency, RoundTrip, epoch_arrivals, pad_macs, upload_times
from codedfl_lab.planning.noisy_totals import NoisyTotals
from codedfl_lab.reproduce.scope import software_versions

SPLITS: dict[str, float | None] = {"sorted": None, "Dirichlet 0.1": 0.1, "Dirichlet 0.05": 0.05, "Dirichlet 0.01": 0.01}
DEVICES = (25, 100, 1000)
EPSILONS = (1.0, 3.0, 8.0)
HONEST = 20
CLIP_NORM = 2.0  # of rows divided by the top of their range; public, and not looked up in the rows
_HELD_OUT = 0.1
_WORD_BITS = 32  # of a number of the secure sum, which its range needs (8 rows step^2 below 2^32)
_FLOAT_BITS = 32
_COLLUDERS = 1
_CHECKED = 16  # random columns by which sums of later seeds are compared
_CHUNK = 1 << 16  # bits of a message that are sent again when they are lost


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings on the encoder's grid, and their classes by number.

    classes: what these are called.
    """

    name: str
    classes: tuple[str, ...]
    X: Singles
    y: NDArray[np.int64]
    X_test: Singles
    y_test: NDArray[np.int64]
    low: float
    high: float
    step: float

    @property
    def n_classes(self) -> int:
        """How many there are."""
        return len(self.classes)

    def codes(self, rows: Integers) -> Singles:
        """Whole numbers about the middle of the range, as they are summed."""
        middle = round((self.high - self.low) / self.step) // 2
        found: Singles = np.rint((self.X[rows] - np.float32(self.low)) / np.float32(self.step)) - np.float32(middle)
        return found


@dataclass(frozen=True)
class Sizes:
    """How much is run.

    gradient_seeds: by the number of devices, how many seeds gradient methods have at most.
    rates, pulls: what they are tuned over, for ``tuning_rounds``.
    """

    seeds: int = 5
    rounds: int = 45
    tuning_rounds: int = 8
    devices: tuple[int, ...] = DEVICES
    gradient_seeds: dict[int, int] = field(default_factory=dict)
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3)
    pulls: tuple[float, ...] = (0.001, 0.01)
    draws: int = 100

    def of_gradient(self, devices: int) -> int:
        """Seeds of gradient methods."""
        return min(self.seeds, self.gradient_seeds.get(devices, self.seeds))


@dataclass(frozen=True)
class FrozenRow:
    """One method on one split over ``devices``.

    accuracies: on the test rows, a seed each. up, down: bytes of a device, the mean over devices. most: of the device
    that sends most. seconds: on the paper's fleet, X'X at hand; charged: with X'X.
    within: of gradient methods the accuracy after no more bytes, and after no more (charged) seconds, than ours takes.
    """

    split: str
    devices: int
    method: str
    accuracies: tuple[float, ...]
    rounds: int
    up: float
    down: float
    most: float
    seconds: float
    charged: float
    sees: str
    tuned: str = ""
    at_equal_bytes: float | None = None
    at_equal_seconds: float | None = None
    at_equal_charged: float | None = None
    curve: tuple[float, ...] = ()

    @property
    def accuracy(self) -> float:
        """The mean."""
        return fmean(self.accuracies)

    @property
    def half_width(self) -> float:
        """Of a 95 % interval: over seeds where there are several, of the test rows where there is one."""
        n = len(self.accuracies)
        if n < 2:
            return float(1.96 * np.sqrt(self.accuracy * (1 - self.accuracy) / 10_000))
        from scipy.stats import t  # slow to load

        return float(t.ppf(0.975, n - 1) * np.std(self.accuracies, ddof=1) / np.sqrt(n))


@dataclass(frozen=True)
class FrozenResults(Written):
    """The outcome.

    exact: splits whose sum was that of pooled rows, and how many were compared. heads: each head's accuracy on held-out
    and on test rows, for the first seed; the test column chose nothing. confusion: of the chosen head, first seed.
    """

    rows: tuple[FrozenRow, ...]
    exact: tuple[int, int]
    heads: tuple[tuple[str, float, float, float], ...]
    confusion: tuple[tuple[int, ...], ...]
    dataset: str
    classes: tuple[str, ...]
    width: int
    n_train: int
    seeds: int
    command: str
    seconds: float
    versions: dict[str, str]

    name: str = "frozen"


# -- splits


def split_rows(y: NDArray[np.int64], split: str, devices: int, seed: int) -> list[Integers]:
    """Rows of each device that has any. A draw may leave devices without: they help with keys alone."""
    concentration = SPLITS[split]
    if concentration is None:
        return list(np.array_split(np.argsort(y, kind="stable"), devices))
    rng = np.random.default_rng([seed, devices, round(1000 * concentration)])
    pieces: list[list[Integers]] = [[] for _ in range(devices)]
    for one in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == one))
        shares = rng.dirichlet(np.full(devices, concentration))
        cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
        for place, piece in enumerate(np.split(rows, cuts)):
            pieces[place].append(piece)
    return [rows for rows in map(np.concatenate, pieces) if len(rows)]


def held_out_rows(n: int, seed: int) -> tuple[Integers, Integers]:
    """Rows to train on and rows to choose by, the same for every method and split."""
    order = np.random.default_rng([seed, n]).permutation(n)
    cut = round(_HELD_OUT * n)
    return np.sort(order[cut:]), np.sort(order[:cut])


# -- the sum


def integer_sum(codes: Singles, classes: NDArray[np.int64], n_classes: int) -> Integers:
    """[X, Y]'[1, X, Y] in exact integers: what a device adds up.

    Blocks have so few rows that float32 is exact: rows times the largest square stay below 2^24.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab.reproduce.frozen import integer_sum
    >>> integer_sum(np.array([[2.0], [-3.0]], "f4"), np.array([0, 1]), 2).tolist()
    [[2, -1, 1, 1], [-1, 13, 2, -3], [1, 2, 1, 0], [1, -3, 0, 1]]
    """
    width = 1 + codes.shape[1] + n_classes
    total = np.zeros((width, width), dtype=np.int64)
    eye = np.eye(n_classes, dtype=np.float32)
    block = min(1024, 2**24 // max(1, int(np.abs(codes).max(initial=1))) ** 2)
    if not block:
        raise InvalidInput("codes must be at most 2^12 in size: take a coarser step")
    for start in range(0, len(codes), block):
        part = codes[start : start + block]
        hot = eye[classes[start : start + block]]
        rows = np.hstack([np.ones((len(part), 1), dtype=np.float32), part, hot])
        total += (rows.T @ rows).astype(np.int64)
    return total


def class_sums(total: Integers, data: Embedded) -> ClassSums:
    """What heads are made of, from the integers of a sum."""
    d = data.X.shape[1]
    n, sums, counts = int(total[0, 0]), total[0, 1 : d + 1], total[0, d + 1 :]
    # n X'X - s s' stays below 2^63: it is made in exact integers, and rounded once.
    scatter = (n * total[1 : d + 1, 1 : d + 1] - np.outer(sums, sums)).astype(np.float64)
    cross = (n * total[1 : d + 1, d + 1 :] - np.outer(sums, counts)).astype(np.float64)
    middle = data.low + data.step * (round((data.high - data.low) / data.step) // 2)
    mean = middle + data.step * sums / n
    means = data.step * cross / (n * np.maximum(counts, 1))
    return ClassSums(n, counts.astype(np.float64), mean, data.step**2 * scatter / n**2, means.T)


def same_sum(data: Embedded, total: Integers, parts: Sequence[Integers], whole: bool) -> bool:
    """Whether the devices' sums add up to that of pooled rows: number by number, or in random directions."""
    if whole:
        return bool(
            np.array_equal(sum(integer_sum(data.codes(one), data.y[one], data.n_classes) for one in parts), total)
        )
    d = data.X.shape[1]
    directions = np.random.default_rng(len(parts)).integers(-8, 9, size=(d, _CHECKED)).astype(np.float64)
    found = np.zeros((d, _CHECKED))
    for one in parts:
        codes = data.codes(one).astype(np.float64)
        found += codes.T @ (codes @ directions)
    return bool(np.array_equal(found, total[1 : d + 1, 1 : d + 1].astype(np.float64) @ directions))


def right(X: Singles, y: NDArray[np.int64], head: Head) -> float:
    """The share of right predictions."""
    return float(((X.astype(np.float64) @ head.slopes + head.constants).argmax(axis=1) == y).mean())


def least_squares(sums: ClassSums) -> Head:
    """AFL's head: no penalty beyond what makes the matrix regular."""
    weight = 1e-9 * float(np.trace(sums.covariance)) / len(sums.covariance)
    slopes: Floats = np.linalg.solve(sums.covariance + weight * np.eye(len(sums.covariance)), sums.cross).astype(
        np.float64
    )
    return Head("least squares", weight, slopes, sums.shares - sums.mean @ slopes)


# -- times


@dataclass(frozen=True)
class Times:
    """Seconds on the paper's fleet."""

    fleet: Fleet
    draws: int

    def ours(self, numbers: int, gram: Floats, clear: bool = False) -> tuple[float, float]:
        """Of one upload by everybody, and of one reply of each role, without and with X'X; means of draws."""
        latency, rng = FleetLatency(self.fleet), np.random.default_rng(0)
        bits = float(_WORD_BITS * numbers)
        pads = 0.0 if clear else (_COLLUDERS + 1) * pad_macs(self.fleet, bits)
        found = []
        for work in (np.zeros_like(gram), gram):
            bulk = Bulk(bits, "per-message", macs_to_send=pads, chunk_bits=_CHUNK)
            computed = latency.compute_times(work, self.draws, rng)
            ended = (computed + upload_times(latency, bulk, self.draws, rng)).max(axis=1)
            if not clear:  # holders expand a pad for each owner; the first of each role counts
                reply = RoundTrip(self.fleet.n_devices * pad_macs(self.fleet, bits), 256.0 * self.fleet.n_devices, bits)
                replies = np.sort(epoch_arrivals(latency, reply, self.draws, rng, _CHUNK), axis=1)
                ended = ended + replies[:, _COLLUDERS]
            found.append(float(ended.mean()))
        return found[0], found[1]

    def per_round(self, head: GradientHead, numbers: int, rows: Floats) -> float:
        """Of a round: models down, one pass over the rows, models up, and the server waits for all."""
        bits = float(_FLOAT_BITS * numbers * head.models_sent)
        trip = RoundTrip(2.0 * numbers * rows, bits, bits)  # a product for the scores, one for the gradient
        found = epoch_arrivals(FleetLatency(self.fleet), trip, self.draws, np.random.default_rng(0), _CHUNK)
        return float(found.max(axis=1).mean())


# -- one seed


@dataclass(frozen=True, eq=False)
class Closed:
    """What one seed of the closed forms ends in: accuracies on test rows by method."""

    total: Integers
    best: str
    by_method: dict[str, float]
    heads: tuple[tuple[str, float, float, float], ...]
    confusion: tuple[tuple[int, ...], ...]


def closed_forms(data: Embedded, seed: int) -> Closed:
    """The pooled sum and its heads; held-out rows choose."""
    train, out = held_out_rows(len(data.y), seed)
    total = integer_sum(data.codes(train), data.y[train], data.n_classes)
    sums = class_sums(total, data)
    heads = all_heads(sums)
    judged = [right(data.X[out], data.y[out], head) for head in heads]
    tested = [right(data.X_test, data.y_test, head) for head in heads]
    best = int(np.argmax(judged))
    by_method = {"ours": tested[best], "AFL, in the clear": right(data.X_test, data.y_test, least_squares(sums))}
    by_method |= {f"ours, epsilon {epsilon:g}": found for epsilon, found in noisy(data, train, seed)}
    table = tuple(
        (one.name, one.weight, *pair) for one, pair in zip(heads, zip(judged, tested, strict=True), strict=True)
    )
    scores = data.X_test.astype(np.float64) @ heads[best].slopes + heads[best].constants
    size = data.n_classes
    confusion = np.bincount(data.y_test * size + scores.argmax(axis=1), minlength=size**2).reshape(size, size)
    return Closed(total, heads[best].name, by_method, table, tuple(map(tuple, confusion.tolist())))


def noisy(data: Embedded, train: Integers, seed: int) -> Iterator[tuple[float, float]]:
    """Test accuracy with noise on X'X and X'Y at each epsilon; rows are shortened to a public length."""
    top = np.float32(data.high)
    of_rows = Dataset(
        data.name,
        data.X[train] / top,
        data.y[train],
        data.X_test / top,
        data.y_test,
        "classification",
        public_range=(float(data.low / top), 1.0),
    )
    problem = make_problem(of_rows, n_devices=paper.DEVICES, partition_name="random", features="linear", seed=seed)
    noises = {one: Budget(one, HONEST, clip_norm=CLIP_NORM).noise(problem.n_features, 1.0) for one in EPSILONS}
    totals = NoisyTotals(problem, noises[EPSILONS[0]])
    for epsilon, noise in noises.items():
        key = hashlib.sha256(f"frozen heads, {seed}, {epsilon}".encode()).digest()
        yield epsilon, problem.score(totals.models(noise, key)[1])


# -- gradient methods


@dataclass(frozen=True, eq=False)
class Standardised:
    """Features with a constant, standardised by the moments over all rows: a courtesy to gradient methods."""

    X: Singles
    hot: Singles
    X_test: Singles

    @classmethod
    def of(cls, data: Embedded) -> Standardised:
        mean, deviation = data.X.mean(axis=0), np.maximum(data.X.std(axis=0), np.float32(1e-6))
        X, X_test = (
            np.hstack([np.ones((len(one), 1), dtype=np.float32), (one - mean) / deviation])
            for one in (data.X, data.X_test)
        )
        return cls(X, np.eye(data.n_classes, dtype=np.float32)[data.y], X_test)


def tuned(data: Embedded, scaled: Standardised, split: str, devices: int, sizes: Sizes) -> dict[str, GradientHead]:
    """Of each method the candidate with the most right predictions on held-out rows, of the first seed."""
    train, out = held_out_rows(len(data.y), 0)
    parts = [train[one] for one in split_rows(data.y[train], split, devices, 0)]
    found = {}
    for name, tried in candidates(sizes.rates, sizes.pulls).items():
        judged = []
        for head in tried:
            theta = next(islice(trained(head, scaled.X, scaled.hot, parts, 0), sizes.tuning_rounds - 1, None))
            judged.append(accuracy(scaled.X[out], data.y[out], theta))
        found[name] = tried[int(np.argmax(judged))]
    return found


def curve_of(
    data: Embedded, scaled: Standardised, head: GradientHead, parts: list[Integers], rounds: int
) -> list[float]:
    """Test accuracy after each round."""
    models = islice(trained(head, scaled.X, scaled.hot, parts, 0), rounds)
    return [accuracy(scaled.X_test, data.y_test, theta) for theta in models]


# -- the study


def reproduce_frozen(
    data: Embedded, sizes: Sizes | None = None, progress: Progress | None = None, command: str = ""
) -> FrozenResults:
    """Run the benchmark on embeddings that are there."""
    began, say, sizes = time.perf_counter(), progress or (lambda *_: None), sizes or Sizes()
    say("closed forms", 0.0)
    closed = [closed_forms(data, seed) for seed in range(sizes.seeds)]
    scaled = Standardised.of(data)
    rows: list[FrozenRow] = []
    exact: list[bool] = []
    steps = len(SPLITS) * len(sizes.devices)
    for split in SPLITS:
        heads = None
        for devices in sizes.devices:
            say(f"{split}, {devices} devices", (1 + len(rows) / 8) / (1 + steps))
            parts = []
            for seed, one in enumerate(closed):
                train, _ = held_out_rows(len(data.y), seed)
                parts.append([train[rows_] for rows_ in split_rows(data.y[train], split, devices, seed)])
                exact.append(same_sum(data, one.total, parts[-1], whole=seed == 0))
            mine = _closed_rows(data, closed, split, parts[0], devices, sizes)
            heads = heads or tuned(data, scaled, split, devices, sizes)
            rows += mine
            rows += [
                _gradient_row(data, scaled, head, split, parts, (devices, sizes, mine[0])) for head in heads.values()
            ]
    first = closed[0]
    return FrozenResults(
        rows=tuple(rows),
        exact=(sum(exact), len(exact)),
        heads=first.heads,
        confusion=first.confusion,
        dataset=data.name,
        classes=data.classes,
        width=data.X.shape[1],
        n_train=int(first.total[0, 0]),
        seeds=sizes.seeds,
        command=command,
        seconds=time.perf_counter() - began,
        versions=software_versions(),
    )


def _fleet(devices: int) -> Fleet:
    return Fleet.load(paper.FLEET).scaled_to(devices)


def _rows_each(parts: Sequence[Integers], devices: int) -> Floats:
    """Rows by device; those without come last, where the fleet has its slowest."""
    found = np.zeros(devices)
    found[: len(parts)] = [len(one) for one in parts]
    return found


def _closed_rows(
    data: Embedded, closed: Sequence[Closed], split: str, parts: Sequence[Integers], devices: int, sizes: Sizes
) -> list[FrozenRow]:
    width = 1 + data.X.shape[1] + data.n_classes
    numbers, score = width * (width + 1) // 2, 8.0 * (1 + data.X.shape[1]) * data.n_classes * len(closed[0].heads)
    size, times = _WORD_BITS * numbers / 8, Times(_fleet(devices), sizes.draws)
    gram = _rows_each(parts, devices) * width**2 / 2
    shared = size * (_COLLUDERS + 1) / devices  # one holder of each role sends the sum of pads
    found = []
    for method in closed[0].by_method:
        clear = method.startswith("AFL")
        seconds, charged = times.ours(numbers, gram, clear)
        accuracies = tuple(one.by_method[method] for one in closed)
        chosen = "" if method != "ours" else ", ".join(dict.fromkeys(one.best for one in closed))
        sees = "each device's X'X and X'Y" if clear else "the total, " + ("with noise" if "eps" in method else "exact")
        up, down, most = (size, 0.0, size) if clear else (size + shared, score * (method == "ours"), 2 * size)
        found.append(
            FrozenRow(split, devices, method, accuracies, 1, up, down, most, seconds, charged, sees, tuned=chosen)
        )
    return found


def _gradient_row(
    data: Embedded,
    scaled: Standardised,
    head: GradientHead,
    split: str,
    parts: Sequence[list[Integers]],
    beside: tuple[int, Sizes, FrozenRow],
) -> FrozenRow:
    devices, sizes, ours = beside
    curves = [curve_of(data, scaled, head, one, sizes.rounds) for one in parts[: sizes.of_gradient(devices)]]
    curve = np.mean(curves, axis=0)
    numbers = scaled.X.shape[1] * data.n_classes
    size = _FLOAT_BITS * numbers * head.models_sent / 8
    each = Times(_fleet(devices), sizes.draws).per_round(head, numbers, _rows_each(parts[0], devices))

    def within(budget: float, price: float) -> float:
        """The accuracy after as many rounds as there is room for; that of guessing where there is none."""
        fit = min(len(curve), int(budget / price))
        return float(curve[fit - 1]) if fit else 1.0 / data.n_classes

    said = f"rate {head.rate:g}" + (f", pull {head.pull:g}" if head.pull else "")
    return FrozenRow(
        split,
        devices,
        head.name,
        tuple(one[-1] for one in curves),
        sizes.rounds,
        size * sizes.rounds,
        size * sizes.rounds,
        size * sizes.rounds,
        each * sizes.rounds,
        each * sizes.rounds,
        "each device's model, every round",
        said,
        within(ours.up + ours.down, 2 * size),
        within(ours.seconds, each),
        within(ours.charged, each),
        tuple(curve.tolist()),
    )
