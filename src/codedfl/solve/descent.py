"""Gradient descent (paper eq. 5) and Nesterov's method, and the step they take.

Without a step they find one: a few epochs go to power iterations on X'X/m, by the same exact products, and the step
follows from the largest eigenvalue. The paper has its step given; that one is a schedule here (``STEPS``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.solve.solver import _check
from codedfl.typing import Floats


@dataclass(frozen=True)
class StepSchedule:
    """mu as a function of the epoch: ``initial``, times ``factor`` from each of ``milestones`` on.

    Before the epoch ``begins`` it is 0.

    Examples
    --------
    >>> from codedfl import StepSchedule
    >>> step = StepSchedule(12.0, factor=0.5, milestones=(200,))
    >>> step(1), step(199), step(200)
    (12.0, 12.0, 6.0)
    """

    initial: float
    factor: float = 1.0
    milestones: tuple[int, ...] = ()
    begins: int = 1

    def __post_init__(self) -> None:
        if not self.initial > 0:
            raise InvalidInput(f"the step must be positive, got {self.initial}")

    def __call__(self, epoch: int) -> float:
        if epoch < self.begins:
            return 0.0
        return float(self.initial * self.factor ** sum(epoch >= milestone for milestone in self.milestones))

    def times(self, share: float) -> StepSchedule:
        """The schedule with every step multiplied by ``share``."""
        return replace(self, initial=self.initial * share)


# The paper states mu = 6, times 0.8 at epochs 200 and 350. Its figures fit a step twice as large (the 1/2 of the
# loss dropped), so both are offered and every report says which was used.
STEP_LITERAL = StepSchedule(6.0, 0.8, (200, 350))
STEP_PAPER = StepSchedule(12.0, 0.8, (200, 350))
STEPS = {"paper": STEP_PAPER, "literal": STEP_LITERAL}
DERIVED = "derived"
"""The name, in results, of a step that follows from the data."""


# The estimate takes POWER_ITERATIONS epochs, and a margin for what they may have missed of the largest eigenvalue.
# Descent is stable below 2 / eigenvalue and Nesterov's method below 4/3 / eigenvalue, so even an estimate of three
# fifths of it would do.
POWER_ITERATIONS = 5
EIGENVALUE_MARGIN = 1.25
_POWER_SEED = 0


class GradientDescent:
    """Theta <- Theta - mu gradient (paper eq. 5), one step per epoch.

    Paper: III-A, eq. 4, eq. 5. Shown by ``pytest tests/solve/test_solvers.py -k closed_form_of_its_iterates``.

    Parameters
    ----------
    epochs : int
        The largest number of epochs. With a step given, 1 uses G^(1) alone and sends no update at all.
    regularisation : float
        lambda; 0 is least squares.
    step : StepSchedule or None
        None finds one. Epochs 2 to 6 are then power iterations with a block of c vectors (fewer, if ``epochs`` leaves
        no more), which leave the model at Theta^(1); the first step is made at the end of the last of them, with
        mu = 1 / (1.25 eigenvalue + lambda). The estimate never exceeds the true eigenvalue. Should it be too small all
        the same, the epochs show it: the curvature between any two of them is a lower bound too, and the step
        follows it down before the model can run away. ``epochs`` = 1 makes no step.
    tolerance : float
        Ends when the gradient's norm has fallen to this part of its first one; 0 continues to the last epoch.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import GradientDescent, StepSchedule
    >>> solver = GradientDescent(epochs=2, step=StepSchedule(0.5))
    >>> solver.start(np.zeros((1, 1)), np.array([[-8.0]]), samples=2)  # X'X = 2, X'Y = 8: the solution is 4
    >>> solver.model.item()
    2.0
    >>> e = solver.request()
    >>> solver.receive(e, 2 * e)
    >>> solver.model.item()
    3.0
    """

    def __init__(
        self,
        epochs: int,
        regularisation: float = 0.0,
        step: StepSchedule | None = None,
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
        self._steps = 0
        self._probe: Floats | None = None  # the next block of the power iteration; None when there is none
        self._largest = 0.0  # the largest eigenvalue of X'X/m, as far as it has been seen
        self._last_sent: Floats | None = None
        self._last_product: Floats | None = None

    @property
    def converged(self) -> bool | None:
        """Whether the gradient has fallen as far as asked; None if nothing was asked."""
        if not self.tolerance:
            return None
        return self._steps > 0 and self._norm <= self.tolerance * self._first_norm

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        self._initial, self._constant, self._samples = initial, constant, samples
        self.model = self._point = initial.copy()
        self._epoch = 1
        if self.step is None:
            self._probe = _orthonormal(np.random.default_rng(_POWER_SEED).standard_normal(initial.shape))
        else:
            self._descend(constant)

    def request(self) -> Floats | None:
        """e = Theta - Theta^(1) (paper eq. 10), or a block of the power iteration.

        Paper: IV-C, eq. 10. Shown by ``pytest tests/solve/test_solvers.py -k distance_from_the_start``.
        """
        if self._epoch >= self.epochs:
            return None
        if self._probe is not None:
            return self._probe
        if self._norm <= self.tolerance * self._first_norm:
            return None
        return np.subtract(self._point, self._initial)

    def receive(self, sent: Floats, product: Floats) -> None:
        self._epoch += 1
        if self._probe is not None:
            self._measure(sent, product)
            return
        if self.step is None:
            self._watch(sent, product)
        # The gradient at the rounded point serves for the unrounded one: they differ by rounding only.
        self._descend(self._constant + product)

    def _measure(self, sent: Floats, product: Floats) -> None:
        """Make one power iteration; after the last of them make the first step, for which G^(1) is known already."""
        image = product / self._samples
        self._largest = max(self._largest, _rayleigh_ritz(sent, image))
        if self._epoch <= POWER_ITERATIONS and self._epoch < self.epochs:
            self._probe = _orthonormal(image)
            return
        self._probe = None
        self._descend(self._constant)

    def _watch(self, sent: Floats, product: Floats) -> None:
        """The curvature from the last point to this one, column by column: never above the largest eigenvalue."""
        if self._last_sent is not None and self._last_product is not None:
            moved = sent - self._last_sent
            squares = np.sum(moved * moved, axis=0)
            bends = np.sum(moved * (product - self._last_product), axis=0) / self._samples
            seen = squares > 0
            self._largest = max(self._largest, float(np.max(bends[seen] / squares[seen], initial=0.0)))
        self._last_sent, self._last_product = sent, product

    def _descend(self, total_gradient: Floats) -> None:
        self._steps += 1
        gradient = total_gradient / self._samples + self.regularisation * self._point
        self._norm = float(np.linalg.norm(gradient))
        if self._steps == 1:
            self._first_norm = self._norm
        self._move(self._point - self._step_length() * gradient)

    def _step_length(self) -> float:
        if self.step is not None:
            return self.step(self._epoch)
        bound = EIGENVALUE_MARGIN * self._largest + self.regularisation
        return 1 / bound if bound > 0 else 0.0  # X'X = 0 and lambda = 0: every model is as good

    def _move(self, model: Floats) -> None:
        """Set the new model, and the point at which the next gradient is wanted: here the model itself."""
        self.model = self._point = model


def derived_step(matrices: Iterable[Floats], regularisation: float) -> StepSchedule:
    """The step that ``GradientDescent`` finds, for schemes that descend without a solver, at the same price in epochs.

    ``matrices`` are the X'X/m that such a scheme descends on, one after the other (its mini-batches): the steepest of
    them decides.
    """
    bound = EIGENVALUE_MARGIN * max(map(_largest_eigenvalue, matrices)) + regularisation
    return StepSchedule(1 / bound if bound > 0 else 1.0, begins=POWER_ITERATIONS + 1)


def _largest_eigenvalue(matrix: Floats) -> float:
    """An estimate for a symmetric matrix without negative eigenvalues: never above the largest, and close to it."""
    block = _orthonormal(np.random.default_rng(_POWER_SEED).standard_normal((len(matrix), 8)))
    for _ in range(4 * POWER_ITERATIONS):
        block = _orthonormal(matrix @ block)
    return _rayleigh_ritz(block, matrix @ block)


class Nesterov(GradientDescent):
    """Accelerated descent with the momentum (t - 1)/(t + 2) at its t-th step.

    Stable up to two thirds of descent's largest step.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import Nesterov, StepSchedule
    >>> solver = Nesterov(epochs=60, step=StepSchedule(0.5))
    >>> solver.start(np.zeros((1, 1)), np.array([[-8.0]]), samples=2)  # X'X = 2, X'Y = 8
    >>> while (e := solver.request()) is not None:
    ...     solver.receive(e, 2 * e)
    >>> round(solver.model.item(), 4)
    4.0
    """

    def _move(self, model: Floats) -> None:
        assert self.model is not None
        self._point = model + (self._steps - 1) / (self._steps + 2) * (model - self.model)
        self.model = model


def _orthonormal(block: Floats) -> Floats:
    """Orthonormal columns that span what the block's columns span; columns beyond the first d are zero."""
    d, c = block.shape
    result = np.zeros((d, c))
    result[:, : min(d, c)] = np.linalg.qr(block)[0]
    return result


def _rayleigh_ritz(block: Floats, image: Floats) -> float:
    """The largest eigenvalue that a symmetric matrix shows on the span of a block, given the block's image."""
    left, lengths, right = np.linalg.svd(block, full_matrices=False)
    kept = lengths > 1e-8 * lengths.max(initial=0.0)
    if not kept.any():
        return 0.0
    basis, basis_image = left[:, kept], image @ (right[kept].T / lengths[kept])
    inner = basis.T @ basis_image
    return float(np.linalg.eigvalsh((inner + inner.T) / 2)[-1])
