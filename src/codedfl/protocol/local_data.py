"""A device's own rows: checked when they come in, and made to fit the public bounds of a run.

What does not fit is clipped or left out here, on the device, and counted for its own log. Nobody else learns of it:
whether a device takes part never depends on its rows (``policy``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds
from codedfl.typing import Floats


@dataclass(frozen=True)
class Origin:
    """What X and Y were made of. The ledger remembers it as keyed hashes; nobody else is told.

    rows: each as bytes, before anything was scaled, clipped or made into features.
    ranges: digest of the ranges and classes that shaped them, where whoever starts a run may choose those; empty where
        the operator has approved them.
    bounds: on features, labels and rows of a device where a study fixes them: a run within others is refused. None
        leaves them to whoever starts a run.
    """

    rows: tuple[bytes, ...]
    ranges: bytes = b""
    bounds: tuple[float, float, int] | None = None


class LocalRows(NamedTuple):
    """A device's features and labels; without an origin they count as the raw rows themselves."""

    X: Floats
    Y: Floats
    origin: Origin | None = None


@dataclass(frozen=True)
class Fitted:
    """Rows that fit, and what was done to them. For the device's own log alone."""

    X: Floats
    Y: Floats
    clipped: int = 0  # values beyond the public bounds
    dropped: int = 0  # rows beyond the public limit


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


def fitted(X: Floats, Y: Floats, bounds: Bounds) -> Fitted:
    """The first ``samples_per_device`` rows, every value within its bound; the arrays themselves where all is well.

    Which rows are left out must not be the server's choice nor change from run to run, hence simply the last ones.
    """
    keep = bounds.samples_per_device
    dropped = max(0, len(X) - keep)
    X, Y = X[:keep], Y[:keep]
    clipped = 0
    parts = []
    for values, bound in ((X, bounds.features), (Y, bounds.labels)):
        fits = max(values.max(), -values.min()) <= bound  # without an array of truth values where all is well
        beyond = 0 if fits else int(np.count_nonzero(np.abs(values) > bound))
        parts.append(np.clip(values, -bound, bound) if beyond else values)
        clipped += beyond
    return Fitted(parts[0], parts[1], clipped, dropped)
