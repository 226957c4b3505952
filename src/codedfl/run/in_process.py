"""Runs server and devices in one process on real arrays, with any straggler pattern.

The simplest driver of the state machines: a queue instead of a network. Virtual time is the simulator's business
(``simulator``), real machines are ``flower``'s.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import CodedFLError, InvalidInput
from codedfl.protocol import Outgoing, Phase, Server
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Message
from codedfl.run.liar_log import LiarLog
from codedfl.run.virtual_watch import VirtualWatch

log = logging.getLogger("codedfl.server")

# (epoch, names of the devices asked) -> the names that answer, in the order in which their answers arrive
ArrivalOrder = Callable[[int, Sequence[str]], Sequence[str]]


def everyone_in_order(epoch: int, names: Sequence[str]) -> Sequence[str]:
    """No stragglers."""
    del epoch
    return names


def no_more_than_needed(server: Server) -> ArrivalOrder:
    """The first members of each part of the quorum answer, the others would be late and need not compute.

    A run of a thousand devices then costs what the answers in time cost; the model is the same.
    """

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        del epoch
        asked = set(names)
        assert server.agreement is not None
        places = server.agreement.names
        return [places[i] for part in server.quorum.parts for i in part.members[: part.needed] if places[i] in asked]

    return arrivals


def run_in_process(
    server: Server,
    devices: Sequence[Device],
    arrivals: ArrivalOrder = everyone_in_order,
    on_epoch: Callable[[int], None] | None = None,
    silent: Collection[str] = (),
    watch: VirtualWatch | None = None,
) -> NDArray[np.float64]:
    """Train to the end and return the model.

    ``arrivals`` is asked once an epoch who answers it, and in which order; the answers behind the first
    D - alpha + 1 are delivered all the same and must change nothing. Raises ``NotEnoughDevices`` (with the model so
    far) when too few answer, ``InvalidInput`` when a device refuses to join, and what ``Server.receive`` raises at the
    end of a run, after the devices were told of it. ``silent`` devices join and are not heard of again.
    ``watch`` is told who answers, and how many bytes travel.
    """
    by_name = {device.name: device for device in devices}
    if len(by_name) != len(devices):
        raise InvalidInput(f"device names must be distinct, got {[device.name for device in devices]}")
    if set(by_name) != set(server.expected):
        raise InvalidInput(f"devices must be those the server expects, {list(server.expected)}, got {list(by_name)}")
    return _Run(server, by_name, arrivals, on_epoch or (lambda _: None), silent, watch).to_the_end()


class _Run:
    """One run: what is on its way, and the parties."""

    def __init__(
        self,
        server: Server,
        devices: dict[str, Device],
        arrivals: ArrivalOrder,
        on_epoch: Callable[[int], None],
        silent: Collection[str],
        watch: VirtualWatch | None,
    ) -> None:
        self._server = server
        self._devices = devices
        self._arrivals = arrivals
        self._on_epoch = on_epoch
        self._mute = silent
        self._watch = watch
        self._liars = LiarLog(log)
        self._queue: deque[Outgoing] = deque()
        # The newest update waits until nothing else is on its way: then everybody is ready.
        self._update = b""
        self._asked: set[str] = set()

    def to_the_end(self) -> NDArray[np.float64]:
        server = self._server
        self._send(server.invite())
        while server.phase is not Phase.FINISHED or self._queue:
            if self._queue:
                receivers, data = self._queue.popleft()
                if self._watch is not None:
                    self._watch.sent(data, len(receivers))
                for name in receivers:
                    self._deliver(name, data)
            elif self._asked:
                self._ask()
            else:
                self._go_on_without_the_silent()
            if server.refusals:
                name = next(iter(server.refusals))
                raise InvalidInput(f"device {name!r} cannot take part: {self._devices[name].objection}")
        self._on_epoch(server.epoch)
        assert server.model is not None
        return server.model

    def _send(self, outgoing: Iterable[Outgoing]) -> None:
        for receivers, data in outgoing:
            kind = Message.decode(data).kind
            if kind is Kind.UPDATE:
                self._asked = {*receivers, *(self._asked if data == self._update else ())}
                self._update = data
            elif kind is Kind.SHARE:  # bulky: delivered at once, so that one sender's at most are in memory
                self._queue.appendleft(Outgoing(receivers, data))
            else:
                self._queue.append(Outgoing(receivers, data))

    def _ask(self) -> None:
        update, names = self._update, [name for name in self._server.expected if name in self._asked]
        self._asked = set()
        if self._watch is not None:
            self._watch.sent(update, len(names))
        for name in self._arrivals(self._server.epoch, names):
            self._deliver(name, update)

    def _deliver(self, name: str, data: bytes) -> None:
        if name in self._mute and self._server.phase is not Phase.JOINING:
            return
        replies = self._devices[name].receive(data)
        if self._watch is not None:
            self._watch.replied(name, replies)
        for reply in replies:
            if self._watch is not None:
                self._watch.answered(self._server, name, reply)
            self._advance(partial(self._server.receive, reply))

    def _go_on_without_the_silent(self) -> None:
        """Nothing moves any more: the epoch must end without those who did not answer it."""
        server = self._server
        before = (server.phase, server.epoch)
        self._advance(partial(server.check_enough, self._silent()))
        if (server.phase, server.epoch) == before and not self._queue:
            raise AssertionError(f"the run stopped although enough devices are there: {server!r}")

    def _advance(self, server_turn: Callable[[], Iterable[Outgoing]]) -> None:
        server, before = self._server, self._server.epoch
        try:
            self._send(server_turn())
        except CodedFLError:
            if server.phase is Phase.FINISHED:  # for good: the devices must forget their secrets
                for receivers, data in server.repeat():
                    for name in receivers:
                        self._devices[name].receive(data)
            raise
        finally:
            self._liars.look(server)
        if server.epoch > before and before:
            self._on_epoch(before)

    def _silent(self) -> list[str]:
        """Who did not answer the current epoch; before training, who has not shared, or else is not ready."""
        server = self._server
        if server.phase is Phase.SHARING and not server.unshared:
            return [name for name in self._devices if name not in server.ready_devices]
        return [name for name in self._devices if name not in server.answered]
