"""Log lines of codedfl where Flower's go: the console and log file of the SuperLink or SuperNode, and ``flwr log``."""

from __future__ import annotations

import logging


def use_flower_logs() -> None:
    ours, flowers = logging.getLogger("codedfl"), logging.getLogger("flwr")
    ours.setLevel(logging.INFO)
    ours.propagate = False
    ours.handlers = flowers.handlers


def one_line(text: object) -> str:
    """Text from outside for a log line: what could begin another line, or steer a terminal, is shown as its escape."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(text))
