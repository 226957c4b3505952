"""The kernels against plain Python integers, which know nothing of planes, lanes or floats."""

import random
from itertools import islice

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba.extending import intrinsic

from codedfl.errors import InvalidInput
from codedfl_lab.primes import compiler, kernels, loops, machine_code


def largest_primes(divisor):
    """The primes below 2^24 that are 1 modulo divisor, largest first."""
    candidates = range((2**24 - 2) // divisor * divisor + 1, 2, -divisor)
    return (n for n in candidates if all(n % q for q in range(2, 4096)))


LONG_PRIMES = [*islice(largest_primes(1), 1), *islice(largest_primes(25), 2), *islice(largest_primes(1000), 1)]
RING_PRIMES = [*LONG_PRIMES, 65521]  # of two bytes
REJECTING_PRIME = 16_000_057  # 2^24 - p is 4.6 % of 2^24: a rejection in nearly every span of candidates
REJECTING_SHORT = 62_501  # the same of 2^16

compiled = settings(deadline=None)  # the first call of a kernel may compile it
primes = st.sampled_from(RING_PRIMES)
seeds = st.integers(0, 2**32)


def centred(value, prime):
    residue = int(value) % prime
    return residue - prime if residue > prime // 2 else residue


def residues(rng, prime, count):
    """Centred residues, a third of them as large as they get."""
    h = prime // 2
    return [rng.choice((-h, h, rng.randint(-h, h))) for _ in range(count)]


def plane(values, *shape):
    array = kernels.aligned_zeros(shape or len(values))
    array[...] = np.array(values, dtype=np.float32).reshape(array.shape)
    return array


def width(prime):
    return 2 if prime < 2**16 else 3


def candidates_of(numbers, prime):
    """Numbers that need not be residues, as they stand in a stream."""
    return b"".join(number.to_bytes(width(prime), "little") for number in numbers)


def wire(values, prime):
    return candidates_of([value % prime for value in values], prime)


def as_bytes(data):
    return np.frombuffer(data, dtype=np.uint8)


def check_product(matrix, update_t, prime):
    out = plane([7] * (len(matrix) * len(update_t)), len(matrix), len(update_t))
    d = len(update_t[0]) if update_t else len(matrix[0]) if matrix else 0
    kernels.product(plane(matrix, len(matrix), d), plane(update_t, len(update_t), d), prime, out)
    expected = [[centred(sum(map(int.__mul__, x, y)), prime) for y in update_t] for x in matrix]
    assert out.tolist() == expected


@compiled
@given(primes, seeds, st.integers(1, 9), st.integers(0, 40), st.integers(1, 12))
@example(RING_PRIMES[0], 0, 1, 0, 1)
def test_product_of_any_shape(prime, seed, rows, d, columns):
    rng = random.Random(seed)
    matrix = [residues(rng, prime, d) for _ in range(rows)]
    update_t = [residues(rng, prime, d) for _ in range(columns)]
    check_product(matrix, update_t, prime)


@pytest.mark.parametrize("d", [127, 128, 129, 511, 512, 513, 1023, 1024, 1025, 1032, 2000, 4099])
@pytest.mark.parametrize("prime", RING_PRIMES)
def test_product_of_extreme_residues(prime, d):
    h = prime // 2
    rng = random.Random(d)
    matrix = [[h] * d, [-h] * d, residues(rng, prime, d), [h if k % 2 else -h for k in range(d)], [h] * d]
    update_t = [[-h] * d, [h] * d, residues(rng, prime, d)]
    check_product(matrix, update_t, prime)


@pytest.mark.parametrize(("rows", "lanes"), [(2, 4), (4, 8)])
def test_product_by_the_tiles_of_other_processors(monkeypatch, rows, lanes):
    monkeypatch.setattr(loops, "_ROWS", rows)
    monkeypatch.setattr(loops, "_LANES", lanes)
    monkeypatch.setattr(loops, "_tile_sums", intrinsic(loops._define_tile_sums))
    kernel = machine_code.load(compiler.object_file(["product"]))
    monkeypatch.setattr(machine_code, "_kernels", lambda: kernel)
    prime = RING_PRIMES[0]
    rng = random.Random(rows)
    for size in (3, 128 * lanes, 256 * lanes + lanes - 1):
        matrix = [residues(rng, prime, size) for _ in range(7)] + [[prime // 2] * size]
        check_product(matrix, [residues(rng, prime, size) for _ in range(6)] + [[-(prime // 2)] * size], prime)


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (0, 3), (3, 0)])
def test_product_of_nothing(rows, columns):
    out = kernels.aligned_zeros((rows, columns))
    kernels.product(kernels.aligned_zeros((rows, 8)), kernels.aligned_zeros((columns, 8)), RING_PRIMES[0], out)
    assert out.shape == (rows, columns)


def test_product_of_unaligned_and_read_only_planes():
    prime = RING_PRIMES[0]
    rng = random.Random(1)
    x, y = residues(rng, prime, 3 * 50), residues(rng, prime, 2 * 50)
    matrix = plane([0, *x])[1:].reshape(3, 50)
    update_t = plane([0, *y])[1:].reshape(2, 50)
    matrix.flags.writeable = update_t.flags.writeable = False
    out = plane([0] * 7)[1:].reshape(3, 2)
    kernels.product(matrix, update_t, prime, out)
    rows = [x[:50], x[50:100], x[100:]]
    columns = [y[:50], y[50:]]
    assert out.tolist() == [[centred(sum(map(int.__mul__, a, b)), prime) for b in columns] for a in rows]


@compiled
@given(
    primes,
    st.lists(st.floats(-(2.0**1000), 2.0**1000).map(float.__round__).map(float), max_size=20),
    st.integers(-(2**29), 2**29),
    st.integers(-1, 1),
)
def test_reduce(prime, values, quotient, offset):
    # Beside numbers of any size, one next to a half-integer multiple of the prime, where rounding is hardest.
    near_half = quotient * prime + prime // 2 + offset
    for numbers in ([*values, float(near_half)], [float(near_half)], []):
        out = kernels.aligned_zeros(len(numbers))
        kernels.reduce(np.array(numbers, dtype=np.float64), prime, out)
        assert out.tolist() == [centred(int(v), prime) for v in numbers]


@pytest.mark.parametrize("prime", RING_PRIMES)
def test_reduce_next_to_the_limit_of_its_fast_path(prime):
    k = 2**50 // prime
    values = [s * (q * prime + prime // 2 + o) for s in (-1, 1) for q in (k - 1, k, k + 1) for o in (-1, 0, 1, 2)]
    small = [v for v in values if abs(v) <= 2**50]
    for numbers in (small, values, [2**50, -(2**50)], [2**50 + 1]):
        out = kernels.aligned_zeros(len(numbers))
        kernels.reduce(np.array(numbers, dtype=np.float64), prime, out)
        assert out.tolist() == [centred(v, prime) for v in numbers]


@compiled
@given(primes, seeds, st.integers(0, 9), st.one_of(st.integers(0, 40), st.sampled_from([1023, 1024, 1025, 2051])))
def test_add_product_and_add_packed_product(prime, seed, k, size):
    rng = random.Random(seed)
    start = residues(rng, prime, size)
    terms = [residues(rng, prime, size) for _ in range(k)]
    coefficients = [rng.choice((0, 1, prime // 2, prime // 2 + 1, prime - 1, rng.randrange(prime))) for _ in terms]
    expected = [
        centred(a + sum(c * t for c, t in zip(coefficients, column, strict=True)), prime)
        for a, column in zip(start, zip(*terms, strict=True) if terms else [()] * size, strict=True)
    ]
    acc = plane(start)
    kernels.add_product(acc, coefficients, [plane(term) for term in terms], prime)
    assert acc.tolist() == expected
    # Centred coefficients, as an array; terms in the rows of one.
    acc = plane(start)
    signed = np.array([centred(c, prime) for c in coefficients], dtype=np.int64)
    kernels.add_product(acc, signed, plane(terms, k, size), prime)
    assert acc.tolist() == expected
    # Every term at another address modulo four.
    acc = plane(start)
    packed = [as_bytes(bytes(j % 4) + wire(term, prime))[j % 4 :] for j, term in enumerate(terms)]
    kernels.add_packed_product(acc, coefficients, packed, prime)
    assert acc.tolist() == expected


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("sign", [-1, 1])
def test_add_product_of_extreme_residues(k, sign):
    prime = RING_PRIMES[0]
    h = prime // 2
    expected = [centred(sign * h + k * h * sign * h, prime)] * 40
    acc = plane([sign * h] * 40)
    kernels.add_product(acc, [h] * k, [plane([sign * h] * 40)] * k, prime)
    assert acc.tolist() == expected
    acc = plane([sign * h] * 40)
    kernels.add_packed_product(acc, [h] * k, [as_bytes(wire([sign * h] * 40, prime))] * k, prime)
    assert acc.tolist() == expected


@pytest.mark.parametrize("prime", [LONG_PRIMES[-1], REJECTING_SHORT])
def test_add_packed_product_reduces_numbers_outside_the_residues(prime):
    acc = plane([5] * 40)
    kernels.add_packed_product(acc, [prime - 1], [as_bytes(b"\xff" * 40 * width(prime))], prime)
    assert acc.tolist() == [centred(5 - (256 ** width(prime) - 1), prime)] * 40


@compiled
@given(primes, seeds, st.one_of(st.integers(0, 40), st.just(1027)), st.integers(0, 3))
def test_pack_and_unpack(prime, seed, size, shift):
    values = residues(random.Random(seed), prime, size)
    packed = kernels.pack(plane(values), prime)
    assert packed.tobytes() == wire(values, prime)
    out = kernels.aligned_zeros(size)
    assert kernels.unpack(as_bytes(bytes(shift) + packed.tobytes())[shift:], prime, out)
    assert out.tolist() == values


@pytest.mark.parametrize("position", [0, 7, 31, 32, 63, 64, 66])  # in a whole vector of 32, or in the rest
@pytest.mark.parametrize("excess", [0, 1, "largest"])
@pytest.mark.parametrize("prime", [RING_PRIMES[1], RING_PRIMES[-1]])
def test_unpack_refuses_what_is_no_residue(prime, position, excess):
    numbers = [prime - 1] * 67
    numbers[position] = 256 ** width(prime) - 1 if excess == "largest" else prime + excess
    packed = candidates_of(numbers, prime)
    assert not kernels.unpack(as_bytes(packed), prime, kernels.aligned_zeros(67))


def drawn(stream, prime):
    size = width(prime)
    numbers = (int.from_bytes(stream[k : k + size], "little") for k in range(0, len(stream), size))
    return [centred(n, prime) for n in numbers if n < prime]


@compiled
@given(
    st.sampled_from([*RING_PRIMES, REJECTING_PRIME, REJECTING_SHORT]),
    seeds,
    st.lists(st.one_of(st.integers(0, 30), st.integers(1000, 3000)), max_size=4),
    st.integers(0, 6000),
)
def test_residues_depend_on_the_candidates_alone(prime, seed, chunks, size):
    rng = random.Random(seed)
    streams = [rng.randbytes(width(prime) * count) for count in chunks]
    expected = drawn(b"".join(streams), prime)[:size]
    for division in (streams, [b"".join(streams)]):
        out = kernels.aligned_zeros(size)
        fill = 0
        for stream in division:
            fill = kernels.add_residues_from_stream(as_bytes(stream), prime, 1, out, fill)
        assert fill == len(expected)
        assert out[:fill].tolist() == expected


@pytest.mark.parametrize("prime", RING_PRIMES)
def test_one_rejection_among_many_residues(prime):
    numbers = list(range(5000))
    numbers[1500] = prime
    stream = candidates_of(numbers, prime)
    out = kernels.aligned_zeros(5000)
    assert kernels.add_residues_from_stream(as_bytes(stream), prime, 1, out, 0) == 4999
    assert out[:4999].tolist() == [n for n in numbers if n != prime]


@pytest.mark.parametrize("prime", [REJECTING_PRIME, REJECTING_SHORT])
def test_residues_leave_what_comes_before_start(prime):
    stream = random.Random(3).randbytes(width(prime) * 2000)
    out = plane([9] * 100 + [0] * 1400)
    assert kernels.add_residues_from_stream(as_bytes(stream), prime, 1, out, 100) == 1500
    assert out.tolist() == [9] * 100 + drawn(stream, prime)[:1400]


@pytest.mark.parametrize("prime", [*RING_PRIMES, REJECTING_PRIME, REJECTING_SHORT])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("start", "size", "candidates"), [(0, 4000, 5000), (100, 4000, 9000), (7, 50, 1), (0, 0, 64)])
def test_residues_added_from_a_stream(prime, sign, start, size, candidates):
    """What is rejected is not added, whole spans or not; extreme totals come back centred."""
    draw = random.Random(prime + sign)
    top = 256 ** width(prime)
    numbers = [draw.choice([draw.randrange(top), draw.randrange(prime), prime - 1, 0]) for _ in range(candidates)]
    numbers[1100:3200] = [n % prime for n in numbers[1100:3200]]  # a whole span or two
    stream = candidates_of(numbers, prime)
    half = prime // 2
    before = [draw.choice([-half, half, 0, draw.randrange(-half, half)]) for _ in range(size)]
    total = plane(before)
    residues = drawn(stream, prime)[: size - start]
    filled = kernels.add_residues_from_stream(as_bytes(stream), prime, sign, total, start)
    assert filled == start + len(residues)
    expected = list(before)
    for i, residue in enumerate(residues, start):
        expected[i] = (before[i] + sign * residue + half) % prime - half
    assert total.tolist() == expected


@pytest.mark.parametrize("d", [0, 1, 2, 31, 32, 33, 97])
def test_square_from_triangle(d):
    upper = {(i, j): 1000 * i + j for i in range(d) for j in range(i, d)}
    triangle = plane([upper[key] for key in sorted(upper)])
    square = plane([7] * (d * d), d, d)
    kernels.square_from_triangle(triangle, square)
    assert square.tolist() == [[upper[min(i, j), max(i, j)] for j in range(d)] for i in range(d)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("shape", [0, 5, (3, 7), (2, 0), (1000, 1001)])
def test_aligned_zeros(shape, dtype):
    array = kernels.aligned_zeros(shape, dtype)
    assert array.dtype == dtype
    assert array.shape == np.zeros(shape).shape
    assert array.size == 0 or array.ctypes.data % 64 == 0
    assert array.flags.c_contiguous
    assert not array.any()


FLOATS = {n: np.zeros(n, np.float32) for n in (2, 3, 5, 6)}
SQUARE = np.zeros((3, 3), np.float32)
PRIME = RING_PRIMES[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kernels.product(SQUARE[:, ::2], FLOATS[2].reshape(1, 2), PRIME, FLOATS[3].reshape(3, 1)),
            "matrix must be a contiguous float32 array of shape (3, 2), got a non-contiguous float32 one of (3, 2)",
        ),
        (
            lambda: kernels.product(SQUARE, FLOATS[2].reshape(1, 2), PRIME, FLOATS[3].reshape(3, 1)),
            "update_t must be a contiguous float32 array of shape (1, 3), got a contiguous float32 one of (1, 2)",
        ),
        (
            lambda: kernels.product(SQUARE, FLOATS[6].reshape(2, 3), PRIME, FLOATS[6].reshape(2, 3)),
            "out must be a contiguous float32 array of shape (3, 2), got a contiguous float32 one of (2, 3)",
        ),
        (
            lambda: kernels.reduce(FLOATS[3], PRIME, FLOATS[3]),  # type: ignore[arg-type]
            "values must be a contiguous float64 array of shape (3,), got a contiguous float32 one of (3,)",
        ),
        (
            lambda: kernels.reduce(np.zeros(3), PRIME, FLOATS[2]),
            "out must be a contiguous float32 array of shape (3,), got a contiguous float32 one of (2,)",
        ),
        (
            lambda: kernels.add_product(SQUARE, [1], [SQUARE], PRIME),
            "acc must be a contiguous float32 array of shape (9,), got a contiguous float32 one of (3, 3)",
        ),
        (
            lambda: kernels.add_product(FLOATS[3], [1], [FLOATS[2]], PRIME),
            "each term must be a contiguous float32 array of shape (3,), got a contiguous float32 one of (2,)",
        ),
        (
            lambda: kernels.add_packed_product(FLOATS[3], [1], [as_bytes(bytes(8))], PRIME),
            "each packed term must be a contiguous uint8 array of shape (9,), got a contiguous uint8 one of (8,)",
        ),
        (
            lambda: kernels.pack(SQUARE, PRIME),
            "plane must be a contiguous float32 array of shape (9,), got a contiguous float32 one of (3, 3)",
        ),
        (
            lambda: kernels.unpack(as_bytes(bytes(8)), PRIME, FLOATS[3]),
            "packed must be a contiguous uint8 array of shape (9,), got a contiguous uint8 one of (8,)",
        ),
        (
            lambda: kernels.add_residues_from_stream(as_bytes(bytes(8)), PRIME, 1, FLOATS[3], 0),
            "stream must be a contiguous uint8 array of shape (6,), got a contiguous uint8 one of (8,)",
        ),
        (
            lambda: kernels.add_residues_from_stream(as_bytes(bytes(9)), PRIME, 1, FLOATS[3], -1),
            "start must be between 0 and 3, got -1",
        ),
        (
            lambda: kernels.add_residues_from_stream(as_bytes(bytes(9)), PRIME, 2, FLOATS[3], 0),
            "sign must be 1 or -1, got 2",
        ),
        (
            lambda: kernels.add_residues_from_stream(as_bytes(bytes(9)), PRIME, 1, FLOATS[3], 4),
            "start must be between 0 and 3, got 4",
        ),
        (
            lambda: kernels.unpack(as_bytes(bytes(9)), PRIME, as_bytes(bytes(12)).view(np.float32)),
            "out must be writable, got a read-only array",
        ),
        (
            lambda: kernels.square_from_triangle(FLOATS[5], SQUARE),
            "triangle must be a contiguous float32 array of shape (6,), got a contiguous float32 one of (5,)",
        ),
    ],
)
def test_arrays_the_loops_would_misread_are_refused(call, message):
    with pytest.raises(InvalidInput) as refusal:
        call()
    assert str(refusal.value) == message
