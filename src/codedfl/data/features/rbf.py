"""Random Fourier features (paper V): cosines in random directions whose inner products approximate a Gaussian kernel.

The numbers are those of scikit-learn's `RBFSampler`, drawn here by numpy alone: a device need not import scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from codedfl.checks import check_at_least, check_matrix, check_positive
from codedfl.data.features.feature_map import FeatureChoice, PlainMap, register_feature_map
from codedfl.data.preprocessing import Preprocessing
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject, Rows, Unchecked

# Section V: "with 5 as kernel parameter", read as sigma; at 784 columns in [0, 1].
PAPER_KERNEL_WIDTH = 5.0
PAPER_GAMMA = 1 / (2 * PAPER_KERNEL_WIDTH**2)
_PAPER_COLUMNS = 784

# Rows at a time: enough for the product to run at full speed, few enough to copy to float64 at little cost.
_BLOCK = 1024
_GREATEST_SEED = 2**32 - 1
# The numbers by which a regenerated map is recognised, and how far they may be off: C libraries differ in the
# last bit of a logarithm, another generator differs in everything.
_FINGERPRINT_LENGTH = 8
_FINGERPRINT_TOLERANCE = 1e-9


def default_gamma(input_dim: int, width: float = 1.0) -> float:
    """A kernel width that needs nothing private: 0.02 * 784 / (columns * width^2).

    The paper's 0.02 at MNIST's 784 columns of width 1, with the squared distance between points assumed to
    grow as the number of columns times their width squared. At 64 columns of [0, 1] (digits) it gives 0.245; for
    standardised columns clipped at +-4 (width 8) 0.245 / columns.
    """
    check_at_least(1, input_dim=input_dim)
    check_positive(width=width)
    return PAPER_GAMMA * _PAPER_COLUMNS / (input_dim * width**2)


@register_feature_map
@dataclass(frozen=True)
class RandomFourierFeatures(PlainMap):
    """x -> sqrt(2/d) cos(x W + b), the same numbers as `RBFSampler(n_components, gamma, random_state=seed)`.

    n_components: d; more follow the kernel more closely, at a cost of d^2 per device.
    gamma: in the kernel exp(-gamma |x - x'|^2). Towards 0 all points look alike, towards infinity none do (5
        on MNIST learns nothing); see `default_gamma`.
    seed: public, the same on all devices.

    Paper: V. Shown by ``pytest tests/data/test_features.py -k sklearn``.
    """

    n_components: int
    gamma: float
    seed: int

    name: ClassVar[str] = "rbf"
    kind: ClassVar[str] = "random-fourier"
    called: ClassVar[str] = "saved random Fourier features"

    def __post_init__(self) -> None:
        check_at_least(1, input_dim=self.input_dim, n_components=self.n_components)
        check_positive(gamma=self.gamma)
        if not 0 <= self.seed <= _GREATEST_SEED:
            raise InvalidInput(f"seed must be between 0 and {_GREATEST_SEED}, got {self.seed}")

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> RandomFourierFeatures:
        gamma = default_gamma(inputs.n_columns, inputs.width) if choice.gamma is None else choice.gamma
        return cls(inputs.n_columns, choice.n_features, gamma, choice.seed)

    @cached_property
    def drawn(self) -> tuple[Floats, Floats]:
        """W and b. Drawn when first used: who only answers updates, or only counts features, never needs them."""
        # Numpy promises that this old generator will never change; RBFSampler draws from it in this order.
        random = np.random.RandomState(self.seed)
        weights = (2.0 * self.gamma) ** 0.5 * random.normal(size=(self.input_dim, self.n_components))
        return weights, random.uniform(0, 2 * np.pi, size=self.n_components)

    @property
    def n_features(self) -> int:
        return self.n_components

    @property
    def bound(self) -> float:
        return float((2.0 / self.n_components) ** 0.5)

    def transform(self, X: Rows) -> Floats:
        check_matrix("X", X, self.input_dim)
        weights, offsets = self.drawn
        features = np.empty((len(X), self.n_components))
        for start in range(0, len(X), _BLOCK):
            rows = features[start : start + _BLOCK]
            np.matmul(X[start : start + _BLOCK].astype(np.float64), weights, out=rows)
            rows += offsets
            np.cos(rows, out=rows)
            rows *= self.bound
            # A vectorised cosine may exceed 1 by its last bit; the ring's range is proved from the bound.
            np.clip(rows, -self.bound, self.bound, out=rows)
        return features

    def to_dict(self) -> JsonObject:
        """What makes the map, and a fingerprint of the 12 MB of weights (at 784 x 2000) that it makes."""
        return {**self.definition(), "fingerprint": self._fingerprint()}

    def _fingerprint(self) -> list[float]:
        """Mean features of one fixed point, in eight groups: each weight and offset has a part in it."""
        point = np.linspace(0.0, 1.0, self.input_dim + 1)[1:].reshape(1, -1)
        cosines = self.transform(point)[0] / self.bound
        return [float(group.mean()) for group in np.array_split(cosines, min(_FINGERPRINT_LENGTH, len(cosines)))]

    @classmethod
    def from_dict(cls, saved: Unchecked) -> Self:
        """The map that ``to_dict`` described, if numpy draws it alike on this machine."""
        made = super().from_dict(saved)
        try:
            expected = np.asarray(saved["fingerprint"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"{cls.called} must be complete, got {error!r}") from error
        got = np.asarray(made._fingerprint())
        if got.shape != expected.shape or not np.allclose(got, expected, rtol=0, atol=_FINGERPRINT_TOLERANCE):
            raise InvalidInput(
                f"fingerprint of the feature map must be {expected[:2]}..., got {got[:2]}...: "
                "numpy here draws other numbers from the seed than those that made the model"
            )
        return made
