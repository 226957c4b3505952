"""What the server of a scheme without state machines receives: gradients per device and epoch, or parity rows.

The baselines are computed in floats in one place (``schemes``); here their messages are made one by one, as a device
would send them, for ``codedfl lab privacy``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codedfl.data.problem import MINI_BATCHES, Problem
from codedfl.errors import InvalidInput
from codedfl_lab.baselines.coded_fedl import CodedFedL, processed_rows
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.baselines.load_allocation import LoadAllocation
from codedfl_lab.costs.times import Descent, WorkShape, epoch_load
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import FleetLatency, epoch_arrivals
from codedfl_lab.schemes.descriptor import Scheme

Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class SentGradient:
    """One device's gradient X'(X Theta - Y) on ``rows``, in float32 as it travels, and the model it was asked at."""

    device: int
    epoch: int
    rows: slice
    model: Singles
    gradient: Singles


@dataclass(frozen=True, eq=False)
class ParityUpload:
    """X~ = G W X and Y~ = G W Y of one mini-batch of one device."""

    device: int
    batch: int
    rows: slice
    X: Singles
    Y: Singles


def sent_gradients(
    scheme: Scheme, problem: Problem, fleet: Fleet, descent: Descent, epochs: int, rng: np.random.Generator
) -> Iterator[SentGradient]:
    """Everything the devices of a conventional scheme send in ``epochs`` epochs; a dropped device sends nothing."""
    if not isinstance(scheme, Conventional | ConventionalFullBatch | DropSlowest):
        raise InvalidInput(f"scheme must be one whose devices send gradients, got {scheme.name!r}")
    batches = 1 if isinstance(scheme, ConventionalFullBatch) else MINI_BATCHES
    load = epoch_load(scheme, WorkShape.of(problem), fleet)
    theta = np.zeros((problem.n_features, problem.n_outputs))
    assert descent.step is not None
    for epoch in range(1, epochs + 1):
        in_time = np.arange(problem.n_devices)
        if isinstance(scheme, DropSlowest):
            times = epoch_arrivals(FleetLatency(fleet), load, 1, rng)[0]
            in_time = np.argsort(times)[: problem.n_devices - scheme.dropped]
        total, samples = np.zeros_like(theta), 0
        for device in in_time:
            rows = problem.mini_batch(int(device), (epoch - 1) % batches, batches)
            gradient = gradient_on(problem, rows, theta.astype(np.float32))
            yield SentGradient(int(device), epoch, rows, theta.astype(np.float32), gradient)
            total += gradient
            samples += rows.stop - rows.start
        theta = theta - descent.step(epoch) * (total / samples + descent.regularisation * theta)


def parity_uploads(
    scheme: CodedFedL, problem: Problem, chosen: LoadAllocation, device: int, rng: np.random.Generator
) -> list[ParityUpload]:
    """The parity rows one device uploads: delta m / 5 for each of its mini-batches, whatever it holds itself.

    The l_i points that it will process (``chosen``, from ``CodedFedL.allocation``) carry the weight
    sqrt(1 - P(T_i <= t*)), the others 1.
    """
    count = max(1, round(scheme.delta * problem.n_samples / MINI_BATCHES))
    uploads = []
    for batch in range(MINI_BATCHES):
        rows = problem.mini_batch(device, batch)
        weight = np.ones((rows.stop - rows.start, 1), dtype=np.float32)
        weight[: int(chosen.loads[device])] = np.sqrt(1 - chosen.return_probability[device])
        gaussian = rng.standard_normal((count, len(weight)), dtype=np.float32)
        gaussian /= np.float32(np.sqrt(count))
        X, Y = problem.X[rows] * weight, problem.Y[rows].astype(np.float32) * weight
        uploads.append(ParityUpload(device, batch, rows, gaussian @ X, gaussian @ Y))
    return uploads


def processed_gradient(problem: Problem, chosen: LoadAllocation, device: int) -> SentGradient:
    """What a device of CodedFedL answers in the first epoch, besides its parity, if it is in time."""
    rows = processed_rows(problem, device, 0, int(chosen.loads[device]))
    theta = np.zeros((problem.n_features, problem.n_outputs), dtype=np.float32)
    return SentGradient(device, 1, rows, theta, gradient_on(problem, rows, theta))


def gradient_on(problem: Problem, rows: slice, theta: Singles) -> Singles:
    """X'(X Theta - Y) in float32."""
    X = problem.X[rows]
    gradient: Singles = X.T @ (X @ theta - problem.Y[rows].astype(np.float32))
    return gradient
