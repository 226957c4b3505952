"""Secure sums by the protocol: right for entries of very different size."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.errors import InvalidInput
from codedfl.run.secure_sum import secure_sum_in_process


@settings(max_examples=10)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(0, 1000))
def test_sum_to_six_digits_of_each_entrys_largest(devices, length, seed):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(devices, length)) * 10.0 ** rng.integers(-9, 10, length)
    total = secure_sum_in_process(list(vectors))
    assert (np.abs(total - vectors.sum(axis=0)) <= devices * 2e-6 * np.abs(vectors).max(axis=0)).all()


def test_zeros_and_whole_numbers_are_exact():
    assert secure_sum_in_process([np.array([0.0, 3.0]), np.array([0.0, 4.0])]).tolist() == [0.0, 7.0]


def test_one_device_alone_is_refused():
    with pytest.raises(InvalidInput, match=re.escape("a secure sum must have at least two devices, got 1")):
        secure_sum_in_process([np.zeros(2)])
