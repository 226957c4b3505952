"""Devices of this process: each is a function from a request to its reply."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

ReplyBytes = Callable[[bytes], bytes]


class InProcess:
    """An ``Engine`` whose devices reply at once.

    Examples
    --------
    >>> from codedfl.engines.in_process import InProcess
    >>> engine = InProcess({"clinic-1": lambda request: b"to " + request})
    >>> engine.send("clinic-1", b"this"); engine.replies(0.0)
    [('clinic-1', b'to this')]
    """

    def __init__(self, devices: Mapping[str, ReplyBytes]) -> None:
        self._devices = dict(devices)
        self._waiting: list[tuple[str, bytes]] = []
        self._waited = 0.0

    def here(self) -> Collection[str]:
        return self._devices

    def send(self, device: str, request: bytes) -> None:
        self._waiting.append((device, request))

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        asked, self._waiting = self._waiting, []
        if not asked:
            self._waited += seconds  # nothing can come in while nothing is asked: the wait is over at once
        return [(name, self._devices[name](request)) for name, request in asked]

    def now(self) -> float:
        return time.monotonic() + self._waited
