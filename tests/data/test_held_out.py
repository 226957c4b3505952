"""Held-out rows: by the row's own content and the device's key, wherever the row stands."""

from __future__ import annotations

import numpy as np
import pytest

from codedfl.data.held_out import held_out_rows
from codedfl.errors import InvalidInput

KEY = bytes(range(32))
X = np.random.default_rng(0).normal(size=(2000, 3))
Y = np.array(["a", "b"] * 1000)


def test_about_the_share_and_always_the_same_rows():
    mask = held_out_rows(X, Y, 0.3, KEY)
    assert 0.26 < mask.mean() < 0.34
    order = np.random.default_rng(1).permutation(2000)
    assert np.array_equal(held_out_rows(X[order], Y[order], 0.3, KEY), mask[order])
    assert not held_out_rows(X, Y, 0.0, KEY).any()
    assert (mask <= held_out_rows(X, Y, 0.5, KEY)).all(), "a larger share keeps those that were out"


def test_another_key_or_another_label_chooses_anew():
    mask = held_out_rows(X, Y, 0.3, KEY)
    for other in (held_out_rows(X, Y, 0.3, KEY[::-1]), held_out_rows(X, Y[::-1], 0.3, KEY)):
        assert 0.3 < (mask != other).mean() < 0.55
    assert np.array_equal(held_out_rows(X * 0 - 0.0, Y, 0.3, KEY), held_out_rows(X * 0 + 0.0, Y, 0.3, KEY))


def test_bad_arguments():
    with pytest.raises(InvalidInput, match=r"^share must be at least 0 and below 1, got 1$"):
        held_out_rows(X, Y, 1, KEY)
    with pytest.raises(InvalidInput, match=r"^key must have 16 to 64 bytes, got 3$"):
        held_out_rows(X, Y, 0.1, b"abc")
