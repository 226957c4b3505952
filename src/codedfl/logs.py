"""Log lines of codedfl: where Flower's go (SuperLink, SuperNode, ``flwr log``), or on a console."""

from __future__ import annotations

import logging
import time

from rich.console import Console

_MINUTE = 60.0
_MOST_ALIKE = 10  # lines of one kind per minute
_MOST_KINDS = 10_000


def use_flower_logs() -> logging.Logger:
    """Our lines go where Flower's go, and so to ``flwr log``."""
    ours, flowers = logging.getLogger("codedfl"), logging.getLogger("flwr")
    ours.setLevel(logging.INFO)
    ours.propagate = False
    ours.handlers = flowers.handlers
    return ours


def one_line(text: object) -> str:
    """Text from outside for a log line: what could begin another line, or steer a terminal, is shown as its escape."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(text))


class RepeatLimit:
    """Lets few lines of one kind through per minute: whoever can make us write a line must not fill the disk with them.

    Of one kind are the lines of one text about one party; warnings and errors about numbered nodes are of one kind for
    all nodes, because new numbers cost nothing.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[object, ...], tuple[float, int]] = {}  # kind -> when its minute began, lines since

    def line(self, record: logging.LogRecord) -> str | None:
        """Its text, or None if it is one too many; the last line before silence, and the first after it, say so."""
        about = record.args[0] if isinstance(record.args, tuple) and record.args else ""
        if isinstance(about, int) and record.levelno >= logging.WARNING:
            about = ""
        kind = (record.msg, about)
        begun, lines = self._begun.get(kind, (record.created, 0))
        unseen = 0
        if record.created - begun >= _MINUTE:
            begun, unseen, lines = record.created, max(0, lines - _MOST_ALIKE), 0
        self._begun[kind] = (begun, lines + 1)
        if len(self._begun) > _MOST_KINDS:
            self._begun = {one: at for one, at in self._begun.items() if record.created - at[0] < _MINUTE}
        if lines >= _MOST_ALIKE:
            return None
        if unseen:
            return f"{record.getMessage()} ({unseen} more like this were not shown)"
        if lines == _MOST_ALIKE - 1:
            return f"{record.getMessage()} (more like this: not shown for a minute)"
        return record.getMessage()


class ConsoleLog(logging.Handler):
    """Log lines of codedfl on a console of its own, with the time in front; above a live table if it shows one."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console
        self._few = RepeatLimit()

    def emit(self, record: logging.LogRecord) -> None:
        line = self._few.line(record)
        if line is None:
            return
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        label = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        self._console.print(f"{moment} {label}{line}", soft_wrap=True, markup=False, highlight=False)


def use_console(console: Console) -> None:
    """Our lines go to a console that may show a live table at the same time."""
    ours = logging.getLogger("codedfl")
    ours.setLevel(logging.INFO)
    ours.propagate = False
    ours.handlers = [ConsoleLog(console)]
