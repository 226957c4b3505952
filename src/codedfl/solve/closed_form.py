"""The ridge solution itself, where the scheme shows the server X'X."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.solve.solver import _check
from codedfl.state import MAP, PLAIN, Kept, Resumable
from codedfl.typing import Floats


class ClosedForm(Resumable):
    """The ridge solution itself, (X'X/m + lambda)^-1 X'Y/m by Cholesky, for every lambda of a path at no extra cost.

    ``model`` is the solution for ``regularisation``; ``path`` has those of all ``regularisations``. Refused when the
    matrix is singular to working precision, which a positive lambda prevents.
    """

    _kept: ClassVar[Mapping[str, Kept]] = {"_triangle": PLAIN, "model": PLAIN, "path": MAP}

    def __init__(self, regularisation: float = 0.0, regularisations: Sequence[float] = ()) -> None:
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
