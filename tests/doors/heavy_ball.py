"""A solver from outside: Polyak's heavy ball, descent with a memory of the last step."""

import numpy as np

from codedfl import SolverKind, SolverSettings
from codedfl.typing import Floats


class HeavyBall:
    def __init__(self, epochs: int, regularisation: float, step: float = 1.0, memory: float = 0.8) -> None:
        self.epochs, self.regularisation, self.step, self.memory = epochs, regularisation, step, memory
        self.model: Floats | None = None

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        self.initial, self.constant, self.samples, self.epoch = initial, constant, samples, 1
        self.moved, self.last = np.zeros_like(initial), np.zeros_like(initial)
        self._go(constant)

    def request(self) -> Floats | None:
        return None if self.epoch >= self.epochs else self.moved

    def receive(self, sent: Floats, product: Floats) -> None:
        self.epoch += 1
        self._go(self.constant + product)

    def _go(self, gradient: Floats) -> None:
        downhill = gradient / self.samples + self.regularisation * (self.initial + self.moved)
        self.last = self.memory * self.last - self.step * downhill
        self.moved = self.moved + self.last
        self.model = self.initial + self.moved


def made(settings: SolverSettings) -> HeavyBall:
    return HeavyBall(settings.epochs, settings.regularisation, **settings.parameters)


KIND = SolverKind("heavy-ball", "heavy ball", made, default_epochs=100, parameters={"step": 1.0, "memory": 0.8})
