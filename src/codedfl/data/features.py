"""The feature map: what turns raw columns into the x of the linear model (paper V, kernel embedding).

`RandomFourierFeatures` is the paper's: cosines in random directions whose inner products approximate a
Gaussian kernel, by scikit-learn's `RBFSampler`, the same seed on all devices. `LinearFeatures` is plain
linear regression. Both know a public bound on |x|, from which the exact ring gets its range (paper II-A, IV-A).
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from codedfl.checks import check_matrix
from codedfl.errors import InvalidInput
from codedfl.typing import Floats

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


class FeatureMap(Protocol):
    """What a model needs of a feature map."""

    @property
    def input_dim(self) -> int: ...

    @property
    def n_features(self) -> int:
        """d in the paper."""

    @property
    def bound(self) -> float:
        """Public: no feature is larger in absolute value."""

    def transform(self, X: NDArray[Any]) -> Floats: ...

    def to_dict(self) -> dict[str, Any]: ...


def default_gamma(input_dim: int, width: float = 1.0) -> float:
    """A kernel width that needs nothing private: 0.02 * 784 / (columns * width^2).

    The paper's 0.02 at MNIST's 784 columns of width 1, with the squared distance between points assumed to
    grow as the number of columns times their width squared. At 64 columns of [0, 1] (digits) it gives 0.245; for
    standardised columns clipped at +-4 (width 8) 0.245 / columns.
    """
    if input_dim < 1:
        raise InvalidInput(f"input_dim must be at least 1, got {input_dim}")
    if not 0 < width < np.inf:
        raise InvalidInput(f"width must be a positive number, got {width}")
    return PAPER_GAMMA * _PAPER_COLUMNS / (input_dim * width**2)


@dataclass(frozen=True)
class RandomFourierFeatures:
    """x -> sqrt(2/d) cos(x W + b), the same numbers as `RBFSampler(n_components, gamma, random_state=seed)`.

    n_components: d; more follow the kernel more closely, at a cost of d^2 per device.
    gamma: of the kernel exp(-gamma |x - x'|^2). Towards 0 all points look alike, towards infinity none do (5
        on MNIST learns nothing); see `default_gamma`.
    seed: public, the same on all devices.
    """

    input_dim: int
    n_components: int
    gamma: float
    seed: int
    _weights: Floats = field(init=False, repr=False, compare=False)
    _offsets: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in (("input_dim", self.input_dim), ("n_components", self.n_components)):
            if value < 1:
                raise InvalidInput(f"{name} must be at least 1, got {value}")
        if not 0 < self.gamma < np.inf:
            raise InvalidInput(f"gamma must be a positive number, got {self.gamma}")
        if not 0 <= self.seed <= _GREATEST_SEED:
            raise InvalidInput(f"seed must be between 0 and {_GREATEST_SEED}, got {self.seed}")
        # Imported here: it takes a second, and a device that only answers updates never draws a feature map.
        from sklearn.kernel_approximation import RBFSampler

        sampler = RBFSampler(gamma=self.gamma, n_components=self.n_components, random_state=self.seed)
        sampler.fit(np.zeros((1, self.input_dim)))
        object.__setattr__(self, "_weights", sampler.random_weights_)
        object.__setattr__(self, "_offsets", sampler.random_offset_)

    @property
    def n_features(self) -> int:
        return self.n_components

    @property
    def bound(self) -> float:
        return float((2.0 / self.n_components) ** 0.5)

    def transform(self, X: NDArray[Any]) -> Floats:
        """Features of the rows of X, in float64 whatever X is: all devices must round alike."""
        check_matrix("X", X, self.input_dim)
        features = np.empty((len(X), self.n_components))
        for start in range(0, len(X), _BLOCK):
            rows = features[start : start + _BLOCK]
            np.matmul(X[start : start + _BLOCK].astype(np.float64), self._weights, out=rows)
            rows += self._offsets
            np.cos(rows, out=rows)
            rows *= self.bound
            # A vectorised cosine may exceed 1 by its last bit; the ring's range is proved from the bound.
            np.clip(rows, -self.bound, self.bound, out=rows)
        return features

    def to_dict(self) -> dict[str, Any]:
        """What makes the map, and a fingerprint of the 12 MB of weights (at 784 x 2000) that it makes."""
        return {
            "kind": "random-fourier",
            "input_dim": self.input_dim,
            "n_components": self.n_components,
            "gamma": self.gamma,
            "seed": self.seed,
            "fingerprint": self._fingerprint(),
        }

    def _fingerprint(self) -> list[float]:
        """Mean features of one fixed point, in eight groups: each weight and offset has a part in it."""
        point = np.linspace(0.0, 1.0, self.input_dim + 1)[1:].reshape(1, -1)
        cosines = self.transform(point)[0] / self.bound
        return [float(group.mean()) for group in np.array_split(cosines, min(_FINGERPRINT_LENGTH, len(cosines)))]

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "RandomFourierFeatures":
        try:
            sizes = int(saved["input_dim"]), int(saved["n_components"])
            gamma, seed = float(saved["gamma"]), int(saved["seed"])
            expected = np.asarray(saved["fingerprint"], dtype=np.float64)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"saved random Fourier features must be complete, got {error!r}") from error
        made = cls(*sizes, gamma, seed)
        got = np.asarray(made._fingerprint())
        if got.shape != expected.shape or not np.allclose(got, expected, rtol=0, atol=_FINGERPRINT_TOLERANCE):
            raise InvalidInput(
                f"fingerprint of the feature map must be {expected[:2]}..., got {got[:2]}...: "
                "scikit-learn or numpy here draw other numbers from the seed than those that made the model"
            )
        return made


@dataclass(frozen=True)
class LinearFeatures:
    """x -> x, with a constant column in front if intercept: linear regression without a kernel.

    bound: public bound on |x|, that of the preprocessing (1, or 4 after standardisation).
    intercept: the constant is 1, or bound where that is less. Its weight is regularised like all others.
    """

    input_dim: int
    bound: float
    intercept: bool = True

    def __post_init__(self) -> None:
        if self.input_dim < 1:
            raise InvalidInput(f"input_dim must be at least 1, got {self.input_dim}")
        if not 0 < self.bound < np.inf:
            raise InvalidInput(f"bound must be a positive number, got {self.bound}")

    @property
    def n_features(self) -> int:
        return self.input_dim + int(self.intercept)

    def transform(self, X: NDArray[Any]) -> Floats:
        """The rows of X in float64; values beyond the bound are refused, since preprocessing clips them."""
        check_matrix("X", X, self.input_dim)
        largest = float(np.abs(X).max(initial=0.0))
        if largest > self.bound:
            raise InvalidInput(f"X must lie within the bound {self.bound:g}, got {largest:g}")
        features = np.full((len(X), self.n_features), min(1.0, self.bound))
        features[:, int(self.intercept) :] = X
        return features

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "linear",
            "input_dim": self.input_dim,
            "bound": self.bound,
            "intercept": self.intercept,
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "LinearFeatures":
        try:
            input_dim, bound, intercept = int(saved["input_dim"]), float(saved["bound"]), bool(saved["intercept"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"saved linear features must be complete, got {error!r}") from error
        return cls(input_dim, bound, intercept)


def feature_map_from_dict(saved: dict[str, Any]) -> FeatureMap:
    """The map that `to_dict` of either kind described."""
    kind = saved.get("kind")
    if kind == "random-fourier":
        return RandomFourierFeatures.from_dict(saved)
    if kind == "linear":
        return LinearFeatures.from_dict(saved)
    raise InvalidInput(f"kind of feature map must be 'random-fourier' or 'linear', got {kind!r}")
