"""A feature map from outside: powers of each column, and a constant."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.data.features import PlainMap


@dataclass(frozen=True)
class Powers(PlainMap):
    """x, x^2, .. up to ``degree``, each divided by the largest that a scaled column allows."""

    bound: float  # public: of a scaled column, and so of every feature
    degree: int = 2

    name: ClassVar[str] = "powers"
    kind: ClassVar[str] = "powers"
    called: ClassVar[str] = "saved powers"

    @classmethod
    def choose(cls, inputs, choice):
        return cls(inputs.n_columns, inputs.bound)

    @property
    def n_features(self):
        return self.input_dim * self.degree + 1

    def transform(self, X):
        scaled = X.astype(np.float64) / self.bound
        powers = [self.bound * scaled**power for power in range(1, self.degree + 1)]
        return np.hstack([*powers, np.full((len(X), 1), self.bound)])
