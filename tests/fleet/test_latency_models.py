"""Latency models on top of a fleet's own, against plain Python and closed forms."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab import Conditions, Fleet, FleetLatency, RoleKeys
from codedfl_lab.costs.times import Draws, WorkShape, epoch_end_times
from codedfl_lab.fleet.altered import by_chance
from codedfl_lab.fleet.latencies.drift import Drift
from codedfl_lab.fleet.latencies.pareto import Pareto
from codedfl_lab.fleet.latencies.places import Places
from codedfl_lab.fleet.latencies.vanishing import Vanishing
from codedfl_lab.fleet.latency_models import LATENCY_MODELS, check_latency, latency_of

PAPER = Fleet.load("paper")
USUAL = FleetLatency(PAPER)
D = PAPER.n_devices
SHIPPED = ("heavy-tailed", "congested", "coming-and-going", "drifting")


def rng() -> np.random.Generator:
    return np.random.default_rng(33)


def splitmix64(word: int) -> int:
    """Steele, Lea, Flood, in plain integers."""
    word = (word + 0x9E3779B97F4A7C15) % 2**64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def chance(seed: int, draw: int, device: int, period: int) -> float:
    word = seed
    for part in (draw, device, period):
        word = splitmix64(word ^ (part % 2**64))
    return (word >> 11) / 2**53


def test_chance_is_splitmix64_of_seed_draw_device_and_period():
    period = np.array([[0.0, 7.0, -2.0], [1.0, 0.0, 1e9]])
    found = by_chance(5, 2, np.arange(3), period)
    expected = [[chance(5, r, i, int(period[r, i])) for i in range(3)] for r in range(2)]
    assert found.tolist() == expected
    many = by_chance(0, 400, np.arange(D), np.zeros((400, D)))
    assert many.mean() == pytest.approx(0.5, abs=4 / math.sqrt(12 * many.size))


@pytest.mark.parametrize("shape", [1.2, 1.5, 3.0])
def test_pareto_has_the_tail_of_its_shape(shape: float):
    model = Pareto(FleetLatency(replaced(setup_factor=0.0)), shape=shape)
    ratios = model.compute_times(1e6, 20_000, rng()) / model.usual.mean_compute_times(1e6)
    for beyond in (1.0, 2.0, 5.0, 20.0):
        wanted = beyond**-shape
        assert (ratios > beyond).mean() == pytest.approx(wanted, abs=5 * math.sqrt(wanted / ratios.size) + 1e-9)
    assert model.mean_factor() == pytest.approx(shape / (shape - 1))


def replaced(**changes: Any) -> Fleet:
    from dataclasses import replace

    return replace(PAPER, classes=tuple(replace(one, **changes) for one in PAPER.classes))


def test_a_congested_place_slows_all_of_its_devices_and_no_other():
    model = Places(USUAL, count=4, probability=0.3, factor=10.0, period=5.0)
    factors = model.factors(3000, np.full((3000, D), 12.0))
    for place in range(4):
        here = factors[:, place::4]
        assert (here == here[:, :1]).all() and set(np.unique(here)) == {1.0, 10.0}
    assert (factors == 10).mean() == pytest.approx(0.3, abs=0.03)
    assert factors.mean() == pytest.approx(model.mean_factor(), rel=0.06)
    first, later, same = (model.factors(3000, np.full((3000, D), at)) for at in (12.0, 16.0, 14.9))
    assert (first == same).all() and (first != later).any(), "a period lasts five seconds"


def test_what_a_vanished_device_does_goes_on_when_it_is_back():
    model = Vanishing(USUAL, probability=0.4, period=2.0, seed=9)
    began = rng().uniform(0, 10, (6, D))
    usual, away = (m.compute_times(5e6, 6, rng(), now=began) for m in (USUAL, model))
    for r in range(6):
        for i in range(D):
            at, left = float(began[r, i]), float(usual[r, i])
            while left > 1e-12:
                period = int(at // 2.0 + 1e-9)
                end = (period + 1) * 2.0
                worked = min(left, end - at) if chance(9, r, i, period) >= 0.4 else 0.0
                left -= worked
                at = at + worked if left <= 1e-12 else end
            assert away[r, i] == pytest.approx(at - began[r, i], rel=1e-9)
    long = model.compute_times(1e9, 40, rng()) / USUAL.compute_times(1e9, 40, rng())
    assert long.mean() == pytest.approx(model.mean_factor(), rel=0.02)


def test_speeds_drift_slowly_within_their_swing():
    model = Drift(USUAL, swing=8.0, period=50.0)
    times = np.linspace(0, 5000, 2000)
    factors = np.array([model.factors(1, np.full((1, D), at))[0] for at in times])
    assert 1 / 8 <= factors.min() < 0.2 and 5 < factors.max() <= 8
    steps = np.abs(np.diff(np.log(factors), axis=0)) / np.diff(times)[:, None]
    assert steps.max() < 2 * np.pi * np.log(8.0) / 25.0, "no faster than a swing of half the period"
    assert factors.mean() == pytest.approx(model.mean_factor(), rel=0.05)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_fleets_are_the_papers_devices_with_other_stragglers(name: str):
    fleet = Fleet.load(name)
    assert fleet.classes == PAPER.classes and len(fleet.latency_models) == 1
    assert Fleet.loads(fleet.dumps()) == fleet and fleet.scaled_to(50).latency_models == fleet.latency_models
    model = latency_of(fleet)
    assert model.usual == FleetLatency(fleet) and Conditions(fleet).times == model
    assert (model.mean_transfer_times(1e6, "up") > USUAL.mean_transfer_times(1e6, "up")).all()


def test_models_stand_on_top_of_one_another():
    model: Any = latency_of(Fleet.load("heavy-tailed+drift:swing=3"))
    assert (model.name, model.swing, model.usual.name, model.usual.shape) == ("drift", 3.0, "pareto", 1.5)
    assert latency_of(PAPER) == USUAL


def test_schemes_meet_the_same_fleet_in_the_same_draw():
    """Who is congested when is a function of draw and time: the slower of two schemes is not luckier."""
    at = Conditions(Fleet.load("paper+places:factor=50,probability=0.5,period=1e9"), "per-message")
    shape = WorkShape(50, 10, np.full(D, 100))

    def sharing(scheme: RoleKeys) -> np.ndarray:
        return epoch_end_times(scheme, shape, at, 1, Draws(200, rng()))[0]

    found = np.corrcoef(np.log(sharing(RoleKeys(1))), np.log(sharing(RoleKeys(4))))[0, 1]
    assert found > 0.8


@pytest.mark.parametrize(
    ("fleet", "message"),
    [
        ("paper+nope", "latency model must be one of drift, pareto, places, vanishing, got 'nope'"),
        ("paper+pareto:shap=2", "parameter must be one of shape, got 'shap'"),
        ("paper+pareto:shape=x", "shape must be of type float, got 'x'"),
        ("paper+pareto:shape=1", "shape of pareto must be above 1, or times have no mean, got 1.0"),
        ("paper+pareto:usual=1", "parameter must be one of shape, got 'usual'"),
        ("paper+pareto:1", "parameters must be written as NAME:KEY=VALUE,KEY=VALUE, got 'pareto:1'"),
        ("paper+", "latency_models must be a list of names, such as 'pareto:shape=1.5', got ('',)"),
    ],
)
def test_what_is_refused(fleet: str, message: str):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        latency_of(Fleet.load(fleet))


def test_a_fleet_like_another_says_nothing_of_devices(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text('like = "paper"\nlatency_models = ["drift"]\n[server]\nmac_rate = 1\n')
    with pytest.raises(InvalidInput, match=r"server must be left out of a fleet that is like another, got"):
        Fleet.load(path)
    path.write_text('like = "paper"\nlatency_models = "drift"\n')
    with pytest.raises(InvalidInput, match=r"latency_models must be a list of names"):
        Fleet.load(path)


def test_what_is_no_latency_model_is_refused():
    with pytest.raises(
        InvalidInput, match=r"^a latency model must be a named dataclass whose first field is usual, got"
    ):
        check_latency(FleetLatency)
    for one in LATENCY_MODELS.known.values():
        check_latency(one)
