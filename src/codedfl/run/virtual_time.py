"""The state machines in virtual time: answers arrive when a ``Timing`` says so. No clock is read and nothing sleeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from codedfl.code.quorum import Quorum
from codedfl.protocol.device import Device
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.server import Server
from codedfl.run.in_process import run_in_process
from codedfl.run.virtual_watch import VirtualWatch
from codedfl.typing import Floats, Seconds


class Timing(Protocol):
    """When the devices of one run, by their positions in the server's order, are ready and answer."""

    def shared(self) -> tuple[float, Seconds]:
        """When the first update goes out, and when each device is ready for it."""

    def answered(self, gone: Sequence[int]) -> tuple[Seconds, float]:
        """When each device answers the next epoch (infinity: never), and when that epoch is over."""


@dataclass(frozen=True)
class RunShape:
    """The sizes that times may depend on: devices, features (d), outputs (c), and the rows per device."""

    n_devices: int
    n_features: int
    n_outputs: int
    rows_per_device: int


MakeTiming = Callable[[CodedScheme, RunShape, np.random.Generator], Timing]


class AlikeDevices:
    """Devices that are all alike: each message takes half a second to one and a half. Who is first is chance."""

    def __init__(self, scheme: CodedScheme, shape: RunShape, rng: np.random.Generator) -> None:
        self._quorum: Quorum = scheme.quorum(shape.n_devices)
        self._n_devices, self._rng, self._now = shape.n_devices, rng, 0.0

    def shared(self) -> tuple[float, Seconds]:
        ready = self._drawn()
        self._now = float(ready.max())
        return self._now, ready

    def answered(self, gone: Sequence[int]) -> tuple[Seconds, float]:
        times = self._now + self._drawn()
        times[list(gone)] = np.inf
        self._now = float(self._quorum.time(times[None])[0])
        return times, self._now

    def _drawn(self) -> Seconds:
        return self._rng.uniform(0.5, 1.5, self._n_devices)


def run_in_virtual_time(
    server: Server,
    devices: Sequence[Device],
    timing: Timing,
    *,
    on_epoch: Callable[[int, float], float | None],
    everyone_computes: bool = False,
    gone: Collection[str] = (),
    watch: VirtualWatch | None = None,
) -> Floats:
    """Run these parties to the end and return the model.

    on_epoch: told the number of each epoch that ended and the virtual seconds; returns a score for the watch, if any.
    everyone_computes: also the devices whose answers cannot be in time compute and send; that changes nothing but the
        time it takes.
    gone: devices that die when they have uploaded.
    """
    names_in_order = list(server.expected)
    dead = [place for place, name in enumerate(names_in_order) if name in gone]
    now, ready = timing.shared()
    if watch is not None:
        watch.sharing(now, dict(zip(names_in_order, ready.tolist(), strict=True)))

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        del epoch
        nonlocal now
        times, now = timing.answered(dead)
        if watch is not None:
            watch.asked(dict(zip(names_in_order, times.tolist(), strict=True)))
        arrived = np.argsort(times, kind="stable")
        arrived = arrived[np.isfinite(times[arrived])]
        counted = arrived if everyone_computes else arrived[times[arrived] <= now]
        asked = set(names)
        return [names_in_order[i] for i in counted if names_in_order[i] in asked]

    def record(epoch: int) -> None:
        score = on_epoch(epoch, now)
        if watch is not None:
            watch.ended(epoch, now, score)

    return run_in_process(server, devices, arrivals, record, watch=watch)
