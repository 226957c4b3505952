"""The ridge solution itself, where the scheme shows the server X'X."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.solve.solver import AtOnce, FromGram, _check
from codedfl.typing import Floats


class ClosedForm(FromGram, AtOnce):
    """The ridge solution itself, (X'X/m + lambda)^-1 X'Y/m by Cholesky, for every lambda of a path at no extra cost.

    ``model`` is the solution for ``regularisation``; ``path`` has those of all ``regularisations``. Refused when the
    matrix is singular to working precision, which a positive lambda prevents.

    Paper: III-A, eq. 2. Shown by ``pytest tests/solve/test_solvers.py -k ridge_solution``.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import ClosedForm
    >>> solver = ClosedForm(0.0, regularisations=[1.0])
    >>> solver.take_gram(np.array([2.0, 1.0, 2.0]))  # the upper triangle of X'X
    >>> solver.start(np.zeros((2, 1)), np.array([[-4.0], [-5.0]]), samples=1)
    >>> solver.model.round(6).tolist(), solver.path[1.0].round(6).tolist()
    ([[1.0], [2.0]], [[0.875], [1.375]])
    """

    def __init__(self, regularisation: float = 0.0, regularisations: Sequence[float] = ()) -> None:
        for value in (regularisation, *regularisations):
            _check(1, value)
        self.regularisation = regularisation
        self.regularisations = tuple(regularisations)
        self.path: dict[float, Floats] = {}

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        gram = self._gram(len(initial))
        # G^(1) = X'X Theta^(1) - X'Y, so X'Y = X'X Theta^(1) - G^(1).
        cross = gram @ initial - constant
        for value in (self.regularisation, *self.regularisations):
            self.path[value] = ridge_solution(gram / samples, cross / samples, value)
        self.model = self.path[self.regularisation]


def ridge_solution(gram: Floats, cross: Floats, regularisation: float) -> Floats:
    """Theta of (gram + regularisation) Theta = cross; a matrix that is not positive definite is refused."""
    try:
        factor = np.linalg.cholesky(gram + regularisation * np.eye(len(gram)))
    except np.linalg.LinAlgError:
        raise InvalidInput(
            f"regularisation must be large enough to make X'X/m + lambda positive definite, got {regularisation:g}"
        ) from None
    return np.asarray(np.linalg.solve(factor.T, np.linalg.solve(factor, cross)))
