"""The columns themselves as features: linear regression without a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.checks import check_at_least, check_matrix, check_positive
from codedfl.data.features.feature_map import FeatureChoice, PlainMap, register_feature_map
from codedfl.data.preprocessing import Preprocessing
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows


@register_feature_map
@dataclass(frozen=True)
class LinearFeatures(PlainMap):
    """x -> x, with a constant column in front if intercept: linear regression without a kernel.

    bound: public bound on |x|, that of the preprocessing (1, or 4 after standardisation).
    intercept: the constant is 1, or bound where that is less. Solvers regularise its weight like all others, see
        `free_intercept`.
    """

    bound: float
    intercept: bool = True

    name: ClassVar[str] = "linear"
    kind: ClassVar[str] = "linear"
    called: ClassVar[str] = "saved linear features"

    def __post_init__(self) -> None:
        check_at_least(1, input_dim=self.input_dim)
        check_positive(bound=self.bound)

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> LinearFeatures:
        return cls(inputs.n_columns, inputs.bound, choice.intercept)

    @property
    def n_features(self) -> int:
        return self.input_dim + int(self.intercept)

    def transform(self, X: Rows) -> Floats:
        """The rows of X in float64; values beyond the bound are refused, since preprocessing clips them."""
        check_matrix("X", X, self.input_dim)
        largest = float(np.abs(X).max(initial=0.0))
        if largest > self.bound:
            raise InvalidInput(f"X must lie within the bound {self.bound:g}, got {largest:g}")
        features = np.full((len(X), self.n_features), min(1.0, self.bound))
        features[:, int(self.intercept) :] = X
        return features

    def free_intercept(self, theta: Floats, regularisation: float) -> Floats:
        """Theta with the constant's weight as it is without a penalty, if the columns are centred.

        Centred columns have no part in the constant's equation: the penalty only shrinks its weight by a known factor,
        which this takes away. Every other weight is the same with and without it. Where columns are not centred, and
        without a constant, use Theta as it is.
        """
        if not self.intercept:
            return theta
        constant = min(1.0, self.bound) ** 2
        freed = theta.copy()
        freed[0] *= (constant + regularisation) / constant
        return freed
