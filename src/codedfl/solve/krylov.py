"""Krylov solvers: the best model on the span of the directions sent so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.solve.descent import _DESCENT
from codedfl.solve.solver import _check
from codedfl.state import PAIRS, PLAIN, Kept, Resumable
from codedfl.typing import Floats


class ConjugateGradient(Resumable):
    """Conjugate gradient on (X'X/m + lambda) Theta = X'Y/m, one system per class, all sharing each product.

    Directions are rounded before they are sent, and the short recurrence would lose epochs to that. So the model is the
    best one on the span of *all* directions really sent (the residual is projected on each, which costs no epoch), and
    the next direction is conjugate to all of them. The server keeps 2 d c numbers per step for it.

    Epoch 1 decodes the constant and makes no step, so ``epochs`` = 1 returns Theta^(1). A column stops when its
    residual falls below ``tolerance`` times its first one. Every ``restart`` steps an epoch goes to the true
    residual, which rounding lets drift, and the directions so far are forgotten; 0 never restarts.
    """

    _kept: ClassVar[Mapping[str, Kept]] = {
        **_DESCENT,
        **dict.fromkeys(("_residual", "_direction", "_goal", "_refreshing"), PLAIN),
        "_conjugate": PAIRS,
    }

    def __init__(self, epochs: int, regularisation: float = 9e-6, tolerance: float = 1e-6, restart: int = 50) -> None:
        _check(epochs, regularisation)
        if restart < 0:
            raise InvalidInput(f"restart must be at least 0 (never), got {restart}")
        self.epochs = epochs
        self.regularisation = regularisation
        self.tolerance = tolerance
        self.restart = restart
        self.model: Floats | None = None
        self._epoch = 0
        self._conjugate: list[tuple[Floats, Floats]] = []  # directions as sent and their images, of unit curvature
        self._refreshing = False

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        self._initial, self._constant, self._samples = initial, constant, samples
        self.model = initial.copy()
        self._epoch = 1
        self._residual = -(constant / samples + self.regularisation * initial)
        self._direction = self._residual
        self._goal = self.tolerance * np.linalg.norm(self._residual, axis=0)

    def request(self) -> Floats | None:
        if self._epoch >= self.epochs or not np.any(self._active()):
            return None
        # Not in the last epoch: a refreshed model lies on the grid of e, and a step must follow to leave it.
        due = bool(self.restart) and len(self._conjugate) >= self.restart
        self._refreshing = due and self._epoch + 1 < self.epochs
        if self._refreshing:
            assert self.model is not None
            return np.subtract(self.model, self._initial)
        return np.where(self._active(), self._direction, 0.0)

    def receive(self, sent: Floats, product: Floats) -> None:
        assert self.model is not None
        self._epoch += 1
        if self._refreshing:
            here = self._initial + sent
            self._residual = -((self._constant + product) / self._samples + self.regularisation * here)
            self._direction = self._residual
            self.model = here
            self._conjugate.clear()
            return
        image = product / self._samples + self.regularisation * sent
        curvature = np.sum(sent * image, axis=0)
        scale = np.where(curvature > 0, 1 / np.sqrt(np.where(curvature > 0, curvature, 1.0)), 0.0)
        self._conjugate.append((sent * scale, image * scale))
        for _ in range(2):  # the second time mends what rounding left of the first
            for unit, unit_image in reversed(self._conjugate):
                length = np.sum(unit * self._residual, axis=0)
                self.model = self.model + length * unit
                self._residual = self._residual - length * unit_image
        self._direction = self._residual
        for unit, unit_image in self._conjugate:
            self._direction = self._direction - np.sum(self._residual * unit_image, axis=0) * unit

    def _active(self) -> NDArray[np.bool_]:
        active: NDArray[np.bool_] = np.linalg.norm(self._residual, axis=0) > self._goal
        return active
