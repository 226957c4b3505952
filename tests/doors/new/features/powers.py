"""A feature map from outside: powers of columns, with a parameter of its own, ``degree``."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np

from codedfl.data.features.feature_map import FeatureChoice, PlainMap, own_keys, register_feature_map
from codedfl.data.preprocessing import Preprocessing
from codedfl.typing import Floats, Rows


class PowersKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    degree: int = 2


@register_feature_map
@dataclass(frozen=True)
class Powers(PlainMap):
    """A constant, and x, x^2, ..., x^degree of every column, each divided by the largest that a scaled one allows."""

    degree: int
    bound: float  # public: of a scaled column, and so of every feature

    name: ClassVar[str] = "powers"
    kind: ClassVar[str] = "powers"
    called: ClassVar[str] = "saved powers"
    Keys: ClassVar[type[msgspec.Struct]] = PowersKeys

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> "Powers":
        return cls(inputs.n_columns, own_keys(cls.name, PowersKeys, choice.keys).degree, inputs.bound)

    @property
    def n_features(self) -> int:
        return 1 + self.degree * self.input_dim

    def transform(self, X: Rows) -> Floats:
        powers = [(X.astype(np.float64) / self.bound) ** power for power in range(1, self.degree + 1)]
        return self.bound * np.hstack([np.ones((len(X), 1)), *powers])
