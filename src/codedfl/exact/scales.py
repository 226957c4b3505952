"""Reals to whole numbers and back, with a proof that no sum wraps (paper II-A and IV-A, corrected).

All scales follow from *public* bounds: |x| <= features, |y| <= labels, at most ``samples`` rows in all and
``samples_per_device`` on one device. With them

* features and labels are put on a grid of at most 20 significant bits, so that X'X and X'Y of one device are sums of
  integers below 2^53: float64 BLAS computes them exactly, in any order, with any number of threads;
* X'X is rounded once per device to ``gram_bits`` fraction bits, G^(1) to ``constant_bits``;
* the server rounds each update e to as many fraction bits as the largest column 1-norm of e leaves room for.

The rule is that every true sum stays at or below M/8 (``limit``). The proof is in integers:
|sum_i gram_i| <= ``gram_limit`` entry by entry, hence |sum_i gram_i e| <= gram_limit * max_column |e|_1. The spare
factor of four makes an overflow or a corrupted answer visible: a decoded number outside its bound is refused.

Where devices add noise (``row_noise``) the bounds include its tail, which a sum leaves with a probability below 2^-102
for each number; such a total would be refused, never wrong. The grid is then as fine as the noise needs, not as fine as
the room allows: what rounding adds to the sensitivity stays below a hundredth.

It does not round the model: the server keeps Theta in floats, only what is sent is on the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.exact.gram import GramSum
from codedfl.typing import Floats

if TYPE_CHECKING:  # without noise a device loads nothing of it
    from codedfl.exact.row_noise import GridNoise, RowNoise

GRID_BITS = 20
FLOAT64_EXACT_BITS = 53
GRAM_BLOCK_ROWS = 512
HEADROOM = 8  # true sums stay at or below modulus / HEADROOM


@dataclass(frozen=True)
class Bounds:
    """What everybody may know about the data.

    Attributes
    ----------
    features : float
        No feature is larger in absolute value; for d random features it is sqrt(2/d).
    labels : float
        No label is larger in absolute value.
    samples : int
        All devices together have at most this number of rows.
    samples_per_device : int
        No device has more rows than this.

    Examples
    --------
    >>> from codedfl import Bounds
    >>> Bounds(features=1.0, labels=1.0, samples=1000, samples_per_device=2000)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: bounds.samples_per_device must be at most bounds.samples (1000), got 2000
    """

    features: float
    labels: float
    samples: int
    samples_per_device: int

    def __post_init__(self) -> None:
        for name in ("features", "labels"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise InvalidInput(f"bounds.{name} must be a positive finite number, got {value}")
        for name in ("samples", "samples_per_device"):
            value = getattr(self, name)
            if value < 1:
                raise InvalidInput(f"bounds.{name} must be at least 1, got {value}")
        if self.samples_per_device > self.samples:
            raise InvalidInput(
                f"bounds.samples_per_device must be at most bounds.samples ({self.samples}),"
                f" got {self.samples_per_device}"
            )


def floor_log2(value: Fraction) -> int:
    """The largest integer k with 2^k <= value, without floating point: all parties must derive the same.

    >>> floor_log2(Fraction(9, 2))
    2
    """
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if Fraction(2) ** k <= value else k - 1


@dataclass(frozen=True)
class Scales:
    """The scales of the sums of one training. Use ``on``; the fields are what it decided.

    modulus: M, of the integers in which sums are made: 2^k, or the product of the laboratory's primes.
    ``gram_bits`` may be negative for enormous bounds (the Gram matrix then has a resolution coarser than one).

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.exact.scales import Bounds, Scales
    >>> from codedfl.exact.totals import gram_to_reals
    >>> scales = Scales.on(1 << 48, Bounds(1.0, 1.0, samples=1000, samples_per_device=300), n_features=2, n_devices=5)
    >>> scales
    <Scales of 48 bits, 19-bit grid, X'X 18 and X'Y 34 fraction bits>
    >>> row = np.array([[0.5, 0.25]])
    >>> total = scales.gram(row) + scales.gram(row)  # two devices with one row each
    >>> gram_to_reals(scales, total).tolist()  # the upper triangle of X'X
    [0.5, 0.25, 0.125]
    """

    modulus: int
    bounds: Bounds
    n_features: int
    n_devices: int
    feature_bits: int
    label_bits: int
    gram_bits: int
    constant_bits: int
    noise: GridNoise | None = None

    @classmethod
    def on(cls, modulus: int, bounds: Bounds, n_features: int, n_devices: int) -> Self:
        """The scales that leave every true sum below M/8. Theta^(1) is 0, so that G^(1) is -X'Y.

        >>> from codedfl.exact.scales import Bounds, Scales
        >>> mnist = Bounds(features=(2 / 2000) ** 0.5, labels=1.0, samples=60_000, samples_per_device=2400)
        >>> Scales.on(1 << 32, mnist, n_features=2000, n_devices=25)
        <Scales of 32 bits, 24-bit grid, X'X 6 and X'Y 17 fraction bits>
        """
        # n_i products of two gridded numbers must stay below 2^53.
        significant = min(GRID_BITS, (FLOAT64_EXACT_BITS - (bounds.samples_per_device - 1).bit_length()) // 2)
        feature_bits = significant - 1 - floor_log2(Fraction(bounds.features))
        label_bits = significant - 1 - floor_log2(Fraction(bounds.labels))
        limit = Fraction(modulus, HEADROOM)
        largest_constant = bounds.samples * Fraction(bounds.features) * Fraction(bounds.labels)
        return cls(
            modulus,
            bounds,
            n_features,
            n_devices,
            feature_bits,
            label_bits,
            gram_bits=min(-(-natural_bits(modulus, bounds, n_features) // 2), 2 * feature_bits),
            # Half of the room, so that rounding X and Y up cannot break the proof.
            constant_bits=min(floor_log2(limit / largest_constant / 2), feature_bits + label_bits),
        )

    def with_noise(self, noise: RowNoise, n_outputs: int) -> Self:
        """These scales with the grid that the noise needs; refused where noise and data leave no room."""
        from codedfl.exact.row_noise import GridNoise, RowLengths

        shape = (self.n_features, n_outputs)
        lengths = RowLengths.on_grid(noise.clip_norm, self.bounds.labels, shape, self.feature_bits, self.label_bits)
        gram_bits = min(lengths.gram_bits_wanted(), 2 * self.feature_bits)
        constant_bits = min(lengths.constant_bits_wanted(), self.feature_bits + self.label_bits)
        found = replace(
            self,
            gram_bits=gram_bits,
            constant_bits=constant_bits,
            noise=GridNoise.of(noise, lengths, gram_bits, constant_bits),
        )
        largest = max(found.gram_limit, found.cross_limit)
        if largest > found.limit:
            raise InvalidInput(
                f"X'X and X'Y with their noise must stay below M/8 ({found.limit} units), got up to {largest}: ask for"
                " wider numbers, or for less noise"
            )
        return found

    @property
    def update_bits(self) -> float:
        """Fraction bits per entry of an update of length one with d equal entries; below 0 the update is lost."""
        room = self.limit // self.gram_limit
        return math.log2(room / self.n_features) if room else -math.inf

    def __repr__(self) -> str:
        return (
            f"<Scales of {(self.modulus - 1).bit_length()} bits, {self.feature_bits}-bit grid,"
            f" X'X {self.gram_bits} and X'Y {self.constant_bits} fraction bits>"
        )

    # -- proven limits, in units of the sums

    @cached_property
    def limit(self) -> int:
        """M/8: no true sum is ever larger."""
        return self.modulus // HEADROOM

    @cached_property
    def gram_limit(self) -> int:
        """Largest possible entry of sum_i X_i'X_i as rounded: m (grid bound)^2, a unit per device, and the noise."""
        grid = math.ceil(Fraction(self.bounds.features) * Fraction(2) ** self.feature_bits)
        exact = self.bounds.samples * grid**2 * Fraction(2) ** (self.gram_bits - 2 * self.feature_bits)
        return math.ceil(exact) + self.n_devices + (self.noise.tails(self.n_devices)[0] if self.noise else 0)

    @cached_property
    def cross_limit(self) -> int:
        """Largest possible entry of sum_i X_i'Y_i as rounded, in units of 2^-constant_bits."""
        x = math.ceil(Fraction(self.bounds.features) * Fraction(2) ** self.feature_bits)
        y = math.ceil(Fraction(self.bounds.labels) * Fraction(2) ** self.label_bits)
        shift = self.constant_bits - self.feature_bits - self.label_bits
        exact = math.ceil(self.bounds.samples * x * y * Fraction(2) ** shift)
        return exact + self.n_devices + (self.noise.tails(self.n_devices)[1] if self.noise else 0)

    # -- one device's data

    def grid_features(self, X: NDArray[np.floating[Any]]) -> Floats:
        """X as integers of 2^-feature_bits, in float64; refused where not finite or beyond the public bound."""
        return self._on_grid("X", X, self.bounds.features, self.feature_bits)

    def grid_labels(self, Y: NDArray[np.floating[Any]]) -> Floats:
        """Labels as integers of 2^-label_bits, in float64; refused beyond their public bound."""
        return self._on_grid("Y", Y, self.bounds.labels, self.label_bits)

    @staticmethod
    def _on_grid(name: str, values: NDArray[np.floating[Any]], bound: float, bits: int) -> Floats:
        largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
        if not math.isfinite(largest):
            raise InvalidInput(f"{name} must be finite, got {largest}")
        if largest > bound:
            raise InvalidInput(f"{name} must lie within its public bound of +-{bound:g}, got {largest:g}")
        scaled = np.ldexp(np.asarray(values, dtype=np.float64), bits)
        return np.rint(scaled, out=scaled)

    def gram(self, X: Floats, rows: slice | None = None) -> Floats:
        """X'X of one device as a packed upper triangle of whole numbers, rounded once (paper eq. 7, unpadded).

        rows: those of X'X that are wanted; None is all of them.
        """
        self._check_rows(X)
        total = GramSum(self.n_features, rows)
        for start in range(0, len(X), GRAM_BLOCK_ROWS):
            total.add(self.grid_features(X[start : start + GRAM_BLOCK_ROWS]))
        triangle = total.triangle()
        del total
        return self.round_gram(triangle)

    def round_gram(self, exact: Floats) -> Floats:
        """X'X in integers of 2^-(2 feature_bits) to integers of 2^-gram_bits, half to even."""
        return self._rounded(exact, 2 * self.feature_bits, self.gram_bits)

    def round_cross(self, exact: Floats) -> Floats:
        """X'Y in integers of 2^-(feature_bits + label_bits) to integers of 2^-constant_bits."""
        return self._rounded(exact, self.feature_bits + self.label_bits, self.constant_bits)

    def cross(self, X: Floats, Y: Floats) -> Floats:
        """X'Y of one device, rounded once to ``constant_bits``."""
        self._check_rows(X)
        total = np.zeros((self.n_features, Y.shape[1]))
        for start in range(0, len(X), GRAM_BLOCK_ROWS):
            rows = slice(start, start + GRAM_BLOCK_ROWS)
            total += self.grid_features(X[rows]).T @ self.grid_labels(Y[rows])
        return self.round_cross(total)

    def _check_rows(self, X: Floats) -> None:
        if X.ndim != 2 or X.shape[1] != self.n_features:
            raise InvalidInput(f"X must have {self.n_features} feature columns, got shape {X.shape}")
        if not 1 <= len(X) <= self.bounds.samples_per_device:
            raise InvalidInput(
                f"a device must have between 1 and {self.bounds.samples_per_device} samples, got {len(X)}"
            )

    @staticmethod
    def _rounded(exact: Floats, from_bits: int, to_bits: int) -> Floats:
        # Both steps are exact in float64: a power of two, then rounding an integer-valued quotient to even.
        scaled = np.ldexp(exact, to_bits - from_bits)
        return np.rint(scaled, out=scaled)


def natural_bits(modulus: int, bounds: Bounds, n_features: int) -> int:
    """Fraction bits left for X'X e when e has its natural size; half of them go to X'X, half to e.

    Natural is the size at which d independent features of size ``bounds.features`` add up to a label:
    entries of labels / (features sqrt(d)), so a column 1-norm of sqrt(d) labels / features.
    """
    norm = math.isqrt(max(n_features, 1)) * Fraction(bounds.labels) / Fraction(bounds.features)
    gram = bounds.samples * Fraction(bounds.features) ** 2
    return floor_log2(Fraction(modulus, HEADROOM) / (gram * norm))
