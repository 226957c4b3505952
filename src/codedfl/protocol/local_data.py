"""A device's own rows: checked when they come in, and against the public bounds of a run before it joins."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from codedfl.errors import InvalidInput
from codedfl.protocol.agreement import Parameters
from codedfl.typing import Floats


def checked_rows(name: str, X: ArrayLike, Y: ArrayLike) -> tuple[Floats, Floats]:
    """Features and labels of the device ``name`` as float64: finite, two-dimensional, as many rows in both."""
    arrays = []
    for what, values in (("X", X), ("Y", Y)):
        array = np.asarray(values, dtype=np.float64)
        if array.ndim != 2:
            raise InvalidInput(f"{what} of {name!r} must have two dimensions, got shape {array.shape}")
        if len(array) == 0:
            raise InvalidInput(f"{what} of {name!r} must have at least one sample, got none")
        bad = int(array.size - np.count_nonzero(np.isfinite(array)))
        if bad:
            raise InvalidInput(f"{what} of {name!r} must be finite, got {bad} NaN or infinite values")
        arrays.append(array)
    if len(arrays[0]) != len(arrays[1]):
        raise InvalidInput(f"X and Y of {name!r} must have as many rows, got {len(arrays[0])} and {len(arrays[1])}")
    return arrays[0], arrays[1]


def objection_of_rows(parameters: Parameters, X: Floats, Y: Floats) -> str:
    """Why rows checked before cannot take part in a run with these parameters; empty when they can.

    The server gets to read it, so it says nothing of the rows but their number of columns.
    """
    bounds = parameters.bounds
    for what, values, columns, bound in (
        ("X", X, parameters.n_features, bounds.features),
        ("Y", Y, parameters.n_outputs, bounds.labels),
    ):
        if values.shape[1] != columns:
            return f"{what} must have {columns} columns as this run has, got {values.shape[1]}"
        if np.abs(values).max() > bound:
            return f"{what} must lie within the public bound of +-{bound:g}, got larger values"
    if len(X) > bounds.samples_per_device:
        return f"a device must have at most {bounds.samples_per_device} samples, got more"
    return ""
