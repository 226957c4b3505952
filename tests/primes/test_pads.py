"""Pads against an independent ChaCha20 and HKDF, their uniformity, and that none is ever the same twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import oracle
from codedfl.errors import InvalidInput
from codedfl_lab.primes.pads import SEGMENT, add_expanded, add_signed, expand, stream_key
from codedfl_lab.primes.ring import NARROW, Ring
from wording import exactly

RING = Ring.for_group_sizes([25])
THREE = Ring.for_group_sizes([25], planes=3)
# Primes just above 2^23: every other candidate of the stream is rejected.
REJECTING = Ring((8388617, 8388619))
RINGS = {
    "two primes": RING,
    "three primes": THREE,
    "half rejected": REJECTING,
    "short primes": NARROW,
    "short ones, half rejected": Ring((32771, 32779)),
}
SEED, OTHER = bytes(range(32)), bytes(range(100, 132))


def expected(ring: Ring, seed: bytes, label: str, count: int, segment: int = 0) -> list[list[int]]:
    return [
        [oracle.centred(x, p) for x in itertools.islice(oracle.pad_residues(seed, label, k, p, segment), count)]
        for k, p in enumerate(ring.primes)
    ]


def test_the_oracle_has_the_block_of_rfc_8439():
    """Section 2.3.2 of the RFC."""
    block = oracle.chacha20_block(bytes(range(32)), 1, bytes.fromhex("000000090000004a00000000"))
    assert block.hex().startswith("10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e")


def test_the_oracle_has_the_key_of_rfc_5869():
    """Test case 1 of the RFC, of which one block is wanted here."""
    derived = oracle.hkdf_sha256(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)))
    assert derived.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


@pytest.mark.parametrize("ring", RINGS.values(), ids=RINGS)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 61, 200])
def test_a_pad_is_the_stream_of_its_key_with_rejection(ring: Ring, count: int):
    pad = expand(ring, SEED, "gram", count)
    assert pad.shape == (len(ring.primes), count)
    assert pad.astype(int).tolist() == expected(ring, SEED, "gram", count)


@pytest.mark.parametrize("ring", RINGS.values(), ids=RINGS)
def test_a_long_pad_goes_on_with_the_next_segment(ring: Ring):
    pad = expand(ring, SEED, "gram", SEGMENT + 5).astype(int)
    assert pad[:, :50].tolist() == expected(ring, SEED, "gram", 50)
    assert pad[:, SEGMENT:].tolist() == expected(ring, SEED, "gram", 5, segment=1)


def test_a_short_pad_is_the_beginning_of_a_long_one():
    """The mask of d x c numbers is the mask of d x c + 1 without the last; so it must never be added twice."""
    long = expand(RING, SEED, "mask|1", 1000)
    assert np.array_equal(expand(RING, SEED, "mask|1", 999), long[:, :999])


@pytest.mark.parametrize("count", [7, SEGMENT + 9])
@pytest.mark.parametrize("seeds", [0, 1, 3, 4, 9])
@pytest.mark.parametrize("ones", [False, True], ids=["any coefficients", "ones"])
@pytest.mark.parametrize("ring", [RING, NARROW], ids=["24 bits", "16 bits"])
def test_adding_pads_up_piece_by_piece_is_adding_them_whole(ring: Ring, count: int, seeds: int, ones: bool):
    rng = np.random.default_rng(seeds)
    keys = [rng.bytes(32) for _ in range(seeds)]
    start = expand(ring, rng.bytes(32), "start", count)
    drawn = [rng.choice([-1, 1], seeds) if ones else rng.integers(-p, p, seeds) for p in ring.primes]
    coefficients = [[int(x) for x in one] for one in drawn]
    total = start.copy()
    add_expanded(ring, total, coefficients, keys, "gram")
    for k, prime in enumerate(ring.primes):
        whole = start[k].astype(np.int64)
        for factor, key in zip(coefficients[k], keys, strict=True):
            whole = (whole + factor * expand(ring, key, "gram", count)[k].astype(np.int64)) % prime
        assert np.array_equal(total[k].astype(np.int64) % prime, whole % prime)


# -- never twice


def test_another_seed_label_or_plane_gives_another_pad():
    pads = [
        expand(RING, SEED, "gram", 1000),
        expand(RING, SEED, "constant", 1000),
        expand(RING, SEED, "mask|1", 1000),
        expand(RING, SEED, "mask|2", 1000),
        expand(RING, SEED, "mask|11", 1000),
        expand(RING, SEED[:-1] + b"\x00", "gram", 1000),
    ]
    streams = [plane for pad in pads for plane in pad]
    for one, other in itertools.combinations(streams, 2):
        # Of 1000 pairs of independent numbers below 2^24, even one coincidence has a chance of 6e-5.
        assert np.count_nonzero(one == other) <= 1


def test_segments_of_one_pad_do_not_repeat():
    pad = expand(RING, SEED, "gram", 2 * SEGMENT)
    assert np.count_nonzero(pad[:, :SEGMENT] == pad[:, SEGMENT:]) <= 3  # 2 * 65536 / 2^24 = 0.008 are expected


def test_stream_keys_are_distinct_for_every_part():
    keys = [stream_key(*parts) for parts in itertools.product((SEED, bytes(32)), ("a|0", "a|1", "b|0"))]
    assert len(set(keys)) == len(keys) == 6


# -- uniform on the ring


def chi_square(values: np.ndarray, modulus: int, bins: int = 256) -> float:
    """The p-value of the hypothesis that the values are uniform in [0, modulus)."""
    edges = [-(-i * modulus // bins) for i in range(bins + 1)]
    observed = np.histogram(values, edges)[0]
    expected_counts = len(values) * np.diff(edges) / modulus
    return float(stats.chisquare(observed, expected_counts).pvalue)


@pytest.mark.parametrize("ring", RINGS.values(), ids=RINGS)
def test_residues_are_uniform(ring: Ring):
    count = 400_000
    pad = expand(ring, SEED, "gram", count)
    for plane, prime in zip(pad, ring.primes, strict=True):
        residues = plane.astype(np.int64) % prime
        assert 0.001 < chi_square(residues, prime) < 0.999
        # Both ends are drawn: a generator that never gives the top value is a known bug elsewhere.
        gap = 20 * prime / count  # no value in such a gap: chance e^-20
        assert residues.min() < gap
        assert residues.max() > prime - gap
        # The low byte is uniform too: 24-bit candidates are not folded.
        assert chi_square(residues % 256, 256) > 0.001


def test_the_planes_of_one_number_are_independent():
    pad = expand(RING, SEED, "gram", 400_000)
    first, second = ((plane.astype(np.int64) % p) * 16 // p for plane, p in zip(pad, RING.primes, strict=True))
    assert chi_square(16 * first + second, 256) > 0.001


@pytest.mark.parametrize("ring", RINGS.values(), ids=RINGS)
def test_what_is_added_with_signs_cancels(ring: Ring):
    total = expand(ring, SEED, "gram", 20)
    add_signed(ring, total, [(-1, SEED), (1, OTHER), (-1, OTHER)], "gram")
    assert not total.any()


# -- errors


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_seed_of_another_size_is_refused(size: int):
    message = f"a seed must have 32 bytes, got {size}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        expand(RING, bytes(size), "gram", 3)


def test_the_stream_key_is_hkdf_of_seed_and_purpose():
    assert stream_key(SEED, "gram|0") == oracle.hkdf_sha256(SEED, b"", b"codedfl pad v2|gram|0")
