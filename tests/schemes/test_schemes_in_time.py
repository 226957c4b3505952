"""The schemes' loads and phases on the paper's fleet: the epoch times and sharing times the paper's figures rest on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl.solve.descent import GradientDescent, StepSchedule
from codedfl.sum.layout import TILE
from codedfl_lab.baselines.coded_fedl import CodedFedL, _wishart_root
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.code.gradient_code import group_sizes, make_code
from codedfl_lab.code.masks import mask_senders
from codedfl_lab.comparing.simulator import simulate, trajectory
from codedfl_lab.costs.coded import held_numbers, mask_macs
from codedfl_lab.costs.times import Beginning, Conditions, Descent, Draws, TrainingTimes, WorkShape, epoch_end_times
from codedfl_lab.costs.times import models as models_of
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.primes.ring import Ring
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.registry import SCHEMES, coded_scheme
from codedfl_lab.schemes.role_keys import RoleKeys
from small_problems import digits, totals

PAPER = Fleet.load("paper")
UNCHARGED = replace(PAPER, pad_macs_per_number=0.0, seal_macs_per_number=0.0)
SHAPE = WorkShape(2000, 10, np.full(25, 2400))


def mean_epoch(scheme, draws=60, fleet=PAPER) -> float:
    """Mean length of an epoch once every device is through with phase 1: the slowest take a few epochs longer."""
    _, ends = epoch_end_times(scheme, SHAPE, Conditions(fleet), 150, Draws(draws, np.random.default_rng(0)))
    return float(np.diff(ends[:, 50:]).mean())


@pytest.mark.parametrize(
    ("scheme", "seconds"),
    [
        (Conventional(), 33.0),
        (CodedPadded(6), 31.5),
        (CodedPadded(16), 4.3),
        (CodedPadded(23), 2.22),
        (CodedPadded(25), 2.01),
        (ConventionalFullBatch(), 69.0),
    ],
    ids=lambda value: getattr(value, "label", value),
)
def test_epoch_times_of_the_paper_within_three_percent(scheme, seconds):
    """As the paper counts: it has no masks, and charges neither pads nor sealing."""
    assert mean_epoch(scheme, fleet=UNCHARGED) == pytest.approx(seconds, rel=0.03)


@pytest.mark.parametrize(("alpha", "seconds"), [(6, 33.2), (16, 4.79), (23, 2.55), (25, 2.32)])
def test_what_masks_bound_to_the_update_add_to_an_epoch(alpha, seconds):
    """They cannot be expanded before e is there: alpha + 1 streams of d c numbers, and the answer is sealed."""
    assert mean_epoch(CodedPadded(alpha)) == pytest.approx(seconds, rel=0.02)


def test_authors_sharing_is_31_6_seconds_a_recipient():
    start, _ = epoch_end_times(CodedPadded(23), SHAPE, Conditions(PAPER), 1, Draws(10, np.random.default_rng(0)))
    assert start.mean() == pytest.approx(22 * 31.617, rel=1e-3)


def test_coded_keys_upload_once_whatever_alpha():
    """Without the cost of crypto training starts after the mean upload of 23.7 s, for any alpha; not alpha - 1 of them.

    Coded-padded needs 31.6 s for every recipient.
    """
    free = replace(PAPER, pad_macs_per_number=0.0, seal_macs_per_number=0.0)
    for alpha in (1, 23, 25):
        start, _ = epoch_end_times(CodedKeys(alpha), SHAPE, Conditions(free), 1, Draws(3, np.random.default_rng(0)))
        assert start.mean() == pytest.approx(23.71, rel=1e-3)


def test_chunks_make_one_lump_faster():
    lump, chunked = (
        epoch_end_times(
            CodedKeys(25),
            SHAPE,
            Conditions(PAPER, "per-message", chunk_bits=chunk),
            1,
            Draws(2000, np.random.default_rng(0)),
        )[0].mean()
        for chunk in (None, 12_000)
    )
    assert chunked < lump


def test_free_crypto_is_faster():
    free = replace(PAPER, pad_macs_per_number=0.0, seal_macs_per_number=0.0)
    costly, cheap = (
        epoch_end_times(
            CodedKeys(23), SHAPE, Conditions(fleet, begins="zero"), 1, Draws(500, np.random.default_rng(0))
        )[0].mean()
        for fleet in (PAPER, free)
    )
    assert 23.7 < cheap < costly, "numbers are added up also where their pads are free"


@pytest.mark.parametrize("scheme", [CodedPadded(8), CodedKeys(8), OneShot(8)], ids=lambda scheme: scheme.name)
def test_the_ring_of_the_run_decides_how_long_it_takes(scheme):
    """40 fraction bits need a third prime: 9 bytes a number, half as long again, work and links alike."""
    at = Conditions(PAPER.scaled_to(10))
    shapes = [WorkShape.of(digits(), precision) for precision in (None, 40)]
    assert [shape.number_bits for shape in shapes] == [48, 72]
    short, long = (epoch_end_times(scheme, shape, at, 2, Draws(50, np.random.default_rng(0))) for shape in shapes)
    np.testing.assert_allclose(long[0], 1.5 * short[0])
    np.testing.assert_allclose(long[1], 1.5 * short[1])


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_a_holder_expands_the_pairs_of_its_rows(blocks, monkeypatch):
    """Of a symmetric pad every number once that has a row or a column in its block, and its rows of the constant."""
    monkeypatch.setattr("codedfl_lab.costs.coded.TILE", 1)
    d, c = 20, 3
    rows = range(d // blocks)
    pairs = {frozenset((i, j)) for i in rows for j in range(d)}
    held = held_numbers(RoleKeys(1, blocks=blocks), WorkShape(d, c, np.full(10, 5)), 10)
    assert held.tolist() == [len(pairs) + len(rows) * c] * 10
    reserve = held_numbers(RoleKeys(1, holders=8, blocks=2, reserve=1), WorkShape(d, c, np.full(10, 5)), 10)
    assert reserve.tolist() == [270, 270] + 6 * [185] + [0, 0]


@pytest.mark.parametrize("scheme", [CodedPadded(2), CodedKeys(8), RoleKeys(1), RoleKeys(1, blocks=2, narrow=True)])
def test_from_zero_more_is_charged_whatever_the_scheme(scheme):
    """Also where cryptography is priced as the fleet's file has it; with public keys it is more again."""
    shape, usual = WorkShape(200, 10, np.full(10, 240)), PAPER.scaled_to(10)

    def start(fleet: Fleet, begins: Beginning) -> float:
        at = Conditions(fleet, begins=begins)
        return float(epoch_end_times(scheme, shape, at, 1, Draws(50, np.random.default_rng(0)))[0].mean())

    keys = replace(usual, verification_macs=5e5, exchange_macs=4e5)
    assert start(usual, "call") < start(usual, "zero") < start(keys, "zero")
    assert start(keys, "call") == start(usual, "call")


def test_a_beginning_that_is_not_known_is_refused():
    with pytest.raises(InvalidInput, match=r"^begins must be one of call, zero, got 'noon'$"):
        Conditions(PAPER, begins="noon")  # type: ignore[arg-type]


def test_a_holder_keeps_a_tile_of_rows_at_least():
    held = held_numbers(RoleKeys(1, blocks=200), WorkShape(2000, 10, np.full(1000, 240)), 1000)
    assert set(held.tolist()) == {sum(2000 - row + 10 for row in range(TILE))}


def test_a_simulated_run_takes_its_bits_from_its_own_ring():
    at = Conditions(PAPER.scaled_to(10))
    short, long = (
        simulate(CodedKeys(8), digits(), GradientDescent(2, 1e-4), at, np.random.default_rng(0), precision=precision)
        for precision in (None, 40)
    )
    np.testing.assert_allclose(long.seconds, 1.5 * short.seconds)


def test_baselines_send_floats_whatever_the_ring():
    at = Conditions(PAPER.scaled_to(10))
    short, long = (
        epoch_end_times(Conventional(), WorkShape.of(digits(), precision), at, 2, Draws(5, np.random.default_rng(0)))[1]
        for precision in (None, 40)
    )
    np.testing.assert_array_equal(short, long)


@pytest.mark.parametrize(
    ("scheme", "sharing", "epoch"),
    [(Conventional(), 0, 2), (CodedPadded(8), 1 + 2 * 7, 2), (CodedKeys(8), 2, 2), (OneShot(8), 2, 2)],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_message_takes_its_latency(scheme, sharing, epoch):
    """Of a problem so small that nothing else takes time. Coded keys: the call and the upload."""
    classes = tuple(replace(one, latency=1.0, mac_rate=1e15, uplink_rate=1e15, downlink_rate=1e15)
                    for one in PAPER.scaled_to(10).classes)  # fmt: skip
    at = Conditions(replace(PAPER, classes=classes))
    start, ends = epoch_end_times(scheme, WorkShape(3, 1, np.full(10, 5)), at, 2, Draws(3, np.random.default_rng(0)))
    np.testing.assert_allclose(start, sharing, atol=1e-6)
    np.testing.assert_allclose(np.diff(ends), epoch, atol=1e-6)


@pytest.mark.parametrize(("n", "alpha", "groups"), [(10, 4, 1), (10, 9, 1), (10, 10, 1), (10, 3, 2), (12, 2, 3)])
def test_the_masks_charged_are_those_that_a_device_expands(n, alpha, groups):
    code = make_code(n, alpha, Ring.for_group_sizes(group_sizes(n, alpha, groups)).primes, groups)
    one = 20_000 * (13 + 1)  # d c numbers, each expanded and added
    charged = mask_macs(CodedKeys(alpha, groups), SHAPE, PAPER.scaled_to(n)) / one
    assert charged == max(len(mask_senders(code, i)) for i in range(n))


def test_coded_fedl_has_a_deadline():
    assert mean_epoch(CodedFedL(0.1), draws=3) == pytest.approx(19.3, rel=0.02)
    assert mean_epoch(CodedFedL(0.8), draws=3) == pytest.approx(0.98, rel=0.02)


def sixty_epochs(scheme, partition, at):
    descent = Descent(StepSchedule(6.0), 1e-4)
    rng = np.random.default_rng(0)
    of = totals(partition=partition)
    return trajectory(models_of(scheme, TrainingTimes(of, None, descent, at, rng)), of, max_epochs=60, target=2.0)


def test_dropping_the_slowest_loses_accuracy_on_sorted_data_only():
    """Client drift (paper I): the labels of slow devices are not seen when data are sorted by label."""
    at = Conditions(PAPER.scaled_to(10))
    final = {}
    for partition in ("sorted", "random"):
        for scheme in (Conventional(), DropSlowest(3)):
            run = sixty_epochs(scheme, partition, at)
            final[partition, scheme.name] = float(run.scores[-10:].mean())
    assert final["sorted", "conventional"] - final["sorted", "drop-slowest"] > 0.1
    assert abs(final["random", "conventional"] - final["random", "drop-slowest"]) < 0.03


def test_coded_fedl_learns_about_what_conventional_does():
    at = Conditions(PAPER.scaled_to(10))
    scores = [sixty_epochs(scheme, "sorted", at).scores[-10:].mean() for scheme in (Conventional(), CodedFedL(0.5))]
    assert abs(scores[0] - scores[1]) < 0.05


def test_every_scheme_is_registered_by_its_name():
    assert {name: scheme.name for name, scheme in SCHEMES.items()} == {name: name for name in SCHEMES}


def test_only_coded_schemes_run_as_state_machines():
    message = "scheme must be one of coded-padded, coded-keys, one-shot, role-keys, role-sums, got 'conventional'"
    with pytest.raises(InvalidInput) as caught:
        coded_scheme("conventional", 2)
    assert str(caught.value) == message


@pytest.mark.parametrize("count", [3, 12, 40])
def test_the_wishart_root_has_the_moments_of_gaussian_parity(count):
    """G'G of a Gaussian G with ``count`` rows: mean count on the diagonal, variance 2 count there and count beside."""
    size, draws = 6, 4000
    rng = np.random.default_rng(0)
    roots = [_wishart_root(count, size, rng) for _ in range(draws)]
    products = np.array([root @ root.T for root in roots])
    mean, variance = products.mean(axis=0), products.var(axis=0)
    assert np.allclose(mean, count * np.eye(size), atol=6 * np.sqrt(2 * count / draws))
    expected = count * (np.ones((size, size)) + np.eye(size))
    assert np.allclose(variance, expected, rtol=0.25)
