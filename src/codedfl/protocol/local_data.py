"""A device's own rows: checked when they come in, and made to fit the public bounds of a run.

What does not fit is clipped or left out here, on the device, and counted for its own log. Nobody else learns of it:
whether a device takes part never depends on its rows (``policy``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds
from codedfl.exact.row_noise import RowNoise
from codedfl.typing import Floats

# A norm in floats is off by less than this part for any number of features that is allowed.
_FLOAT_PART = 2.0**-30


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
    shortened: int = 0  # rows longer than the noise is made for


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


def fitted(X: Floats, Y: Floats, bounds: Bounds, noise: RowNoise | None = None) -> Fitted:
    """The first ``samples_per_device`` rows, every value within its bound; the arrays themselves where all is well.

    Which rows are left out must not be the server's choice nor change from run to run, hence simply the last ones.
    With noise, rows of X longer than ``clip_norm`` are shortened to it, and rows of Y longer than the bound on labels:
    what one row may add to X'X and X'Y is what the noise is made for.
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
    if noise is None:
        return Fitted(parts[0], parts[1], clipped, dropped)
    (X, long_x), (Y, long_y) = (
        _shortened(values, norm) for values, norm in zip(parts, (noise.clip_norm, bounds.labels), strict=True)
    )
    return Fitted(X, Y, clipped, dropped, int(np.count_nonzero(long_x | long_y)))


def _shortened(rows: Floats, norm: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Rows no longer than ``norm``, whatever floats round, and which of them were."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    long = lengths > norm
    near = lengths > norm * (1 - _FLOAT_PART)
    if not near.any():
        return rows, long
    factors = np.ones(len(rows))
    factors[near] = norm * (1 - _FLOAT_PART) / lengths[near]
    return rows * factors[:, None], long
