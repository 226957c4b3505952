"""What a solver is to the server: it asks for exact products X'X e and makes a model of them (paper III-A).

A solver never sees data. It is started with G^(1) = X'X Theta^(1) - X'Y and m, then asks for the product of X'X with
one d x c matrix after the other until it has enough. What it gets back are the matrix *as sent* (on the ring's
grid) and its exact product, so rounding never makes the two disagree.

minimise  1/(2m) |X Theta - Y|^2 + lambda/2 |Theta|^2,   gradient (X'X Theta - X'Y)/m + lambda Theta
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from codedfl.errors import InvalidInput
from codedfl.exact.gram import symmetric
from codedfl.typing import Floats


class Solver(Protocol):
    """One epoch is one ``start`` or one ``request``/``receive`` pair; there are at most ``epochs`` of them.

    Examples
    --------
    What a server does with a solver, on a matrix that is no secret:

    >>> import numpy as np
    >>> from codedfl import BlockKrylov, Solver
    >>> gram, cross = np.diag([4.0, 2.0]), np.array([[4.0], [6.0]])  # X'X and X'Y of m = 10 rows
    >>> solver: Solver = BlockKrylov(epochs=5)
    >>> solver.start(np.zeros((2, 1)), -cross, 10)
    >>> while (e := solver.request()) is not None:
    ...     solver.receive(e, gram @ e)
    >>> solver.model.round(6).tolist()
    [[1.0], [3.0]]
    """

    @property
    def epochs(self) -> int:
        """The largest number of epochs, the one of ``start`` included; devices answer no more."""
        ...

    @property
    def model(self) -> Floats | None:
        """Theta after the last finished epoch; None before ``start``."""
        ...

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        """Epoch 1: take Theta^(1), the sum of the G_i^(1), and m."""
        ...

    def request(self) -> Floats | None:
        """The matrix whose product with X'X is wanted next; None when finished."""
        ...

    def receive(self, sent: Floats, product: Floats) -> None:
        """``product`` = X'X ``sent``, where ``sent`` is the request as rounded to the ring's grid."""
        ...


@runtime_checkable
class GramSolver(Protocol):
    """A solver that needs the total of X'X itself, before ``start``; only a scheme that reveals it can serve one."""

    def take_gram(self, triangle: Floats) -> None:
        """Take the row-major upper triangle of sum_i X_i'X_i."""
        ...


@runtime_checkable
class Converging(Protocol):
    """A solver that knows whether it has arrived."""

    @property
    def converged(self) -> bool | None:
        """Whether it ended by itself, as near to the solution as it was asked to come; None if it was not asked."""
        ...


class AtOnce:
    """The common part of solvers that ask for nothing: the first total is all they need. ``start`` sets ``model``."""

    epochs = 1
    model: Floats | None = None

    def request(self) -> Floats | None:
        """Nothing more is wanted."""
        return None

    def receive(self, sent: Floats, product: Floats) -> None:
        """Never called."""
        raise AssertionError(f"nothing was requested, got a product of shape {product.shape} for {sent.shape}")


class FromGram:
    """The common part of solvers whose first total brings X'X itself."""

    def take_gram(self, triangle: Floats) -> None:
        """See ``GramSolver``."""
        self._triangle = triangle

    def _gram(self, d: int) -> Floats:
        return symmetric(self._triangle, d)


def _check(epochs: int, regularisation: float) -> None:
    if epochs < 1:
        raise InvalidInput(f"epochs must be at least 1, got {epochs}")
    if not regularisation >= 0:
        raise InvalidInput(f"regularisation must be at least 0, got {regularisation}")
