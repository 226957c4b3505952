"""Ridge regression on a noisy X'X: what noise alone can have made is taken out of its spectrum first.

An eigenvalue l of X'X comes out of noise with the spectral radius R at about l + (R/2)^2 / l when l > R/2, and drowns
otherwise (the edge of the semicircle; Baik, Ben Arous, Peche; Benaych-Georges, Nadakuditi). So those beyond R are taken
back to (l + sqrt(l^2 - R^2)) / 2, the others to 0. X'Y is as noisy as before, hence a ridge of R/2 besides.
"""

from __future__ import annotations

import numpy as np

from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.solver import AtOnce, FromGram, _check
from codedfl.typing import Floats


class Shrunken(FromGram, AtOnce):
    """The closed form for a total of X'X with noise in it.

    Parameters
    ----------
    level : NoiseLevel
        How much noise there is.
    regularisation : float
        lambda, in addition to the ridge that the noise asks for; 0 leaves that ridge alone.
    """

    def __init__(self, level: NoiseLevel, regularisation: float = 0.0) -> None:
        _check(1, regularisation)
        self.level = level
        self.regularisation = regularisation

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        """``initial`` is zero with noise, so that ``constant`` is -X'Y."""
        self.model = shrunken_ridge(
            self._gram(len(initial)), -constant, self.level.radius, self.regularisation * samples
        )


def shrunken_ridge(gram: Floats, cross: Floats, radius: float, regularisation: float = 0.0) -> Floats:
    """Theta from the noisy X'X and X'Y; ``regularisation`` is in their units, not in those of a mean."""
    values, vectors = np.linalg.eigh(gram)
    beyond = np.sqrt(np.maximum(np.square(values) - radius**2, 0.0))
    cleared = np.where(values > radius, (values + beyond) / 2, 0.0)
    ridge = radius / 2 + regularisation
    return np.asarray(vectors @ ((vectors.T @ cross) / (cleared + ridge)[:, None]))
