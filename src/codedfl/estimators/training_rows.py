"""The rows of a fit: who holds which, how much each weighs, and what is summed of them.

Where the ids of devices come from is the estimators' business (``estimators``), what is learnt of the rows the base's
(``ridge_base``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from codedfl.data.preprocessing import Moments
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.run.sums_in_process import MadeRows, secure_moments_in_process
from codedfl.typing import Floats

# Rows with whole weights are repeated, unless that makes more than _MOST_REPEATED times as many rows.
_MOST_REPEATED = 10


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows, who holds them (row numbers by the device's name), and how much each weighs; None weighs all alike.

    A row of weight w counts as w rows. It is scaled by the square root of its part of the largest weight, so that it
    stays within the public bounds; lambda then shrinks by ``share``, the mean weight's part of the largest.
    """

    X: Floats
    y: NDArray[Any]
    parts: dict[str, NDArray[np.int64]]
    weights: Floats | None = None
    colluders: int = 1  # how many colluding devices the secure sums withstand, as in the training

    @property
    def share(self) -> float:
        return 1.0 if self.weights is None else float(self.weights.mean() / self.weights.max())

    def moments(self, values: Floats) -> Moments:
        """Means and variances of columns that belong to these rows, summed securely."""
        weights = None if self.weights is None else [self.weights[rows] for rows in self.parts.values()]
        return secure_moments_in_process([values[rows] for rows in self.parts.values()], weights, self.colluders)

    def only(self, parts: dict[str, NDArray[np.int64]]) -> TrainingRows:
        return replace(self, parts=parts)

    def made(self, recipe: Recipe) -> MadeRows:
        """Features and labels of each device's rows."""
        order = np.concatenate(list(self.parts.values()))
        rows = recipe.rows(self.X[order], self.y[order])
        X, Y = rows.X, rows.Y
        if self.weights is not None:
            roots = np.sqrt(self.weights[order] / self.weights.max())[:, None]
            X, Y = (X * roots).astype(np.float32), Y * roots
        ends = np.cumsum([len(part) for part in self.parts.values()])[:-1]
        devices = zip(self.parts, np.split(X, ends), np.split(Y, ends), strict=True)
        return MadeRows(recipe, {name: (features, labels) for name, features, labels in devices}, rows.clipped)


def repeated(weights: Floats) -> tuple[NDArray[np.int64], Floats | None]:
    """Which rows to train on, and their weights. Whole weights repeat rows, exactly; None then counts them alike."""
    if (weights == np.round(weights)).all() and weights.sum() <= _MOST_REPEATED * len(weights):
        return np.repeat(np.arange(len(weights)), weights.astype(np.int64)), None
    chosen = np.flatnonzero(weights)
    return chosen, weights[chosen]


def dealt_by_value(X: Floats, y: NDArray[Any], n_devices: int) -> dict[str, NDArray[np.int64]]:
    """Rows dealt out in the order of their values, so that the model does not depend on the order of the rows."""
    dealt = np.array_split(np.lexsort((y, *X.T)), min(n_devices, len(X)))
    return {f"device-{i}": part for i, part in enumerate(dealt)}


def device_ids(X: Floats, device: ArrayLike) -> NDArray[Any]:
    """Who holds each row, checked."""
    ids = column_or_1d(device)
    check_consistent_length(X, ids)
    for row, one in enumerate(ids.tolist()):
        if one is None or one != one:  # NaN is how tables write a missing number
            raise InvalidInput(f"device must name the device of each row, got {one} in row {row}")
    return np.asarray(ids.astype(str) if ids.dtype.kind == "O" else ids)


def rows_by_id(ids: NDArray[Any]) -> dict[str, NDArray[np.int64]]:
    """Row numbers by device, in the order of the ids."""
    parts = [np.flatnonzero(ids == one) for one in np.unique(ids)]
    if len(parts) < 2:
        raise InvalidInput(f"device must name at least two devices, to hide one's data in the sum, got {ids[0]} only")
    return {str(ids[rows[0]]): rows for rows in parts}
