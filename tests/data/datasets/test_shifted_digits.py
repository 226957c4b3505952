"""The embedded problem of the paper's regime: shifted by one pixel, and no test image among the training rows."""

from __future__ import annotations

import numpy as np

from codedfl_lab import datasets
from codedfl_lab.datasets.shifted_digits import shifted


def test_pixels_move_and_what_comes_in_is_zero():
    image = np.arange(64.0).reshape(1, 64)
    square = image.reshape(8, 8)
    assert np.array_equal(shifted(image, 0, 0), image)
    down = shifted(image, 1, 0).reshape(8, 8)
    assert np.array_equal(down[1:], square[:-1]) and not down[0].any()
    left = shifted(image, 0, -1).reshape(8, 8)
    assert np.array_equal(left[:, :-1], square[:, 1:]) and not left[:, -1].any()


def test_nine_times_the_digits_split_before_they_are_shifted():
    whole, digits = datasets.load("digits-shifted"), datasets.load("digits")
    assert (len(whole.y_train), len(whole.y_test)) == (9 * len(digits.y_train), 9 * len(digits.y_test))
    assert len(whole.y_train) + len(whole.y_test) == 16_173
    trained = {row.tobytes() for row in whole.X_train}
    assert not [row for row in digits.X_test if row.tobytes() in trained], "a test image is no training row"
    unmoved = len(digits.y_train) * 4  # the shift by nothing is the fifth of nine
    assert np.array_equal(whole.X_train[unmoved : unmoved + len(digits.y_train)], digits.X_train)
    assert np.array_equal(whole.y_train.reshape(9, -1), np.tile(digits.y_train, (9, 1)))
    assert whole.public_range == (0.0, 1.0)
