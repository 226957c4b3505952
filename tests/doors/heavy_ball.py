"""A solver from outside: Polyak's heavy ball, descent with a memory of the last step."""

import numpy as np

from codedfl import SolverKind, SolverSettings


class HeavyBall:
    def __init__(self, epochs: int, regularisation: float, step: float = 1.0, memory: float = 0.8) -> None:
        self.epochs, self.regularisation, self.step, self.memory = epochs, regularisation, step, memory
        self.model: np.ndarray | None = None

    def start(self, initial: np.ndarray, constant: np.ndarray, samples: int) -> None:
        self.initial, self.constant, self.samples, self.epoch = initial, constant, samples, 1
        self.model, self.last = initial.copy(), np.zeros_like(initial)
        self._go(constant)

    def request(self) -> np.ndarray | None:
        return None if self.epoch >= self.epochs else self.model - self.initial

    def receive(self, sent: np.ndarray, product: np.ndarray) -> None:
        self.epoch += 1
        self._go(self.constant + product)

    def _go(self, gradient: np.ndarray) -> None:
        downhill = gradient / self.samples + self.regularisation * self.model
        self.last = self.memory * self.last - self.step * downhill
        self.model = self.model + self.last


def made(settings: SolverSettings) -> HeavyBall:
    return HeavyBall(settings.epochs, settings.regularisation, **settings.parameters)


KIND = SolverKind("heavy-ball", "heavy ball", made, default_epochs=100, parameters={"step": 1.0, "memory": 0.8})
