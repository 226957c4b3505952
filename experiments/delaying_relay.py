"""A long way between a device and its broker: everything takes a while, and some of it is lost and sent again.

TCP hides a loss behind a delay: what follows waits until the lost part was sent again. So does this.
"""

from __future__ import annotations

import heapq
import random
import socket
import threading
import time
from contextlib import suppress

from experiments.local_programs import HOST

_READ_BYTES = 1 << 14
_SEND_AGAIN_SECONDS = 0.2  # the least that Linux waits


class DelayingRelay:
    """Relays to ``port``; listens at ``self.port``.

    delay: seconds each way. loss: of the parts that are read at a time.
    """

    def __init__(self, port: int, delay: float, loss: float, seed: int = 0) -> None:
        self._target, self._delay, self._loss = (HOST, port), delay, loss
        self._chance = random.Random(seed)
        self.lost = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _listen(self) -> None:
        with suppress(OSError):  # until it is closed
            while True:
                inner, _ = self._listener.accept()
                outer = socket.create_connection(self._target)
                for one in (inner, outer):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += [inner, outer]
                for source, target in ((inner, outer), (outer, inner)):
                    _Way(self, source, target).start()


class _Way:
    """One direction of one connection: in order, each part at its time."""

    def __init__(self, relay: DelayingRelay, source: socket.socket, target: socket.socket) -> None:
        self._relay, self._source, self._target = relay, source, target
        self._due: list[tuple[float, int, bytes]] = []
        self._more = threading.Condition()

    def start(self) -> None:
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def _read(self) -> None:
        last, count, relay = 0.0, 0, self._relay
        with suppress(OSError):
            while data := self._source.recv(_READ_BYTES):
                at = time.monotonic() + relay._delay
                if relay._chance.random() < relay._loss:
                    relay.lost += 1
                    at += _SEND_AGAIN_SECONDS
                last, count = max(last, at), count + 1
                with self._more:
                    heapq.heappush(self._due, (last, count, data))
                    self._more.notify()
        with self._more:
            heapq.heappush(self._due, (last, count + 1, b""))
            self._more.notify()

    def _write(self) -> None:
        with suppress(OSError):
            while True:
                with self._more:
                    while not self._due or self._due[0][0] > time.monotonic():
                        self._more.wait(self._due[0][0] - time.monotonic() if self._due else None)
                    data = heapq.heappop(self._due)[2]
                if not data:
                    break
                self._target.sendall(data)
        with suppress(OSError):
            self._target.shutdown(socket.SHUT_RDWR)
