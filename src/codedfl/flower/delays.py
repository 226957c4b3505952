"""Delays on purpose: a node that behaves as if it were slower, for demonstrations and measurements.

The node's configuration says how slow: ``delay-seconds`` before every reply with a product, and ``delay-mean``, the
mean of an exponential time on top, as in the paper's model of computing (III-B). Drawn by ``delay-seed`` and how many
answers the node has given, so that two trainings can be put through the same delays.
"""

from __future__ import annotations

import time

import numpy as np
from flwr.app import Context, Message, MetricRecord
from flwr.clientapp.typing import ClientAppCallable

from codedfl.errors import MessageRefused
from codedfl.flower.config import setting
from codedfl.flower.records import ASK, unpacked
from codedfl.sum.wire import asks_for_product

_COUNT = "codedfl-delays"


def injected_delay(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """A Flower mod: waits before the node's work on a product, or on any training of another app."""
    kind = message.metadata.message_type
    if _asks_for_product(message) if kind == ASK else kind.startswith("train"):
        fixed = setting(context.node_config, "delay-seconds", float, 0.0)
        mean = setting(context.node_config, "delay-mean", float, 0.0)
        if fixed or mean:
            count = int(context.state.metric_records.get(_COUNT, {"count": 0})["count"])  # type: ignore[arg-type]
            context.state.metric_records[_COUNT] = MetricRecord({"count": count + 1})
            seed = setting(context.node_config, "delay-seed", int, 0)
            time.sleep(fixed + mean * np.random.default_rng((seed, count)).standard_exponential())
    return call_next(message, context)


def _asks_for_product(message: Message) -> bool:
    try:
        return asks_for_product(unpacked(message.content))
    except MessageRefused:
        return False  # for the device itself to refuse
