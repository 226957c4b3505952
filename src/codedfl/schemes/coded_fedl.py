"""CodedFedL (Prakash et al.), the baseline the paper compares with: parity data at the server, epochs with a deadline.

Device i uploads random combinations of its rows, X~ = G W X and Y~ = G W Y with G Gaussian, delta m rows in all. In
every epoch it processes l_i points of a mini-batch; what has not arrived by the deadline t* is lost, and the server
adds the gradient on the parity data, which stands for it on average. The loads and t* are in ``load_allocation``.

It leaks: the parity rows of a device are linear combinations of its data, and with delta = 0.1 the server already
holds more of them than the device has samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.central import CentralTotals
from codedfl.errors import InvalidInput
from codedfl.fleet import Fleet
from codedfl.latency import Quorum, crypto_macs, upload_times
from codedfl.load_allocation import LoadAllocation, allocate_loads
from codedfl.problem import MINI_BATCHES, Problem
from codedfl.schemes.conventional import mini_batch_load
from codedfl.schemes.scheme import FLOAT_BITS, Conditions, Descent, EpochLoad, Floats, Scheme, Sharing, WorkShape
from codedfl.solvers import Solver

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class CodedFedL(Scheme):
    """delta: parity rows over raw rows. Towards 0 it is conventional FL; from 1 on no device needs to compute."""

    delta: float
    name: ClassVar[str] = "coded-fedl"
    private: ClassVar[bool] = False

    @property
    def label(self) -> str:
        return f"CodedFedL, δ = {self.delta:g}"

    @property
    def parameters(self) -> dict[str, float]:
        return {"delta": self.delta}

    def check(self, n_devices: int) -> None:
        super().check(n_devices)
        if not self.delta > 0:
            raise InvalidInput(f"delta must be positive, got {self.delta}")

    def allocation(self, shape: WorkShape, fleet: Fleet) -> LoadAllocation:
        return allocate_loads(
            fleet,
            shape.samples,
            self.delta,
            features=shape.n_features,
            outputs=shape.n_outputs,
            mini_batches=MINI_BATCHES,
        )

    def sharing(self, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
        """Every device uploads delta m rows of d + c numbers; the server needs them all."""
        numbers = self.delta * int(shape.samples.sum()) * (shape.n_features + shape.n_outputs)
        macs = crypto_macs(at.fleet, sealed_bits=numbers * FLOAT_BITS)
        uploaded = upload_times(
            at.fleet, numbers, FLOAT_BITS, at.sharing, draws, rng, macs=macs, chunk_bits=at.chunk_bits
        )
        return Sharing(uploaded.max(axis=1), uploaded)

    def epoch_load(self, shape: WorkShape, fleet: Fleet) -> EpochLoad:
        base = mini_batch_load(shape, fleet, Quorum(0))
        chosen = self.allocation(shape, fleet)
        macs = chosen.loads.astype(np.float64) * (2 * shape.model_numbers)
        return EpochLoad(macs, base.bits_down, base.bits_up, base.quorum, deadline=chosen.deadline)

    def models(
        self, totals: CentralTotals, solver: Solver | None, descent: Descent, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        del solver
        problem, fleet = totals.problem, at.fleet
        chosen = self.allocation(WorkShape.of(problem), fleet)
        # Everything processed, as Gram matrices; in an epoch only those who are late have to be taken off.
        processed = [_processed(problem, chosen, batch) for batch in range(MINI_BATCHES)]
        parity = [self._parity(problem, chosen, batch, rng) for batch in range(MINI_BATCHES)]
        theta = np.zeros((problem.n_features, problem.n_outputs))
        epoch = 0
        while True:
            batch = epoch % MINI_BATCHES
            epoch += 1
            theta32 = theta.astype(np.float32)
            total = np.zeros(theta.shape)
            for gram, cross in (parity[batch], processed[batch]):
                total += gram @ theta32 - cross
            # P(T_i <= t*) is exact for each device's load, so who is late can be drawn from it directly.
            late = np.flatnonzero(rng.random(fleet.n_devices) >= chosen.return_probability)
            for device in late:
                rows = processed_rows(problem, int(device), batch, int(chosen.loads[device]))
                X = problem.X[rows]
                total -= X.T @ (X @ theta32 - problem.Y[rows].astype(np.float32))
            gradient = total / totals.batch_samples[batch]
            theta = theta - descent.step(epoch) * (gradient + descent.regularisation * theta)
            yield theta

    def _parity(
        self, problem: Problem, chosen: LoadAllocation, batch: int, rng: np.random.Generator
    ) -> tuple[Singles, Singles]:
        """X~'X~ and X~'Y~ of the summed parity of one mini-batch.

        Summed over devices, X~ = G (W X) with one Gaussian G for all rows of the batch. With W [X Y] = Q R, G Q is
        again Gaussian and of the same distribution, so R (from a Cholesky factorisation) is all that is needed:
        the same parity data in law, at d^2 instead of d m per row.
        """
        weights, rows = [], []
        for device in range(problem.n_devices):
            mine = problem.mini_batch(device, batch)
            load = int(chosen.loads[device])
            weight = np.ones(mine.stop - mine.start, dtype=np.float32)
            weight[:load] = np.sqrt(1 - chosen.return_probability[device])
            weights.append(weight)
            rows.append(np.arange(mine.start, mine.stop))
        index = np.concatenate(rows)
        joined = np.hstack([problem.X[index], problem.Y[index].astype(np.float32)])
        joined *= np.concatenate(weights)[:, None]
        gram = (joined.T @ joined).astype(np.float64)
        # Features are nearly dependent: a shift of the size of float32 rounding keeps the factor real.
        shift = 1e-5 * np.trace(gram) / len(gram)
        factor = np.linalg.cholesky(gram + shift * np.eye(len(gram))).T.astype(np.float32)
        count = max(1, round(self.delta * problem.n_samples / MINI_BATCHES))
        gaussian = rng.standard_normal((count, len(factor)), dtype=np.float32)
        coded: Singles = gaussian @ (factor / np.float32(np.sqrt(count)))
        d = problem.n_features
        return coded[:, :d].T @ coded[:, :d], coded[:, :d].T @ coded[:, d:]


def processed_rows(problem: Problem, device: int, batch: int, load: int) -> slice:
    """The l_i points of a mini-batch that the device processes itself: the first ones."""
    rows = problem.mini_batch(device, batch)
    return slice(rows.start, min(rows.stop, rows.start + load))


def _processed(problem: Problem, chosen: LoadAllocation, batch: int) -> tuple[Singles, Singles]:
    """X'X and X'Y of all points of a mini-batch that any device processes."""
    loads = chosen.loads
    rows = [processed_rows(problem, device, batch, int(loads[device])) for device in range(problem.n_devices)]
    X = np.concatenate([problem.X[part] for part in rows])
    Y = np.concatenate([problem.Y[part] for part in rows]).astype(np.float32)
    return X.T @ X, X.T @ Y
