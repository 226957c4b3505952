"""One recipe from raw rows to X and Y, and from Theta back to labels (paper III and V).

The same recipe on every device, at the server, in the estimators and in the model file; its ``digest`` goes into what
the parties agree to. Whatever lies beyond a public range is clipped and counted: never lost in silence.

It does not say who holds which rows, nor how Theta is found. It imports numpy and nothing larger, since
devices use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from codedfl.data.canonical import canonical_digest
from codedfl.data.clipped import Clipped
from codedfl.data.columns import Columns
from codedfl.data.features import FeatureMap, feature_map_from_dict
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.labels import ClassLabels, Labels
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.tables import as_raw_table, is_table
from codedfl.errors import InvalidInput
from codedfl.exact.scales import Bounds
from codedfl.typing import Floats, Integers, JsonObject, Rows, Singles, Unchecked

_BLOCK = 4096  # rows whose features are in float64 at once: those of all of MNIST would take a gigabyte


@dataclass(frozen=True, eq=False)
class Prepared:
    """Features and labels of some rows, and what was clipped to make them.

    X: float32 (half the memory; the ring's grid is of the same fineness), never outside the feature map's bound.
    """

    X: Singles
    Y: Floats
    clipped: Clipped


@dataclass(frozen=True, eq=False, repr=False)
class Recipe:
    """Everything that turns rows into X and Y.

    columns: what each column of a table is, and in which order X has them; None where rows are a matrix without names.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import Recipe
    >>> from codedfl.data.features.linear import LinearFeatures
    >>> from codedfl.data.labels import Labels
    >>> from codedfl.data.preprocessing import Preprocessing
    >>> columns = Preprocessing.from_range(0, 10, n_columns=2)
    >>> recipe = Recipe(columns, LinearFeatures(2, columns.bound), Labels.for_targets(0, 60))
    >>> recipe
    <Recipe for regression: 2 columns, 3 linear features, 1 outputs>
    >>> prepared = recipe.rows(np.array([[0.0, 5.0], [10.0, 11.0]]), np.array([30.0, 60.0]))
    >>> prepared.X.shape, prepared.clipped.columns.tolist()  # 11 is beyond the range
    ((2, 3), [0, 1])
    """

    preprocessing: Preprocessing
    feature_map: FeatureMap
    labels: Labels
    columns: Columns | None = None

    def __post_init__(self) -> None:
        if self.feature_map.input_dim != self.n_columns:
            raise InvalidInput(
                f"feature_map must take the {self.n_columns} columns of the preprocessing,"
                f" got {self.feature_map.input_dim}"
            )
        if self.columns is not None and self.columns.width != self.n_columns:
            raise InvalidInput(f"columns must make {self.n_columns} columns of X, got {self.columns.width}")

    def __repr__(self) -> str:
        return (
            f"<Recipe for {self.task}: {self.n_columns} columns, {self.n_features} {self.feature_map.name} features,"
            f" {self.n_outputs} outputs>"
        )

    @property
    def n_columns(self) -> int:
        return self.preprocessing.n_columns

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of the columns of X: a category has one column for each level but the first."""
        return None if self.columns is None else self.columns.design_names

    @property
    def n_features(self) -> int:
        """d in the paper."""
        return self.feature_map.n_features

    @property
    def n_outputs(self) -> int:
        """c in the paper."""
        return self.labels.n_outputs

    @property
    def task(self) -> str:
        return "classification" if isinstance(self.labels, ClassLabels) else "regression"

    def bounds(self, samples: int, samples_per_device: int) -> Bounds:
        """What everybody may know: at most ``samples`` rows in all, and ``samples_per_device`` on one device."""
        return Bounds(self.feature_map.bound, self.labels.bound, samples, samples_per_device)

    # -- from rows to X and Y

    def matrix(self, data: Any) -> Rows:
        """Raw rows as numbers: a table by its columns' names, in any order; a matrix as it is."""
        if self.columns is not None and is_table(data):
            return self.columns.matrix(as_raw_table(data))
        X = np.asarray(data)
        return X if X.dtype.kind in "biuf" else X.astype(np.float64)

    def rows(self, X: Any, y: Rows) -> Prepared:
        """Features and labels of raw rows, from a table or a matrix."""
        X, y = self.matrix(X), np.asarray(y)
        if len(X) != len(y):
            raise InvalidInput(f"y must hold one label per row ({len(X)}), got {len(y)}")
        features, counts = self.features(X)
        return Prepared(features, self.labels.encode(y), Clipped(counts, self.labels.count_clipped(y)))

    def features(self, X: Rows) -> tuple[Singles, Integers]:
        """Features alone, and how many values of each column were clipped."""
        limit = np.float32(self.feature_map.bound)
        if float(limit) > self.feature_map.bound:  # the largest float32 within: rounding must not step over the bound
            limit = np.nextafter(limit, np.float32(0))
        features = np.empty((len(X), self.n_features), dtype=np.float32)
        clipped = np.zeros(self.n_columns, dtype=np.int64)
        for place, scaled, counts in self._scaled(X):
            part = features[place]
            part[...] = self.feature_map.transform(scaled)
            np.clip(part, -limit, limit, out=part)
            clipped += counts
        return features, clipped

    # -- from Theta to labels

    def scores(self, theta: Floats, X: Rows) -> tuple[Floats, Clipped]:
        """n x c real scores of raw rows, and what was clipped for them."""
        found = np.empty((len(X), self.n_outputs))
        clipped = np.zeros(self.n_columns, dtype=np.int64)
        for place, scaled, counts in self._scaled(X):
            found[place] = self.feature_map.transform(scaled) @ theta
            clipped += counts
        return found, Clipped(clipped)

    def decode(self, scores: Floats) -> Rows:
        """Labels as the training data had them: numbers, text, or targets in their own unit."""
        return self.labels.decode(scores)

    def unshrunk(self, theta: Floats, regularisation: float) -> Floats:
        """Theta of a solver with the intercept of linear features as it is without a penalty; columns are centred."""
        if isinstance(self.feature_map, LinearFeatures):
            return self.feature_map.free_intercept(theta, regularisation)
        return theta

    def _scaled(self, X: Rows) -> Iterator[tuple[slice, Rows, Integers]]:
        """Some rows at a time: where they stand, scaled, and their clipped values."""
        if X.ndim != 2 or X.shape[1] != self.n_columns:
            raise InvalidInput(f"X must have {self.n_columns} columns, got shape {X.shape}")
        for start in range(0, len(X), _BLOCK):
            place = slice(start, start + _BLOCK)
            yield place, *self.preprocessing.apply(X[place])

    # -- files and agreements

    def to_dict(self) -> JsonObject:
        """Numbers, text and lists only, so that JSON carries it; floats survive that exactly."""
        return {
            "columns": None if self.columns is None else self.columns.to_list(),
            "preprocessing": self.preprocessing.to_dict(),
            "features": self.feature_map.to_dict(),
            "labels": self.labels.to_dict(),
        }

    @classmethod
    def from_dict(cls, saved: Unchecked) -> Recipe:
        try:
            columns = saved["columns"]
            parts = saved["preprocessing"], saved["features"], saved["labels"]
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"a saved recipe must be complete, got {error!r}") from error
        if not all(isinstance(part, dict) for part in parts):
            raise InvalidInput("a saved recipe must hold preprocessing, features and labels, got other values")
        from codedfl.data.saved_labels import labels_from_dict  # of a model file: devices have studies

        preprocessing, features, labels = parts
        return cls(
            Preprocessing.from_dict(preprocessing),
            feature_map_from_dict(features),
            labels_from_dict(labels),
            None if columns is None else Columns.from_list(columns),
        )

    def digest(self) -> bytes:
        """SHA-256 over everything that decides X and Y, floats to the last bit. Equal digests, equal X and Y."""
        meaning = {**self.to_dict(), "features": self.feature_map.definition()}
        return canonical_digest("codedfl recipe 1", meaning)
