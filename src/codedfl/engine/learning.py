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

from codedfl.data.features import FeatureChoice, choose_features
from codedfl.data.labels import ClassLabels, Labels, TargetLabels
from codedfl.data.model import TrainedModel
from codedfl.data.preprocessing import Moments, Preprocessing
from codedfl.data.recipe import Clipped, Prepared, Recipe
from codedfl.data.studies.study import Study
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds
from codedfl.exact.row_noise import RowNoise
from codedfl.protocol import Parameters
from codedfl.protocol.local_data import Origin
from codedfl.typing import Floats, Rows

if TYPE_CHECKING:  # a node needs no schemes' costs and times
    from codedfl.schemes import CodedScheme

Config = Mapping[str, Any]  # flat, kebab-case: Flower's run configuration

log = logging.getLogger("codedfl.engine.device")


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
    """The recipe that all devices share and the public bounds on their rows."""

    recipe: Recipe
    bounds: Bounds

    @classmethod
    def from_config(cls, config: Config) -> Learning:
        """Reads columns, x-low, x-high; classes or target-low and target-high; features and what belongs to them.

        classes: the public list, separated by commas; whole numbers if all of them are. Empty for regression.
        max-samples, max-samples-per-device: public bounds on the rows in all and on one device.
        """
        columns = setting(config, "columns", int)
        preprocessing = Preprocessing.from_range(
            setting(config, "x-low", float), setting(config, "x-high", float), columns
        )
        feature_map = choose_features(
            setting(config, "features", str, "rbf"),
            preprocessing,
            FeatureChoice(
                setting(config, "n-features", int, FeatureChoice.n_features),
                setting(config, "gamma", float, 0.0) or None,
                setting(config, "feature-seed", int, 0),
            ),
        )
        classes = [one.strip() for one in setting(config, "classes", str, "").split(",") if one.strip()]
        labels: Labels
        if classes:
            whole = all(one.lstrip("-").isdigit() for one in classes)
            labels = Labels.for_classes([int(one) for one in classes] if whole else classes)
        else:
            labels = Labels.for_targets(setting(config, "target-low", float), setting(config, "target-high", float))
        recipe = Recipe(preprocessing, feature_map, labels)
        samples = setting(config, "max-samples", int)
        return cls(recipe, recipe.bounds(samples, setting(config, "max-samples-per-device", int)))

    @classmethod
    def of_study(cls, study: Study, moments: Moments | None = None) -> Learning:
        """What a study file says; ``moments`` are those of all devices, if the study needs them (``needs_moments``)."""
        recipe = study.recipe(moments)
        return cls(recipe, study.bounds(recipe))

    def rows(self, X: Rows, y: Rows) -> tuple[Floats, Floats]:
        """A device's features and labels of its raw rows; what was done to make them fit is in the device's own log."""
        made = self.recipe.rows(X, y) if self.recipe.columns is not None else self._made_to_fit(X, y)
        if made.clipped:
            log.warning("clipped to their public ranges: %s", made.clipped.words(self.recipe.column_names))
        return made.X.astype(np.float64), made.Y

    def origin(self, X: Rows, y: Rows) -> Origin:
        """What the ledger compares. With a study the operator has approved the ranges; else a run may choose them."""
        labels = [str(one).encode() for one in np.asarray(y).tolist()]
        numbers = np.ascontiguousarray(self.recipe.matrix(X), dtype="<f8")
        ranges = b"" if self.recipe.columns is not None else self.recipe.ranges_digest()
        return Origin(tuple(row.tobytes() + label for row, label in zip(numbers, labels, strict=True)), ranges)

    def _made_to_fit(self, X: Rows, y: Rows) -> Prepared:
        """Rows without a study: whoever starts a run chooses their ranges and classes, so none of them may be refused.

        A refusal would tell of the rows, and to leave some out would let two runs differ by them. So a gap becomes the
        middle of its range, and a label that is none of the classes has a row of zeros.
        """
        labels, y = self.recipe.labels, np.asarray(y)
        X = _filled("values", np.asarray(X), self.recipe.preprocessing.middle)
        if isinstance(labels, TargetLabels):
            return self.recipe.rows(X, _filled("targets", y, (labels.low + labels.high) / 2.0))
        assert isinstance(labels, ClassLabels)
        if len(X) != len(y):
            raise InvalidInput(f"y must hold one label per row ({len(X)}), got {len(y)}")
        Y = labels.encode_known(y)
        if unknown := int((~Y.any(axis=1)).sum()):
            log.warning("labels that are none of the classes: %d of %d", unknown, len(Y))
        features, clipped = self.recipe.features(X)
        return Prepared(features, Y, Clipped(clipped))

    def parameters(
        self, scheme: CodedScheme, precision: int | None = None, noise: RowNoise | None = None
    ) -> Parameters:
        return Parameters(
            scheme.name,
            n_features=self.recipe.n_features,
            n_outputs=self.recipe.n_outputs,
            bounds=self.bounds,
            precision=precision,
            **scheme.agreed,
            reveals_gram=scheme.reveals_gram,
            recipe=self.recipe.digest(),
            noise=noise,
        )

    def model(self, theta: Floats, **provenance: Any) -> TrainedModel:
        return TrainedModel(theta, self.recipe, provenance)


def _filled(what: str, values: Rows, middle: Floats | float) -> Rows:
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return values
    gaps = ~np.isfinite(values)
    log.warning("gaps, taken for the middle of their range: %d %s", np.count_nonzero(gaps), what)
    return np.where(gaps, middle, values)
