"""Runs server and devices in one process on real arrays, with any straggler pattern.

The simplest driver of the state machines: a queue instead of a network. Virtual time is the simulator's business
(``simulator``), real machines are the engines' (``engine``).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import CodedFLError, InvalidInput
from codedfl.protocol.device import Device
from codedfl.protocol.events import Event, Outgoing, Turn
from codedfl.protocol.messages import Kind
from codedfl.protocol.server import Server
from codedfl.protocol.server_events import EpochEnded, EpochStarted, RefusedToJoin, RunFailed
from codedfl.protocol.server_session import Phase
from codedfl.run.event_log import log_event
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

    ``arrivals`` is asked once per epoch who answers it, and in which order; the answers behind the first
    D - alpha + 1 are delivered all the same and must change nothing. Raises ``NotEnoughDevices`` (with the model so
    far) when too few answer, ``InvalidInput`` when a device refuses to join, and what a run failed of, after the
    devices were told of its end. ``silent`` devices join and are not heard of again. ``watch`` is told what happens,
    and how many bytes travel.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import BlockKrylov, Dataset, RoleKeys, make_parties, make_problem, run_in_process
    >>> X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    >>> rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 24.0))
    >>> problem = make_problem(rows, n_devices=4, features="linear")
    >>> exact = run_in_process(*make_parties(RoleKeys(colluders=1), problem, BlockKrylov(epochs=5)))
    >>> parties = make_parties(RoleKeys(colluders=1), problem, BlockKrylov(epochs=5))
    >>> slowest_missing = run_in_process(*parties, arrivals=lambda epoch, names: names[:-1])
    >>> np.array_equal(exact, slowest_missing)
    True
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
        self._queue: deque[Outgoing] = deque()
        # The newest update waits until nothing else is on its way: then everybody is ready.
        self._update: Outgoing | None = None
        self._asked: set[str] = set()
        self._failure: CodedFLError | None = None

    def to_the_end(self) -> NDArray[np.float64]:
        server = self._server
        self._follow(server.invite())
        while server.phase is not Phase.FINISHED or self._queue:
            if self._queue:
                self._deliver_all(self._queue.popleft())
            elif self._asked:
                self._ask()
            elif not self._follow(server.go_on_without(self._silent())):
                raise AssertionError(f"the run stopped although enough devices are there: {server!r}")
        if self._failure is not None:  # raised when the devices have been told to forget their secrets
            raise self._failure
        assert server.model is not None
        return server.model

    def _follow(self, turn: Turn) -> bool:
        """Tell what happened and queue what is to be sent; whether there was anything."""
        for event in turn.events:
            self._tell(event)
        for outgoing in turn.outgoing:
            if outgoing.kind is Kind.UPDATE:
                self._update = outgoing
                self._asked |= set(outgoing.receivers)
            elif outgoing.kind is Kind.SHARE:  # bulky: delivered at once, so that one sender's at most are in memory
                self._queue.appendleft(outgoing)
            else:
                self._queue.append(outgoing)
        return bool(turn.outgoing or turn.events)

    def _tell(self, event: Event) -> None:
        log_event(log, event)
        if self._watch is not None:
            self._watch.take(event)
        match event:
            case EpochStarted():
                self._asked = set()
            case EpochEnded(epoch):
                self._on_epoch(epoch)
            case RefusedToJoin(name):
                raise InvalidInput(f"device {name!r} cannot take part: {self._devices[name].objection}")
            case RunFailed(error):
                self._failure = error

    def _ask(self) -> None:
        assert self._update is not None
        names = [name for name in self._server.expected if name in self._asked]
        update, self._asked = self._update, set()
        if self._watch is not None:
            self._watch.sent(len(update.data) * len(names))
        for name in self._arrivals(self._server.epoch, names):
            self._deliver(name, update)

    def _deliver_all(self, outgoing: Outgoing) -> None:
        if self._watch is not None:
            self._watch.sent(len(outgoing.data) * len(outgoing.receivers))
        for name in outgoing.receivers:
            self._deliver(name, outgoing)

    def _deliver(self, name: str, outgoing: Outgoing) -> None:
        if name in self._mute and self._server.phase is not Phase.JOINING:
            return
        replies = [reply.data for reply in self._devices[name].receive(outgoing.data).outgoing]
        if self._watch is not None:
            self._watch.replied(name, sum(map(len, replies)))
        for reply in replies:
            self._follow(self._server.receive(reply))

    def _silent(self) -> list[str]:
        """Who did not answer the current epoch; before training, who has not shared, or else is not ready."""
        server = self._server
        if server.phase is Phase.SHARING and not server.unshared:
            return [name for name in self._devices if name not in server.ready_devices]
        return [name for name in self._devices if name not in server.answered]
