"""Noise on the grid: sensitivities with every rounding, integers that are never too small, the tail in the range."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl.exact.fitted_rows import fitted
from codedfl.exact.row_noise import TAIL, GridNoise, RowLengths, RowNoise, tail
from codedfl.exact.scales import Bounds
from codedfl_lab.primes.fixed_point import FixedPoint
from wording import exactly

NOISE = RowNoise(multiplier=4.0, honest=3, clip_norm=1.0)


def format_for(d: int, c: int = 2, noise: RowNoise | None = NOISE, n_devices: int = 4, m: int = 500) -> FixedPoint:
    return FixedPoint.derive(Bounds(0.9, 1.0, m, m), d, n_devices, noise=noise, n_outputs=c)


def lengths_of(format_: FixedPoint, c: int) -> RowLengths:
    shape = (format_.n_features, c)
    return RowLengths.on_grid(NOISE.clip_norm, 1.0, shape, format_.feature_bits, format_.label_bits)


@pytest.mark.parametrize("d", [1, 2, 7, 30])
@pytest.mark.parametrize("kind", ["dense", "one entry", "random"])
def test_no_row_moves_the_rounded_sums_by_more_than_the_sensitivity(d: int, kind: str):
    """By the device's own arithmetic, with and without the row; off the diagonal counts twice."""
    c, rng = 2, np.random.default_rng(d)
    format_ = format_for(d)
    lengths = lengths_of(format_, c)
    rows = {"dense": np.ones(d), "one entry": np.eye(d)[0], "random": rng.normal(size=d)}[kind]
    x = rows / np.linalg.norm(rows) * 5
    base = rng.uniform(-0.5, 0.5, (20, d)), rng.uniform(-0.5, 0.5, (20, c))
    sums = []
    for X, Y in (base, (np.vstack([base[0], x]), np.vstack([base[1], [[0.8, 0.6]]]))):
        kept_x, kept_y, _ = fitted(X, Y, format_.bounds, NOISE)
        gram, cross = (
            format_.ring.to_integers(planes)
            for planes in (format_.gram_planes(kept_x), format_.cross_planes(kept_x, kept_y))
        )
        sums.append((gram, cross))
    weights = np.full(len(sums[0][0]), 2)
    weights[[i * d - i * (i - 1) // 2 for i in range(d)]] = 1
    moved_gram = int((weights * (sums[1][0] - sums[0][0]) ** 2).sum())
    moved_cross = int(((sums[1][1] - sums[0][1]) ** 2).sum())
    gram_units = lengths.gram_sensitivity(format_.gram_bits) * Fraction(2) ** format_.gram_bits
    cross_units = lengths.cross_sensitivity(format_.constant_bits) * Fraction(2) ** format_.constant_bits
    assert moved_gram <= gram_units**2
    assert moved_cross <= cross_units**2
    if d == 1:  # values are within 0.9 there; elsewhere the bounds are all but reached
        return
    assert moved_gram > 0.9 * gram_units**2 or kind == "one entry"


@pytest.mark.parametrize("multiplier", [0.3, 4.0, 33.0])
@pytest.mark.parametrize("honest", [1, 3, 20])
def test_honest_devices_together_have_at_least_the_noise_agreed_on(multiplier: int, honest: int):
    noise = RowNoise(multiplier, honest, 1.0)
    format_ = format_for(10, noise=noise)
    lengths = lengths_of(format_, 2)
    scales = format_.noise
    assert scales is not None
    gram = Fraction(multiplier) * lengths.gram_sensitivity(format_.gram_bits) * Fraction(2) ** format_.gram_bits
    cross = (
        Fraction(multiplier) * lengths.cross_sensitivity(format_.constant_bits) * Fraction(2) ** format_.constant_bits
    )
    assert honest * min(scales.diagonal**2, 2 * scales.off_diagonal**2) >= gram**2
    assert honest * scales.cross**2 >= cross**2
    # ... and hardly more: one unit less would be too little
    assert honest * 2 * (scales.off_diagonal - 1) ** 2 < gram**2
    assert honest * (scales.cross - 1) ** 2 < cross**2


def test_rounding_costs_less_than_a_hundredth():
    for d in (5, 300, 2000):
        format_ = FixedPoint.derive(Bounds((2 / d) ** 0.5, 1.0, 60_000, 4096), d, 25, noise=NOISE, n_outputs=10)
        lengths = lengths_of(format_, 10)
        assert lengths.gram_sensitivity(format_.gram_bits) < Fraction(101, 100)
        assert lengths.cross_sensitivity(format_.constant_bits) < Fraction(101, 100)


def test_the_range_proof_includes_the_tail():
    plain, noisy = format_for(10, noise=None), format_for(10)
    assert noisy.noise is not None
    same_grid = FixedPoint(
        **{**{name: getattr(noisy, name) for name in FixedPoint.__dataclass_fields__}, "noise": None}
    )
    assert noisy.gram_limit - same_grid.gram_limit == tail(noisy.noise.diagonal, 4)
    assert noisy.cross_limit - same_grid.cross_limit == tail(noisy.noise.cross, 4)
    assert tail(100, 4) ** 2 >= TAIL**2 * 100**2 * 4 > (tail(100, 4) - 2) ** 2
    assert 2 * math.exp(-(TAIL**2) / 2) < 2.0**-102
    assert noisy.gram_limit <= noisy.limit and plain.noise is None


def test_noise_that_does_not_fit_is_refused():
    with pytest.raises(InvalidInput, match=r"^X'X and X'Y with their noise must stay below M/8"):
        FixedPoint.derive(Bounds(1e4, 1.0, 10**6, 10**6), 10, 4, noise=NOISE)
    lengths = RowLengths(Fraction(1), Fraction(1), 10, 1)
    message = (
        "the noise of a device must be between 8 and 268435456 units of the grid, got 2: choose another epsilon,"
        " clip_norm or number of honest devices"
    )
    with pytest.raises(InvalidInput, match=exactly(message)):
        GridNoise.of(RowNoise(0.01, 4, 1.0), lengths, 8, 8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((0.0, 2, 1.0), "multiplier must be above 0 and at most 1e+06, got 0.0"),
        ((float("nan"), 2, 1.0), "multiplier must be above 0 and at most 1e+06, got nan"),
        ((1.0, 0, 1.0), "honest must be at least 1, got 0"),
        ((1.0, 2, float("inf")), "clip_norm must be a positive finite number, got inf"),
    ],
)
def test_what_is_agreed_on_is_checked(fields: tuple[float, int, float], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        RowNoise(*fields)


def test_rows_are_shortened_and_counted():
    X = np.array([[0.6, 0.8], [0.3, 0.4], [0.9, 0.9], [0.0, 0.0]])
    Y = np.array([[1.0, 0.0], [0.9, 0.9], [0.0, 1.0], [0.0, 0.0]])
    kept_x, kept_y, fit = fitted(X, Y, Bounds(1.0, 1.0, 10, 10), RowNoise(1.0, 2, 0.5))
    assert np.all(np.linalg.norm(kept_x, axis=1) <= 0.5) and np.all(np.linalg.norm(kept_y, axis=1) <= 1.0)
    assert fit.shortened == 3  # rows 0 and 2 of X, row 1 of Y; one of exactly the norm is not counted
    assert np.allclose(kept_x[0], [0.3, 0.4]) and np.array_equal(kept_x[3], [0.0, 0.0])
    assert np.array_equal(fitted(X, Y, Bounds(1.0, 1.0, 10, 10))[0], X)
