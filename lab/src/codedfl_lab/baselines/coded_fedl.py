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

from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Singles
from codedfl_lab.baselines.conventional import mini_batch_descent, mini_batch_load
from codedfl_lab.baselines.load_allocation import LoadAllocation, allocate_loads
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import (
    FLOAT_BITS,
    Conditions,
    DeviceCosts,
    EpochLoad,
    Sharing,
    TrainingTimes,
    WorkShape,
    device_costs,
    epoch_load,
    models,
    raw_row_costs,
    sharing,
)
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import Bulk, seal_macs, upload_times
from codedfl_lab.privacy.views import Views, clear_views
from codedfl_lab.problems.problem import MINI_BATCHES, Problem
from codedfl_lab.schemes.descriptor import Scheme

_FLOAT32_ROUNDING = 1e-5  # of sums of float32 products, as part of the mean diagonal: what is smaller may be rounding

Statistics = tuple[Singles, Singles, Floats]  # X'X, X'Y, Y'Y


@dataclass(frozen=True)
class CodedFedL(Scheme):
    """delta: parity rows over raw rows. Towards 0 it is conventional FL; from 1 on no device needs to compute.

    Paper: V. Shown by ``pytest tests/schemes/test_coded_fedl.py``.

    Examples
    --------
    >>> from codedfl_lab import CodedFedL
    >>> CodedFedL(delta=0.1).label
    'CodedFedL, δ = 0.1'
    """

    delta: float
    name: ClassVar[str] = "coded-fedl"
    private: ClassVar[bool] = False
    server_sees: ClassVar[str] = "each device's parity rows and gradient"

    @classmethod
    def default_for(cls, n_devices: int) -> CodedFedL:
        """The paper's smaller delta."""
        del n_devices
        return cls(0.1)

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[CodedFedL]:
        """The paper's two."""
        del n_devices
        yield from (cls(0.1), cls(0.8))

    def views(self, n_devices: int) -> Views:
        sees = f"{self.delta:g} m parity rows of each device, and the gradients of those in time"
        learns = "from parity each device's mean image per class, and single images of a device with few samples"
        return clear_views(n_devices, sees, learns)

    def parity_bits(self, shape: WorkShape) -> float:
        """delta m rows of d + c numbers."""
        return self.delta * int(shape.samples.sum()) * (shape.n_features + shape.n_outputs) * FLOAT_BITS

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

    def parity(self, totals: CentralTotals, batch: int, returned: Statistics, rng: np.random.Generator) -> Statistics:
        """X~'X~ and X~'Y~ of the summed parity of one mini-batch.

        Summed over devices, X~ = G (W X) with one Gaussian G for all rows of the batch. With W [X Y] = Q R, G Q is
        again Gaussian and of the same distribution, so [X~ Y~]'[X~ Y~] = R' S R with S a Wishart matrix: the same
        parity data in law, without a row of them. W^2 is 1 - P(T_i <= t*) on the points a device processes and 1 on the
        rest, so R'R is the Gram matrix of the whole batch less that of the processed points weighted by P
        (``returned``).
        """
        d, c = totals.problem.n_features, totals.problem.n_outputs
        gram = np.zeros((d + c, d + c))
        gram[:d, :d] = totals.batch_gram[batch] - returned[0]
        gram[:d, d:] = totals.batch_cross[batch] - returned[1]
        gram[d:, :d] = gram[:d, d:].T
        gram[d:, d:] = totals.batch_labels[batch] - returned[2]
        factor = semidefinite_factor(gram)  # R'
        count = max(1, round(self.delta * totals.problem.n_samples / MINI_BATCHES))
        root = factor @ _wishart_root(count, factor.shape[1], rng) / np.sqrt(count)
        top = root[:d].astype(np.float32)
        return top @ top.T, top @ root[d:].T.astype(np.float32), root[d:] @ root[d:].T


@device_costs.register(CodedFedL)
def parity_costs(scheme: CodedFedL, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
    """The parity rows go up once."""
    return raw_row_costs(scheme, shape, at, epochs).plus(upload_bytes=scheme.parity_bits(shape) / 8)


@sharing.register(CodedFedL)
def parity_upload(scheme: CodedFedL, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
    """Every device uploads delta m rows of d + c numbers; the server needs them all.

    The convention is the one of all schemes. The authors' program mixes two: it draws this upload and waits for
    the slowest, which is "per-message" here, and takes mean times for the coded scheme (docs/methods.md).
    """
    bits = scheme.parity_bits(shape)
    macs = seal_macs(at.fleet, bits)
    bulk = Bulk(bits, at.sharing, macs_to_send=macs, chunk_bits=at.chunk_bits)
    uploaded = upload_times(at.times, bulk, draws, rng)
    return Sharing(uploaded.max(axis=1), uploaded)


@epoch_load.register(CodedFedL)
def deadline_load(scheme: CodedFedL, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """As many points of a mini-batch as pay before the deadline."""
    base = mini_batch_load(shape, fleet, Quorum.all_but(fleet.n_devices))
    chosen = scheme.allocation(shape, fleet)
    macs = chosen.loads.astype(np.float64) * (2 * shape.model_numbers)
    return EpochLoad(macs, base.bits_down, base.bits_up, base.quorum, deadline=chosen.deadline)


@models.register(CodedFedL)
def models_with_parity(scheme: CodedFedL, by: TrainingTimes) -> Iterator[Floats]:
    """Descent on what arrives by the deadline and on the parity data."""
    totals, rng = by.totals, by.rng
    problem, fleet = totals.problem, by.at.fleet
    chosen = scheme.allocation(WorkShape.of(problem), fleet)
    # Everything processed, as Gram matrices; in an epoch only those who are late have to be taken off.
    parts = []
    for batch in range(MINI_BATCHES):
        processed = _processed(problem, chosen, batch, np.ones(fleet.n_devices))
        lost = _processed(problem, chosen, batch, chosen.return_probability)
        parts.append((scheme.parity(totals, batch, lost, rng), processed))
    counts = np.maximum(1, totals.batch_samples)
    matrices = ((parity[0] + processed[0]) / count for (parity, processed), count in zip(parts, counts, strict=True))

    def gradient(batch: int, theta: Floats) -> Floats:
        theta32 = theta.astype(np.float32)
        total = np.zeros(theta.shape)
        for gram, cross, _ in parts[batch]:
            total += gram @ theta32 - cross
        # P(T_i <= t*) is exact for each device's load, so who is late can be drawn from it directly.
        late = np.flatnonzero(rng.random(fleet.n_devices) >= chosen.return_probability)
        for device in late:
            rows = processed_rows(problem, int(device), batch, int(chosen.loads[device]))
            X = problem.X[rows]
            total -= X.T @ (X @ theta32 - problem.Y[rows].astype(np.float32))
        return np.asarray(total / totals.batch_samples[batch])

    return mini_batch_descent(problem, by.descent, matrices, gradient)


def semidefinite_factor(gram: Floats) -> Floats:
    """F with F F' = gram up to float32 rounding, for a positive semi-definite matrix that rounding may have spoilt.

    Cholesky with pivots, stopped at the rank: columns that are constant or combinations of others, fewer rows than
    features, and points all of which are processed in time leave no full rank. A gram of zeros has no columns.
    """
    from scipy.linalg.lapack import dpstrf  # a device process never gets here and need not load scipy

    size = len(gram)
    tolerance = _FLOAT32_ROUNDING * float(np.trace(gram)) / size
    if not tolerance > 0:
        return np.zeros((size, 0))
    packed, pivots, rank, _ = dpstrf(gram, tol=tolerance, lower=1)
    factor = np.empty((size, rank))
    factor[pivots - 1] = np.tril(packed)[:, :rank]
    return factor


def _wishart_root(count: int, size: int, rng: np.random.Generator) -> Floats:
    """A with A A' distributed as G'G, G Gaussian of ``count`` rows and ``size`` columns.

    With at least as many rows as columns this is Bartlett's triangle; otherwise G' itself is smaller.
    """
    if count < size:
        return rng.standard_normal((size, count))
    root = np.tril(rng.standard_normal((size, size)), -1)
    root[np.diag_indices(size)] = np.sqrt(rng.chisquare(count - np.arange(size)))
    return root


def processed_rows(problem: Problem, device: int, batch: int, load: int) -> slice:
    """The l_i points of a mini-batch that the device processes itself: the first ones."""
    rows = problem.mini_batch(device, batch)
    return slice(rows.start, min(rows.stop, rows.start + load))


def _processed(problem: Problem, chosen: LoadAllocation, batch: int, weights: Floats) -> Statistics:
    """X'X, X'Y and Y'Y of all points of a mini-batch that any device processes, each device's with its weight."""
    loads = chosen.loads
    rows = [processed_rows(problem, device, batch, int(loads[device])) for device in range(problem.n_devices)]
    scale = np.concatenate([np.full(part.stop - part.start, np.sqrt(w)) for part, w in zip(rows, weights, strict=True)])
    X = np.concatenate([problem.X[part] for part in rows]) * scale[:, None].astype(np.float32)
    Y = np.concatenate([problem.Y[part] for part in rows]) * scale[:, None]
    return X.T @ X, X.T @ Y.astype(np.float32), Y.T @ Y
