"""The study beyond the paper: who is timed must have been trained, and every goal is judged as it says."""

from __future__ import annotations

import pytest

from codedfl_lab.reproduce.beyond import AIMS, PRICES, Course, beyond_entries, judge, racers
from codedfl_lab.reproduce.sizes import PEER_SIZES, _at_any_size, _peers
from made_up_results import timed

COURSES = {Course(aim.dataset, aim.devices, aim.features) for aim in AIMS}


def test_whoever_is_timed_again_has_a_trajectory() -> None:
    trained = {one.models_key for one in beyond_entries(25)}
    for course in COURSES:
        assert {one.models_key for one in racers(course, 25)} <= trained
    for size in PEER_SIZES:
        assert {one.models_key for one in (*_at_any_size(size), *_peers(size))} <= trained


def test_every_goal_has_its_racers() -> None:
    for aim in AIMS:
        ours = {(one.scheme.name, one.solver) for one in racers(Course(aim.dataset, aim.devices, aim.features), 25)}
        rivals = racers(Course(aim.dataset, aim.devices, aim.rival_features), 25)
        assert (aim.scheme, aim.solver) in ours
        assert (aim.rival, aim.rival_solver) in {(one.scheme.name, one.solver) for one in rivals}


@pytest.mark.parametrize(("seconds", "verdict"), [(20.0, "met"), (20.1, "missed")])
def test_a_goal_is_about_the_headlines_median(seconds: float, verdict: str) -> None:
    aim = AIMS[0]
    found = {
        (aim.scheme, aim.solver, aim.z): [
            timed(0.95, seconds * (1 + place), label="role-keys, z = 1") for place in range(len(PRICES))
        ],
        (aim.rival, aim.rival_solver, None): [timed(0.95, 8000.0)] * len(PRICES),
    }
    judged = judge(aim, {Course("mnist", 25): found})
    assert (aim.goal, judged.verdict) == (400.0, verdict)
    assert [one.price for one in judged.prices] == list(PRICES)
    assert judged.prices[1].speedup == pytest.approx(8000.0 / seconds / 2)
    assert judged.prices[0].low == judged.prices[0].high == pytest.approx(8000 / seconds)
    assert (judged.label, judged.time_s) == ("role-keys, z = 1", seconds)


def test_an_interval_that_reaches_below_is_said() -> None:
    aim = AIMS[0]
    ours = [timed(0.95, [18.0, 19.0, 30.0], label="role-keys, z = 1")] * len(PRICES)
    theirs = [timed(0.95, 8000.0)] * len(PRICES)
    found = {(aim.scheme, aim.solver, aim.z): ours, (aim.rival, aim.rival_solver, None): theirs}
    judged = judge(aim, {Course("mnist", 25): found})
    assert judged.verdict == "met, interval reaches below"
    assert judged.prices[0].low is not None and judged.prices[0].low < 400 < (judged.prices[0].speedup or 0)
