"""What the server does with exact products X'X e: solvers for ridge regression (paper III-A, eq. 2 and 5).

A solver never sees data. It is started with G^(1) = X'X Theta^(1) - X'Y and m, then asks for the product of X'X with
one d x c matrix after the other until it has enough. What it gets back are the matrix *as sent* (on the ring's
grid) and its exact product, so rounding never makes the two disagree.

minimise  1/(2m) |X Theta - Y|^2 + lambda/2 |Theta|^2,   gradient (X'X Theta - X'Y)/m + lambda Theta
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.resumable import MAP, PAIRS, PLAIN, Kept, Resumable, State

Floats = NDArray[np.float64]


class Solver(Protocol):
    """One epoch is one ``start`` or one ``request``/``receive`` pair."""

    @property
    def model(self) -> Floats | None:
        """Theta after the last finished epoch; None before ``start``."""
        ...

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        """Epoch 1: Theta^(1), sum of G_i^(1), m."""
        ...

    def request(self) -> Floats | None:
        """The matrix whose product with X'X is wanted next; None when finished."""
        ...

    def receive(self, sent: Floats, product: Floats) -> None:
        """``product`` = X'X ``sent``, where ``sent`` is the request as rounded to the ring's grid."""
        ...

    def state(self) -> State:
        """What a fresh solver with the same arguments needs to go on; see ``codedfl.resumable``."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        ...


@runtime_checkable
class GramSolver(Protocol):
    """A solver that needs the total of X'X itself, before ``start``; only a scheme that reveals it can serve one."""

    def take_gram(self, triangle: Floats) -> None:
        """The row-major upper triangle of sum_i X_i'X_i."""
        ...


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


class ClosedForm(Resumable):
    """The ridge solution itself, (X'X/m + lambda)^-1 X'Y/m by Cholesky, for every lambda of a path at no extra cost.

    ``model`` is the solution for ``regularisation``; ``path`` has those of all ``regularisations``. Refused when the
    matrix is singular to working precision, which a positive lambda prevents.
    """

    _kept: ClassVar[Mapping[str, Kept]] = {"_triangle": PLAIN, "model": PLAIN, "path": MAP}

    def __init__(self, regularisation: float = 9e-6, regularisations: Sequence[float] = ()) -> None:
        for value in (regularisation, *regularisations):
            _check(1, value)
        self.epochs = 1
        self.regularisation = regularisation
        self.regularisations = tuple(regularisations)
        self.model: Floats | None = None
        self.path: dict[float, Floats] = {}

    def take_gram(self, triangle: Floats) -> None:
        self._triangle = triangle

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        d = len(initial)
        gram = np.zeros((d, d))
        gram[np.triu_indices(d)] = self._triangle
        gram += np.triu(gram, 1).T
        # G^(1) = X'X Theta^(1) - X'Y, so X'Y = X'X Theta^(1) - G^(1).
        cross = gram @ initial - constant
        for value in (self.regularisation, *self.regularisations):
            self.path[value] = _ridge(gram / samples, cross / samples, value)
        self.model = self.path[self.regularisation]

    def request(self) -> Floats | None:
        return None

    def receive(self, sent: Floats, product: Floats) -> None:
        raise AssertionError(f"nothing was requested, got a product of shape {product.shape} for {sent.shape}")


def _ridge(gram: Floats, cross: Floats, regularisation: float) -> Floats:
    try:
        factor = np.linalg.cholesky(gram + regularisation * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        raise InvalidInput(
            f"regularisation must be large enough to make X'X/m + lambda positive definite, got {regularisation:g}"
        ) from None
    return np.asarray(np.linalg.solve(factor.T, np.linalg.solve(factor, cross)))


SOLVERS: dict[str, type[GradientDescent] | type[Nesterov] | type[ConjugateGradient]] = {
    "gd": GradientDescent,
    "nesterov": Nesterov,
    "cg": ConjugateGradient,
}


def solver_names() -> Sequence[str]:
    return tuple(SOLVERS)


def _check(epochs: int, regularisation: float) -> None:
    if epochs < 1:
        raise InvalidInput(f"epochs must be at least 1, got {epochs}")
    if not regularisation >= 0:
        raise InvalidInput(f"regularisation must be at least 0, got {regularisation}")
