"""CodedFedL's loads and deadline against brute force and Monte-Carlo draws of the latency model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.baselines.load_allocation import LoadAllocation, allocate_loads
from codedfl_lab.fleet.fleet import DeviceClass, Fleet
from codedfl_lab.fleet.latency import FleetLatency, RoundTrip, epoch_arrivals

PAPER = Fleet.load("paper")


def allocate(delta: float, fleet: Fleet = PAPER, points: int = 2400) -> LoadAllocation:
    return allocate_loads(fleet, points, delta, features=2000, outputs=10)


def expected_return(load: int, t: float, mac_rate: float, transmission: float, p: float = 0.1) -> float:
    """The sum of the definition, term by term."""
    if load == 0:
        return 0.0
    a = 2 * load * 2000 * 10 / mac_rate
    total = 0.0
    for v in range(2, 60):
        left = t - a - v * transmission
        if left > 0:
            total += (v - 1) * (1 - p) ** 2 * p ** (v - 2) * (1 - math.exp(-left / (0.5 * a)))
    return load * total


def test_the_loads_maximise_the_expected_return_and_the_deadline_is_least():
    transmission = 20_000 * 32 * 1.1 * (1 / 5e6 + 1 / 10e6) / 2
    found = allocate(0.8)
    for shorter in (False, True):
        t = found.deadline * (1 - 1e-6) if shorter else found.deadline
        total = 0.0
        for i in (0, 10, 15, 20):
            returns = [expected_return(load, t, PAPER.mac_rate[i], transmission) for load in range(481)]
            count = np.count_nonzero(PAPER.mac_rate == PAPER.mac_rate[i])
            total += count * max(returns)
            if not shorter:
                assert found.loads[i] == np.argmax(returns)
                assert found.return_probability[i] == pytest.approx(max(returns) / found.loads[i], rel=1e-9)
        assert (total < 0.2 * 12_000) == shorter


@pytest.mark.parametrize("setup_factor", [0.5, 0.0])
def test_slow_links_make_pieces_and_the_best_is_found(setup_factor: float):
    """One device, transmissions as long as its computing: the return has a local maximum on every piece."""
    fleet = Fleet("one", (DeviceClass("x", 1, 4e6, setup_factor, 1e5, 1e5, 0.45, 0, latency=0),), 1e12)
    found = allocate_loads(fleet, 1000, 0.7, features=200, outputs=10, mini_batches=1)
    factor = max(setup_factor, 1e-9)

    def probability(load: int) -> float:
        a, h = load * 1e-3, 64_000 / 1e5
        terms = (
            (v - 1) * 0.55**2 * 0.45 ** (v - 2) * -math.expm1(-max(found.deadline - a - v * h, 0) / (factor * a))
            for v in range(2, 80)
        )
        return sum(terms)

    returns = [0.0] + [load * probability(load) for load in range(1, 1001)]
    assert 300 - 1e-6 < max(returns) < 300.1  # deterministic computing makes the return jump past what is wanted
    assert found.loads[0] == np.argmax(returns)
    assert found.return_probability[0] == pytest.approx(probability(int(found.loads[0])))


@pytest.mark.parametrize("delta", [0.1, 0.8])
def test_the_return_probability_is_that_of_the_latency_model(delta: float):
    """Links alike up and down, as v h assumes; then the paper's own, where they differ by little."""
    even = DeviceClass("even", 4, 3e6, 0.5, 7e6, 7e6, 0.2, 0.1)
    for fleet, tolerance in ((Fleet("even", (even,), 1e12), 0.008), (PAPER, 0.02)):
        found = allocate(delta, fleet)
        trip = RoundTrip(2 * 20_000 * found.loads.astype(np.float64), 640_000, 640_000)
        arrivals = epoch_arrivals(FleetLatency(fleet), trip, 30_000, np.random.default_rng(5))
        in_time = (arrivals <= found.deadline).mean(axis=0)
        np.testing.assert_allclose(in_time, found.return_probability, atol=tolerance)
        returned = in_time @ found.loads
        assert returned == pytest.approx((1 - delta) * fleet.n_devices * 480, rel=0.01)


def test_the_latency_of_the_two_messages_delays_the_deadline():
    near, far = (allocate(0.1, replace_latency(seconds)) for seconds in (0.0, 1.5))
    assert far.deadline == pytest.approx(near.deadline + 3, rel=1e-6)
    np.testing.assert_array_equal(far.loads, near.loads)


def replace_latency(seconds: float) -> Fleet:
    return replace(PAPER, classes=tuple(replace(one, latency=seconds) for one in PAPER.classes))


def test_more_parity_shortens_the_deadline():
    found = [allocate(delta) for delta in (0.001, 0.01, 0.1, 0.3, 0.5, 0.8, 0.95)]
    deadlines = [x.deadline for x in found]
    assert deadlines == sorted(deadlines, reverse=True)
    assert deadlines[2] == pytest.approx(19.3, rel=0.01)
    assert deadlines[5] == pytest.approx(0.98, rel=0.01)
    assert all((x.loads <= 480).all() for x in found)


def test_fast_devices_carry_more():
    found = allocate(0.5)
    assert found.loads.tolist() == sorted(found.loads.tolist(), reverse=True)
    assert found.loads[0] == 480


def test_devices_may_hold_different_amounts():
    points = np.full(25, 2400)
    points[:10] = 5
    found = allocate_loads(PAPER, points, 0.3, features=2000, outputs=10)
    assert found.loads[:10].tolist() == [1] * 10
    assert found.loads @ found.return_probability == pytest.approx(0.7 * (10 + 15 * 480), rel=1e-3)


def test_a_larger_fleet_of_the_same_mix_has_the_same_deadline():
    assert allocate(0.8, PAPER.scaled_to(1000)).deadline == pytest.approx(allocate(0.8).deadline)


@pytest.mark.parametrize("delta", [1, 1.5])
def test_parity_for_everything_needs_no_device(delta: float):
    found = allocate(delta)
    assert found.deadline == 0
    assert not found.loads.any()
    assert not found.return_probability.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: allocate(0), "delta must be at least 1e-06, got 0"),
        (lambda: allocate(float("nan")), "delta must be at least 1e-06, got nan"),
        (lambda: allocate(0.1, points=4), "points must be at least one per mini-batch (5), got 4"),
        (
            lambda: allocate_loads(PAPER, [1, 2], 0.1, features=2000, outputs=10),
            "points must be one number or one per device, got shape (2,)",
        ),
        (
            lambda: allocate_loads(PAPER, 2400, 0.1, features=0, outputs=10),
            "features must be a positive integer, got 0",
        ),
        (
            lambda: allocate(0.1, Fleet("bad", (DeviceClass("x", 1, 1e6, 0.5, 1e6, 1e6, 0.95, 0),), 1e12)),
            "failure_probability must be at most 0.9 for coded-fedl, got 0.95",
        ),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], message: str):
    with pytest.raises(InvalidInput) as caught:
        call()
    assert str(caught.value) == message


def test_frequent_failures_are_handled():
    fleet = Fleet("bad", (DeviceClass("x", 3, 1e6, 0.5, 1e6, 1e6, 0.9, 0),), 1e12)
    assert allocate(0.5, fleet).deadline > 10
