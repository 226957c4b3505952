"""The baseline on the same transport: federated averaging that waits for everybody, over the same broker and links.

Models travel as float32, half of what our ring numbers take a number. Nothing is hidden from the server here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgpack
import numpy as np

from codedfl.mqtt import topics
from codedfl.mqtt.link import BrokerLink, LinkUp, Received
from codedfl.typing import Floats

STUDY = "fedavg"
_OVER = b""
_LONGEST_SECONDS = 600.0
_LEAVING_SECONDS = 30.0


class FedAvgDevice:
    """Takes ``steps`` steps of gradient descent on its own rows for every model that comes, until told to end."""

    def __init__(
        self,
        link: BrokerLink,
        name: str,
        X: Floats,
        Y: Floats,
        steps: int,
        size: float,
        wait: Callable[[], None],
        regularisation: float = 9e-6,
    ) -> None:
        self._link, self._name = link, name
        self._X, self._Y = X, Y
        self._steps, self._size, self._regularisation = steps, size, regularisation
        self._wait = wait

    def run(self) -> None:
        while True:
            for event in self._link.events(1.0):
                if isinstance(event, LinkUp):
                    self._link.subscribe(topics.inbox(STUDY, self._name))
                    self._link.publish(topics.presence(STUDY, self._name), b"here", retain=True)
                elif isinstance(event, Received):
                    number, packed = msgpack.unpackb(event.payload)
                    if packed == _OVER:
                        self._link.publish(topics.presence(STUDY, self._name), b"", retain=True)
                        self._link.flush(5.0)
                        return
                    self._wait()
                    theta = self._descend(np.frombuffer(packed, np.float32).astype(np.float64))
                    answer = msgpack.packb([number, len(self._X), theta.astype(np.float32).tobytes()])
                    self._link.publish(topics.outbox(STUDY, self._name), answer)

    def _descend(self, flat: Floats) -> Floats:
        X, Y = self._X, self._Y
        theta = flat.reshape(X.shape[1], Y.shape[1])
        for _ in range(self._steps):
            theta = theta - self._size * (X.T @ (X @ theta - Y) / len(X) + self._regularisation * theta)
        return theta


def train(
    link: BrokerLink,
    names: Sequence[str],
    shape: tuple[int, int],
    reached: Callable[[Floats], bool],
    most_rounds: int,
) -> list[float]:
    """Rounds until a model is good enough; returns when each of them ended, from the moment all devices were there."""
    here: set[str] = set()
    while here != set(names):
        for event in link.events(1.0):
            if isinstance(event, LinkUp):
                link.subscribe(topics.presence(STUDY, "+"), topics.outbox(STUDY, "+"))
            elif isinstance(event, Received) and event.topic.endswith(topics.HERE) and event.payload:
                here.add(topics.device_of(event.topic))
    began, ended = time.monotonic(), []
    theta = np.zeros(shape)
    try:
        for number in range(most_rounds):
            packed = msgpack.packb([number, theta.astype(np.float32).tobytes()])
            for name in names:
                link.publish(topics.inbox(STUDY, name), packed)
            answers: dict[str, tuple[int, Floats]] = {}
            while len(answers) < len(names):
                if time.monotonic() - began > _LONGEST_SECONDS:
                    raise SystemExit("FedAvg took too long")
                for event in link.events(1.0):
                    if isinstance(event, Received) and event.topic.endswith(topics.OUTBOX):
                        told, count, model = msgpack.unpackb(event.payload)
                        if told == number:
                            found = np.frombuffer(model, np.float32).astype(np.float64).reshape(shape)
                            answers[topics.device_of(event.topic)] = (count, found)
            total = sum(count for count, _ in answers.values())
            theta = sum((count / total * model for count, model in answers.values()), np.zeros(shape))
            ended.append(time.monotonic() - began)
            if reached(theta):
                break
    finally:
        _dismiss(link, here)
    return ended


def _dismiss(link: BrokerLink, here: set[str]) -> None:
    """Say that it is over until every device has taken its presence back: one that is reconnecting hears nothing."""
    until = time.monotonic() + _LEAVING_SECONDS
    while here and time.monotonic() < until:
        for name in here:
            link.publish(topics.inbox(STUDY, name), msgpack.packb([-1, _OVER]))
        for event in link.events(1.0):
            if isinstance(event, Received) and event.topic.endswith(topics.HERE) and not event.payload:
                here.discard(topics.device_of(event.topic))
    link.flush(5.0)
