"""The sharing phase (paper IV-B) in both arithmetics, with the plaintexts that only a test may know."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from codedfl.code.gradient_code import GradientCode, check_alpha
from codedfl.crypto import pads
from codedfl.data.features import RandomFourierFeatures, default_gamma
from codedfl.data.labels import Labels
from codedfl.data.partition import by_sorted_label
from codedfl.exact.fixed_point import Bounds, FixedPoint
from codedfl.typing import Planes
from experiments.code_accuracy import round_code
from experiments.paper_arithmetic import Integers, PaperFixedPoint
from experiments.random_real_code import RandomRealCode
from experiments.wraparound.answers import PaperAnswer, RingAnswers, Triangle

Floats = NDArray[np.float64]

# The paper's experiment (section V).
DEVICES = 25
ALPHA = 23
N_FEATURES = 2000


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
