"""Devices of this process whose answers arrive when a latency model says so. No clock is read and nothing sleeps."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from codedfl.engines.in_process import ReplyBytes
from codedfl.sum.wire import Request, decode
from codedfl.typing import Seconds

_SHARED, _ANSWERED = ("upload", "share"), "answer"


class Timing(Protocol):
    """When the devices of one run, by their places in it, are ready and answer."""

    def shared(self) -> tuple[float, Seconds]:
        """When the first question goes out, and when each device is ready for it."""

    def answered(self, gone: Sequence[int]) -> tuple[Seconds, float]:
        """When each device answers the next epoch (infinity: never), and when that epoch is over."""


class Paced:
    """An ``Engine`` by a ``Timing``: what devices share arrives when they are ready, an answer when its device has it.

    Everything else is replied to at once. What is not waited for is not computed, which changes nothing.

    seats: the devices in the run's order. gone: places of devices that die when they have shared.
    """

    def __init__(
        self, devices: Mapping[str, ReplyBytes], seats: Sequence[str], timing: Timing, gone: Collection[int] = ()
    ) -> None:
        self._devices, self._timing, self._gone = devices, timing, list(gone)
        self._places = {name: place for place, name in enumerate(seats)}
        self.start, self._ready = timing.shared()
        self._times: Seconds | None = None
        self.ends = 0.0  # when the epoch is over
        self._now = 0.0
        self._asked: dict[str, tuple[float, bytes]] = {}
        self.sent = 0  # bytes

    def next_epoch(self) -> None:
        """What is asked from now on belongs to another epoch: devices are done with the last."""
        self._times, self._asked = None, {}

    def compute_all(self) -> None:
        """Let also those compute that nobody waits for."""
        for device, (when, request) in self._asked.items():
            if math.isfinite(when):
                self._devices[device](request)

    def here(self) -> Collection[str]:
        return self._devices

    def send(self, device: str, request: bytes) -> None:
        self.sent += len(request)
        self._asked[device] = self._when(device, decode(request, Request, "a request").kind), request

    def _when(self, device: str, kind: str) -> float:
        place = self._places[device]
        if kind in _SHARED:
            return min(self.start, float(self._ready[place]))
        if kind != _ANSWERED:
            return self._now
        if self._times is None:
            self._times, self.ends = self._timing.answered(self._gone)
        return float(self._times[place])

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        device = min(self._asked, key=lambda name: self._asked[name][0], default=None)
        if device is None or self._asked[device][0] > self._now + seconds:
            self._now += seconds
            return []
        when, request = self._asked.pop(device)
        self._now = max(self._now, when)
        return [(device, self._devices[device](request))]

    def now(self) -> float:
        return self._now
