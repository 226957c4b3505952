"""One run of the paper's own system, and the sums that no party has, against which it is held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.exact.gram import symmetric
from codedfl.exact.totals import round_update
from codedfl.solve.descent import GradientDescent
from codedfl.typing import Floats
from codedfl_lab.code.gradient_code import GradientCode
from codedfl_lab.paper import Integers, PaperSystem, TandonCode
from codedfl_lab.paper.system import whole_matrix
from codedfl_lab.primes.fixed_point import FixedPoint
from codedfl_lab.problems.problem import Problem


class PlainSums:
    """The sums that no party has: of X'X and G^(1) = -X'Y over all devices, in units of 2^-f, and of their sizes."""

    def __init__(self, problem: Problem, f: int) -> None:
        self.problem, self.f = problem, f
        self._grid = FixedPoint.derive(problem.bounds, problem.n_features, problem.n_devices)
        self._upper = np.triu_indices(problem.n_features)
        self._gram, self._sizes, self._ours = (np.zeros(len(self._upper[0])) for _ in range(3))
        self._first, self._first_sizes = (np.zeros((problem.n_features, problem.n_outputs)) for _ in range(2))

    def of_device(self, device: int) -> tuple[Integers, Integers]:
        """X'X (its upper triangle) and G^(1) of one device, rounded once; they are added to the sums."""
        grid, (X, Y) = self._grid, self._rows(device)
        exact = (X.T @ X)[self._upper]
        self._ours += grid.round_gram(exact)
        gram = np.rint(np.ldexp(exact, self.f - 2 * grid.feature_bits))
        first = np.rint(np.ldexp(-(X.T @ Y), self.f - grid.feature_bits - grid.label_bits))
        for total, part in ((self._gram, gram), (self._first, first)):
            total += part
        for total, part in ((self._sizes, gram), (self._first_sizes, first)):
            total += np.abs(part)
        return gram.astype(np.int64), first.astype(np.int64)

    def _rows(self, device: int) -> tuple[Floats, Floats]:
        rows = self.problem.rows_of(device)
        return self._grid.grid_features(self.problem.X[rows]), self._grid.grid_labels(self.problem.Y[rows])

    def expected_wraps(self, k: int) -> float:
        """|x| / 2^k for each padded number x, counted in whole matrices."""
        sizes = np.concatenate([self._sizes, self._first_sizes.reshape(-1)])
        return whole_matrix(sizes, self.problem.n_features) / 2.0**k

    @cached_property
    def gram(self) -> Floats:
        return self._square(self._gram)

    @cached_property
    def _gram_sizes(self) -> Floats:
        return self._square(self._sizes)

    def _square(self, triangle: Floats) -> Floats:
        return symmetric(np.ldexp(triangle, -self.f), self.problem.n_features)

    def gradient(self, update: Floats) -> Floats:
        """The true total. float64 is good enough: it errs far less than truncation may."""
        return self.gram @ update + np.ldexp(self._first, -self.f)

    def sizes(self, update: Floats) -> float:
        """A bound on the entries of sum_i |X_i'X_i e + G_i|."""
        return float((self._gram_sizes @ np.abs(update) + np.ldexp(self._first_sizes, -self.f)).max())

    def wrong_on_ring(self, update: Floats) -> int:
        """Entries of the ring's X'X e that are not those of int64, which all sums fit by the rule of M/8."""
        grid, ring = self._grid, self._grid.ring
        integers, _ = round_update(grid, update)
        triangle = ring.symmetric(ring.from_integers(self._ours), self.problem.n_features)
        product = ring.to_integers(ring.product(triangle, ring.from_integers(integers)))
        truth = symmetric(self._ours, self.problem.n_features).astype(np.int64) @ integers.astype(np.int64)
        return int(np.count_nonzero(product != truth))

    def wrong_in_code(self, alpha: int, sets: Sequence[Sequence[int]]) -> int:
        """Entries of A B that are not 1 modulo their prime, of our code. int64 is exact: D products below 2^48."""
        code = GradientCode(self.problem.n_devices, alpha, self._grid.ring.primes)
        return sum(
            int(np.count_nonzero(a @ B[list(chosen)] % p != 1))
            for chosen in sets
            for a, B, p in zip(code.decoding_vector(chosen), code.matrix(), code.primes, strict=True)
        )

    def parts(self, update: Floats) -> list[Floats]:
        """The gradient of each device, from its rows."""
        found, bits = [], self._grid.feature_bits
        for device in range(self.problem.n_devices):
            X, Y = self._rows(device)
            residual = np.ldexp(X @ update, -bits) - np.ldexp(Y, -self._grid.label_bits)
            found.append(np.ldexp(X.T @ residual, -bits))
        return found


class PaperTraining(NamedTuple):
    """The model after each epoch, and whether the total was spoilt."""

    models: list[Floats]
    spoilt: list[bool]


class PaperRun:
    """The paper's system on one problem in one datatype, and what is true."""

    def __init__(self, plain: PlainSums, code: TandonCode, answering: Sequence[int]) -> None:
        problem = plain.problem
        self.plain, self.code, self.answering = plain, code, answering
        self.system = PaperSystem(code, problem.n_features, problem.n_outputs, answering)
        self.datatype = self.system.datatype

    def share(self, device: int, gram: Integers, first: Integers, seed: int) -> None:
        """Phase 1 of one device, whose keys come from the seed."""
        self.system.share(device, gram, first, np.random.default_rng([seed, device]))

    def on_grid(self, update: Floats) -> Integers:
        """e in Q<k,f>, by the modulo map where it is out of range."""
        return self.datatype.wrap(np.rint(np.ldexp(update, self.datatype.f)).astype(np.int64))

    def tolerance(self, update: Floats) -> float:
        """What truncation can do to a row of an answer without its keys.

        Each of alpha products that make an entry of the coded matrix, or of the constant, may be a unit off, and each
        of the d products of a row with e.
        """
        units = self.code.alpha * (np.abs(update).sum(axis=0).max() + 1) + self.plain.problem.n_features
        return float(np.ldexp(units, -self.datatype.f))

    def spoilt_answers(self, update: Integers, retrieved: Mapping[int, Integers]) -> int:
        """Devices with a row that truncation does not explain; X'X was rounded by half a unit before it was padded."""
        reals, q = self.datatype.to_reals(update), self.datatype
        parts = self.plain.parts(reals)
        rounding = np.ldexp((np.abs(reals).sum(axis=0).max() + 1) / 2, -q.f)
        spoilt = 0
        for i, found in retrieved.items():
            truth = sum((b * part for b, part in zip(self.code.B[i], parts, strict=True)), np.zeros(reals.shape))
            bound = self.tolerance(reals) + np.abs(self.code.B[i]).sum() * rounding
            spoilt += bool((np.abs(q.to_reals(found) - truth) > bound).any())
        return spoilt

    def row_errors(self, update: Integers, retrieved: Mapping[int, Integers]) -> tuple[Floats, float]:
        """For the total decoded from these answers: the largest error of each row, and what can be explained of it.

        That is the answers' own tolerances, a unit for each product with a weight, and what A B != 1 makes of parts.
        """
        q, reals = self.datatype, self.datatype.to_reals(update)
        survivors = sorted(retrieved)
        weights = self.code.decoding_vector(survivors)
        errors = np.abs(q.to_reals(self.system.decode(retrieved)) - self.plain.gradient(reals)).max(axis=1)
        bound = np.abs(weights).sum() * self.tolerance(reals) + np.ldexp(len(weights), -q.f)
        return errors, float(bound + self.code.error(survivors) * self.plain.sizes(reals))

    def train(self, solver: GradientDescent, survivors: NDArray[np.int64]) -> PaperTraining:
        """Phase 2 by itself."""
        q, shape = self.datatype, (self.plain.problem.n_features, self.plain.problem.n_outputs)
        models, spoilt = [], []
        first = update = np.zeros(shape)
        for epoch, fastest in enumerate(survivors.tolist()):
            sent = self.on_grid(update)
            retrieved = {i: self.system.retrieve(i, sent) for i in fastest}
            errors, bound = self.row_errors(sent, retrieved)
            total = q.to_reals(self.system.decode(retrieved))
            if epoch == 0:
                first = total
                solver.start(np.zeros(shape), total, self.plain.problem.n_samples)
            else:
                solver.receive(q.to_reals(sent), total - first)
            assert solver.model is not None
            models.append(solver.model)
            spoilt.append(bool((errors > bound).any()))
            requested = solver.request()
            if requested is None:
                break
            update = requested
        return PaperTraining(models, spoilt)
