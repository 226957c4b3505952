"""The state machines in virtual time: answers arrive when a clock says so. No clock is read and nothing sleeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from codedfl.protocol import Device, Server
from codedfl.run.in_process import run_in_process
from codedfl.run.virtual_watch import VirtualWatch
from codedfl.typing import Floats
from codedfl_lab.costs import CodedScheme, Conditions, WorkShape
from codedfl_lab.fleet.clock import TrainingClock


def run_in_virtual_time(
    server: Server,
    devices: Sequence[Device],
    scheme: CodedScheme,
    shape: WorkShape,
    at: Conditions,
    rng: np.random.Generator,
    *,
    on_epoch: Callable[[int, float], float | None],
    everyone_computes: bool = False,
    gone: Collection[str] = (),
    watch: VirtualWatch | None = None,
) -> Floats:
    """Run these parties to the end and return the model; ``at`` lists the devices in the server's order.

    on_epoch: told the number of each epoch that ended and the virtual seconds; returns a score for the watch, if any.
    """
    names_in_order = list(server.expected)
    dead = [place for place, name in enumerate(names_in_order) if name in gone]
    shared = scheme.sharing(shape, at, 1, rng)
    load = scheme.epoch_load(shape, at.fleet)
    clock = TrainingClock(shared.start, shared.ready, at.policy)
    if watch is not None:
        watch.sharing(float(shared.start[0]), dict(zip(names_in_order, shared.ready[0].tolist(), strict=True)))

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        del epoch
        durations = load.arrivals(at, 1, rng, clock.starts)
        durations[:, dead] = np.inf
        times = clock.advance(durations, load.quorum)[0]
        if watch is not None:
            watch.asked(dict(zip(names_in_order, times.tolist(), strict=True)))
        arrived = np.argsort(times, kind="stable")
        arrived = arrived[np.isfinite(times[arrived])]
        counted = arrived if everyone_computes else arrived[times[arrived] <= clock.now[0]]
        asked = set(names)
        return [names_in_order[i] for i in counted if names_in_order[i] in asked]

    def record(epoch: int) -> None:
        now = float(clock.now[0])
        score = on_epoch(epoch, now)
        if watch is not None:
            watch.ended(epoch, now, score)

    return run_in_process(server, devices, arrivals, record, watch=watch)
