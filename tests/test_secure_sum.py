"""Secure sums: digits kept at every scale, and moments that tell constant columns from rounding."""

from __future__ import annotations

import numpy as np
import pytest

from codedfl.preprocessing import Preprocessing
from codedfl.secure_sum import secure_moments_in_process, secure_sum_in_process


@pytest.mark.parametrize("D", [2, 5, 40])
def test_eleven_digits_at_every_scale(D: int) -> None:
    # 40 devices need the third prime for so many digits.
    scales = 10.0 ** np.arange(-300, 301, 60)
    vectors = np.random.default_rng(D).uniform(-1, 1, (D, len(scales))) * scales
    error = np.abs(secure_sum_in_process(list(vectors)) - vectors.sum(axis=0))
    assert (error <= D * np.abs(vectors).max(axis=0) * 2.0**-38).all()


def test_zeros_and_counts_are_exact() -> None:
    vectors = np.array([[0.0, 3.0, 1e6], [0.0, 4.0, -1.0], [0.0, 1.0, 0.5]])
    assert secure_sum_in_process(list(vectors)).tolist() == [0, 8, 999_999.5]


def test_a_single_device_has_nowhere_to_hide() -> None:
    with pytest.raises(ValueError, match=r"^a secure sum must have at least two devices, got 1$"):
        secure_sum_in_process([np.ones(2)])


@pytest.mark.parametrize(("D", "value"), [(2, 0.0), (3, 0.1), (5, -1e9), (7, 1 / 3), (7, 1e-6), (40, 1 / 3)])
def test_a_constant_column_has_no_variance(D: int, value: float) -> None:
    X = np.column_stack((np.full(200, value), np.arange(200.0)))
    moments = secure_moments_in_process(np.array_split(X, D))
    assert moments.variance[0] == 0
    assert Preprocessing.from_moments(moments).apply(np.array([[value + 1.0, 0.0]]))[0][0, 0] == 0
    assert (moments.count, moments.mean[1]) == (200, 99.5)


def test_a_small_deviation_on_a_large_mean_is_kept() -> None:
    seconds = 1.7e9 + 0.1 * np.arange(1000.0)[:, None]
    moments = secure_moments_in_process(np.array_split(seconds, 5))
    assert moments.variance[0] == pytest.approx(seconds.var(), rel=1e-4)
