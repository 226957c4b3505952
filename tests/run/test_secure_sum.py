"""Secure sums by the protocol: exact, for entries of very different size."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.errors import InvalidInput
from codedfl.run import sums_in_process
from codedfl.run.sums_in_process import secure_moments_in_process, secure_sum_in_process


@settings(max_examples=10)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(0, 1000))
def test_the_sum_is_that_of_fractions_rounded_once(devices: int, length: int, seed: int):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(devices, length)) * 10.0 ** rng.integers(-9, 30, (devices, length))
    exact = [float(sum(map(Fraction, column))) for column in vectors.T.tolist()]
    assert secure_sum_in_process(list(vectors)).tolist() == exact


def test_more_colluders_have_more_roles(monkeypatch: pytest.MonkeyPatch):
    vectors = list(np.random.default_rng(1).normal(size=(6, 3)))
    plain = secure_sum_in_process(vectors)
    agreed: list[int] = []
    made = sums_in_process.Terms

    def noted(*arguments: Any, **more: Any) -> Any:
        agreed.append(arguments[3])
        return made(*arguments, **more)

    monkeypatch.setattr(sums_in_process, "Terms", noted)
    assert np.array_equal(secure_sum_in_process(vectors, colluders=3), plain)
    assert agreed == [3]


def test_zeros_and_whole_numbers_are_exact():
    assert secure_sum_in_process([np.array([0.0, 3.0]), np.array([0.0, 4.0])]).tolist() == [0.0, 7.0]


def test_a_constant_column_has_no_deviation_worth_the_name():
    moments = secure_moments_in_process([np.full((n, 1), 1e9 / 3) for n in (3, 7, 100)])
    assert np.sqrt(moments.variance[0]) <= 1e-15 * 1e9


def test_one_device_alone_is_refused():
    with pytest.raises(InvalidInput, match=re.escape("a secure sum must have at least two devices, got 1")):
        secure_sum_in_process([np.zeros(2)])


@pytest.mark.parametrize(("value", "shown"), [(2.0**180, "1.5325e+54"), (float("nan"), "nan"), (-np.inf, "inf")])
def test_numbers_beyond_all_measure_are_refused(value: float, shown: str):
    message = f"numbers to sum must be finite and below 2e+54, got {shown}"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        secure_sum_in_process([np.array([value]), np.array([1.0])])
