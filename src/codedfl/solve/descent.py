"""Gradient descent (paper eq. 5) and Nesterov's method, and the step they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.solve.solver import _check
from codedfl.state import PLAIN, Kept, Resumable
from codedfl.typing import Floats


@dataclass(frozen=True)
class StepSchedule:
    """mu as a function of the epoch: ``initial``, times ``factor`` from each of ``milestones`` on."""

    initial: float
    factor: float = 1.0
    milestones: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.initial > 0:
            raise InvalidInput(f"the step must be positive, got {self.initial}")

    def __call__(self, epoch: int) -> float:
        return float(self.initial * self.factor ** sum(epoch >= milestone for milestone in self.milestones))


# The paper states mu = 6, times 0.8 at epochs 200 and 350. Its figures fit a step twice as large (the 1/2 of the
# loss dropped), so both are offered and every report says which was used.
STEP_LITERAL = StepSchedule(6.0, 0.8, (200, 350))
STEP_PAPER = StepSchedule(12.0, 0.8, (200, 350))
STEPS = {"paper": STEP_PAPER, "literal": STEP_LITERAL}


_DESCENT: Mapping[str, Kept] = dict.fromkeys(("model", "_epoch", "_initial", "_constant", "_samples"), PLAIN)


class GradientDescent(Resumable):
    """Theta <- Theta - mu gradient (paper eq. 5), one step an epoch.

    epochs: how many steps; 1 uses G^(1) alone and sends no update at all.
    tolerance: ends when the gradient's norm has fallen to this part of its first one; 0 goes on to the last epoch.
    """

    _kept: ClassVar[Mapping[str, Kept]] = {
        **_DESCENT,
        **dict.fromkeys(("_point", "_norm", "_first_norm"), PLAIN),
    }

    def __init__(
        self,
        epochs: int,
        regularisation: float = 9e-6,
        step: StepSchedule = STEP_PAPER,
        tolerance: float = 0.0,
    ) -> None:
        _check(epochs, regularisation)
        if not 0 <= tolerance < 1:
            raise InvalidInput(f"tolerance must be at least 0 and below 1, got {tolerance}")
        self.epochs = epochs
        self.regularisation = regularisation
        self.step = step
        self.tolerance = tolerance
        self.model: Floats | None = None
        self._epoch = 0

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        self._initial, self._constant, self._samples = initial, constant, samples
        self.model = self._point = initial.copy()
        self._descend(constant)

    def request(self) -> Floats | None:
        """e = Theta - Theta^(1) (paper eq. 10)."""
        if self._epoch >= self.epochs or self._norm <= self.tolerance * self._first_norm:
            return None
        return np.subtract(self._point, self._initial)

    def receive(self, sent: Floats, product: Floats) -> None:
        del sent  # the gradient at the rounded point serves for the unrounded one: they differ by rounding only
        self._descend(self._constant + product)

    def _descend(self, total_gradient: Floats) -> None:
        self._epoch += 1
        gradient = total_gradient / self._samples + self.regularisation * self._point
        self._norm = float(np.linalg.norm(gradient))
        if self._epoch == 1:
            self._first_norm = self._norm
        self._move(self._point - self.step(self._epoch) * gradient)

    def _move(self, model: Floats) -> None:
        """The new model, and the point at which the next gradient is wanted: the same."""
        self.model = self._point = model


class Nesterov(GradientDescent):
    """Accelerated descent with the momentum (t - 1)/(t + 2). Stable up to about half of descent's largest step."""

    def _move(self, model: Floats) -> None:
        assert self.model is not None
        self._point = model + (self._epoch - 1) / (self._epoch + 2) * (model - self.model)
        self.model = model
