"""The ring against Python integers: residues, arithmetic, wire form, primes."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import codedfl.exact
import oracle
from codedfl.errors import InvalidInput, MessageRefused
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import NARROW, PRIME_CEILING, Ring, is_prime, ring_primes
from wording import exactly

TWO = Ring.for_group_sizes([25])
THREE = Ring.for_group_sizes([25], planes=3)
RINGS = pytest.mark.parametrize("ring", [TWO, THREE, NARROW], ids=["two primes", "three primes", "short primes"])


def planes_of(values: Sequence[int], ring: Ring, *shape: int) -> Planes:
    """Residue planes made by the oracle."""
    planes = ring.zeros(*(shape or (len(values),)))
    for plane, prime in zip(planes, ring.primes, strict=True):
        plane.reshape(-1)[:] = [oracle.centred(v, prime) for v in values]
    return planes


def values_of(planes: Planes, ring: Ring) -> list[int]:
    """Integers from residue planes, by the oracle; each residue must be centred."""
    flat = planes.reshape(len(ring.primes), -1)
    for plane, prime in zip(flat, ring.primes, strict=True):
        assert np.all(np.abs(plane) <= prime // 2)
    return [oracle.from_residues(residues, ring.primes) for residues in flat.T.astype(np.int64).tolist()]


def edge_values(ring: Ring) -> list[int]:
    """Zero, the ends of the range, and where single residues are at their ends."""
    top = (ring.modulus - 1) // 2
    halves = [sign * (p // 2) + shift for p in ring.primes for sign in (1, -1) for shift in (0, 1, -1)]
    return [0, 1, -1, top, -top, top - 1, 1 - top, *halves, *ring.primes, *(-p for p in ring.primes)]


def ring_integers(ring: Ring) -> st.SearchStrategy[int]:
    top = (ring.modulus - 1) // 2
    return st.one_of(st.sampled_from(edge_values(ring)), st.integers(-top, top))


# -- primes


def passes_miller_rabin(n: int) -> bool:
    """Deterministic below 3.2e9 with these bases; not the trial division of the code."""
    if n < 2 or n % 2 == 0:
        return n == 2
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(
        pow(base, odd, n) == 1 or any(pow(base, odd << s, n) == n - 1 for s in range(twos))
        for base in (2, 3, 5, 7)
        if n % base
    ) and (n in (2, 3, 5, 7) or all(n % base for base in (2, 3, 5, 7)))


def test_is_prime_agrees_with_miller_rabin():
    candidates = [*range(-1, 2000), *range(PRIME_CEILING - 500, PRIME_CEILING), 4093 * 4093, 4093 * 4091]
    assert [n for n in candidates if is_prime(n)] == [n for n in candidates if passes_miller_rabin(n)]


@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 5, 7, 8, 12, 25, 64, 99, 100, 120, 128, 200, 1000])
def test_the_primes_are_the_largest_that_fit(divisor: int):
    primes = ring_primes(divisor, 3)
    candidates = [n for n in range(PRIME_CEILING - 1, primes[-1] - 1, -1) if n % divisor == 1 % divisor]
    assert [n for n in candidates if passes_miller_rabin(n)] == list(primes)


def test_the_first_primes_below_2_to_the_24_are_the_known_ones():
    assert [2**24 - p for p in ring_primes(1, 5)] == [3, 17, 33, 63, 75]


@pytest.mark.parametrize("divisor", [0, -1, 2**16])
def test_a_number_of_devices_without_primes_is_refused(divisor: int):
    message = f"the number of devices must be between 1 and 65535, got {divisor}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        ring_primes(divisor, 2)


def test_too_few_primes_are_refused():
    count = 129  # only 128 candidates lie between 2^23 and 2^24
    message = f"no {count} primes between 2^23 and 2^24 are 1 modulo 65520: use smaller groups"
    with pytest.raises(InvalidInput, match=exactly(message)):
        ring_primes(65520, count)


def test_groups_share_a_ring_whose_primes_serve_every_size():
    ring = Ring.for_group_sizes([4, 6, 5])
    assert all(p % size == 1 for p in ring.primes for size in (4, 5, 6))
    assert len(ring.primes) == 2


def test_the_modulus_has_the_bits_that_the_wire_pays_for():
    assert TWO.modulus == TWO.primes[0] * TWO.primes[1]
    assert 2**47 < TWO.modulus < 2**48
    assert TWO.bytes_per_number == 6
    assert 2**71 < THREE.modulus < 2**72
    assert THREE.bytes_per_number == 9
    assert 2**31 < NARROW.modulus < 2**32
    assert NARROW.bytes_per_number == 4


def test_the_short_primes_are_the_largest_below_2_to_the_16():
    assert [n for n in range(2**16 - 1, NARROW.primes[1] - 1, -1) if passes_miller_rabin(n)] == list(NARROW.primes)


def test_repr_shows_the_modulus():
    assert repr(Ring((16777213, 16777199))) == "<Ring of 16777213 * 16777199, 48.00 bits>"


# -- integers and residues


@RINGS
def test_residues_of_edge_values_come_back(ring: Ring):
    values = edge_values(ring)
    assert [int(v) for v in ring.to_integers(planes_of(values, ring))] == [
        oracle.centred(v, ring.modulus) for v in values
    ]


@RINGS
@given(data=st.data())
def test_to_integers_is_the_chinese_remainder(ring: Ring, data: st.DataObject):
    values = data.draw(st.lists(ring_integers(ring), min_size=1, max_size=20))
    integers = ring.to_integers(planes_of(values, ring))
    assert integers.tolist() == values
    assert integers.dtype == (np.int64 if len(ring.primes) == 2 else object)


@RINGS
@given(values=st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=20))
def test_from_integers_takes_residues(ring: Ring, values: list[int]):
    assert values_of(ring.from_integers(np.array(values)), ring) == [oracle.centred(v, ring.modulus) for v in values]


@RINGS
@given(values=st.lists(st.floats(-(2.0**200), 2.0**200).map(lambda x: float(math.trunc(x))), min_size=1, max_size=20))
def test_from_integers_takes_whole_floats_of_any_size(ring: Ring, values: list[float]):
    got = values_of(ring.from_integers(np.array(values)), ring)
    assert got == [oracle.centred(int(v), ring.modulus) for v in values]


# -- arithmetic


@RINGS
@given(data=st.data())
def test_sums_and_differences(ring: Ring, data: st.DataObject):
    pairs = data.draw(st.lists(st.tuples(ring_integers(ring), ring_integers(ring)), min_size=1, max_size=20))
    left, right = zip(*pairs, strict=True)
    a, b = planes_of(left, ring), planes_of(right, ring)
    kept = a.copy()
    assert values_of(ring.add(a, b), ring) == [oracle.centred(x + y, ring.modulus) for x, y in pairs]
    assert values_of(ring.add(a, b, sign=-1), ring) == [oracle.centred(x - y, ring.modulus) for x, y in pairs]
    assert np.array_equal(a, kept)


@RINGS
@given(data=st.data())
def test_scaled_terms_add_up_in_memory_and_from_the_wire(ring: Ring, data: st.DataObject):
    count = data.draw(st.integers(1, 9))
    term_count = data.draw(st.integers(0, 6))
    vector = st.lists(ring_integers(ring), min_size=count, max_size=count)
    start = data.draw(vector)
    terms = [data.draw(vector) for _ in range(term_count)]
    # One integer per term, given as its residues: the coefficients of the code differ from prime to prime.
    factors = [data.draw(ring_integers(ring)) for _ in range(term_count)]
    coefficients = [[factor % p for factor in factors] for p in ring.primes]
    expected = [
        oracle.centred(x + sum(f * term[i] for f, term in zip(factors, terms, strict=True)), ring.modulus)
        for i, x in enumerate(start)
    ]

    total = planes_of(start, ring)
    ring.add_scaled(total, coefficients, [planes_of(term, ring) for term in terms])
    assert values_of(total, ring) == expected

    total = planes_of(start, ring)
    ring.add_scaled_packed(total, coefficients, [packed(term, ring) for term in terms])
    assert values_of(total, ring) == expected


@RINGS
@pytest.mark.parametrize("inner", [1, 127, 128, 129, 300])
@pytest.mark.parametrize("extreme", [True, False], ids=["largest residues", "any residues"])
def test_products_are_exact(ring: Ring, inner: int, extreme: bool):
    """With the largest residues all of one sign, one summand too many in a float64 would be seen."""
    rows, columns = 3, 6
    rng = np.random.default_rng(inner)
    half = [p // 2 for p in ring.primes]
    if extreme:
        matrix = [oracle.from_residues(half, ring.primes)] * (rows * inner)
        update = [oracle.from_residues(half, ring.primes)] * (inner * columns)
    else:
        matrix, update = (
            [oracle.centred(int.from_bytes(rng.bytes(9), "little"), ring.modulus) for _ in range(size)]
            for size in (rows * inner, inner * columns)
        )
    got = ring.product(planes_of(matrix, ring, rows, inner), planes_of(update, ring, inner, columns))
    as_rows = [matrix[i * inner : (i + 1) * inner] for i in range(rows)]
    as_columns = [update[i * columns : (i + 1) * columns] for i in range(inner)]
    expected = [oracle.centred(v, ring.modulus) for row in oracle.product(as_rows, as_columns) for v in row]
    assert got.shape == (len(ring.primes), rows, columns)
    assert values_of(got, ring) == expected


@RINGS
@pytest.mark.parametrize("size", [1, 2, 5, 70])
def test_a_triangle_becomes_the_symmetric_matrix(ring: Ring, size: int):
    entries = list(range(size * (size + 1) // 2))
    square = ring.symmetric(planes_of(entries, ring), size)
    where: dict[tuple[int, int], int] = {}
    for i in range(size):
        for j in range(i, size):
            where[i, j] = where[j, i] = len(where) - len([1 for a, b in where if a > b])
    expected = [where[i, j] for i in range(size) for j in range(size)]
    assert values_of(square, ring) == expected


# -- wire form


def packed(values: Sequence[int], ring: Ring) -> bytes:
    """All residues of the first prime, three or two bytes each, then those of the next, by the oracle."""
    width = 2 if ring is NARROW else 3
    return b"".join((v % p).to_bytes(width, "little") for p in ring.primes for v in values)


@RINGS
@given(data=st.data())
def test_the_wire_form_is_24_or_16_bits_a_residue(ring: Ring, data: st.DataObject):
    values = data.draw(st.lists(ring_integers(ring), min_size=0, max_size=20))
    wire = ring.pack(planes_of(values, ring))
    assert wire == packed(values, ring)
    assert len(wire) == ring.bytes_per_number * len(values)
    assert values_of(ring.unpack(wire, len(values)), ring) == values
    assert values_of(ring.unpack(memoryview(wire), len(values), 1), ring) == values


@RINGS
@pytest.mark.parametrize("change", [-1, 1, -3, 3])
def test_a_wrong_length_is_refused(ring: Ring, change: int):
    wire = (packed([5, 6], ring) + bytes(3))[: 2 * ring.bytes_per_number + change]
    message = f"2 ring numbers must take {2 * ring.bytes_per_number} bytes, got {len(wire)}"
    with pytest.raises(MessageRefused, match=exactly(message)):
        ring.unpack(wire, 2)


@RINGS
@pytest.mark.parametrize("above", [0, 1])
@pytest.mark.parametrize("position", [0, 2])
def test_a_residue_that_is_not_below_its_prime_is_refused(ring: Ring, above: int, position: int):
    for k, prime in enumerate(ring.primes):
        wire = bytearray(packed([1, 2, 3], ring))
        width = ring.bytes_per_number // len(ring.primes)
        where = width * (3 * k + position)
        wire[where : where + width] = (prime + above).to_bytes(width, "little")
        message = f"ring numbers must be residues below {prime}, got a larger one"
        with pytest.raises(MessageRefused, match=exactly(message)):
            ring.unpack(bytes(wire), 3)


@RINGS
def test_the_largest_residue_is_accepted(ring: Ring):
    wire = b"".join((p - 1).to_bytes(ring.bytes_per_number // len(ring.primes), "little") for p in ring.primes)
    assert values_of(ring.unpack(wire, 1), ring) == [-1]


# -- adding in place


@pytest.mark.parametrize("packed", [False, True])
def test_adding_to_a_slice_whose_planes_are_contiguous_works_and_to_another_is_refused(packed: bool):
    """Flat, a slice of columns is a copy: what was added to it was lost without a word."""
    ring = Ring.for_group_sizes([3])
    one = [[1]] * len(ring.primes)
    term = ring.from_integers(np.arange(6.0).reshape(2, 3))

    def add(total: np.ndarray) -> None:
        if packed:
            ring.add_scaled_packed(total, one, [ring.pack(term)])
        else:
            ring.add_scaled(total, one, [term])

    whole = ring.zeros(4, 3)
    add(whole[:, 1:3])
    assert ring.to_integers(whole).tolist() == [[0, 0, 0], [0, 1, 2], [3, 4, 5], [0, 0, 0]]
    wide = ring.zeros(2, 6)
    message = "the total must have contiguous planes to be added to, got a slice of shape (2, 2, 3)"
    with pytest.raises(InvalidInput, match=exactly(message)):
        add(wide[:, :, :3])
    assert not wide.any()


def test_the_old_way_of_adding_to_a_slice_lost_it():
    """What is refused now: the flat form of a slice of columns shares no memory with it."""
    plane = Ring.for_group_sizes([3]).zeros(2, 6)[0, :, :3]
    assert not np.shares_memory(plane, plane.reshape(-1))


def test_a_machine_of_the_other_byte_order_is_refused_at_import(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.byteorder", "big")
    message = "codedfl needs a machine whose byte order is little endian, got big endian"
    with pytest.raises(ImportError, match=f"^{message}$"):
        importlib.reload(codedfl.exact)
