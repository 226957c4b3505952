"""Powers of columns as features: a map with a parameter of its own, ``degree``."""

from __future__ import annotations

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
    """x -> 1, x, x^2, ..., x^degree of every column."""

    degree: int

    name: ClassVar[str] = "powers"
    kind: ClassVar[str] = "powers"
    called: ClassVar[str] = "saved powers"
    Keys: ClassVar[type[msgspec.Struct]] = PowersKeys

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> Powers:
        keys = own_keys(cls, choice.keys)
        assert isinstance(keys, PowersKeys)
        return cls(inputs.n_columns, keys.degree)

    @property
    def n_features(self) -> int:
        return 1 + self.degree * self.input_dim

    @property
    def bound(self) -> float:
        return 1.0

    def transform(self, X: Rows) -> Floats:
        columns = [np.asarray(X, dtype=np.float64) ** power for power in range(1, self.degree + 1)]
        return np.hstack((np.ones((len(X), 1)), *columns))
