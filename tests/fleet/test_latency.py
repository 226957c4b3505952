"""Latency draws against closed forms: means, variances, order statistics, the paper's epoch times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.code.gradient_code import coded_quorum
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import DeviceClass, Fleet
from codedfl_lab.fleet.latency import (
    Bulk,
    Direction,
    FleetLatency,
    RoundTrip,
    SharingConvention,
    authors_sharing_time,
    epoch_arrivals,
    mean_arrivals,
    pad_macs,
    seal_macs,
    sharing_times,
    upload_times,
)

PAPER = Fleet.load("paper")
TIMES = FleetLatency(PAPER)
D, FEATURES, CLASSES = 25, 2000, 10
MODEL = FEATURES * CLASSES
SHARE = FEATURES * (FEATURES + 1) // 2 + MODEL


def rng() -> np.random.Generator:
    return np.random.default_rng(20220104)


def alike(count: int, **changes: float) -> Fleet:
    values: Any = {
        "mac_rate": 1e6,
        "setup_factor": 0.5,
        "uplink_rate": 5e6,
        "downlink_rate": 10e6,
        "failure_probability": 0.1,
        "header_overhead": 0.1,
        "latency": 0.0,
    } | changes
    return Fleet("alike", (DeviceClass("one", count, **values),), 1e12)


# The paper's epochs


def test_a_conventional_epoch_takes_33_s():
    arrivals = epoch_arrivals(TIMES, RoundTrip(2 * 480 * MODEL, 32 * MODEL, 32 * MODEL), 20_000, rng())
    assert arrivals.max(axis=1).mean() == pytest.approx(33, rel=0.03)


@pytest.mark.parametrize(("alpha", "seconds"), [(6, 31.5), (16, 4.3), (23, 2.22), (25, 2.01)])
def test_coded_epochs_take_the_papers_times(alpha: int, seconds: float):
    arrivals = epoch_arrivals(TIMES, RoundTrip(FEATURES**2 * CLASSES, 48 * MODEL, 48 * MODEL), 20_000, rng())
    assert coded_quorum(D, alpha).time(arrivals).mean() == pytest.approx(seconds, rel=0.03)


# Distributions


def test_compute_times_are_shifted_exponential():
    times = TIMES.compute_times(40e6, 40_000, rng())
    shift = 40e6 / PAPER.mac_rate
    assert (times >= shift).all()
    np.testing.assert_allclose(times.mean(axis=0), TIMES.mean_compute_times(40e6), rtol=0.02)
    np.testing.assert_allclose(TIMES.mean_compute_times(40e6), 1.5 * shift)
    np.testing.assert_allclose(times.std(axis=0), 0.5 * shift, rtol=0.04)


def test_no_work_takes_no_time():
    macs = np.zeros(D)
    macs[3] = 1e6
    times = TIMES.compute_times(macs, 10, rng())
    assert (times[:, 3] > 0).all()
    assert not np.delete(times, 3, axis=1).any()
    for chunk_bits in (None, 100.0):
        assert not TIMES.transfer_times(0, "up", 10, rng(), chunk_bits).any()


def test_a_setup_factor_of_0_is_deterministic():
    assert (FleetLatency(alike(3, setup_factor=0)).compute_times(2e6, 5, rng()) == 2).all()


@pytest.mark.parametrize("k", [1, 4, 10])
def test_order_statistics_of_identical_exponentials(k: int):
    """E[k-th of n] = mean (H_n - H_(n-k)); the shift is known, so the exponential part stands alone."""
    times = FleetLatency(alike(10)).compute_times(2e6, 40_000, rng()) - 2
    harmonic = sum(1 / (10 - i) for i in range(k))
    assert Quorum.all_but(10, 10 - k).time(times).mean() == pytest.approx(1.0 * harmonic, rel=0.02)


@pytest.mark.parametrize(("direction", "rate"), [("up", 5e6), ("down", 10e6)])
def test_transmissions_are_geometric(direction: Direction, rate: float):
    fleet = alike(4, failure_probability=0.3)
    times = FleetLatency(fleet).transfer_times(1e6, direction, 50_000, rng())
    once = 1e6 * 1.1 / rate
    counts = times / once
    np.testing.assert_allclose(counts, np.round(counts), rtol=1e-12)
    for n in (1, 2, 3):
        assert (np.round(counts) == n).mean() == pytest.approx(0.7 * 0.3 ** (n - 1), rel=0.02)
    assert counts.var() == pytest.approx(0.3 / 0.7**2, rel=0.03)
    means = FleetLatency(fleet).mean_transfer_times(1e6, direction)
    np.testing.assert_allclose(means, once / 0.7)
    np.testing.assert_allclose(times.mean(axis=0), means, rtol=0.01)


def test_chunks_are_negative_binomial():
    """n chunks need n / (1-p) transmissions in the mean, with variance n p / (1-p)^2."""
    times = FleetLatency(alike(4)).transfer_times(500_000, "up", 20_000, rng(), chunk_bits=10_000)
    counts = times / (10_000 * 1.1 / 5e6)
    assert counts.min() >= 50
    assert counts.mean() == pytest.approx(50 / 0.9, rel=0.002)
    assert counts.var() == pytest.approx(50 * 0.1 / 0.9**2, rel=0.03)


def test_a_last_chunk_is_as_short_as_what_is_left():
    times = FleetLatency(alike(2, failure_probability=0)).transfer_times(25_000, "up", 3, rng(), chunk_bits=10_000)
    np.testing.assert_allclose(times, 25_000 * 1.1 / 5e6)


def test_chunks_keep_the_mean():
    times = FleetLatency(alike(4)).transfer_times(25_000, "up", 50_000, rng(), chunk_bits=10_000)
    np.testing.assert_allclose(times.mean(axis=0), FleetLatency(alike(4)).mean_transfer_times(25_000, "up"), rtol=0.01)


def test_a_chunk_as_large_as_the_payload_changes_nothing():
    lump = TIMES.transfer_times(1e6, "up", 100, rng())
    np.testing.assert_array_equal(lump, TIMES.transfer_times(1e6, "up", 100, rng(), chunk_bits=1e6))


def test_devices_may_send_different_amounts_in_chunks():
    bits = np.array([0.0, 5.0, 10.0, 30.0])
    fleet = alike(4, failure_probability=0, header_overhead=0, uplink_rate=1)
    assert FleetLatency(fleet).transfer_times(bits, "up", 1, rng(), chunk_bits=10).tolist() == [bits.tolist()]


def test_mean_arrivals_are_the_means_of_arrivals():
    load = RoundTrip(40e6, 96e4, 48e4)
    drawn = epoch_arrivals(TIMES, load, 40_000, rng())
    np.testing.assert_allclose(drawn.mean(axis=0), mean_arrivals(TIMES, load), rtol=0.02)


def test_the_same_generator_gives_the_same_draws():
    def draw() -> list[np.ndarray]:
        g = rng()
        return [
            epoch_arrivals(TIMES, RoundTrip(1e6, 1e5, 1e5), 50, g, chunk_bits=1e4),
            sharing_times(TIMES, Bulk(48e5, "per-message", 3), 50, g),
        ]

    for one, other in zip(draw(), draw(), strict=True):
        np.testing.assert_array_equal(one, other)


# Latency of messages


def test_a_message_takes_its_latency_beside_its_bits():
    quick, far = alike(4), alike(4, latency=0.3)
    for chunk_bits in (None, 1e5):
        times = [FleetLatency(fleet).transfer_times(1e6, "up", 50, rng(), chunk_bits) for fleet in (quick, far)]
        np.testing.assert_allclose(times[1] - times[0], 0.3)
    assert (FleetLatency(far).transfer_times(0, "down", 3, rng()) == 0.3).all()
    assert (FleetLatency(far).mean_transfer_times(0, "down") == 0.3).all()
    load = RoundTrip(1e6, 1e4, 1e4)
    difference = [epoch_arrivals(FleetLatency(fleet), load, 50, rng()) for fleet in (quick, far)]
    np.testing.assert_allclose(difference[1] - difference[0], 0.6)


@pytest.mark.parametrize(("convention", "messages"), [("authors", 6), ("per-message", 4), ("multicast", 4)])
def test_messages_of_the_sharing_phase_have_latency_too(convention: SharingConvention, messages: int):
    """Three recipients and hardly any bits. The authors' messages go up and down one after the other; otherwise links
    are full duplex: three up and the last one down, or one up and three down."""
    fleet = alike(5, failure_probability=0, latency=1)
    times = sharing_times(FleetLatency(fleet), Bulk(1e-6, convention, 3), 2, rng())
    np.testing.assert_allclose(times, messages, rtol=1e-6)


# The sharing phase


def test_the_authors_formula():
    expected = SHARE * 48 * 1.1 / 0.9 * 2 / 7.5e6
    assert expected == pytest.approx(31.6, rel=0.001)
    assert authors_sharing_time(TIMES, SHARE * 48, 1) == pytest.approx(expected, rel=1e-12)
    times = sharing_times(TIMES, Bulk(SHARE * 48, "authors", 22), 7, rng())
    assert times.shape == (7, D)
    np.testing.assert_allclose(times, 22 * expected)


def test_the_authors_formula_takes_the_slowest_link():
    slow = DeviceClass("far", 1, 1e6, 0.5, 1e6, 2e6, 0.5, 0.1, latency=0)
    fleet = Fleet("mixed", (*PAPER.classes, slow), 1e12)
    assert authors_sharing_time(FleetLatency(fleet), 48_000, 3) == pytest.approx(3 * 48_000 * 1.1 / 0.5 * 2 / 1.5e6)


@pytest.mark.parametrize("convention", ["per-message", "multicast"])
def test_sharing_without_failures_is_a_timetable(convention: SharingConvention):
    """Up 2 s, down 1 s a share. Per message: the last of 3 goes up at 6 s and comes down at 7. Multicast: all are
    up at 2 s and come down one after the other."""
    fleet = alike(5, failure_probability=0, header_overhead=0, uplink_rate=1, downlink_rate=2)
    times = sharing_times(FleetLatency(fleet), Bulk(2, convention, 3), 4, rng())
    np.testing.assert_allclose(times, 7 if convention == "per-message" else 5)


def test_per_message_sharing_agrees_with_a_queue_by_hand():
    """A slow uplink behind fast ones: each recipient's downlink is served in order of arrival."""
    classes = [
        DeviceClass("x", 1, 1e6, 0, rate, down, 0, 0, latency=0) for rate, down in ((1, 1), (3, 0.5), (2, 4), (5, 1))
    ]
    fleet = Fleet("queue", tuple(classes), 1e12)
    for recipients in (1, 2, 3):
        expected = []
        for i in range(4):
            arrivals = sorted(k / fleet.uplink_rate[(i + k) % 4] for k in range(1, recipients + 1))
            now = 0.0
            for arrival in arrivals:
                now = max(now, arrival) + 1 / fleet.downlink_rate[i]
            expected.append(now)
        times = sharing_times(FleetLatency(fleet), Bulk(1, "per-message", recipients), 1, rng())
        np.testing.assert_allclose(times[0], expected)


def test_one_recipient_takes_an_upload_and_a_download():
    """With one recipient each device gets one share: the mean is the mean time up plus the mean time down."""
    expected = TIMES.mean_transfer_times(1e6, "up") + TIMES.mean_transfer_times(1e6, "down")
    for convention in ("per-message", "multicast"):
        times = sharing_times(TIMES, Bulk(1e6, convention, 1), 40_000, rng())
        np.testing.assert_allclose(times.mean(axis=0), expected, rtol=0.02)


def test_multicast_is_faster_and_chunks_take_the_chance_out():
    def phase(convention: SharingConvention, chunk_bits: float | None = None) -> np.ndarray:
        times = sharing_times(TIMES, Bulk(SHARE * 48, convention, 22, chunk_bits=chunk_bits), 500, rng())
        return times.max(axis=1)

    assert phase("multicast").mean() < 0.6 * phase("per-message").mean()
    for convention in ("per-message", "multicast"):
        assert phase(convention, 1e6).mean() < phase(convention).mean()
        assert phase(convention, 1e6).std() < 0.2 * phase(convention).std()


def test_draws_in_parts_are_draws(monkeypatch: pytest.MonkeyPatch):
    """Memory bounds how many draws are held at once; the times have the same distribution."""
    whole = sharing_times(TIMES, Bulk(SHARE * 48, "per-message", 5), 2000, rng())
    monkeypatch.setattr("codedfl_lab.fleet.latency._MESSAGES_AT_ONCE", 7 * 5 * D)
    parts = sharing_times(TIMES, Bulk(SHARE * 48, "per-message", 5), 2000, rng())
    assert parts.shape == whole.shape
    assert parts.mean() == pytest.approx(whole.mean(), rel=0.01)


@pytest.mark.parametrize("convention", ["authors", "per-message", "multicast"])
def test_pads_and_sealing_run_beside_the_links(convention: SharingConvention):
    """1000 numbers at 1e6 MAC/s without setup time: 13 MACs a pad, 13 to seal or open."""
    fleet = alike(4, setup_factor=0)
    macs_to_send = pad_macs(fleet, 1000 * 48) + seal_macs(fleet, 2000 * 48)
    macs_to_receive = seal_macs(fleet, 2000 * 48)
    assert (macs_to_send, macs_to_receive) == (13_000 + 26_000, 26_000)

    def share(bits: float, **work: Any) -> np.ndarray:
        return sharing_times(FleetLatency(fleet), Bulk(1000 * bits, convention, 2, **work), 50, rng())

    work = {"macs_to_send": macs_to_send, "macs_to_receive": macs_to_receive}
    np.testing.assert_allclose(share(1e-6, **work), 0.065, rtol=1e-4)  # the work alone
    slow_links = share(1e6, **work)
    np.testing.assert_allclose(slow_links, share(1e6))  # the links alone
    one_slow = np.array([macs_to_send * 100, 0, 0, 0])
    late = sharing_times(FleetLatency(fleet), Bulk(1e-3, convention, 3, macs_to_send=one_slow), 1, rng())
    assert (late[0] > 3.9 / 3 - 1e-9).all()  # everyone needs a share of the slow device
    assert late[0, 0] == pytest.approx(3.9)


@pytest.mark.parametrize("convention", ["authors", "per-message", "multicast"])
def test_alpha_1_shares_nothing(convention: SharingConvention):
    assert not sharing_times(TIMES, Bulk(SHARE * 48, convention, 0), 3, rng()).any()


def test_one_upload():
    """Coded keys at the paper's size: 23.7 s in the mean; one lump of the slowest of 25 takes about 47 s."""
    mean = SHARE * 48 * 1.1 / 0.9 / 5e6
    np.testing.assert_allclose(upload_times(TIMES, Bulk(SHARE * 48, "authors"), 2, rng()), np.full((2, D), mean))
    lump = upload_times(TIMES, Bulk(SHARE * 48, "per-message"), 4000, rng())
    assert lump.mean() == pytest.approx(mean, rel=0.01)
    # E[max of n geometric counts] = sum over k >= 0 of 1 - (1 - p^k)^n.
    slowest = sum(1 - (1 - 0.1**k) ** D for k in range(20)) * 0.9 * mean
    assert lump.max(axis=1).mean() == pytest.approx(slowest, rel=0.02)
    np.testing.assert_array_equal(lump, upload_times(TIMES, Bulk(SHARE * 48, "multicast"), 4000, rng()))
    chunked = upload_times(TIMES, Bulk(SHARE * 48, "per-message", chunk_bits=12_000), 200, rng())
    assert chunked.max(axis=1).mean() == pytest.approx(mean, rel=0.02)
    worked = upload_times(FleetLatency(alike(2, setup_factor=0)), Bulk(10, "authors", macs_to_send=5e6), 1, rng())
    assert worked.tolist() == [[5.0, 5.0]]


# Bad arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TIMES.compute_times(-1, 1, rng()), "macs must be zero or positive, got -1.0"),
        (
            lambda: TIMES.compute_times([1, 2], 1, rng()),
            "macs must be one number or one per device (25), got shape (2,)",
        ),
        (lambda: TIMES.compute_times(1, 0, rng()), "draws must be a positive integer, got 0"),
        (
            lambda: TIMES.transfer_times(float("nan"), "up", 1, rng()),
            "bits must be zero or positive, got nan",
        ),
        (
            lambda: TIMES.transfer_times(1, "left", 1, rng()),  # type: ignore[arg-type]
            "direction must be up or down, got 'left'",
        ),
        (lambda: TIMES.transfer_times(1, "up", 1, rng(), 0), "chunk_bits must be positive, got 0"),
        (
            lambda: sharing_times(TIMES, Bulk(1, "authors", 25), 1, rng()),
            "recipients must be between 0 and the other devices (24), got 25",
        ),
        (
            lambda: sharing_times(TIMES, Bulk(-1, "authors", 2), 1, rng()),
            "bits must be zero or positive, got -1.0",
        ),
        (
            lambda: Conditions(PAPER, "radio"),  # type: ignore[arg-type]
            "sharing must be one of authors, per-message, multicast, got 'radio'",
        ),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], message: str):
    with pytest.raises(InvalidInput) as caught:
        call()
    assert str(caught.value) == message
