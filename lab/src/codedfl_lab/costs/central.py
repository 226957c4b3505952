"""The totals that the protocol would decode, computed in one place: the fast mode of the simulator.

A coded scheme gives the server exactly sum_i X_i'X_i e, whichever devices answer. So its models do not depend on
who straggles, and computing them centrally, with the same rounding and the same ring product, gives the same model
bit for bit (tests/run/test_simulator.py). Many latencies can then be drawn for one trajectory.

The sums per mini-batch serve the baselines, which work in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from codedfl.exact.totals import round_update
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.solver import Solver
from codedfl.typing import Floats
from codedfl_lab.primes.fixed_point import FixedPoint
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import NARROW
from codedfl_lab.problems.problem import MINI_BATCHES, Problem


@dataclass(frozen=True, eq=False)
class _RingTotals:
    """The sums of X'X and -X'Y on one ring, with its scales."""

    fixed_point: FixedPoint
    gram: Planes
    constant: Planes


class CentralTotals:
    """Sums over all devices of X'X and X'Y, as rounded by each device, and per mini-batch in floats.

    precision: fraction bits to ask for, as in ``Parameters``; None takes what two primes give.
    """

    def __init__(
        self, problem: Problem, progress: Callable[[float], None] | None = None, precision: int | None = None
    ) -> None:
        self.problem = problem
        self.precision = precision
        d, c = problem.n_features, problem.n_outputs
        format_ = FixedPoint.derive(problem.bounds, d, problem.n_devices, precision=precision)
        # Rings differ in their scales, not in the grid that features are put on first: one pass serves both.
        narrow = FixedPoint.of(NARROW, problem.bounds, d, problem.n_devices)
        grams = {one: np.zeros((d, d)) for one in (format_, narrow)}
        crosses = {one: np.zeros((d, c)) for one in (format_, narrow)}
        # Sums per mini-batch in integers of the grid: exact, so a device's is the sum over its mini-batches.
        batch_gram = np.zeros((MINI_BATCHES, d, d))
        mine, product = np.empty((d, d)), np.empty((d, d))
        self.batch_cross = np.zeros((MINI_BATCHES, d, c))
        self.batch_labels = np.zeros((MINI_BATCHES, c, c))
        self.batch_samples = np.zeros(MINI_BATCHES, dtype=np.int64)
        for device in range(problem.n_devices):
            rows = problem.rows_of(device)
            X, Y = format_.grid_features(problem.X[rows]), format_.grid_labels(problem.Y[rows])
            for one, cross in crosses.items():
                cross += one.round_cross(X.T @ Y)
            mine[...] = 0
            for batch in range(MINI_BATCHES):
                part = problem.mini_batch(device, batch)
                its = slice(part.start - rows.start, part.stop - rows.start)
                np.matmul(X[its].T, X[its], out=product)  # numpy sees the symmetry and computes one half
                mine += product
                batch_gram[batch] += product
                self.batch_cross[batch] += np.ldexp(X[its].T @ Y[its], -format_.feature_bits - format_.label_bits)
                self.batch_labels[batch] += problem.Y[part].T @ problem.Y[part]
                self.batch_samples[batch] += part.stop - part.start
            for one, gram in grams.items():
                gram += one.round_gram(mine)
            if progress is not None:
                progress((device + 1) / problem.n_devices)
        self.batch_gram = np.stack(
            [np.ldexp(part, -2 * format_.feature_bits).astype(np.float32) for part in batch_gram]
        )
        self.wide, self.narrow = (
            _RingTotals(one, one.ring.from_integers(grams[one]), one.ring.from_integers(-crosses[one]))
            for one in (format_, narrow)
        )

    def batch_matrices(self) -> Iterator[Floats]:
        """X'X/m of each mini-batch, over all devices; an empty one is zero."""
        return (gram / max(1, count) for gram, count in zip(self.batch_gram, self.batch_samples, strict=True))

    def loss(self, theta: Floats) -> float:
        """Mean squared error on all training rows, in the accuracy of float32."""
        with np.errstate(over="ignore", invalid="ignore"):
            fitted = sum(float((theta * (gram @ theta)).sum()) for gram in self.batch_gram)
            crossed = float((theta * self.batch_cross.sum(axis=0)).sum())
            return (
                fitted - 2 * crossed + float(self.batch_labels.trace(axis1=1, axis2=2).sum())
            ) / self.problem.n_samples

    def ridge(self, regularisation: float, *, narrow: bool = False) -> Floats:
        """What one-shot's server computes from the same totals: the closed-form solution."""
        d, c = self.problem.n_features, self.problem.n_outputs
        on = self.narrow if narrow else self.wide
        format_ = on.fixed_point
        solver = ClosedForm(regularisation)
        upper = np.triu_indices(d)
        solver.take_gram(format_.planes_of_gram(np.ascontiguousarray(on.gram[:, upper[0], upper[1]])))
        zero = np.zeros((d, c))
        solver.start(zero, format_.planes_of_constant(on.constant), self.problem.n_samples)
        assert solver.model is not None
        return solver.model

    def train(self, solver: Solver, *, narrow: bool = False) -> Iterator[Floats]:
        """The model after each epoch, from Theta^(1) = 0: bit for bit what the protocol's server computes.

        Paper: Proposition 3. Shown by ``make run``.
        """
        d, c = self.problem.n_features, self.problem.n_outputs
        on = self.narrow if narrow else self.wide
        format_, ring = on.fixed_point, on.fixed_point.ring
        zero = np.zeros((d, c))
        solver.start(zero, format_.planes_of_constant(on.constant), self.problem.n_samples)
        while True:
            assert solver.model is not None
            yield solver.model
            direction = solver.request()
            if direction is None:
                return
            integers, bits = round_update(format_, direction)
            product = ring.product(on.gram, ring.from_integers(integers))
            solver.receive(np.ldexp(integers, -bits), format_.planes_of_product(product, integers, bits))
