"""FedAvg, FedProx and Scaffold for a softmax head on frozen features: what a closed form is compared with.

Every round each device takes one pass over its rows by mini-batches, from the model of the server; the server takes the
mean of what comes back, weighted by rows. FedProx pulls towards the server's model (Li et al., 2020), Scaffold corrects
by control variates (Karimireddy et al., 2020, option II). All devices take part in every round, which favours them.
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


def candidates(rates: Sequence[float], pulls: Sequence[float]) -> dict[str, list[GradientHead]]:
    """What each method is tuned over: the same rates."""
    return {
        "FedAvg": [GradientHead("FedAvg", rate) for rate in rates],
        "FedProx": [GradientHead("FedProx", rate, pull) for rate in rates for pull in pulls],
        "Scaffold": [GradientHead("Scaffold", rate, control=True) for rate in rates],
    }


def softmax_gradient(X: Singles, hot: Singles, theta: Singles) -> Singles:
    """Of the mean cross-entropy.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab.baselines.gradient_heads import softmax_gradient
    >>> softmax_gradient(np.ones((1, 1), "f4"), np.array([[1, 0]], "f4"), np.zeros((1, 2), "f4")).tolist()
    [[-0.5, 0.5]]
    """
    scores: Singles = X @ theta
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    scores -= hot
    found: Singles = (X.T @ scores / np.float32(len(X))).astype(np.float32, copy=False)
    return found


def trained(head: GradientHead, X: Singles, hot: Singles, parts: Sequence[Integers], seed: int) -> Iterator[Singles]:
    """The server's model after each round, for ever. Devices without rows send nothing."""
    owners = [part for part in parts if len(part)]
    if not owners:
        raise InvalidInput("parts must hold rows, got none")
    rng, rows = np.random.default_rng(seed), sum(map(len, owners))
    theta = np.zeros((X.shape[1], hot.shape[1]), dtype=np.float32)
    variates = np.zeros((len(owners) if head.control else 0, *theta.shape), dtype=np.float32)
    mean = np.zeros_like(theta)
    while True:
        total, changed = np.zeros_like(theta), np.zeros_like(theta)
        for place, part in enumerate(owners):
            shift = mean - variates[place] if head.control else None
            order = rng.permutation(part)
            local, steps = _one_pass(head, X, hot, order, (theta, shift))
            share = np.float32(len(part) / rows)
            total += share * local
            if head.control:
                renewed = variates[place] - mean + (theta - local) / np.float32(steps * head.rate)
                changed += share * (renewed - variates[place])
                variates[place] = renewed
        theta, mean = total, mean + changed
        yield theta


def _one_pass(
    head: GradientHead, X: Singles, hot: Singles, order: Integers, start: tuple[Singles, Singles | None]
) -> tuple[Singles, int]:
    """One device's model, and how many steps it took."""
    theta, shift = start
    local, rate, steps = theta.copy(), np.float32(head.rate), 0
    for begin in range(0, len(order), BATCH):
        batch = order[begin : begin + BATCH]
        gradient = softmax_gradient(X[batch], hot[batch], local)
        if head.pull:
            gradient += np.float32(head.pull) * (local - theta)
        if shift is not None:
            gradient += shift
        local -= rate * gradient
        steps += 1
    return local, steps


def accuracy(X: Singles, y: NDArray[np.int64], theta: Singles) -> float:
    """The share of right predictions."""
    return float(((X @ theta).argmax(axis=1) == y).mean())
