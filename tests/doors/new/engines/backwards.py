"""An engine that brings the newest reply first, every reply twice, and one in five only when it is asked for again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

Reply = Callable[[bytes], bytes]


class Backwards:
    """Four functions, in a time that passes where it is waited for."""

    def __init__(self, devices: Mapping[str, Reply]) -> None:
        self._devices = dict(devices)
        self._sent: list[tuple[str, bytes]] = []
        self._count, self._now = 0, 0.0

    def here(self) -> Collection[str]:
        return self._devices

    def send(self, device: str, request: bytes) -> None:
        self._count += 1
        if self._count % 5:
            self._sent.append((device, request))

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        sent, self._sent = self._sent[::-1], []
        self._now += 0.0 if sent else seconds
        return [(name, self._devices[name](request)) for name, request in sent for _ in range(2)]

    def now(self) -> float:
        return self._now
