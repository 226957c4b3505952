"""How large the noise of one device is on the ring's grid, so that all honest devices together hide any one row.

A row (x, y) with |x| <= ``clip_norm`` and |y| at most the public bound on labels adds x x' to X'X and x y' to X'Y. With
entries off the diagonal weighted by sqrt(2), as they stand in the matrix twice, x x' has the length |x|^2 exactly, and
x y' has |x| |y|. On the grid both are longer: rows are rounded (half a unit per entry), and a device rounds X'X and X'Y
once, which one row more may move by a whole unit in every entry. These lengths are the *sensitivities*.

The noise of all honest devices together must have a standard deviation of ``multiplier`` times the sensitivity, so each
device's own has ``multiplier`` / sqrt(``honest``) times. Off the diagonal the weights allow a sqrt(2)-th of it.
Everything is derived with fractions and rounded up: all parties find the same integers, and there is never less noise
than agreed on.

What a multiplier is worth in terms of epsilon and delta is in ``codedfl.privacy.calibration``; the noise itself is
drawn by ``codedfl.crypto.noise``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from codedfl.errors import InvalidInput
from codedfl.exact.discrete_gaussian import MOST_SIGMA

# Below, a sum of discrete Gaussians is not near enough to one (``calibration.gap_of_sum``).
LEAST_SIGMA = 8
# A sum of n samples is sub-Gaussian: it exceeds TAIL sigma sqrt(n) with a probability of 2 exp(-72) < 2^-102.
TAIL = 12
# The grid is so fine that rounding adds at most one part in _ROUNDING_PART to a sensitivity, and that a row is at least
# _LEAST_UNITS long, however few numbers it has: noise must not be too small for the grid.
_ROUNDING_PART = 2**7
_LEAST_UNITS = 2**12
_MOST_MULTIPLIER = 1e6
_ROOT_DIGITS = 2**20


@dataclass(frozen=True)
class RowNoise:
    """What the parties agree on.

    Parameters
    ----------
    multiplier : float
        Standard deviation of the noise of all honest devices together, in units of the sensitivity, for X'X and for
        X'Y each.
    honest : int
        How many owners are assumed to add their noise; at least 1. The others may leave theirs out.
    clip_norm : float
        Rows of X that are longer than this are shortened to it, on the device.
    """

    multiplier: float
    honest: int
    clip_norm: float

    def __post_init__(self) -> None:
        if not 0 < self.multiplier <= _MOST_MULTIPLIER:
            raise InvalidInput(f"multiplier must be above 0 and at most {_MOST_MULTIPLIER:g}, got {self.multiplier}")
        if self.honest < 1:
            raise InvalidInput(f"honest must be at least 1, got {self.honest}")
        if not 0 < self.clip_norm < math.inf:
            raise InvalidInput(f"clip_norm must be a positive finite number, got {self.clip_norm}")


@dataclass(frozen=True)
class RowLengths:
    """The longest rows of X and Y as they are on their grids, in reals, and how many numbers a row has."""

    features: Fraction
    labels: Fraction
    n_features: int
    n_outputs: int

    @classmethod
    def on_grid(
        cls, clip_norm: float, label_norm: float, shape: tuple[int, int], feature_bits: int, label_bits: int
    ) -> RowLengths:
        """Half a unit per entry longer than the norms that rows are shortened to."""
        d, c = shape
        return cls(
            Fraction(clip_norm) + _root_above(d) / 2 * Fraction(2) ** -feature_bits,
            Fraction(label_norm) + _root_above(c) / 2 * Fraction(2) ** -label_bits,
            d,
            c,
        )

    def gram_sensitivity(self, gram_bits: int) -> Fraction:
        """The sensitivity of X'X: |x|^2, and a unit in each of d^2 entries of the matrix."""
        return self.features**2 + self.n_features * Fraction(2) ** -gram_bits

    def cross_sensitivity(self, constant_bits: int) -> Fraction:
        """The sensitivity of X'Y: |x| |y|, and a unit in each of d c entries."""
        entries = _root_above(self.n_features * self.n_outputs)
        return self.features * self.labels + entries * Fraction(2) ** -constant_bits

    def gram_bits_wanted(self) -> int:
        """The fewest fraction bits with which rounding X'X adds at most one part in ``_ROUNDING_PART``."""
        return _bits_for(max(_ROUNDING_PART * self.n_features, _LEAST_UNITS) / self.features**2)

    def constant_bits_wanted(self) -> int:
        """The fewest fraction bits with which rounding X'Y adds at most one part in ``_ROUNDING_PART``."""
        entries = _root_above(self.n_features * self.n_outputs)
        return _bits_for(max(_ROUNDING_PART * entries, Fraction(_LEAST_UNITS)) / (self.features * self.labels))


@dataclass(frozen=True)
class GridNoise:
    """One device's noise, in units of the ring: sigma of X'X on and off the diagonal, and of X'Y."""

    diagonal: int
    off_diagonal: int
    cross: int

    @classmethod
    def of(cls, noise: RowNoise, lengths: RowLengths, gram_bits: int, constant_bits: int) -> GridNoise:
        """Refused where the grid is too coarse for a discrete Gaussian, or too fine for the sampler."""
        share = Fraction(noise.multiplier) ** 2 / noise.honest
        gram = (lengths.gram_sensitivity(gram_bits) * Fraction(2) ** gram_bits) ** 2
        cross = (lengths.cross_sensitivity(constant_bits) * Fraction(2) ** constant_bits) ** 2
        off_diagonal = _root_up(share * gram / 2)
        found = cls(_root_up(Fraction(2 * off_diagonal**2)), off_diagonal, _root_up(share * cross))
        for sigma in (found.diagonal, found.off_diagonal, found.cross):
            if not LEAST_SIGMA <= sigma <= MOST_SIGMA:
                raise InvalidInput(
                    f"the noise of a device must be between {LEAST_SIGMA} and {MOST_SIGMA} units of the grid, got"
                    f" {sigma}: choose another epsilon, clip_norm or number of honest devices"
                )
        return found

    def tails(self, n_devices: int) -> tuple[int, int]:
        """Bounds on what all devices' noise adds to an entry of X'X, and of X'Y."""
        return tail(self.diagonal, n_devices), tail(self.cross, n_devices)


def tail(sigma: int, n_devices: int) -> int:
    """A bound on every entry of the sum of ``n_devices`` devices' noise, exceeded with a probability below 2^-102."""
    return math.isqrt(TAIL**2 * sigma**2 * n_devices) + 1


def _root_above(value: int) -> Fraction:
    """A fraction just above the square root of an integer; the root itself of a square."""
    return Fraction(math.isqrt(value * _ROOT_DIGITS**2 - 1) + 1, _ROOT_DIGITS)


def _root_up(value: Fraction) -> int:
    """The smallest integer whose square is at least ``value``, which is positive."""
    return math.isqrt(math.ceil(value) - 1) + 1


def _bits_for(value: Fraction) -> int:
    """The smallest k with 2^k >= value."""
    k = value.numerator.bit_length() - value.denominator.bit_length() - 1
    while Fraction(2) ** k < value:
        k += 1
    return k
