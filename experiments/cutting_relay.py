"""A stretch of network between a device and its broker, which can be cut, and which comes from another address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from experiments.local_programs import HOST

ELSEWHERE = "127.0.0.2"  # also this machine, and another address to the broker
_READ_BYTES = 1 << 14


class CuttingRelay:
    """Relays to ``port`` from ``ELSEWHERE``; listens at ``self.port``.

    cuts: after how many bytes from the device each connection in turn is cut; those behind the last are not. Empty
        cuts none.
    """

    def __init__(self, port: int, cuts: Sequence[int] = ()) -> None:
        self._target = (HOST, port)
        self._cuts = list(cuts)
        self._open: list[socket.socket] = []
        self.made = 0  # cuts
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        _end(self._listener, *self._open)

    def _listen(self) -> None:
        with suppress(OSError):  # until it is closed
            while True:
                inner, _ = self._listener.accept()
                try:
                    outer = socket.create_connection(self._target, source_address=(ELSEWHERE, 0))
                except OSError:
                    _end(inner)
                    continue
                self._open += [inner, outer]
                most = self._cuts.pop(0) if self._cuts else None
                threading.Thread(target=self._move, args=(inner, outer, most), daemon=True).start()
                threading.Thread(target=self._move, args=(outer, inner, None), daemon=True).start()

    def _move(self, source: socket.socket, target: socket.socket, most: int | None) -> None:
        moved = 0
        with suppress(OSError):
            while data := source.recv(_READ_BYTES):
                target.sendall(data)
                moved += len(data)
                if most is not None and moved > most:
                    self.made += 1
                    break
        _end(source, target)


def _end(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
