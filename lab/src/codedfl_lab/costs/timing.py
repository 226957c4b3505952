"""The times of a fleet for the state machines in virtual time: who is ready when, and who answers when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codedfl.run.virtual_time import MakeTiming, RunShape
from codedfl.typing import Seconds
from codedfl_lab.costs.times import Conditions, WorkShape, epoch_load, sharing
from codedfl_lab.fleet.clock import TrainingClock
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import epoch_arrivals
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.training.paced import Timing


class FleetTiming:
    """One run of a scheme under these conditions, which list the devices in the server's order."""

    def __init__(self, scheme: CodedScheme, shape: WorkShape, at: Conditions, rng: np.random.Generator) -> None:
        self._at, self._rng = at, rng
        self._shared = sharing(scheme, shape, at, 1, rng)
        self._load = epoch_load(scheme, shape, at.fleet)
        self._clock = TrainingClock(self._shared.start, self._shared.ready, at.policy)

    def shared(self) -> tuple[float, Seconds]:
        return float(self._shared.start[0]), self._shared.ready[0]

    def answered(self, gone: Sequence[int]) -> tuple[Seconds, float]:
        at = self._at
        durations = epoch_arrivals(at.times, self._load, 1, self._rng, at.chunk_bits, self._clock.starts)
        durations[:, gone] = np.inf
        times = self._clock.advance(durations, self._load.quorum)[0]
        return times, float(self._clock.now[0])


def fleet_timing(fleet: Fleet) -> MakeTiming:
    """The times of a rehearsal on this fleet, whose mix is scaled to the devices that take part."""

    def made(scheme: CodedScheme, shape: RunShape, rng: np.random.Generator) -> Timing:
        work = WorkShape(shape.n_features, shape.n_outputs, np.full(shape.n_devices, shape.rows_per_device))
        return FleetTiming(scheme, work, Conditions(fleet.scaled_to(shape.n_devices)), rng)

    return made


def named_fleet_timing(name: str) -> MakeTiming:
    """The same by the name of a fleet, or by its file: what ``codedfl study rehearse --fleet`` takes."""
    return fleet_timing(Fleet.load(name))
