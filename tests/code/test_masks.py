"""Zero-sum masks: who holds which seed, what is added, and that it cancels whoever answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import oracle
from codedfl_lab.code.gradient_code import GradientCode
from codedfl_lab.code.masks import combined_mask, mask_coefficients, mask_label, mask_receivers, mask_senders
from codedfl_lab.primes.ring import Ring

SMALL = [(n_devices, alpha) for n_devices in range(2, 9) for alpha in range(1, n_devices + 1)]
CODES = pytest.mark.parametrize(("n_devices", "alpha"), [*SMALL, (25, 23)])
RUN = bytes(range(16))
COUNT = 3


def setting(n_devices: int, alpha: int) -> tuple[Ring, GradientCode, dict[int, bytes]]:
    ring = Ring.for_group_sizes([n_devices])
    return ring, GradientCode(n_devices, alpha, ring.primes), {j: bytes([j + 1]) * 32 for j in range(n_devices)}


def zero_sum(n_devices: int) -> list[list[int]]:
    """Z with z = Z m: z_j = m_j - m_(j+1), cyclic."""
    rows = [[0] * n_devices for _ in range(n_devices)]
    for j in range(n_devices):
        rows[j][j] += 1
        rows[j][(j + 1) % n_devices] -= 1
    return rows


@CODES
def test_seeds_go_exactly_to_those_who_need_them(n_devices: int, alpha: int):
    _, code, _ = setting(n_devices, alpha)
    needed = min(alpha + 1, n_devices)
    for i in range(n_devices):
        assert mask_senders(code, i) == sorted({(i + s) % n_devices for s in range(needed)})
        for j in range(n_devices):
            assert (j in mask_senders(code, i)) == (i in mask_receivers(code, j))
    for j in range(n_devices):
        # The holders of the data are among the holders of the mask seed: one envelope brings both.
        assert set(code.column_support(j)) <= set(mask_receivers(code, j))


@CODES
def test_coefficients_are_the_code_times_the_zero_sum(n_devices: int, alpha: int):
    ring, code, _ = setting(n_devices, alpha)
    for k, prime in enumerate(ring.primes):
        expected = oracle.product(code.matrix()[k].tolist(), zero_sum(n_devices))
        for i in range(n_devices):
            row = [0] * n_devices
            for j, coefficient in zip(mask_senders(code, i), mask_coefficients(code, i)[k], strict=True):
                row[j] = coefficient % prime
            assert row == [x % prime for x in expected[i]]


@pytest.mark.parametrize(("n_devices", "alpha"), [(2, 1), (2, 2), (3, 2), (5, 1), (5, 3), (5, 5)])
def test_a_mask_is_that_combination_of_expanded_seeds(n_devices: int, alpha: int):
    """Against the oracle's own expansion; each seed's stream for this run and epoch."""
    ring, code, seeds = setting(n_devices, alpha)
    for i in range(n_devices):
        mask = combined_mask(ring, code, i, seeds, mask_label(RUN, b"update 7"), COUNT)
        label = f"mask|{RUN.hex()}|{b'update 7'.hex()}"
        for k, prime in enumerate(ring.primes):
            m = [list(itertools.islice(oracle.pad_residues(seeds[j], label, k, prime), COUNT)) for j in seeds]
            z = oracle.product(zero_sum(n_devices), m)
            expected = oracle.product([code.matrix()[k][i].tolist()], z)[0]
            assert [int(x) % prime for x in mask[k]] == [x % prime for x in expected]


@CODES
def test_masks_cancel_whoever_answers(n_devices: int, alpha: int):
    ring, code, seeds = setting(n_devices, alpha)
    masks = [combined_mask(ring, code, i, seeds, mask_label(RUN, b"update 3"), COUNT) for i in range(n_devices)]
    sets = list(itertools.combinations(range(n_devices), n_devices - alpha + 1))
    for survivors in sets[:: max(1, len(sets) // 40)]:
        vector = code.decoding_vector(survivors)
        for k, prime in enumerate(ring.primes):
            for x in range(COUNT):
                total = sum(int(a) * int(masks[i][k, x]) for a, i in zip(vector[k], survivors, strict=True))
                assert total % prime == 0


def test_masks_of_another_epoch_run_or_seed_are_others():
    ring, code, seeds = setting(5, 3)
    base = combined_mask(ring, code, 2, seeds, mask_label(RUN, b"update 1"), 500)
    others = [
        combined_mask(ring, code, 2, seeds, mask_label(RUN, b"update 2"), 500),
        combined_mask(ring, code, 2, seeds, mask_label(bytes(16), b"update 1"), 500),
        combined_mask(ring, code, 2, seeds | {3: bytes(32)}, mask_label(RUN, b"update 1"), 500),
        combined_mask(ring, code, 1, seeds, mask_label(RUN, b"update 1"), 500),
    ]
    for one, other in itertools.combinations([base, *others], 2):
        assert np.count_nonzero(one == other) <= 1


def test_replication_needs_no_mask():
    """alpha = D: B is all ones, every answer is the total itself, and the zero-sum masks add up to zero."""
    ring, code, seeds = setting(5, 5)
    assert not any(combined_mask(ring, code, i, seeds, mask_label(RUN, b"update 1"), COUNT).any() for i in range(5))


@pytest.mark.parametrize("alpha", [1, 2, 4])
def test_below_replication_every_answer_is_masked(alpha: int):
    ring, code, seeds = setting(5, alpha)
    assert all(combined_mask(ring, code, i, seeds, mask_label(RUN, b"update 1"), COUNT).all() for i in range(5))
