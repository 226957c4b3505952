"""The times of a fleet: of a run in virtual time, by a scheme; and of each reply of a study that is rehearsed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codedfl.device.study_sums import StudySums
from codedfl.engines.virtual_time import Delay
from codedfl.errors import InvalidInput
from codedfl.run.rehearsal import MakeDelay
from codedfl.sum.wire import AnswerCommon, AskCommon, parsed
from codedfl.typing import Seconds
from codedfl_lab.costs.times import Conditions, WorkShape, epoch_load, sharing
from codedfl_lab.fleet.clock import TrainingClock
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import FleetLatency, epoch_arrivals, pad_macs, ring_macs, seal_macs
from codedfl_lab.schemes.descriptor import CodedScheme


class FleetTiming:
    """One run of a scheme under these conditions, which list the devices in the server's order."""

    def __init__(self, scheme: CodedScheme, shape: WorkShape, at: Conditions, rng: np.random.Generator) -> None:
        self._at, self._rng = at, rng
        self._shared = sharing(scheme, shape, at, 1, rng)
        self._load = epoch_load(scheme, shape, at.fleet)
        self._clock = TrainingClock(self._shared.start, self._shared.ready, at.policy)

    def shared(self) -> tuple[float, Seconds]:
        """When the first question goes out, and when each device is ready for it."""
        return float(self._shared.start[0]), self._shared.ready[0]

    def answered(self, gone: Sequence[int]) -> tuple[Seconds, float]:
        """When each device answers the next epoch, and when that epoch is over."""
        at = self._at
        durations = epoch_arrivals(at.times, self._load, 1, self._rng, at.chunk_bits, self._clock.starts)
        durations[:, gone] = np.inf
        times = self._clock.advance(durations, self._load.quorum)[0]
        return times, float(self._clock.now[0])


class ReplyTimes:
    """How long each reply of a study takes on a fleet: request down, work, reply up, each drawn by itself.

    An upload is made under z + 1 pads; whoever holds a role expands the pads of all owners once for each sum, and
    multiplies for each e.
    """

    def __init__(self, fleet: Fleet, sums: StudySums, rng: np.random.Generator) -> None:
        if fleet.latency_models:
            raise InvalidInput(
                f"fleet of a rehearsal must have no latency_models, whose times depend on when a device begins, got"
                f" {', '.join(fleet.latency_models)}"
            )
        names = sorted(sums.terms.by_name)
        self._fleet, self._sums, self._rng = fleet.scaled_to(len(names)), sums, rng
        self._places = {name: place for place, name in enumerate(names)}
        self._latency = FleetLatency(self._fleet)
        self._expanded: set[tuple[str, bytes]] = set()

    def __call__(self, device: str, request: bytes, reply: bytes) -> float:
        """Seconds."""
        latency, place, down, up = self._latency, self._places[device], 8 * len(request), 8 * len(reply)
        macs = self._macs(device, request) + seal_macs(self._fleet, up)
        parts = (
            latency.transfer_times(down, "down", 1, self._rng),
            latency.compute_times(macs, 1, self._rng),
            latency.transfer_times(up, "up", 1, self._rng),
        )
        return float(sum(part[0, place] for part in parts))

    def _macs(self, device: str, request: bytes) -> float:
        _, common, _ = parsed(request)
        if not isinstance(common, AskCommon):
            return 0.0
        layout, terms = self._sums.layout(common.ask), self._sums.terms
        pad = float(pad_macs(self._fleet, 8 * layout.total_bytes) + ring_macs(layout.total_words, layout.bits))
        if not isinstance(common, AnswerCommon):
            return (terms.colluders + 1) * pad
        macs = float(ring_macs(layout.words * layout.size**2 * layout.columns, layout.bits)) if common.e else 0.0
        if (device, common.ask) not in self._expanded:
            self._expanded.add((device, common.ask))
            macs += len(terms.owners) * pad
        return macs


def fleet_timing(fleet: Fleet) -> MakeDelay:
    """The times of a rehearsal on this fleet, whose mix is scaled to the devices that take part."""

    def made(sums: StudySums, rng: np.random.Generator) -> Delay:
        return ReplyTimes(fleet, sums, rng)

    return made


def named_fleet_timing(name: str) -> MakeDelay:
    """The same by the name of a fleet, or by its file: what ``codedfl study rehearse --fleet`` takes."""
    return fleet_timing(Fleet.load(name))
