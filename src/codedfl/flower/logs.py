"""Log lines of codedfl where Flower's go: the console and log file of the SuperLink or SuperNode, and ``flwr log``."""

from __future__ import annotations

import logging


def use_flower_logs() -> None:
    ours, flowers = logging.getLogger("codedfl"), logging.getLogger("flwr")
    ours.setLevel(logging.INFO)
    ours.propagate = False
    ours.handlers = flowers.handlers
