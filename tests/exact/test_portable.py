"""exp and log that are the same on all machines: close to the library's, and of each number by itself."""

from __future__ import annotations

import math

import numpy as np

from codedfl.exact.portable import portable_exp, portable_log

NUMBERS = np.random.default_rng(0).uniform(-200, 200, 4001)


def test_they_are_within_two_units_of_the_last_place():
    exp, log = portable_exp(NUMBERS), portable_log(np.abs(NUMBERS))
    assert max(abs(float(a) / math.exp(b) - 1) for a, b in zip(exp, NUMBERS, strict=True)) < 5e-16
    assert max(abs(float(a) - math.log(abs(b))) for a, b in zip(log, NUMBERS, strict=True)) < 2e-15
    assert portable_exp(np.zeros(1))[0] == 1.0 and portable_log(np.ones(1))[0] == 0.0


def test_a_number_has_one_result_wherever_it_stands():
    for function, numbers in ((portable_exp, NUMBERS), (portable_log, np.abs(NUMBERS))):
        alone = [function(numbers[place : place + 1])[0] for place in range(0, 4001, 7)]
        assert np.array_equal(function(numbers)[::7], alone)
        assert np.array_equal(function(numbers[3:])[4::7], alone[1:])
