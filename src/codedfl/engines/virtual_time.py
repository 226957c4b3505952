"""Devices of this process whose replies take time that nobody waits for: a rehearsal of slow and absent machines."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Mapping

from codedfl.engines.in_process import ReplyBytes

Delay = Callable[[str, bytes, bytes], float | None]
"""Device, request, reply -> seconds until the reply is there; None if it is lost."""


class VirtualTime:
    """An ``Engine`` on a clock that jumps to the next reply.

    delay: how long a reply takes. A device works on one request at a time; a newer one takes the place of those it has
        not begun with.

    Examples
    --------
    >>> from codedfl.engines.virtual_time import VirtualTime
    >>> engine = VirtualTime({"clinic-1": lambda request: request}, lambda name, request, reply: 2.0)
    >>> engine.send("clinic-1", b"this"); engine.replies(10.0), engine.now()
    ([('clinic-1', b'this')], 2.0)
    """

    def __init__(self, devices: Mapping[str, ReplyBytes], delay: Delay) -> None:
        self._devices, self._delay = dict(devices), delay
        self._now = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, str, bytes]] = []
        self._busy: dict[str, float] = {}
        self._next: dict[str, bytes] = {}

    def here(self) -> Collection[str]:
        return self._devices

    def send(self, device: str, request: bytes) -> None:
        self._next[device] = request
        if self._busy.get(device, 0.0) <= self._now:
            self._begin(device)

    def _begin(self, device: str) -> None:
        request = self._next.pop(device)
        reply = self._devices[device](request)
        seconds = self._delay(device, request, reply)
        if seconds is None:
            return
        self._busy[device] = self._now + seconds
        heapq.heappush(self._due, (self._busy[device], next(self._order), device, reply))

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        until = self._now + seconds
        if not self._due or self._due[0][0] > until:
            self._now = until
            return []
        self._now, _, device, reply = heapq.heappop(self._due)
        found = [(device, reply)]
        if device in self._next:
            self._begin(device)
        return found

    def now(self) -> float:
        return self._now
