"""Groups with a code each: the same model, the epoch ends with the slowest group, masks run through all."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import oracle
from codedfl.errors import InvalidInput
from codedfl_lab.code.gradient_code import GroupedCode, coded_quorum, group_sizes, make_code
from codedfl_lab.code.masks import mask_coefficients, mask_senders
from codedfl_lab.primes.ring import Ring


def code_of(n_devices: int, alpha: int, groups: int) -> GroupedCode:
    ring = Ring.for_group_sizes(group_sizes(n_devices, alpha, groups))
    return GroupedCode(n_devices, alpha, ring.primes, groups)


@pytest.mark.parametrize(("n_devices", "alpha", "groups"), [(4, 2, 2), (5, 2, 2), (7, 2, 3), (8, 3, 2), (6, 1, 3)])
def test_every_sufficient_survivor_set_decodes(n_devices, alpha, groups):
    code = code_of(n_devices, alpha, groups)
    B = code.matrix()
    sufficient = 0
    for size in range(1, n_devices + 1):
        for survivors in itertools.combinations(range(n_devices), size):
            if not code.quorum.complete(survivors):
                continue
            sufficient += 1
            vector = code.decoding_vector(survivors)
            for k, prime in enumerate(code.primes):
                total = [sum(int(a) * int(B[k, i, j]) for a, i in zip(vector[k], survivors, strict=True)) % prime
                         for j in range(n_devices)]  # fmt: skip
                assert total == [1] * n_devices
    assert sufficient > 0


def test_shortfall_counts_each_group():
    code = code_of(8, 3, 2)  # groups {0,2,4,6} and {1,3,5,7}, two answers needed from each
    assert code.answers_needed == 4
    assert code.quorum.missing([0, 2, 4, 6]) == 2
    assert code.quorum.missing([0, 2, 1, 3]) == 0
    assert repr(code) == "<GroupedCode alpha=3 of D=8 in 2 groups, tolerates 2 stragglers in each>"


def test_supports_stay_within_the_group():
    code = code_of(9, 2, 3)
    assert code.row_support(4) == [4, 7]
    assert code.row_support(7) == [7, 1]
    for j in range(9):
        assert sorted(code.column_support(j)) == [i for i in range(9) if j in code.row_support(i)]


@pytest.mark.parametrize("groups", [0, 5])
def test_bad_group_counts_are_refused(groups):
    message = f"groups must be between 1 and half the number of devices (8), got {groups}"
    with pytest.raises(InvalidInput, match=re.escape(message)):
        group_sizes(8, 1, groups)


def test_alpha_must_fit_the_smallest_group():
    message = "alpha must be between 1 and the number of devices (2), got 3"
    with pytest.raises(InvalidInput, match=re.escape(message)):
        group_sizes(5, 3, 2)


def test_one_group_is_the_plain_code():
    primes = Ring.for_group_sizes([6]).primes
    assert np.array_equal(make_code(6, 3, primes).matrix(), GroupedCode(6, 3, primes, 1).matrix())


def test_masks_leave_the_total_only():
    """Unknowns are g_j and m_j; of all functionals without masks in them, one is left: the sum of all g_j."""
    code = code_of(6, 2, 2)
    prime = code.primes[0]
    B = code.matrix()[0]
    rows, masks = [], []
    for i in range(6):
        coefficients = dict(zip(mask_senders(code, i), mask_coefficients(code, i)[0], strict=True))
        rows.append([int(x) for x in B[i]])
        masks.append([int(coefficients.get(k, 0)) for k in range(6)])
    kept = oracle.left_null_space(masks, prime)
    revealed = oracle.reduced(oracle.product(kept, rows), prime)
    assert revealed == [[1] * 6]


def test_quorum_is_the_slowest_groups():
    arrivals = np.array([[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]])  # groups 1, 2, 3 and 10, 20, 30
    assert coded_quorum(6, 2, 2).time(arrivals) == [20.0]
    assert coded_quorum(6, 1).time(arrivals) == [30.0]
    assert coded_quorum(6, 3).time(arrivals) == [10.0]
