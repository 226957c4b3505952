"""Closed forms of the benchmark of frozen features: the exact sum, its heads, and what noise leaves of them.

Closed forms are of integers, so that the sum over any devices is the same: that is checked for every split, and for the
first seed number by number. Noise is that of `codedfl_lab.planning.noisy_totals`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.analyses.heads import ClassSums, Head, all_heads
from codedfl.data.preprocessing import Moments
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.typing import Floats, Integers, Singles
from codedfl_lab.comparing import paper
from codedfl_lab.planning.noisy_totals import NoisyTotals
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.problem import make_problem
from codedfl_lab.reproduce.frozen_rows import Embedded, held_out_rows

EPSILONS = (1.0, 3.0, 8.0)
HONEST = 20
CLIP_NORM = (
    4.0  # of rows divided by the top of their range; public: a round number that leaves nearly all rows as they are
)
CLEAR = "AFL, in the clear"
_CHECKED = 16  # random columns by which sums of later seeds are compared


def integer_sum(codes: Singles, classes: NDArray[np.int64], n_classes: int) -> Integers:
    """[X, Y]'[1, X, Y] in exact integers: what a device adds up.

    Blocks have so few rows that float32 is exact: rows times the largest square stay below 2^24.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab.reproduce.frozen_sums import integer_sum
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


class ClosedSums(NamedTuple):
    """What one seed of the closed forms ends in.

    best: the head that held-out rows chose. by_method: accuracy on test rows.
    heads: name, weight, accuracy on held-out and on test rows. confusion: of the chosen head.
    """

    best: str
    by_method: dict[str, float]
    heads: list[tuple[str, float, float, float]]
    confusion: list[list[int]]


def pooled(data: Embedded, seed: int) -> Integers:
    """The sum over all training rows of a seed."""
    train, _ = held_out_rows(len(data.y), seed)
    return integer_sum(data.codes(train), data.y[train], data.n_classes)


def closed_forms(data: Embedded, seed: int, alone: bool = False) -> ClosedSums:
    """The pooled sum's heads; held-out rows choose. ``alone``: without the row in the clear and those with noise."""
    train, out = held_out_rows(len(data.y), seed)
    sums = class_sums(pooled(data, seed), data)
    heads = all_heads(sums)
    judged = [right(data.X[out], data.y[out], head) for head in heads]
    tested = [right(data.X_test, data.y_test, head) for head in heads]
    best = int(np.argmax(judged))
    by_method = {"ours": tested[best]}
    if not alone:
        by_method[CLEAR] = right(data.X_test, data.y_test, least_squares(sums))
        by_method |= {f"ours, epsilon {epsilon:g}": found for epsilon, found in noisy(data, train, seed)}
    table = [(head.name, head.weight, a, b) for head, a, b in zip(heads, judged, tested, strict=True)]
    scores = data.X_test.astype(np.float64) @ heads[best].slopes + heads[best].constants
    size = data.n_classes
    confusion = np.bincount(data.y_test * size + scores.argmax(axis=1), minlength=size**2).reshape(size, size)
    return ClosedSums(heads[best].name, by_method, table, confusion.tolist())


def noisy(data: Embedded, train: Integers, seed: int) -> Iterator[tuple[float, float]]:
    """Test accuracy with noise on X'X and X'Y at each epsilon; rows are shortened to a public length.

    Numbers are taken about zero, in units of the top of their range.
    """
    of_rows = Dataset(data.name, data.X[train], data.y[train], data.X_test, data.y_test, "classification")
    d = data.X.shape[1]
    unit = Moments(len(train), np.zeros(d), np.full(d, data.high**2))
    problem = make_problem(
        of_rows,
        n_devices=paper.DEVICES,
        partition_name="random",
        features="linear",
        seed=seed,
        secure_moments=lambda _: unit,
    )
    noises = {one: Budget(one, HONEST, clip_norm=CLIP_NORM).noise(problem.n_features, 1.0) for one in EPSILONS}
    totals = NoisyTotals(problem, noises[EPSILONS[0]])
    for epsilon, noise in noises.items():
        key = hashlib.sha256(f"frozen heads, {seed}, {epsilon}".encode()).digest()
        yield epsilon, problem.score(totals.models(noise, key)[1])
