"""Conventional descent that continues without the slowest devices (mentioned and omitted in the paper's section V).

Fast, but on data sorted by label the labels of slow devices are hardly ever seen: the model drifts towards the fast
ones ("client drift"), and no number of epochs makes up for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Floats
from codedfl_lab.baselines.conventional import ShowsGradients, mini_batch_descent, mini_batch_load
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.costs.times import EpochLoad, TrainingTimes, WorkShape, epoch_load, models
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import epoch_arrivals
from codedfl_lab.problems.problem import Problem
from codedfl_lab.schemes.descriptor import Scheme


@dataclass(frozen=True)
class DropSlowest(ShowsGradients):
    """dropped: how many devices each epoch continues without. 0 is conventional FL.

    Paper: V. Shown by ``codedfl lab compare digits``.

    Examples
    --------
    >>> from codedfl_lab import DropSlowest
    >>> DropSlowest(dropped=25).check(25)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: dropped must be between 0 and 24, got 25
    """

    dropped: int
    name: ClassVar[str] = "drop-slowest"

    @classmethod
    def default_for(cls, n_devices: int) -> DropSlowest:
        """A fifth of them, as the slowest class of the paper's fleet."""
        return cls(round(n_devices / 5))

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[Scheme]:
        """None: on some data its model never sees the labels of slow devices, whatever its score on others says."""
        del n_devices
        return iter(())

    @property
    def label(self) -> str:
        return f"dropping the slowest {self.dropped}"

    @property
    def parameters(self) -> dict[str, float]:
        return {"dropped": self.dropped}

    def check(self, n_devices: int) -> None:
        if not 0 <= self.dropped < n_devices:
            raise InvalidInput(f"dropped must be between 0 and {n_devices - 1}, got {self.dropped}")


@epoch_load.register(DropSlowest)
def load_without_slowest(scheme: DropSlowest, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """One mini-batch, without waiting for the slowest."""
    return mini_batch_load(shape, fleet, Quorum.all_but(fleet.n_devices, scheme.dropped))


@models.register(DropSlowest)
def models_without_slowest(scheme: DropSlowest, by: TrainingTimes) -> Iterator[Floats]:
    """Descent on the mini-batches of those who were in time, drawn again each epoch."""
    totals, at, rng = by.totals, by.at, by.rng
    problem, fleet = totals.problem, at.fleet
    load = epoch_load(scheme, WorkShape.of(problem), fleet)

    def gradient(batch: int, theta: Floats) -> Floats:
        arrivals = epoch_arrivals(at.times, load, 1, rng, at.chunk_bits)[0]
        dropped = np.argsort(arrivals)[fleet.n_devices - scheme.dropped :]
        # All devices' gradient less that of the few dropped: the same sum with far less to read.
        lost, lost_samples = gradient_of(problem, dropped, batch, theta)
        everyone = totals.batch_gram[batch] @ theta.astype(np.float32) - totals.batch_cross[batch]
        samples = int(totals.batch_samples[batch]) - lost_samples
        return np.asarray((everyone - lost) / max(1, samples))

    return mini_batch_descent(problem, by.descent, totals.batch_matrices(), gradient)


def gradient_of(problem: Problem, devices: NDArray[np.intp], batch: int, theta: Floats) -> tuple[Floats, int]:
    """The devices' summed gradient on one mini-batch, computed in float32 as they would, and its sample count."""
    total = np.zeros(theta.shape)
    samples = 0
    theta32 = theta.astype(np.float32)
    for device in devices:
        rows = problem.mini_batch(int(device), batch)
        X = problem.X[rows]
        total += X.T @ (X @ theta32 - problem.Y[rows].astype(np.float32))
        samples += len(X)
    return total, samples
