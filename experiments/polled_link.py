"""A connection without a thread of its own: whoever has many of them waits for all their sockets at once.

``BrokerLink`` reads in a thread beside the one that computes, so that a device at work stays connected. A thousand such
pairs on two cores spend their time in taking turns: the load test has one thread for the devices of a process.
"""

from __future__ import annotations

import selectors
import ssl
import time

from codedfl.mqtt.link import BrokerLink


class PolledLink(BrokerLink):
    """``open`` waits for the broker; from then on ``pump`` moves what can be moved, and waits for nothing."""

    def fileno(self) -> int:
        """The socket's, for a selector; -1 when the connection is lost."""
        connection = self._client.socket()
        return -1 if connection is None else connection.fileno()

    @property
    def interest(self) -> int:
        """What a selector is to wait for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._client.want_write() else 0)

    def pump(self) -> None:
        """Read and write as much as is there, and keep the connection alive."""
        while self._client.socket() is not None:
            self._client.loop_read()
            connection = self._client.socket()
            if not (isinstance(connection, ssl.SSLSocket) and connection.pending()):
                break
        if self._client.want_write():
            self._client.loop_write()
        self._client.loop_misc()

    def flush(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._client.want_write() and time.monotonic() < until:
            self.pump()

    def _start_reading(self) -> None:
        """Nobody reads but ``pump``."""

    def _wait_for_answer(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self, selectors.EVENT_READ)
            while not self._answered.is_set() and time.monotonic() < until:
                selector.select(0.1)
                self.pump()
        return self._answered.is_set()
