"""Scaling that all devices share: exact at the ends of a range, stable sums, every clipped value counted."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.data.moments import centred_squares, column_sums, secure_moments
from codedfl.data.preprocessing import Moments, Preprocessing


def plain_sum(vectors: list[np.ndarray]) -> np.ndarray:
    """Stands for the secure sum, which gives the same total."""
    return np.sum(vectors, axis=0)


def test_pixels_stay_what_they_are() -> None:
    X = np.random.default_rng(0).random((5, 3), dtype=np.float32)
    scaled, clipped = Preprocessing.from_range(0, 1, 3).apply(X)
    assert scaled.dtype == np.float32
    assert np.array_equal(scaled, X)
    assert clipped.tolist() == [0, 0, 0]


finite = st.floats(-1e9, 1e9, allow_nan=False)


@given(finite, finite, finite)
def test_the_ends_of_a_range_are_0_and_1_and_are_not_clipped(a: float, b: float, c: float) -> None:
    low, middle, high = sorted((a, b, c))
    if low == high:
        return
    for dtype in (np.float64, np.float32):
        scaled, clipped = Preprocessing.from_range(low, high, 1).apply(
            np.array([[low], [middle], [high]]).astype(dtype)
        )
        assert 0 <= scaled.min() <= scaled.max() <= 1
        if dtype is np.float64:
            assert (scaled[0, 0], scaled[2, 0]) == (0, 1)
            assert clipped.sum() == 0


def test_clipped_values_are_counted_per_column() -> None:
    X = np.array([[-1.0, 5.0, 20.0], [0.0, 11.0, -3.0], [12.0, 10.0, 5.0]])
    scaled, clipped = Preprocessing.from_range([0, 0, 0], [10, 10, 20], 3).apply(X)
    assert clipped.tolist() == [2, 1, 1]
    assert scaled.tolist() == [[0, 0.5, 1], [0, 1, 0], [1, 1, 0.25]]


def test_moments_equal_the_central_ones_by_exact_fractions() -> None:
    rng = np.random.default_rng(1)
    parts = [rng.normal(3.0, 2.0, (n, 2)) for n in (5, 1, 9)]
    moments = secure_moments(parts, plain_sum)
    for j in range(2):
        column = [Fraction(float(x)) for part in parts for x in part[:, j]]
        mean = sum(column) / len(column)
        variance = sum((x - mean) ** 2 for x in column) / len(column)
        assert moments.mean[j] == pytest.approx(float(mean), rel=1e-14)
        assert moments.variance[j] == pytest.approx(float(variance), rel=1e-13)
    assert moments.count == 15


def test_a_large_mean_costs_no_digits() -> None:
    seconds = 1.7e9 + np.arange(1000.0).reshape(-1, 1)
    moments = secure_moments(np.array_split(seconds, 4), plain_sum)
    assert moments.variance[0] == pytest.approx((1000**2 - 1) / 12, rel=1e-9)


def test_what_leaves_a_device() -> None:
    X = np.array([[1.0, 2.0], [3.0, 6.0]])
    assert column_sums(X).tolist() == [2, 4, 8]
    assert centred_squares(X, np.array([2.0, 4.0])).tolist() == [2, 8]


def test_standardised_columns_are_clipped_at_four_deviations() -> None:
    X = np.random.default_rng(2).normal(50.0, 3.0, (10_000, 2))
    X[0, 1] = 1e6
    step = Preprocessing.from_moments(secure_moments([X[:, :1], X[:, :1]], plain_sum))
    scaled, clipped = step.apply(X[:, :1])
    assert abs(scaled.mean()) < 1e-3
    assert scaled.std() == pytest.approx(1, abs=1e-2)
    assert clipped.sum() == (np.abs(X[:, 0] - X[:, 0].mean()) > 4 * X[:, 0].std()).sum()
    spiked, spikes = Preprocessing.from_moments(secure_moments([X], plain_sum)).apply(X)
    assert spikes[1] == 1
    assert np.abs(spiked).max() <= 4
    assert np.all(step.low == -4) and np.all(step.high == 4) and (step.bound, step.width) == (4, 8)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1 / 3])
def test_a_constant_column_becomes_zero(value: float) -> None:
    X = np.full((1000, 1), value)
    step = Preprocessing.from_moments(secure_moments(np.array_split(X, 7), plain_sum))
    scaled, clipped = step.apply(np.array([[value], [value + 1]]))
    assert scaled.tolist() == [[0], [0]]
    assert clipped.sum() == 0


def test_a_sum_that_rounds_below_zero_is_a_variance_of_zero() -> None:
    moments = secure_moments([np.ones((3, 1))], lambda vectors: plain_sum(vectors) - 1e-9)
    assert (moments.count, moments.variance[0]) == (3, 0)


def test_moments_make_a_range_public() -> None:
    low, high = Moments(10, np.array([5.0]), np.array([4.0])).range(3)
    assert (low[0], high[0]) == (-1, 11)


def test_it_survives_json() -> None:
    step = Preprocessing.from_range([0.1, -7], [1 / 3, 1e300], 2)
    again = Preprocessing.from_dict(json.loads(json.dumps(step.to_dict())))
    X = np.array([[0.2, 3.0], [0.3, 1e299]])
    assert np.array_equal(step.apply(X)[0], again.apply(X)[0])
    assert repr(again) == "<Preprocessing of 2 columns to [0, 1]>"


@pytest.mark.parametrize(
    "saved", [{}, {"shift": [0], "scale": [1], "low": 0}, {"shift": ["a"], "scale": [1], "low": 0, "high": 1}]
)
def test_an_incomplete_one_is_refused(saved: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"^saved preprocessing must hold shift, scale, low and high, got"):
        Preprocessing.from_dict(saved)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^low must be below high in every column, got 2.0 and 2.0 in column 1$"):
        Preprocessing.from_range([0, 2], [1, 2], 2)
    with pytest.raises(ValueError, match=r"^high must be one finite number or one per column \(2\), got shape \(3,\)$"):
        Preprocessing.from_range(0, [1, 2, 3], 2)
    with pytest.raises(ValueError, match=r"^clip must be a positive number of standard deviations, got 0$"):
        Preprocessing.from_moments(Moments(1, np.zeros(1), np.ones(1)), clip=0)
    step = Preprocessing.from_range(0, 1, 2)
    with pytest.raises(ValueError, match=r"^X must have 2 columns, got 3$"):
        step.apply(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"^X must be finite, got nan in row 0, column 1$"):
        step.apply(np.array([[1.0, np.nan]]))
    with pytest.raises(ValueError, match=r"^X must be a matrix of numbers, got 1 dimension\(s\) of <U1$"):
        step.apply(np.array(["a"]))
    for shift, scale in ((np.zeros(2), np.ones(3)), (np.zeros(0), np.zeros(0))):
        with pytest.raises(ValueError, match=r"^shift and scale must be vectors of equal length, got"):
            Preprocessing(shift, scale, 0, 1)
    with pytest.raises(ValueError, match=r"^shift and scale must be finite and scale not negative"):
        Preprocessing(np.zeros(1), -np.ones(1), 0, 1)
    with pytest.raises(ValueError, match=r"^low must be below high, both finite, got 1.0 and 0.0$"):
        Preprocessing(np.zeros(1), np.ones(1), 1, 0)


def test_sums_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^parts must hold the rows of at least one device, got none$"):
        secure_moments([], plain_sum)
    with pytest.raises(ValueError, match=r"^all devices must have the same columns, got sums of \[3, 4\]$"):
        secure_moments([np.ones((2, 2)), np.ones((2, 3))], plain_sum)
    with pytest.raises(ValueError, match=r"^secure_sum must return 3 finite numbers, got shape \(2,\)$"):
        secure_moments([np.ones((2, 2))], lambda vectors: vectors[0][:2])
    with pytest.raises(ValueError, match=r"^secure_sum must return the number of rows first, got 0.0$"):
        secure_moments([np.ones((2, 2))], lambda vectors: 0 * vectors[0])
