"""X'X in strips: the exact integers, whatever the blocks, in no more memory than the square took."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from codedfl.exact.gram import STRIP, GramSum


@pytest.mark.parametrize("d", [1, 5, STRIP, STRIP + 1, 2 * STRIP + 77])
def test_the_very_integers(d: int):
    """The largest sums a device may have: 2^13 products of two 20-bit numbers, compared with whole numbers."""
    rows = np.random.default_rng(d).integers(-(2**20), 2**20, (301, d))
    rows[:, 0] = 2**20
    total = GramSum(d)
    for start in range(0, len(rows), 100):
        total.add(rows[start : start + 100].astype(np.float64))
    assert np.array_equal(total.triangle(), (rows.T @ rows)[np.triu_indices(d)])


def test_no_rows_give_zeros():
    assert np.array_equal(GramSum(3).triangle(), np.zeros(6))


def test_the_memory_is_that_of_one_square():
    d = 1500
    block = np.ones((64, d))
    tracemalloc.start()
    total = GramSum(d)
    total.add(block)
    total.triangle()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * 8 * d * d
