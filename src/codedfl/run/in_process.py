"""Runs server and devices in one process on real arrays, with any straggler pattern.

The simplest driver of the state machines: a queue instead of a network. Virtual time is the simulator's business
(``simulator``), real machines are ``flower``'s.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import CodedFLError, InvalidInput
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.server import Outgoing, Phase, Server
from codedfl.run.liar_log import LiarLog

log = logging.getLogger("codedfl.server")

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
    silent: Collection[str] = (),
) -> NDArray[np.float64]:
    """Train to the end and return the model.

    ``arrivals`` is asked once an epoch who answers it, and in which order; the answers behind the first
    D - alpha + 1 are delivered all the same and must change nothing. Raises ``NotEnoughDevices`` (with the model so
    far) when too few answer, ``InvalidInput`` when a device refuses to join, and what ``Server.receive`` raises at the
    end of a run, after the devices were told of it. ``silent`` devices join and are not heard of again.
    """
    by_name = {device.name: device for device in devices}
    if len(by_name) != len(devices):
        raise InvalidInput(f"device names must be distinct, got {[device.name for device in devices]}")
    if set(by_name) != set(server.expected):
        raise InvalidInput(f"devices must be those the server expects, {list(server.expected)}, got {list(by_name)}")
    liars = LiarLog(log)
    queue: deque[Outgoing] = deque()
    asked: dict[bytes, set[str]] = {}  # updates wait until nothing else is on its way: then everybody is ready

    def send(outgoing: Iterable[Outgoing]) -> None:
        for receivers, data in outgoing:
            kind = Message.decode(data).kind
            if kind is Kind.UPDATE:
                asked.setdefault(data, set()).update(receivers)
            elif kind is Kind.SHARE:  # bulky: delivered at once, so that one sender's at most are in memory
                queue.appendleft(Outgoing(receivers, data))
            else:
                queue.append(Outgoing(receivers, data))

    def deliver(name: str, data: bytes) -> None:
        if name in silent and server.phase is not Phase.JOINING:
            return
        for reply in by_name[name].receive(data):
            before = server.epoch
            try:
                send(server.receive(reply))
            except CodedFLError:
                if server.phase is Phase.FINISHED:  # it is over for good: the devices must forget their secrets
                    dismiss(server.repeat())
                raise
            finally:
                liars.look(server)
            if server.epoch > before and before and on_epoch is not None:
                on_epoch(before)

    def dismiss(outgoing: Iterable[Outgoing]) -> None:
        for receivers, data in outgoing:
            for name in receivers:
                by_name[name].receive(data)

    send(server.invite())
    while queue or asked:
        if queue:
            receivers, data = queue.popleft()
            for name in receivers:
                deliver(name, data)
        else:
            data = next(iter(asked))
            names = [name for name in server.expected if name in asked[data]]
            del asked[data]
            for name in arrivals(server.epoch, names):
                deliver(name, data)
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
    """Who did not answer the current epoch; before training, who has not shared, or else is not ready."""
    if server.phase is Phase.SHARING and not server.unshared:
        return [name for name in by_name if name not in server.ready_devices]
    return [name for name in by_name if name not in server.answered]
