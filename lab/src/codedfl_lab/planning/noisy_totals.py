"""The noisy totals that role-sums would decode, computed in one place: the fast mode for studies with noise.

The exact part is what the devices compute, row by row shortened and device by device rounded. The noise is drawn by the
devices' own code: once for each device, which gives the protocol's total bit for bit
(tests/study/test_noise_study.py), or once for all of them with their variance, which no test can tell from it
(``calibration.gap_of_sum``) and is as many times faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codedfl.crypto.noise import cross_noise, gram_noise
from codedfl.exact.fitted_rows import fitted
from codedfl.exact.gram import GramSum, symmetric
from codedfl.exact.row_noise import GridNoise, RowNoise
from codedfl.exact.scales import GRAM_BLOCK_ROWS
from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.shrunken import shrunken_ridge
from codedfl.typing import Floats
from codedfl_lab.primes.fixed_point import FixedPoint
from codedfl_lab.problems.problem import Problem


@dataclass(frozen=True, eq=False)
class NoisySums:
    """X'X (its packed upper triangle) and X'Y, as reals."""

    triangle: Floats
    cross: Floats

    def gram(self) -> Floats:
        """The whole matrix."""
        return symmetric(self.triangle, len(self.cross))


class NoisyTotals:
    """Sums of all devices for one clip norm; noise is drawn as often as it is asked for.

    Attributes
    ----------
    shortened : int
        Rows longer than the norm.
    """

    def __init__(self, problem: Problem, noise: RowNoise, progress: Callable[[float], None] | None = None) -> None:
        self.problem = problem
        self.format = self.scales(noise)
        d, c = problem.n_features, problem.n_outputs
        self._gram, self._cross = np.zeros(d * (d + 1) // 2), np.zeros((d, c))
        self.shortened = 0
        for device in range(problem.n_devices):
            part = problem.rows_of(device)
            X, Y, fit = fitted(problem.X[part].astype(np.float64), problem.Y[part], problem.bounds, noise)
            self.shortened += fit.shortened
            X, Y = self.format.grid_features(X), self.format.grid_labels(Y)
            total = GramSum(d)
            for start in range(0, len(X), GRAM_BLOCK_ROWS):
                total.add(X[start : start + GRAM_BLOCK_ROWS])
            self._gram += self.format.round_gram(total.triangle())
            self._cross += self.format.round_cross(X.T @ Y)
            if progress is not None:
                progress((device + 1) / problem.n_devices)

    def scales(self, noise: RowNoise) -> FixedPoint:
        """The scales of a run with this noise. The grid depends on the clip norm alone, so the exact sums serve all."""
        p = self.problem
        return FixedPoint.derive(p.bounds, p.n_features, p.n_devices, noise=noise, n_outputs=p.n_outputs)

    def exact(self) -> NoisySums:
        return self._reals(self._gram, self._cross)

    def of_devices(self, noise: RowNoise, seeds: Sequence[bytes], label: str) -> NoisySums:
        """The sums with the noise of these devices, each from its own seed."""
        format_ = self.scales(noise)
        gram, cross = self._gram.copy(), self._cross.copy()
        for seed in seeds:
            gram += gram_noise(format_, seed, label)
            cross += cross_noise(format_, self.problem.n_outputs, seed, label)
        return self._reals(gram, cross)

    def drawn_at_once(self, noise: RowNoise, seed: bytes, devices: int) -> NoisySums:
        """The sums with noise that has the variance of that of ``devices`` devices."""
        format_ = self.scales(noise)
        one = format_.noise
        assert one is not None
        root = math.sqrt(devices)
        wide = GridNoise(*(round(sigma * root) for sigma in (one.diagonal, one.off_diagonal, one.cross)))
        all_of_them = replace(format_, noise=wide)
        gram = self._gram + gram_noise(all_of_them, seed, "all at once")
        return self._reals(gram, self._cross + cross_noise(all_of_them, self._cross.shape[1], seed, "all"))

    def models(self, noise: RowNoise, seed: bytes) -> tuple[Floats, Floats]:
        """Theta as products allow it (AdaSSP's ridge alone) and as X'X itself does (its spectrum cleared)."""
        sums, level = self.drawn_at_once(noise, seed, self.problem.n_devices), NoiseLevel.of(self.scales(noise))
        gram = sums.gram()
        ridge = plain_ridge(gram, sums.cross, level.ridge * level.samples)
        return ridge, shrunken_ridge(gram, sums.cross, level.radius)

    def _reals(self, gram: Floats, cross: Floats) -> NoisySums:
        bits = self.format.gram_bits, self.format.constant_bits
        return NoisySums(np.ldexp(gram, -bits[0]), np.ldexp(cross, -bits[1]))


def plain_ridge(gram: Floats, cross: Floats, weight: float) -> Floats:
    """(X'X + weight)^-1 X'Y, also where noise has left X'X + weight with a negative eigenvalue."""
    return np.asarray(np.linalg.solve(gram + weight * np.eye(len(gram)), cross), dtype=np.float64)
