"""Runs server and devices in one process on real arrays, with any straggler pattern.

The simplest driver of the state machines: a queue instead of a network. Virtual time is the simulator's business
(``simulator``), real machines are ``flower``'s.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.server import Phase, Server

# (epoch, names of the devices asked) -> the names that answer, in the order in which their answers arrive
ArrivalOrder = Callable[[int, Sequence[str]], Sequence[str]]


def everyone_in_order(epoch: int, names: Sequence[str]) -> Sequence[str]:
    """No stragglers."""
    del epoch
    return names


def run_in_process(
    server: Server,
    devices: Sequence[Device],
    arrivals: ArrivalOrder = everyone_in_order,
    on_epoch: Callable[[int], None] | None = None,
) -> NDArray[np.float64]:
    """Train to the end and return the model.

    ``arrivals`` says who answers an epoch, and in which order; the answers behind the first D - alpha + 1 are
    delivered all the same and must change nothing. Raises ``NotEnoughDevices`` (with the model so far) when too few
    answer, ``InvalidInput`` when a device refuses to join.
    """
    by_name = {device.name: device for device in devices}
    if len(by_name) != len(devices):
        raise InvalidInput(f"device names must be distinct, got {[device.name for device in devices]}")
    queue = deque(server.invite())
    while queue:
        receivers, data = queue.popleft()
        update = Message.decode(data).kind is Kind.UPDATE
        answering = receivers
        if update and len(receivers) > 1:
            answering = tuple(arrivals(server.epoch, receivers))
        for name in answering:
            for reply in by_name[name].receive(data):
                before = server.epoch
                queue.extend(server.receive(reply))
                if server.epoch > before and before and on_epoch is not None:
                    on_epoch(before)
            if update:
                by_name[name].idle()
        if server.refusals:
            name, reason = next(iter(server.refusals.items()))
            raise InvalidInput(f"device {name!r} cannot take part: {reason}")
    if server.phase is not Phase.FINISHED:
        silent = _silent(server, by_name)
        server.check_enough(silent)
        raise AssertionError(f"the run stopped although enough devices are there: {server!r}")
    if on_epoch is not None:
        on_epoch(server.epoch)
    assert server.model is not None
    return server.model


def _silent(server: Server, by_name: dict[str, Device]) -> list[str]:
    """Who did not answer the current epoch (or, before training, is not ready)."""
    return [name for name in by_name if name not in server.answered]
