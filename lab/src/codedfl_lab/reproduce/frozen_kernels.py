"""How soon the paper's two data sets reach its targets by one upload: its own random features, and smaller public ones.

The time of one upload grows with the square of the features, so the fewest that reach the target are the fastest.
Held-out rows say how many these are. The smaller ones are random features of a picture's low frequencies, and of the
directions of its edges: they are public, and follow from no rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import numpy as np

from codedfl.data.encoders import Items, encode, load_encoder
from codedfl.data.features.feature_map import FeatureMap
from codedfl.data.features.pca_rbf import PrincipalFourierFeatures, low_frequencies
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.typing import Progress, Rows, Singles
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.reproduce.frozen_results import KernelRow
from codedfl_lab.reproduce.frozen_rows import Embedded
from codedfl_lab.reproduce.frozen_sums import closed_forms
from codedfl_lab.reproduce.frozen_times import FrozenTimes
from codedfl_lab.reproduce.parts import Parts
from codedfl_lab.reproduce.scope import ClaimScope

PAPERS, LOW, EDGES = "the paper's random features", "of low frequencies", "of directions of edges"
_FEWER = (200, 300, 400, 500, 700, 1000)
_SIDE = 28
_SEEDS = 3  # at most: draws of features differ less than the widths do
_CODES = 90  # on either side of zero: sums of 60 000 products stay below 2^32

Transformed = Callable[[Rows], Singles]


def kernel_rows(
    scope: ClaimScope, draws: int, parts: Parts, say: Progress, widths: Mapping[str, Sequence[int]] | None = None
) -> tuple[KernelRow, ...]:
    """Of each data set and kind of features, one row for each number of them up to the first that reaches the target.

    widths: numbers of features of each kind, if others are wanted.
    """
    found, widths = [], widths or {PAPERS: (scope.n_features,), LOW: _FEWER, EDGES: _FEWER}
    seeds = scope.seeds[:_SEEDS]
    for name, experiment in EXPERIMENTS.items():
        data = scope.data(experiment)
        for kind, sizes in widths.items():
            for width in sizes:
                say(f"{name}, {width} of {kind}", 0.0)
                of = repr((len(data.y_train), list(seeds)))
                made = partial(_reached, data, kind, width, experiment.gamma, seeds)
                judged, tested = parts.get(f"{name}, {width} of {kind}", made, of)
                found.append(_row(data, kind, width, experiment.headline_target, (judged, tested), draws))
                if found[-1].reaches:
                    break
    return tuple(found)


def _row(
    data: Dataset, kind: str, width: int, target: float, reached: tuple[list[float], list[float]], draws: int
) -> KernelRow:
    """With seconds on the paper's fleet, the rows sorted and in equal parts."""
    classes = int(data.y_train.max()) + 1
    columns = 1 + width + classes
    numbers = columns * (columns + 1) // 2
    owned = np.full(paper.DEVICES, len(data.y_train) / paper.DEVICES)
    times = FrozenTimes(Fleet.load(paper.FLEET), draws)
    seconds, charged = times.ours(numbers, owned * columns**2 / 2)
    judged, tested = reached
    return KernelRow(data.name, kind, width, fmean(judged), tuple(tested), target, 4.0 * numbers, seconds, charged)


def _reached(
    data: Dataset, kind: str, width: int, gamma: float, seeds: Sequence[int]
) -> tuple[list[float], list[float]]:
    """Accuracy of the chosen head on held-out and on test rows, a seed of the features each."""
    found = [closed_forms(_embedded(data, kind, width, gamma, seed), seed, alone=True) for seed in seeds]
    judged = [max(judged for _, _, judged, _ in one.heads) for one in found]
    return judged, [one.by_method["ours"] for one in found]


def _embedded(data: Dataset, kind: str, width: int, gamma: float, seed: int) -> Embedded:
    """Features on a grid of whole numbers, as they are summed."""
    transformed, bound, step = _edges(width, seed) if kind == EDGES else _random(kind, width, gamma, seed)
    classes = tuple(map(str, range(int(data.y_train.max()) + 1)))
    X, X_test = transformed(data.X_train), transformed(data.X_test)
    y, y_test = data.y_train.astype(np.int64), data.y_test.astype(np.int64)
    return Embedded(data.name, classes, X, y, X_test, y_test, -bound, bound, step)


def _random(kind: str, width: int, gamma: float, seed: int) -> tuple[Transformed, float, float]:
    """Features of pixels or of their low frequencies, their bound and their step."""
    basis = low_frequencies(_SIDE)
    features: FeatureMap = RandomFourierFeatures(_SIDE**2, width, gamma, seed)
    if kind == LOW:
        random = RandomFourierFeatures(basis.components.shape[1], width, gamma, seed)
        features = PrincipalFourierFeatures(basis, random)
    step = features.bound / _CODES
    return lambda X: (np.rint(features.transform(X) / step) * step).astype(np.float32), features.bound, step


def _edges(width: int, seed: int) -> tuple[Transformed, float, float]:
    """By an encoder's file, as a device would have them."""
    from codedfl_lab.encoders.oriented_gradients import made  # needs onnx, an extra

    with tempfile.TemporaryDirectory() as folder:
        encoder = load_encoder(made(width, seed).write(Path(folder)))
        encoder.run([encoder.prepared(np.zeros((_SIDE, _SIDE), dtype=np.uint8))])  # reads its file

    def transformed(X: Rows) -> Singles:
        pictures = np.rint(255 * X).astype(np.uint8).reshape(-1, _SIDE, _SIDE)
        return encode(encoder, Items(pictures, [f"picture {place}" for place in range(len(X))])).values

    return transformed, encoder.high, encoder.step
