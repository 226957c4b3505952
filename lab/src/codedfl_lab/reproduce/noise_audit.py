"""Attacks on noisy totals: how much of epsilon can be shown from outside, and does a membership test stay below it.

The adversary is the strongest that differential privacy speaks of: it knows every other row, all exact totals, and the
noise of everybody but the honest devices. What is left is a test between two Gaussians. From its errors on many runs
follows a lower bound on epsilon that holds with 95 % confidence (Clopper, Pearson): above the stated epsilon it proves
a fault, below it proves nothing. Planted faults show that it would see one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from codedfl.crypto import noise as noise_source
from codedfl.crypto.noise import diagonal_of_triangle
from codedfl.exact.fitted_rows import fitted
from codedfl.exact.row_noise import GridNoise
from codedfl.exact.scales import Bounds
from codedfl.privacy.budget import Budget
from codedfl.privacy.calibration import advantage
from codedfl.typing import Floats
from codedfl_lab.primes.fixed_point import FixedPoint

FAULTS = ("none", "half the noise", "noise redrawn", "a forgotten clip", "no noise")
_CONFIDENCE = 0.95
_REPEATS = 4  # uploads of one total that a device with redrawn noise would send
_THRESHOLDS = 60


@dataclass(frozen=True)
class AuditRow:
    """What was shown of one way of adding noise.

    Attributes
    ----------
    shown : float
        The lower bound on epsilon.
    advantage, bound : float
        Of the best threshold of a membership test, on runs that did not choose it; and the most that epsilon allows.
    """

    fault: str
    epsilon: float
    delta: float
    runs: int
    shown: float
    advantage: float
    bound: float

    @property
    def caught(self) -> bool:
        return self.shown > self.epsilon


def audit(budget: Budget, fault: str = "none", runs: int = 100_000, seed: int = 0) -> AuditRow:
    """Many runs on a small problem, with and without one row at the edge of what is allowed.

    Parameters
    ----------
    budget : Budget
        Of one run.
    fault : str
        One of ``FAULTS``.
    runs : int
        With the row, and as many without; half of them choose the test, the others judge it.
    seed : int
        Of the noise.
    """
    with_row, without = _projections(budget, fault, runs, seed)
    half = runs // 2
    first, second = (with_row[:half], without[:half]), (with_row[half:], without[half:])
    thresholds = np.quantile(np.concatenate(first), np.linspace(0.0005, 0.9995, _THRESHOLDS))
    chosen = max(thresholds, key=lambda t: shown_epsilon(*_rates(*first, t), half, budget.delta))
    shown = shown_epsilon(*_rates(*second, chosen), runs - half, budget.delta)
    best = max(thresholds, key=lambda t: float(np.subtract(*_rates(*first, t))))
    found = float(np.subtract(*_rates(*second, best)))
    return AuditRow(fault, budget.epsilon, budget.delta, runs, shown, found, advantage(budget.epsilon, budget.delta))


def shown_epsilon(true_positives: float, false_positives: float, runs: int, delta: float) -> float:
    """The epsilon that error rates over ``runs`` prove, from either kind of error, each with half of the doubt."""
    doubt = (1 - _CONFIDENCE) / 4
    found = 0.0
    for hits, misses in ((true_positives, false_positives), (1 - false_positives, 1 - true_positives)):
        low = stats.beta.ppf(doubt, round(hits * runs), runs - round(hits * runs) + 1) if hits > 0 else 0.0
        most = stats.beta.ppf(1 - doubt, round(misses * runs) + 1, runs - round(misses * runs)) if misses < 1 else 1.0
        if low > delta:
            found = max(found, math.log((low - delta) / most))
    return found


def _rates(with_row: Floats, without: Floats, threshold: float) -> tuple[float, float]:
    return float(np.mean(with_row > threshold)), float(np.mean(without > threshold))


def _projections(budget: Budget, fault: str, runs: int, seed: int) -> tuple[Floats, Floats]:
    """What the adversary makes of each run: the total, less what it knows, along what the row would add."""
    d, c = 3, 1
    noise = budget.noise(d, bound := 1.0)
    bounds = Bounds(4 * bound, 1.0, 100, 100)
    format_ = FixedPoint.derive(bounds, d, budget.honest, noise=noise, n_outputs=c)
    scales = format_.noise
    assert scales is not None
    row = np.full((1, d), noise.clip_norm / math.sqrt(d)) * (2.5 if fault == "a forgotten clip" else 1.0)
    label = np.ones((1, c))
    if fault != "a forgotten clip":
        row, label, _ = fitted(row, label, bounds, noise)
    moved = _numbers(format_, row, label)
    used = GridNoise(*(sigma // 2 for sigma in _sigmas(scales))) if fault == "half the noise" else scales
    repeats = _REPEATS if fault == "noise redrawn" else 1
    sigmas = np.full(len(moved), scales.off_diagonal, dtype=np.float64)
    sigmas[diagonal_of_triangle(d)] = scales.diagonal
    sigmas[-d * c :] = scales.cross
    used_format = replace(format_, noise=used)

    def total(world: int) -> Floats:
        """The noise of all honest devices; what is sent several times is averaged."""
        uploads = [(world, device, repeat) for device in range(budget.honest) for repeat in range(repeats)]
        if fault == "no noise":
            return np.zeros((runs, len(moved)))
        drawn = [_drawn(used_format, d, c, runs, seed, which) for which in uploads]
        return np.asarray(np.sum(drawn, axis=0) / repeats, dtype=np.float64)

    direction = moved / sigmas**2
    return (total(0) + moved) @ direction, total(1) @ direction


def _drawn(format_: FixedPoint, d: int, c: int, runs: int, seed: int, which: Sequence[int]) -> Floats:
    """One device's noise in many runs, by the sampler and the scales of a device."""
    assert format_.noise is not None
    key = hashlib.sha256(f"audit {seed} {tuple(which)}".encode()).digest()
    triangle, scales = d * (d + 1) // 2, format_.noise
    found = np.empty((runs, triangle + d * c))
    on = np.zeros(triangle, dtype=np.bool_)
    on[diagonal_of_triangle(d)] = True
    parts = {"diagonal": (np.flatnonzero(on), scales.diagonal), "off": (np.flatnonzero(~on), scales.off_diagonal)}
    parts["cross"] = (np.arange(triangle, triangle + d * c), scales.cross)
    for label, (places, sigma) in parts.items():
        numbers = noise_source.draw(key, label, sigma, runs * len(places))
        found[:, places] = numbers.reshape(runs, len(places))
    return found


def _numbers(format_: FixedPoint, X: Floats, Y: Floats) -> Floats:
    """What these rows are in the upload, in units of the ring."""
    ring = format_.ring
    gram, cross = ring.to_integers(format_.gram_planes(X)), ring.to_integers(format_.cross_planes(X, Y))
    return np.concatenate([gram, cross.reshape(-1)]).astype(np.float64)


def _sigmas(scales: GridNoise) -> tuple[int, int, int]:
    return scales.diagonal, scales.off_diagonal, scales.cross
