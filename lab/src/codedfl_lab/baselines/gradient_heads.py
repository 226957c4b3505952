"""FedAvg, FedProx and Scaffold for a softmax head on frozen features: what a closed form is compared with.

Every round each device takes one pass over its rows by mini-batches, from the model of the server; the server takes the
mean of what comes back, weighted by rows. FedProx pulls towards the server's model (Li et al., 2020), Scaffold corrects
by control variates (Karimireddy et al., 2020, option II). All devices take part in every round, which favours them.

Several heads are trained at once on the same batches: rows are read once for all of them, and their differences are of
the methods alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Integers, Singles

BATCH = 50


@dataclass(frozen=True)
class GradientHead:
    """One method and what it is tuned over.

    rate: of the local steps. pull: of FedProx, 0 for the others. control: whether Scaffold's variates are used.
    """

    name: str
    rate: float
    pull: float = 0.0
    control: bool = False

    def at(self, rate: float) -> GradientHead:
        """The same with another rate."""
        return replace(self, rate=rate)

    @property
    def models_sent(self) -> int:
        """Models that a device sends, and as many that it gets, in a round: Scaffold's variates travel too."""
        return 2 if self.control else 1

    @property
    def said(self) -> str:
        """What it was tuned to, for people."""
        return f"rate {self.rate:g}" + (f", pull {self.pull:g}" if self.pull else "")


def candidates(rates: Sequence[float], pulls: Sequence[float]) -> list[GradientHead]:
    """What the methods are tuned over: the same rates."""
    return [
        *(GradientHead("FedAvg", rate) for rate in rates),
        *(GradientHead("FedProx", rate, pull) for rate in rates for pull in pulls),
        *(GradientHead("Scaffold", rate, control=True) for rate in rates),
    ]


def softmax_gradient(X: Singles, hot: Singles, theta: Singles) -> Singles:
    """Of the mean cross-entropy; ``theta`` is columns x classes, or columns x heads x classes.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab.baselines.gradient_heads import softmax_gradient
    >>> softmax_gradient(np.ones((1, 1), "f4"), np.array([[1, 0]], "f4"), np.zeros((1, 2), "f4")).tolist()
    [[-0.5, 0.5]]
    """
    found = X.T @ (_residuals(X, hot, theta).reshape(len(X), -1) / np.float32(len(X)))
    return found.reshape(theta.shape).astype(np.float32, copy=False)


def _residuals(X: Singles, hot: Singles, theta: Singles) -> Singles:
    """Probabilities less indicators of the classes, row by row."""
    scores: Singles = (X @ theta.reshape(len(theta), -1)).reshape(len(X), *theta.shape[1:])
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    scores -= hot if theta.ndim == 2 else hot[:, None, :]
    return scores


def trained(
    heads: Sequence[GradientHead], X: Singles, hot: Singles, parts: Sequence[Integers], seed: int
) -> Iterator[Singles]:
    """The server's models after each round, for ever: heads x columns x classes. Devices without rows send nothing."""
    owners, rows = [part for part in parts if len(part) > BATCH], sum(map(len, parts))
    if not rows:
        raise InvalidInput("parts must hold rows, got none")
    rng, small = np.random.default_rng(seed), [part for part in parts if 0 < len(part) <= BATCH]
    theta = np.zeros((X.shape[1], len(heads), hot.shape[1]), dtype=np.float32)
    controlled = [place for place, head in enumerate(heads) if head.control]
    rates = _each([heads[place].rate for place in controlled])
    mean = np.zeros_like(theta[:, controlled])
    variates = np.zeros((len(owners) if controlled else 0, *mean.shape), dtype=np.float32)
    steppers = _OneStep(heads, X, hot, small, rows) if small else None
    while True:
        total, changed = steppers.round(theta, mean) if steppers else (np.zeros_like(theta), np.zeros_like(mean))
        for place, part in enumerate(owners):
            shift = np.zeros_like(theta) if controlled else None
            if shift is not None:
                shift[:, controlled] = mean - variates[place]
            local, steps = _one_pass(heads, X, hot, rng.permutation(part), (theta, shift))
            share = np.float32(len(part) / rows)
            total += share * local
            if controlled:
                drift = (theta - local)[:, controlled] / (np.float32(steps) * rates)
                changed += share * (drift - mean)
                variates[place] += drift - mean
        theta, mean = total, mean + changed
        yield np.ascontiguousarray(theta.transpose(1, 0, 2))


class _OneStep:
    """Devices of one batch, which take one step a round from the server's model: all of them at once.

    Their means weighted by rows are products over all of their rows. A variate of Scaffold is the gradient of the round
    before; since all of these step in each round, the weighted sum of theirs is all that is wanted.
    """

    def __init__(
        self, heads: Sequence[GradientHead], X: Singles, hot: Singles, parts: Sequence[Integers], rows: int
    ) -> None:
        order = np.concatenate(parts)
        self._X, self._hot, self._rows = X[order], hot[order], np.float32(rows)
        self._share = np.float32(len(order) / rows)
        self._rates = _each([one.rate for one in heads])
        self._controlled = [place for place, head in enumerate(heads) if head.control]
        self._before = np.zeros((X.shape[1], len(self._controlled), hot.shape[1]), dtype=np.float32)

    def round(self, theta: Singles, mean: Singles) -> tuple[Singles, Singles]:
        """Their part of the next model, and of the change of the mean variate."""
        residuals = _residuals(self._X, self._hot, theta).reshape(len(self._X), -1)
        gradient = (self._X.T @ residuals).reshape(theta.shape) / self._rows
        changed = gradient[:, self._controlled] - self._before
        self._before = gradient[:, self._controlled].copy()
        gradient[:, self._controlled] = changed + self._share * mean
        return self._share * theta - self._rates * gradient, changed


def _each(values: Sequence[float]) -> Singles:
    """One number for each head, as they stand in a model."""
    return np.array(values, dtype=np.float32)[:, None]


def _one_pass(
    heads: Sequence[GradientHead], X: Singles, hot: Singles, order: Integers, start: tuple[Singles, Singles | None]
) -> tuple[Singles, int]:
    """One device's models, and how many steps it took."""
    theta, shift = start
    rates, pulls = _each([one.rate for one in heads]), _each([one.pull for one in heads])
    local, steps = theta.copy(), 0
    for begin in range(0, len(order), BATCH):
        batch = order[begin : begin + BATCH]
        gradient = softmax_gradient(X[batch], hot[batch], local)
        if pulls.any():
            gradient += pulls * (local - theta)
        if shift is not None:
            gradient += shift
        gradient *= rates
        local -= gradient
        steps += 1
    return local, steps


def accuracy(X: Singles, y: NDArray[np.int64], theta: Singles) -> list[float]:
    """The share of right predictions of each head; ``theta`` as ``trained`` has it."""
    methods, width, classes = theta.shape
    scores = (X @ theta.transpose(1, 0, 2).reshape(width, -1)).reshape(len(X), methods, classes)
    right: list[float] = (scores.argmax(axis=2) == y[:, None]).mean(axis=0).tolist()
    return right
