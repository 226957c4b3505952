"""Rows made to fit the public bounds on the device, and counted for its own log: nobody else learns of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.exact.scales import Bounds
from codedfl.typing import Floats

if TYPE_CHECKING:  # without noise a device loads nothing of it
    from codedfl.exact.row_noise import RowNoise

# A norm in floats is off by less than this part for any number of features that is allowed.
_FLOAT_PART = 2.0**-30


class Fitting(NamedTuple):
    """What was done to rows so that they fit: for the device's own log alone."""

    clipped: int = 0  # values beyond the public bounds
    dropped: int = 0  # rows beyond the public limit
    shortened: int = 0  # rows longer than the noise is made for


def fitted(X: Floats, Y: Floats, bounds: Bounds, noise: RowNoise | None = None) -> tuple[Floats, Floats, Fitting]:
    """The first ``samples_per_device`` rows, every value within its bound; the arrays themselves where all is well.

    Which rows are left out must not change from run to run, hence simply the last ones. With noise, rows of X longer
    than ``clip_norm`` are shortened to it, and rows of Y longer than the bound on labels: what one row may add to X'X
    and X'Y is what the noise is made for.
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
        return parts[0], parts[1], Fitting(clipped, dropped)
    (X, long_x), (Y, long_y) = (
        _shortened(values, norm) for values, norm in zip(parts, (noise.clip_norm, bounds.labels), strict=True)
    )
    return X, Y, Fitting(clipped, dropped, int(np.count_nonzero(long_x | long_y)))


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
