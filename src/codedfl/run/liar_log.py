"""Who shared or answered wrongly, in the log, once each: the server's machine does no I/O, so its drivers tell."""

from __future__ import annotations

import logging

from codedfl.protocol.server import Server


class LiarLog:
    """Looks at a server after it has received something, and logs what is new."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._named: set[str] = set()
        self._complaints: set[tuple[str, str]] = set()
        self._mended: set[int] = set()
        self._disputed: set[int] = set()

    def look(self, server: Server) -> None:
        if server.agreement is None:
            return
        for name, epoch in server.liars.items():
            if name not in self._named:
                self._named.add(name)
                self._log.error("%s answered wrongly in epoch %d and is excluded", name, epoch)
        for accused, accusers in server.complaints.items():
            for accuser, reason in accusers.items():
                if (accused, accuser) not in self._complaints:
                    self._complaints.add((accused, accuser))
                    self._log.error("%s complains of the share of %s: %s", accuser, accused, reason)
        for epoch in server.mended:
            if epoch not in self._mended:
                self._mended.add(epoch)
                self._log.error("epoch %d was decoded from a wrong answer: it was asked again and is mended", epoch)
        for epoch in server.disputed:
            if epoch not in self._disputed:
                self._disputed.add(epoch)
                self._log.error("the answers of epoch %d contradict each other, and cannot show who lies", epoch)
