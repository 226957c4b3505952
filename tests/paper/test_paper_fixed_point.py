"""The paper's Q<k,f> against Python integers, and the defect that made us leave it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.errors import InvalidInput
from codedfl_lab.paper import PaperFixedPoint
from wording import exactly

PAPER = PaperFixedPoint()
DATATYPES = st.tuples(st.integers(2, 62), st.integers(0, 31)).filter(lambda kf: kf[1] < kf[0])


def onto(value: int, k: int) -> int:
    """The representative modulo 2^k in [-2^(k-1), 2^(k-1) - 1]."""
    return (value + 2 ** (k - 1)) % 2**k - 2 ** (k - 1)


def array(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_the_default_is_the_papers_datatype():
    assert (PAPER.k, PAPER.f) == (48, 24)


@given(kf=DATATYPES, data=st.data())
def test_addition_and_multiplication_are_the_papers(kf: tuple[int, int], data: st.DataObject):
    k, f = kf
    datatype = PaperFixedPoint(k, f)
    low, high = -(2 ** (k - 1)), 2 ** (k - 1) - 1
    element = st.one_of(st.sampled_from([low, high, 0, 1 if high else 0, -1]), st.integers(low, high))
    pairs = data.draw(st.lists(st.tuples(element, element), min_size=1, max_size=10))
    a, b = array(*(x for x, _ in pairs)), array(*(y for _, y in pairs))
    assert datatype.add(a, b).tolist() == [onto(x + y, k) for x, y in pairs]
    assert datatype.multiply(a, b).tolist() == [onto((x * y) >> f, k) for x, y in pairs]


@given(k=st.integers(2, 62), values=st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=10))
def test_wrapping_maps_onto_the_integers_of_k_bits(k: int, values: list[int]):
    assert PaperFixedPoint(k, 0).wrap(array(*values)).tolist() == [onto(v, k) for v in values]


def test_matrix_products_truncate_every_single_product():
    rng = np.random.default_rng(1)
    a, b = rng.integers(-(2**47), 2**47, (3, 50)), rng.integers(-(2**47), 2**47, (50, 2))
    expected = [
        [onto(sum((int(x) * int(y)) >> 24 for x, y in zip(row, column, strict=True)), 48) for column in b.T]
        for row in a
    ]
    assert PAPER.matmul(a, b).tolist() == expected
    # The truncation is seen: the product truncated once is another one.
    once = [
        [onto(sum(int(x) * int(y) for x, y in zip(row, column, strict=True)) >> 24, 48) for column in b.T] for row in a
    ]
    assert once != expected


def test_reals_are_rounded_half_to_even_and_come_back():
    values = np.array([1.5 * 2.0**-24, 2.5 * 2.0**-24, -0.5 * 2.0**-24, 3.25])
    integers = PAPER.from_reals(values)
    assert integers.tolist() == [2, 2, 0, 3.25 * 2**24]
    assert PAPER.to_reals(integers).tolist() == [2.0**-23, 2.0**-23, 0.0, 3.25]


@pytest.mark.parametrize(("value", "shown"), [(2.0**23, "8.38861e+06"), (-(2.0**24), "1.67772e+07"), (np.nan, "nan")])
def test_a_real_out_of_range_is_refused(value: float, shown: str):
    message = f"values must be below 2^23 in size, got {shown}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        PAPER.from_reals(np.array([0.5, value]))


@pytest.mark.parametrize(
    ("k", "f", "message"),
    [
        (1, 0, "k must be between 2 and 62 (wrapped sums must fit 64 bits), got 1"),
        (63, 0, "k must be between 2 and 62 (wrapped sums must fit 64 bits), got 63"),
        (48, 32, "f must be between 0 and 31, got 32"),
        (8, 8, "f must be between 0 and 7, got 8"),
        (8, -1, "f must be between 0 and 7, got -1"),
    ],
)
def test_datatypes_that_do_not_exist_are_refused(k: int, f: int, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        PaperFixedPoint(k, f)


# -- the "Retrieval" proposition


def retrieved(c: int, x: int, r: int) -> int:
    """c(x + r) - c r in Q<48,24>: what the proposition says is c x + O(2^-f)."""
    padded = PAPER.add(array(x), array(r))
    return int(PAPER.add(PAPER.multiply(array(c), padded), -PAPER.multiply(array(c), array(r)))[0])


@given(c=st.integers(-(2**27), 2**27), x=st.integers(-(2**27), 2**27), r=st.integers(-(2**46), 2**46))
def test_retrieval_holds_while_nothing_wraps(c: int, x: int, r: int):
    assert abs(retrieved(c, x, r) - ((c * x) >> 24)) <= 1


def test_retrieval_fails_by_c_times_2_to_the_k_minus_f_when_a_padded_number_wraps():
    """The defect: c = 5/4, x = 1, and a pad that is the largest number. The error is 2^22, not O(2^-24)."""
    one = 2**24
    c, x, r = 5 * one // 4, one, 2**47 - 1
    error = retrieved(c, x, r) - ((c * x) >> 24)
    # x + r wraps to x + r - 2^48; its product is off by c 2^48 2^-24, of which the ring forgives multiples of 2^48.
    assert abs(error - onto(-c * 2**24, 48)) <= 1
    assert PAPER.to_reals(array(error))[0] == pytest.approx(-(2.0**22), rel=1e-6)
