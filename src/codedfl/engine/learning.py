"""What is public about a learning problem, as flat configuration: all devices make the same features and labels of it.

On one machine ``data.problem`` sees all the data; here nobody does. Everything that must be alike on all devices is
therefore in the configuration of the run, which Flower hands to the server and to every node.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.features import FeatureMap, LinearFeatures, RandomFourierFeatures, default_gamma
from codedfl.data.labels import Labels
from codedfl.data.model import TrainedModel
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.problem import bounded_features
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds
from codedfl.protocol import Parameters
from codedfl.typing import Floats

if TYPE_CHECKING:  # a node needs no schemes' costs and times
    from codedfl.schemes import CodedScheme

Config = Mapping[str, Any]  # flat, kebab-case: Flower's run configuration

log = logging.getLogger("codedfl.flower.device")


def setting(config: Config, key: str, kind: type, default: Any = None) -> Any:
    """One value of a flat configuration, checked; without a default it must be there."""
    value = config.get(key, default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InvalidInput(f"{key} must be of type {kind.__name__} in the configuration, got {value!r}")
    return value


@dataclass(frozen=True)
class Learning:
    """From raw rows to features and labels, the same on every device; and back from Theta to a model."""

    preprocessing: Preprocessing
    feature_map: FeatureMap
    labels: Labels
    bounds: Bounds
    task: str
    clip: bool = False  # what lies beyond the public ranges; else such rows are refused

    @classmethod
    def from_config(cls, config: Config) -> Learning:
        """Reads columns, x-low, x-high; classes or target-low and target-high; features and what belongs to them.

        classes: the public list, separated by commas; whole numbers if all of them are. Empty for regression.
        max-samples, max-samples-per-device: public bounds on the rows in all and on one device.
        clip (false): values beyond their public range are clipped to it; else rows with such values are refused.
        """
        columns = setting(config, "columns", int)
        preprocessing = Preprocessing.from_range(
            setting(config, "x-low", float), setting(config, "x-high", float), columns
        )
        feature_map: FeatureMap
        features = setting(config, "features", str, "rbf")
        if features == "rbf":
            gamma = setting(config, "gamma", float, 0.0) or default_gamma(columns, preprocessing.width)
            count = setting(config, "n-features", int)
            feature_map = RandomFourierFeatures(columns, count, gamma, setting(config, "feature-seed", int, 0))
        elif features == "linear":
            feature_map = LinearFeatures(columns, preprocessing.bound)
        else:
            raise InvalidInput(f"features must be rbf or linear, got {features!r}")
        classes = [one.strip() for one in setting(config, "classes", str, "").split(",") if one.strip()]
        labels: Labels
        if classes:
            whole = all(one.lstrip("-").isdigit() for one in classes)
            labels = Labels.for_classes([int(one) for one in classes] if whole else classes)
        else:
            labels = Labels.for_targets(setting(config, "target-low", float), setting(config, "target-high", float))
        samples = setting(config, "max-samples", int)
        per_device = setting(config, "max-samples-per-device", int)
        bounds = Bounds(feature_map.bound, labels.bound, samples, per_device)
        task = "classification" if classes else "regression"
        return cls(preprocessing, feature_map, labels, bounds, task, setting(config, "clip", bool, False))

    def rows(self, X: NDArray[Any], y: NDArray[Any]) -> tuple[Floats, Floats]:
        """A device's features and labels of its raw rows."""
        X, y = np.asarray(X), np.asarray(y)
        scaled, clipped = self.preprocessing.apply(X)
        encoded = self.labels.encode(y)
        beyond = int(clipped.sum()), self.labels.count_clipped(y)
        if any(beyond):
            if not self.clip:
                raise InvalidInput(
                    "the rows must lie within x-low to x-high and target-low to target-high, unless clip is true,"
                    f" got {beyond[0]} features and {beyond[1]} targets beyond"
                )
            log.warning("clipped to their public ranges: %d features and %d targets", *beyond)
        return bounded_features(self.feature_map, scaled).astype(np.float64), encoded

    def parameters(self, scheme: CodedScheme, precision: int | None = None) -> Parameters:
        return Parameters(
            scheme.name,
            scheme.alpha,
            self.feature_map.n_features,
            self.labels.n_outputs,
            self.bounds,
            precision=precision,
            groups=scheme.groups,
            reveals_gram=scheme.reveals_gram,
        )

    def model(self, theta: Floats, **provenance: Any) -> TrainedModel:
        return TrainedModel(theta, self.feature_map, self.preprocessing, self.labels, self.task, provenance)
