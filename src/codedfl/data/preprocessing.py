"""One scaling of the raw columns, the same on all devices, saved with the model.

The paper (section V) leaves preprocessing to each device; for data other than pixels in [0, 1] the devices
have to agree, or their features do not fit together. What they agree on must not give anyone's data away:

- `Preprocessing.from_range`: from ranges that are public anyway, to [0, 1];
- `Preprocessing.from_moments`: from mean and variance of each column, securely summed over the devices, to
  mean 0 and variance 1, clipped at +-4. Nothing but the two totals of each column becomes known.

In both cases values come out within a public bound, as the exact ring needs (paper II-A): what lies beyond is
clipped and counted, and it is for the caller to report the count.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codedfl.checks import check_matrix
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject, Unchecked

# In standard deviations. A normal column loses 6 values in 100 000, and the range stays narrow.
DEFAULT_CLIP = 4.0
# Below this fraction of its mean a column's deviation is rounding, and dividing by it would make noise of it.
_CONSTANT = 1e-12
_BLOCK = 4096  # rows at a time


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of rows (or total weight), and mean and variance (mean squared deviation) of each column, over all."""

    count: float
    mean: Floats
    variance: Floats

    def range(self, clip: float = DEFAULT_CLIP) -> tuple[Floats, Floats]:
        """Mean -+ clip standard deviations: a range to make public where none is known."""
        reach = clip * np.sqrt(self.variance)
        return self.mean - reach, self.mean + reach


@dataclass(frozen=True, eq=False, repr=False)
class Preprocessing:
    """x -> (x - shift) / scale in each column, clipped to [low, high].

    scale = 0 marks a constant column, which carries nothing: it becomes 0 everywhere.
    low, high: one number for all columns or one for each; vectors afterwards.
    """

    shift: Floats
    scale: Floats
    low: Floats | float
    high: Floats | float

    def __post_init__(self) -> None:
        if self.shift.ndim != 1 or self.shift.shape != self.scale.shape or not len(self.shift):
            raise InvalidInput(
                f"shift and scale must be vectors of equal length, got {self.shift.shape}, {self.scale.shape}"
            )
        if not (np.isfinite(self.shift).all() and np.isfinite(self.scale).all() and (self.scale >= 0).all()):
            raise InvalidInput("shift and scale must be finite and scale not negative, got other values")
        for name in ("low", "high"):
            ends = np.broadcast_to(np.asarray(getattr(self, name), dtype=np.float64), self.shift.shape).copy()
            object.__setattr__(self, name, ends)
        wrong = np.flatnonzero(~((-np.inf < self.low) & (self.low < self.high) & (self.high < np.inf)))
        if len(wrong):
            low, high = np.asarray(self.low)[wrong[0]], np.asarray(self.high)[wrong[0]]
            raise InvalidInput(f"low must be below high, both finite, got {low} and {high}")

    @classmethod
    def from_range(cls, low: ArrayLike, high: ArrayLike, n_columns: int) -> "Preprocessing":
        """Public ranges to [0, 1]. low, high: one number for all columns or one for each.

        (0, 1) leaves pixels as they are.
        """
        low, high = (np.asarray(end, dtype=np.float64) for end in (low, high))
        for name, end in (("low", low), ("high", high)):
            if end.shape not in ((), (n_columns,)) or not np.isfinite(end).all():
                raise InvalidInput(
                    f"{name} must be one finite number or one per column ({n_columns}), got shape {end.shape}"
                )
        low, high = (np.broadcast_to(end, n_columns).copy() for end in (low, high))
        if not (low < high).all():
            j = int(np.flatnonzero(~(low < high))[0])
            raise InvalidInput(f"low must be below high in every column, got {low[j]} and {high[j]} in column {j}")
        return cls(low, high - low, 0.0, 1.0)

    @classmethod
    def from_moments(cls, moments: Moments, clip: float = DEFAULT_CLIP) -> "Preprocessing":
        """Mean 0 and variance 1, clipped at clip standard deviations either side.

        clip: larger loses fewer values and makes the range, and so the default kernel, wider.
        """
        if not 0 < clip < np.inf:
            raise InvalidInput(f"clip must be a positive number of standard deviations, got {clip}")
        deviation = np.sqrt(moments.variance)
        constant = deviation <= _CONSTANT * np.abs(moments.mean)
        return cls(moments.mean, np.where(constant, 0.0, deviation), -float(clip), float(clip))

    @property
    def n_columns(self) -> int:
        return len(self.shift)

    @property
    def bound(self) -> float:
        """No value is larger than this in absolute value afterwards."""
        return float(max(np.abs(self.low).max(), np.abs(self.high).max()))

    @property
    def width(self) -> float:
        """Root mean square of the ranges' widths after scaling; `features.default_gamma` takes it."""
        widths = np.asarray(self.high) - np.asarray(self.low)
        return float(widths[0] if (widths == widths[0]).all() else np.sqrt(np.mean(np.square(widths))))

    def apply(self, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the scaled rows, float32 if X is float32 and float64 otherwise, and how many were clipped.

        The counts are per column and of these rows only: `.sum()` is the total. They belong to the device
        that holds the rows and are summed securely like everything else before anyone else sees them.
        """
        check_matrix("X", X, self.n_columns)
        scaled = np.empty(X.shape, dtype=np.float32 if X.dtype == np.float32 else np.float64)
        clipped = np.zeros(self.n_columns, dtype=np.int64)
        # Divided, not multiplied by an inverse: then the upper end of a range comes out as exactly 1.
        divisor = np.where(self.scale > 0, self.scale, np.inf)
        for start in range(0, len(X), _BLOCK):
            rows = (X[start : start + _BLOCK] - self.shift) / divisor
            clipped += ((rows < self.low) | (rows > self.high)).sum(axis=0)
            scaled[start : start + _BLOCK] = np.clip(rows, self.low, self.high)
        return scaled, clipped

    def to_dict(self) -> JsonObject:
        """Numbers and lists only, so that JSON carries it; floats survive that exactly."""
        return {
            "shift": self.shift.tolist(),
            "scale": self.scale.tolist(),
            "low": _one_or_all(self.low),
            "high": _one_or_all(self.high),
        }

    @classmethod
    def from_dict(cls, saved: Unchecked) -> "Preprocessing":
        try:
            shift, scale = (np.asarray(saved[key], dtype=np.float64) for key in ("shift", "scale"))
            low, high = (np.asarray(saved[key], dtype=np.float64) for key in ("low", "high"))
            if {low.shape, high.shape} - {(), shift.shape}:
                raise ValueError(f"{low.shape} and {high.shape}")
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"saved preprocessing must hold shift, scale, low and high, got {error!r}") from error
        return cls(shift, scale, low, high)

    def __repr__(self) -> str:
        return f"<Preprocessing of {self.n_columns} columns to [{np.min(self.low):g}, {np.max(self.high):g}]>"


def _one_or_all(ends: Floats | float) -> float | list[float]:
    """One number where all columns have the same."""
    values: list[float] = np.asarray(ends).tolist()
    return values[0] if len(set(values)) == 1 else values
