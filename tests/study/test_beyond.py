"""The study beyond the paper: who is timed must have been trained, and every goal is judged as it says."""

from __future__ import annotations

import numpy as np
import pytest

from codedfl_lab.comparing.comparison import Settings, Trained
from codedfl_lab.costs.prices import at_published_prices
from codedfl_lab.costs.times import Conditions, WorkShape
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.reproduce.beyond import (
    AIMS,
    COLUMNS,
    CONVENTIONAL,
    PREPARED,
    STRONGEST,
    Course,
    Times,
    beyond_entries,
    judge,
    prepared,
    racers,
)
from codedfl_lab.reproduce.sizes import PEER_SIZES, _at_any_size, _peers
from made_up_results import timed

COURSES = {aim.course for aim in AIMS}
AIM = AIMS[0]


def test_whoever_is_timed_again_has_a_trajectory() -> None:
    trained = {one.models_key for one in beyond_entries(25)}
    for course in COURSES:
        assert {one.models_key for one in racers(course, 25)} <= trained
    for size in PEER_SIZES:
        assert {one.models_key for one in (*_at_any_size(size), *_peers(size))} <= trained


def test_every_goal_has_its_racers() -> None:
    for aim in AIMS:
        found = {(one.scheme.name, one.solver) for one in racers(aim.course, 25)}
        assert {(aim.scheme, aim.solver), CONVENTIONAL[:2], STRONGEST[:2]} <= found


def test_every_course_is_raced_on_the_papers_features_too() -> None:
    assert {course.on_the_papers_features for course in (*COURSES, *PREPARED)} <= COURSES
    assert set(PREPARED) <= COURSES


def raced(seconds: list[float] | float) -> dict[Course, Times]:
    """From zero and with the ring's own work it takes twice and three times as long."""
    found: Times = {}
    for place, column in enumerate(COLUMNS):
        times = np.atleast_1d(seconds) * (1 + place)
        found[column] = {
            AIM.method: timed(0.95, times.tolist() * (3 // len(times)), label="role-keys, z = 1"),
            CONVENTIONAL: timed(0.95, 9000.0),
            STRONGEST: timed(0.95, 450.0),
        }
    return {AIM.course: found}


@pytest.mark.parametrize(("seconds", "verdict"), [(20.0, "met"), (20.1, "missed")])
def test_a_goal_is_about_the_median_of_its_column(seconds: float, verdict: str) -> None:
    call, zero, ring = judge(AIM, raced(seconds)).columns
    assert (call.goal, call.verdict, call.label, call.time_s) == (450.0, verdict, "role-keys, z = 1", seconds)
    assert call.low == call.high == call.speedup == pytest.approx(9000 / seconds)
    assert call.over_strongest == pytest.approx(450 / seconds)
    assert (zero.goal, zero.verdict) == (100.0, "met")
    assert (ring.goal, ring.verdict) == (None, "no goal")
    assert [zero.speedup, ring.speedup] == pytest.approx([4500 / seconds, 3000 / seconds])


def test_an_interval_that_reaches_below_is_said() -> None:
    call = judge(AIM, raced([18.0, 19.0, 30.0])).columns[0]
    assert call.verdict == "met, interval reaches below"
    assert call.low is not None and call.low < 450 < (call.speedup or 0)


def test_what_is_prepared_has_every_step_and_class() -> None:
    fleet = at_published_prices(Fleet.load("paper"))
    trained = Trained({}, [0], WorkShape(2000, 10, np.full(25, 2400)), 0.0)
    settings = Settings(Conditions(fleet), (0.95,))
    found = list(prepared(AIM.course, {AIM.course: chosen("role-keys, z = 1, K = 5, 32 bits")}, trained, settings))
    steps, classes = {one.step for one in found}, {one.device for one in found}
    assert (len(steps), classes) == (5, {"fast", "medium", "slow", "slowest"})
    seconds = {(one.step, one.device): one.seconds for one in found}
    assert {kind for step, kind in seconds if step == "draw a role's key"} == {"fast"}
    for step in steps - {"draw a role's key"}:
        assert seconds[step, "slowest"] == pytest.approx(20 * seconds[step, "fast"])


def chosen(label: str) -> Times:
    row = timed(0.95, 20.0, label=label)
    return {"call": {("role-keys", "block-krylov", 1): row}}
