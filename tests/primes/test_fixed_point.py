"""Scales, their proof, and rounding, against fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ring import planes_of, values_of

import oracle
from codedfl.errors import InvalidInput, RangeExceeded
from codedfl.exact.scales import Bounds, natural_bits
from codedfl.exact.totals import round_update
from codedfl_lab.primes.fixed_point import FixedPoint
from wording import exactly

MNIST = Bounds(math.sqrt(2 / 2000), 1.0, 60_000, 2_400)
SMALL = Bounds(1.0, 1.0, 100, 40)


def gram_limit(format_: FixedPoint) -> int:
    """|entry of sum_i X_i'X_i| <= m ceil(bound 2^f)^2 in units of 2^-2f, and half a unit more for each rounding."""
    grid = ceil(Fraction(format_.bounds.features) * Fraction(2) ** format_.feature_bits)
    units = Fraction(2) ** (format_.gram_bits - 2 * format_.feature_bits)
    return ceil(format_.bounds.samples * grid * grid * units) + format_.n_devices


def small(**changes: object) -> FixedPoint:
    options: dict = {"n_features": 4, "n_devices": 5} | changes
    return FixedPoint.derive(SMALL, **options)


@st.composite
def derived(draw: st.DrawFn) -> FixedPoint:
    per_device = draw(st.integers(1, 10**6))
    n_devices = draw(st.integers(2, 200))
    bounds = Bounds(
        draw(st.floats(1e-3, 1e3)), draw(st.floats(1e-3, 1e3)), per_device * draw(st.integers(1, n_devices)), per_device
    )
    n_features = draw(st.integers(1, 4000))
    format_ = FixedPoint.derive(bounds, n_features, n_devices)
    if draw(st.booleans()):
        precision = natural_bits(format_.ring.modulus, bounds, n_features) + 1
        return FixedPoint.derive(bounds, n_features, n_devices, precision=precision)
    return format_


# -- the proof


@given(format_=derived())
def test_sums_on_the_grid_are_exact_in_float64(format_: FixedPoint):
    """n_i products of two gridded numbers stay at or below 2^53, so BLAS may add them in any order."""
    b = format_.bounds
    x = math.ceil(Fraction(b.features) * Fraction(2) ** format_.feature_bits)
    y = math.ceil(Fraction(b.labels) * Fraction(2) ** format_.label_bits)
    assert b.samples_per_device * x * x <= 2**53
    assert b.samples_per_device * x * y <= 2**53
    assert x <= 2**20
    assert y <= 2**20
    # And hardly a bit is wasted: with one more on the grid the sum would take 51 of the 53, or x its 20. (The number of
    # samples counts as the next power of two, half a bit is lost by halving, a bound of 2^k has one to spare.)
    assert x >= 2**19 or b.samples_per_device * (2 * x) ** 2 >= 2**51


@given(format_=derived())
def test_limits_hold_for_the_largest_data_the_bounds_allow(format_: FixedPoint):
    b, devices = format_.bounds, format_.n_devices
    assert format_.limit == format_.ring.modulus // 8
    assert format_.gram_limit == gram_limit(format_)
    # X'X of all samples at the bound, each device's part rounded up by half a unit.
    x = rounded_up(b.features, format_.feature_bits)
    largest = b.samples * x * x * Fraction(2) ** format_.gram_bits + Fraction(devices, 2)
    assert largest <= format_.gram_limit < largest + devices + 1
    y = rounded_up(b.labels, format_.label_bits)
    largest = b.samples * x * y * Fraction(2) ** format_.constant_bits + Fraction(devices, 2)
    assert largest <= format_.cross_limit < largest + devices + 1


def rounded_up(bound: float, bits: int) -> Fraction:
    """The largest gridded number that a value within the bound can become, as a real."""
    scale = Fraction(2) ** bits
    return math.ceil(Fraction(bound) * scale) / scale


@given(format_=derived())
def test_the_constant_fits_whatever_the_data(format_: FixedPoint):
    """For Theta^(1) = 0: |X'Y| <= M/8 with every sample at the bounds."""
    assert format_.cross_limit <= format_.limit
    assert format_.constant_bits <= format_.feature_bits + format_.label_bits
    assert format_.gram_bits <= 2 * format_.feature_bits


# -- the decisions


def test_the_papers_size_fits_two_primes():
    format_ = FixedPoint.derive(MNIST, 2000, 25)
    assert len(format_.ring.primes) == 2
    assert format_.feature_bits == 24  # sqrt(2/d) = 2^-5 and a bit: 20 significant bits end at 2^-24
    assert format_.label_bits == 19
    # 12 fraction bits for X'X are known to cost an epoch, 14 none (beyond.md, section 5).
    assert format_.gram_bits >= 14
    # The sum of X'X e has 45 bits of room; an e of natural size gets at least 14 of them, typical smaller ones more.
    natural = np.full((2000, 1), 1 / (math.sqrt(2 / 2000) * math.sqrt(2000)))
    _, bits = round_update(format_, natural)
    assert bits >= 13
    _, more = round_update(format_, natural / 8)
    assert more == bits + 3


def test_more_samples_cost_bits_of_the_ring():
    one = natural_bits(FixedPoint.derive(MNIST, 2000, 25).modulus, MNIST, 2000)
    many = Bounds(MNIST.features, 1.0, 40 * 60_000, 2_400)
    assert natural_bits(FixedPoint.derive(many, 2000, 1000).modulus, many, 2000) in (one - 6, one - 5)


def test_more_precision_takes_the_third_prime():
    two = small()
    natural = natural_bits(two.ring.modulus, SMALL, 4)
    assert small(precision=natural) == two
    three = small(precision=natural + 1)
    assert len(three.ring.primes) == 3
    assert three.ring.primes[:2] == two.ring.primes
    assert three.gram_bits > two.gram_bits


def test_more_precision_than_three_primes_have_is_refused():
    most = natural_bits(small(precision=50).ring.modulus, SMALL, 4)
    assert len(small(precision=most).ring.primes) == 3
    message = f"precision must be at most {most} fraction bits for these bounds, got {most + 1}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        small(precision=most + 1)


def test_groups_choose_the_primes():
    assert all(p % 12 == 1 for p in small(group_sizes=(4, 6)).ring.primes)


def test_repr_shows_the_decisions():
    format_ = FixedPoint.derive(MNIST, 2000, 25)
    assert repr(format_) == (
        f"<FixedPoint 2 primes, 24-bit grid, X'X {format_.gram_bits} and G1 {format_.constant_bits} fraction bits>"
    )


# -- a device's data


def integers_of(planes: np.ndarray, format_: FixedPoint) -> list[int]:
    return values_of(planes, format_.ring)


def test_rounding_to_the_grid_is_half_to_even():
    format_ = small()
    unit = 2.0**-format_.feature_bits
    values = np.array([[0.5, 1.5, 2.5, -0.5, -1.5, 0.75, 0.25]]) * unit
    assert format_.grid_features(values).tolist() == [[0, 2, 2, 0, -2, 1, 0]]


def boundary_data(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Random values, with some at the bounds and at zero."""
    data = rng.uniform(-1, 1, (rows, columns))
    data.flat[:: max(1, columns - 1)] = rng.choice([-1.0, 0.0, 1.0], data.flat[:: max(1, columns - 1)].shape)
    return data


@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("precision", [None, 50])
def test_gram_and_cross_are_rounded_once(rows: int, precision: int | None):
    format_ = small(precision=precision)
    rng = np.random.default_rng(rows)
    X, Y = boundary_data(rng, rows, 4), boundary_data(rng, rows, 3)
    x, y = oracle.on_grid(X, format_.feature_bits), oracle.on_grid(Y, format_.label_bits)
    gram = oracle.rescaled(oracle.product(oracle.transposed(x), x), 2 * format_.feature_bits, format_.gram_bits)
    triangle = [gram[i][j] for i in range(4) for j in range(i, 4)]
    assert integers_of(format_.gram_planes(X), format_) == triangle
    cross = oracle.rescaled(
        oracle.product(oracle.transposed(x), y), format_.feature_bits + format_.label_bits, format_.constant_bits
    )
    assert integers_of(format_.cross_planes(X, Y), format_) == [v for row in cross for v in row]


def test_a_device_of_more_than_one_block_of_rows_is_rounded_once():
    """1500 rows: two blocks in the code, one sum here."""
    format_ = FixedPoint.derive(Bounds(1.0, 1.0, 3000, 1500), 3, 2)
    X = boundary_data(np.random.default_rng(5), 1500, 3)
    x = oracle.on_grid(X, format_.feature_bits)
    gram = oracle.rescaled(oracle.product(oracle.transposed(x), x), 2 * format_.feature_bits, format_.gram_bits)
    assert integers_of(format_.gram_planes(X), format_) == [gram[i][j] for i in range(3) for j in range(i, 3)]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("X", np.nan, "X must be finite, got nan"),
        ("X", np.inf, "X must be finite, got inf"),
        ("X", -np.inf, "X must be finite, got inf"),
        ("X", -1.001, "X must lie within its public bound of +-1, got 1.001"),
        ("Y", np.nan, "Y must be finite, got nan"),
        ("Y", 2.0, "Y must lie within its public bound of +-1, got 2"),
    ],
)
def test_data_outside_the_bounds_are_refused(name: str, value: float, message: str):
    X, Y = np.zeros((3, 4)), np.zeros((3, 2))
    (X if name == "X" else Y)[1, 1] = value
    with pytest.raises(InvalidInput, match=exactly(message)):
        small().cross(X, Y)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, 5), "X must have 4 feature columns, got shape (3, 5)"),
        ((4,), "X must have 4 feature columns, got shape (4,)"),
        ((0, 4), "a device must have between 1 and 40 samples, got 0"),
        ((41, 4), "a device must have between 1 and 40 samples, got 41"),
    ],
)
def test_data_of_the_wrong_shape_are_refused(shape: tuple[int, ...], message: str):
    X = np.zeros(shape)
    with pytest.raises(InvalidInput, match=exactly(message)):
        small().gram(X)
    with pytest.raises(InvalidInput, match=exactly(message)):
        small().cross(X, np.zeros((len(X), 2)))


# -- updates


@given(
    values=st.lists(
        st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e4), st.floats(-1e4, -1e-9)), min_size=3, max_size=3),
        min_size=4,
        max_size=4,
    )
)
def test_an_update_gets_the_most_bits_that_provably_fit(values: list[list[float]]):
    format_ = small()
    integers, bits = round_update(format_, np.array(values))
    expected, expected_bits = oracle.update_on_grid(values, format_.limit // format_.gram_limit)
    assert (integers.tolist(), bits) == (expected, expected_bits)
    assert gram_limit(format_) * oracle.column_norm(expected) <= format_.ring.modulus // 8


def test_the_zero_update_has_no_bits():
    integers, bits = round_update(small(), np.zeros((4, 2)))
    assert bits == 0
    assert not integers.any()


def test_an_update_of_which_nothing_would_be_left_is_refused():
    format_ = FixedPoint.derive(Bounds(200.0, 1.0, 50_000, 10_000), 300, 5)
    assert format_.update_bits < 0
    with pytest.raises(RangeExceeded, match=exactly(
        "the update must not be rounded to zero, got one of norm 6 with 2 fraction bits: the public bounds are too wide"
        " for this precision"
    )):  # fmt: skip
        round_update(format_, np.full((300, 1), 0.02))


def test_an_update_at_the_very_limit_is_sent_and_one_beyond_is_refused():
    format_ = small()
    room = format_.limit // format_.gram_limit
    integers, bits = round_update(format_, np.array([[float(room)], [0], [0], [0]]))
    assert (integers[0, 0], bits) == (room, 0)
    message = f"the update must have a column 1-norm of at most {room}, got {room + 1:g}: it cannot be sent"
    with pytest.raises(RangeExceeded, match=exactly(message)):
        round_update(format_, np.array([[float(room)], [1], [0], [0]]))


def test_rounding_that_lengthens_the_norm_costs_a_bit_and_not_the_proof():
    """With one fraction bit the norm is room - 0.6, which fits, but four entries ending in .6 round to room + 1."""
    format_ = small()
    room = format_.limit // format_.gram_limit
    update = np.array([[room - 5 + 0.6], [1.6], [1.6], [0.6]]) / 2
    integers, bits = round_update(format_, update)
    assert bits == 0
    assert int(np.abs(integers).sum()) <= room
    assert (integers.tolist(), bits) == oracle.update_on_grid(update.tolist(), room)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_diverged_update_is_refused(value: float):
    update = np.zeros((4, 2))
    update[2, 1] = value
    message = "the update must be finite, got NaN or infinity: the training diverged"
    with pytest.raises(RangeExceeded, match=exactly(message)):
        round_update(small(), update)


# -- decoded totals


@pytest.mark.parametrize("precision", [None, 50])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_decoded_product_is_used_up_to_its_limit_and_refused_beyond(precision: int | None, sign: int):
    format_ = small(precision=precision)
    update = np.array([[3.0, 0.0], [-2.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    limits = [5 * format_.gram_limit, 1 * format_.gram_limit]
    entries = [sign * limits[0], sign * limits[1], 0, 0, 1, -1, 7, 9]
    reals = format_.planes_of_product(planes_of(entries, format_.ring, 4, 2), update, 6)
    rows = [entries[2 * i : 2 * i + 2] for i in range(4)]
    assert reals.tolist() == oracle.reals(rows, format_.gram_bits + 6)
    for column in (0, 1):
        beyond = list(entries)
        beyond[column] += sign
        message = (
            f"decoded X'X e must stay within +-{limits[column]} units, got {limits[column] + 1}:"
            " an overflow or a wrong reply, not used"
        )
        with pytest.raises(RangeExceeded, match=exactly(message)):
            format_.planes_of_product(planes_of(beyond, format_.ring, 4, 2), update, 6)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_decoded_constant_is_used_up_to_its_limit_and_refused_beyond(sign: int):
    format_ = small()
    limit = format_.cross_limit
    assert limit <= format_.limit
    entries = [sign * limit, 0, 1, -1]
    reals = format_.planes_of_constant(planes_of(entries, format_.ring, 4, 1))
    assert reals.tolist() == oracle.reals([[v] for v in entries], format_.constant_bits)
    message = f"decoded G^(1) must stay within +-{limit} units, got {limit + 1}: an overflow or a wrong reply, not used"
    with pytest.raises(RangeExceeded, match=exactly(message)):
        format_.planes_of_constant(planes_of([sign * (limit + 1), 0, 0, 0], format_.ring, 4, 1))


# -- bounds


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((0.0, 1.0, 10, 5), "bounds.features must be a positive finite number, got 0.0"),
        ((-1.0, 1.0, 10, 5), "bounds.features must be a positive finite number, got -1.0"),
        ((math.nan, 1.0, 10, 5), "bounds.features must be a positive finite number, got nan"),
        ((1.0, math.inf, 10, 5), "bounds.labels must be a positive finite number, got inf"),
        ((1.0, 1.0, 0, 5), "bounds.samples must be at least 1, got 0"),
        ((1.0, 1.0, 10, 0), "bounds.samples_per_device must be at least 1, got 0"),
        ((1.0, 1.0, 10, 11), "bounds.samples_per_device must be at most bounds.samples (10), got 11"),
    ],
)
def test_bounds_are_checked(bounds: tuple[float, float, int, int], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        Bounds(*bounds)
