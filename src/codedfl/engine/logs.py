"""Log lines of codedfl: where Flower's go (SuperLink, SuperNode, ``flwr log``), or on a console."""

from __future__ import annotations

import logging
import time

from rich.console import Console


def use_flower_logs() -> None:
    """Our lines go where Flower's go, and so to ``flwr log``."""
    ours, flowers = logging.getLogger("codedfl"), logging.getLogger("flwr")
    ours.setLevel(logging.INFO)
    ours.propagate = False
    ours.handlers = flowers.handlers


def one_line(text: object) -> str:
    """Text from outside for a log line: what could begin another line, or steer a terminal, is shown as its escape."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(text))


class ConsoleLog(logging.Handler):
    """Log lines of codedfl on a console of its own, with the time in front; above a live table if it shows one."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        label = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        self._console.print(f"{moment} {label}{record.getMessage()}", soft_wrap=True, markup=False, highlight=False)


def use_console(console: Console) -> None:
    """Our lines go to a console that may show a live table at the same time."""
    ours = logging.getLogger("codedfl")
    ours.setLevel(logging.INFO)
    ours.propagate = False
    ours.handlers = [ConsoleLog(console)]
