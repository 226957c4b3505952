"""Krylov solvers: the best model on the span of the directions sent so far.

They see X'X only through products with directions that they choose, c per epoch, one per class. Conjugate gradient uses
a class's directions for that class; block Krylov uses all of them for all classes, which halves the epochs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.solve.solver import _check
from codedfl.solve.subspace import Subspace
from codedfl.typing import Floats

TOLERANCE = 1e-6


class _Krylov:
    """What both solvers share: Theta^(1), its residual, and when a class has converged."""

    def __init__(self, epochs: int, regularisation: float, tolerance: float) -> None:
        _check(epochs, regularisation)
        self.epochs = epochs
        self.regularisation = regularisation
        self.tolerance = tolerance
        self.model: Floats | None = None
        self._epoch = 0
        self._asked = 0

    @property
    def converged(self) -> bool:
        return self.model is not None and not np.any(self._active())

    @property
    def directions(self) -> int:
        return 0 if self.model is None else min(self._asked, len(self.model))

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        self._initial, self._constant, self._samples = initial, constant, samples
        self.model = initial.copy()
        self._epoch = 1
        self._residual = self._first_residual(self.regularisation)

    def _first_residual(self, regularisation: float) -> Floats:
        """X'Y/m - (X'X/m + lambda) Theta^(1)."""
        return -(self._constant / self._samples + regularisation * self._initial)

    def _active(self) -> NDArray[np.bool_]:
        first = np.linalg.norm(self._first_residual(self.regularisation), axis=0)
        active: NDArray[np.bool_] = np.linalg.norm(self._residual, axis=0) > self.tolerance * first
        return active


class ConjugateGradient(_Krylov):
    """Conjugate gradient on (X'X/m + lambda) Theta = X'Y/m, one system per class, all sharing each product.

    Directions are rounded before they are sent, and the short recurrence would lose epochs to that. So the model is the
    best one on the span of *all* directions really sent (the residual is projected on each, which costs no epoch), and
    the next direction is conjugate to all of them. The server keeps 2 d c numbers per step for it.

    Epoch 1 decodes the constant and makes no step, so ``epochs`` = 1 returns Theta^(1). A column stops when its
    residual falls below ``tolerance`` times its first one. Every ``restart`` steps an epoch goes to the true
    residual, which rounding lets drift, and the directions so far are forgotten; 0 never restarts.

    Attributes
    ----------
    converged : bool
        Whether all columns have stopped by themselves.
    directions : int
        How many directions the server has asked for, at most; it knows the image of each under the total X'X.

    Examples
    --------
    Two unknowns take two products, after the epoch that brings X'Y:

    >>> import numpy as np
    >>> from codedfl import ConjugateGradient
    >>> gram, solver = np.array([[2.0, 1.0], [1.0, 2.0]]), ConjugateGradient(epochs=10)
    >>> solver.start(np.zeros((2, 1)), np.array([[-4.0], [-5.0]]), samples=1)
    >>> while (e := solver.request()) is not None:
    ...     solver.receive(e, gram @ e)
    >>> solver.model.round(6).tolist(), solver.directions, solver.converged
    ([[1.0], [2.0]], 2, True)
    """

    def __init__(
        self, epochs: int, regularisation: float = 0.0, tolerance: float = TOLERANCE, restart: int = 50
    ) -> None:
        super().__init__(epochs, regularisation, tolerance)
        if restart < 0:
            raise InvalidInput(f"restart must be at least 0 (never), got {restart}")
        self.restart = restart
        self._conjugate: list[tuple[Floats, Floats]] = []  # directions as sent and their images, of unit curvature
        self._refreshing = False

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        super().start(initial, constant, samples)
        self._direction = self._residual

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
        self._asked += int(np.count_nonzero(sent.any(axis=0)))
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


class BlockKrylov(_Krylov):
    """The best model for every class on the span of *all* directions sent so far, whichever class asked for them.

    Solves (X'X/m + lambda) Theta = X'Y/m projected on that span (Galerkin), with the directions as they were sent and
    their exact products. The next block is what is new in the classes' residuals: an orthonormal basis of it, so that
    every column uses the ring's bits alike. Classes that have converged, or whose residuals depend on the others',
    ask for nothing: columns are then left zero. So never more than c directions per epoch are asked for, as with
    conjugate gradient, and while all are kept the model is at least as good after every epoch.

    Epoch 1 decodes the constant and makes no step, so ``epochs`` = 1 returns Theta^(1).

    Parameters
    ----------
    epochs : int
        The largest number of epochs. The solver ends by itself when all classes have converged, or when nothing new is
        left to ask for.
    regularisation : float
        lambda; 0 is least squares. Where X'X has no curvature to working precision the model is left as it is.
    tolerance : float
        A class has converged when its residual has fallen to this part of its first one.
    memory : int
        How many blocks the server keeps, of 2 d c numbers each and never more than 2 d^2 together. Beyond that it
        narrows the span to the present model and its last step, which costs no epoch, and continues no slower than
        conjugate gradient. 0 keeps all blocks.

    Attributes
    ----------
    converged : bool
        Whether all classes have converged.
    directions : int
        How many independent directions the server has asked for; it knows the image of each under the total X'X.
    smallest_curvature : float
        The least curvature of X'X/m + lambda on the span, infinite before the first product. Where it is below the
        rounding of X'X, the model is not to be trusted.

    Examples
    --------
    Two classes share their directions: one product of a block of two solves both.

    >>> import numpy as np
    >>> from codedfl import BlockKrylov
    >>> gram, solver = np.array([[2.0, 1.0], [1.0, 2.0]]), BlockKrylov(epochs=10)
    >>> solver.start(np.zeros((2, 2)), -np.array([[4.0, 1.0], [5.0, -1.0]]), samples=1)
    >>> e = solver.request()
    >>> solver.receive(e, gram @ e)
    >>> solver.model.round(6).tolist(), solver.converged
    ([[1.0, 1.0], [2.0, -1.0]], True)
    """

    def __init__(
        self, epochs: int, regularisation: float = 0.0, tolerance: float = TOLERANCE, memory: int = 100
    ) -> None:
        super().__init__(epochs, regularisation, tolerance)
        if memory < 0 or memory in (1, 2):
            raise InvalidInput(f"memory must be at least 3 blocks, or 0 (all), got {memory}")
        self.memory = memory
        self._span = Subspace()

    @property
    def smallest_curvature(self) -> float:
        if not self._span.size:
            return float("inf")
        return float(np.linalg.eigvalsh(self._span.gram())[0]) + self.regularisation

    def path(self, regularisations: Sequence[float]) -> dict[float, Floats]:
        """The best model on the same span for each lambda: no further product is needed for it.

        A model is as good as the span is: after enough epochs for the smallest lambda it serves all larger ones.
        """
        if self.model is None:
            raise InvalidInput("path must be asked for after the start, got a solver without a model")
        for value in regularisations:
            _check(1, value)
        return {value: self._best(value)[0] for value in regularisations}

    def request(self) -> Floats | None:
        if self._epoch >= self.epochs:
            return None
        new = self._span.outside(self._residual[:, self._active()])
        if not new.shape[1]:
            return None
        block = np.zeros_like(self._residual)
        block[:, : new.shape[1]] = new
        return block

    def receive(self, sent: Floats, product: Floats) -> None:
        assert self.model is not None
        self._epoch += 1
        before = self._span.size
        self._span = self._span.grown(sent, product / self._samples)
        self._asked += self._span.size - before
        last = self.model
        self.model, self._residual = self._best(self.regularisation)
        if self.memory and len(self._span.basis) >= self.memory:
            self._span = self._span.narrowed(np.hstack((self.model - self._initial, self.model - last)))

    def _best(self, regularisation: float) -> tuple[Floats, Floats]:
        """The model on the span that is best for this lambda, and its residual."""
        residual = self._first_residual(regularisation)
        if not self._span.size:
            return self._initial.copy(), residual
        coordinates = np.zeros((self._span.size, residual.shape[1]))
        basis, images = np.hstack(self._span.basis), np.hstack(self._span.images)
        values, vectors = np.linalg.eigh(self._span.gram())
        curvature = values + regularisation
        # What is no larger than the rounding of the largest has no curvature: X'X itself may be rounded below zero.
        seen = curvature > len(values) * np.finfo(np.float64).eps * curvature[-1]
        vectors, curvature = vectors[:, seen], curvature[seen, None]
        for _ in range(2):  # the second time mends what rounding left of the first
            step = vectors @ ((vectors.T @ (basis.T @ residual)) / curvature)
            coordinates += step
            residual = residual - images @ step - regularisation * (basis @ step)
        return self._initial + basis @ coordinates, residual
