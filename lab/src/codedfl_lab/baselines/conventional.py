"""Conventional federated gradient descent (paper III-A): everybody computes, the server waits for the slowest.

As in the paper's experiment: float32, mini-batches of a fifth of the local data, no phase 1. The server sees every
device's gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.typing import Floats
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.costs.times import (
    FLOAT_BITS,
    Conditions,
    Descent,
    DeviceCosts,
    EpochLoad,
    TrainingTimes,
    WorkShape,
    device_costs,
    epoch_costs,
    epoch_load,
    models,
)
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import seal_macs
from codedfl_lab.privacy.views import Views, clear_views
from codedfl_lab.problems.problem import MINI_BATCHES, Problem
from codedfl_lab.schemes.descriptor import Scheme


class ShowsGradients(Scheme):
    """A scheme whose server gets every gradient in the clear."""

    private: ClassVar[bool] = False
    server_sees: ClassVar[str] = "each device's gradient"

    def views(self, n_devices: int) -> Views:
        learns = "with them each device's mean image per class, and single images of a device with few samples"
        return clear_views(n_devices, "every device's gradient, every epoch it is in time", learns)


@dataclass(frozen=True)
class Conventional(ShowsGradients):
    """The baseline of every speed-up.

    Paper: V. Shown by ``codedfl lab compare digits``.

    Examples
    --------
    >>> from codedfl_lab import Conventional
    >>> Conventional().exposure(25).words
    'the server alone sees 25 devices'
    """

    name: ClassVar[str] = "conventional"

    @property
    def label(self) -> str:
        return "conventional FL"


@epoch_load.register(Conventional)
def conventional_load(_scheme: Conventional, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """2 (n_i/5) d c MACs: X Theta, then X' times the residual, on one mini-batch."""
    return mini_batch_load(shape, fleet, Quorum.all_but(fleet.n_devices))


@models.register(Conventional)
def conventional_models(_scheme: Conventional, by: TrainingTimes) -> Iterator[Floats]:
    """Mini-batch descent; everybody is always in time, so the sums over devices suffice."""
    totals = by.totals

    def gradient(batch: int, theta: Floats) -> Floats:
        product = totals.batch_gram[batch] @ theta.astype(np.float32)
        # Devices with fewer rows than mini-batches leave some empty: then nothing is learnt.
        return np.asarray((product - totals.batch_cross[batch]) / max(1, totals.batch_samples[batch]))

    return mini_batch_descent(totals.problem, by.descent, totals.batch_matrices(), gradient)


@dataclass(frozen=True)
class ConventionalFullBatch(ShowsGradients):
    """Conventional FL on all local data with a stored Gram matrix: exact, so it can run any solver.

    The strongest baseline of a coded scheme with conjugate gradient: the same solver, but waiting for everybody. What
    float32 sums would add is below what any solver here notices.

    Examples
    --------
    >>> from codedfl_lab import ConventionalFullBatch
    >>> ConventionalFullBatch().name
    'conventional-full-batch'
    """

    name: ClassVar[str] = "conventional-full-batch"
    exact: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return "conventional FL, full batch"


@device_costs.register(ConventionalFullBatch)
def full_batch_costs(scheme: ConventionalFullBatch, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
    """It holds its Gram matrix in float32."""
    return epoch_costs(scheme, shape, at, epochs, memory_bytes=shape.n_features**2 * FLOAT_BITS / 8)


@epoch_load.register(ConventionalFullBatch)
def full_batch_load(_scheme: ConventionalFullBatch, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """d^2 c MACs in float32, as in the coded schemes."""
    numbers = shape.model_numbers
    bits = numbers * FLOAT_BITS
    macs = shape.n_features * numbers + seal_macs(fleet, bits)
    return EpochLoad(macs, bits, bits, Quorum.all_but(fleet.n_devices))


def mini_batch_descent(
    problem: Problem, descent: Descent, matrices: Iterable[Floats], gradient: Callable[[int, Floats], Floats]
) -> Iterator[Floats]:
    """Theta after each epoch, one mini-batch after the other: ``gradient`` of its number and Theta is the mean loss's.

    ``matrices`` are the X'X/m of the mini-batches, of which the step may have to be derived.
    """
    step = descent.step_on(matrices)
    theta = np.zeros((problem.n_features, problem.n_outputs))
    for epoch in itertools.count(1):
        mean = gradient((epoch - 1) % MINI_BATCHES, theta)
        theta = theta - step(epoch) * (mean + descent.regularisation * theta)
        yield theta


def mini_batch_load(shape: WorkShape, fleet: Fleet, quorum: Quorum) -> EpochLoad:
    """One mini-batch in float32, the model down and the gradient up."""
    numbers = shape.model_numbers
    macs = 2 * (shape.samples / MINI_BATCHES) * numbers + seal_macs(fleet, numbers * FLOAT_BITS)
    return EpochLoad(macs, numbers * FLOAT_BITS, numbers * FLOAT_BITS, quorum)
