"""Gradient methods of the benchmark of frozen features: tuned on held-out rows, all of them on the same batches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np

from codedfl.typing import Integers, Singles
from codedfl_lab.baselines.gradient_heads import GradientHead, accuracy, candidates, trained
from codedfl_lab.reproduce.frozen_results import FrozenSizes
from codedfl_lab.reproduce.frozen_rows import Embedded, held_out_rows, split_rows


@dataclass(frozen=True, eq=False)
class Standardised:
    """Features with a constant, standardised by the moments over all rows: a courtesy to gradient methods."""

    X: Singles
    hot: Singles
    X_test: Singles

    @classmethod
    def of(cls, data: Embedded) -> Standardised:
        """The moments of the training rows."""
        mean, deviation = data.X.mean(axis=0), np.maximum(data.X.std(axis=0), np.float32(1e-6))
        X, X_test = (
            np.hstack([np.ones((len(one), 1), dtype=np.float32), (one - mean) / deviation])
            for one in (data.X, data.X_test)
        )
        return cls(X, np.eye(data.n_classes, dtype=np.float32)[data.y], X_test)


def parts_of(data: Embedded, split: str, devices: int, seed: int) -> list[Integers]:
    """The training rows of each device."""
    train, _ = held_out_rows(len(data.y), seed)
    return [train[rows] for rows in split_rows(data.y[train], split, devices, seed)]


def tuned(data: Embedded, scaled: Standardised, split: str, devices: int, sizes: FrozenSizes) -> list[dict[str, Any]]:
    """Of each method the candidate with the most right predictions on held-out rows at the end, of the first seed.

    Where that is one with the smallest or the largest rate, rates beyond are tried, too.
    """
    _, out = held_out_rows(len(data.y), 0)
    parts = parts_of(data, split, devices, 0)
    tried: dict[GradientHead, float] = {}
    best: dict[str, GradientHead] = {}
    heads = candidates(sizes.rates, sizes.pulls)
    while heads:
        theta = next(islice(trained(heads, scaled.X, scaled.hot, parts, 0), sizes.rounds - 1, None))
        tried |= dict(zip(heads, accuracy(scaled.X[out], data.y[out], theta), strict=True))
        best = {name: _best(name, tried) for name in dict.fromkeys(one.name for one in tried)}
        heads = [one for head in best.values() for one in _beyond(head, tried)]
    return [asdict(head) for head in best.values()]


def _best(name: str, tried: dict[GradientHead, float]) -> GradientHead:
    """Of one method; the first of several."""
    return max((one for one in tried if one.name == name), key=tried.__getitem__)


def _beyond(head: GradientHead, tried: dict[GradientHead, float]) -> list[GradientHead]:
    """Rates that are not tried yet, next to one at the edge of those that are."""
    rates = [one.rate for one in tried if (one.name, one.pull) == (head.name, head.pull)]
    return [head.at(head.rate * factor) for edge, factor in ((max, 3.0), (min, 1 / 3)) if head.rate == edge(rates)]


def curves(
    data: Embedded, scaled: Standardised, heads: list[GradientHead], where: tuple[str, int, int], rounds: int
) -> dict[str, list[float]]:
    """Test accuracy after each round; ``where``: split, devices, seed."""
    models = islice(trained(heads, scaled.X, scaled.hot, parts_of(data, *where), where[2]), rounds)
    found = [accuracy(scaled.X_test, data.y_test, theta) for theta in models]
    return {head.name: list(one) for head, one in zip(heads, zip(*found, strict=True), strict=True)}
