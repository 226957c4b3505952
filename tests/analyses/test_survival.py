"""Survival curves and the log-rank test beside statsmodels; intervals with few ends are joined before they are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.statistics.cases import found
from experiments.statistics.survival import lines, made_up

from codedfl.analyses.survival import SurvivalFinding
from codedfl.contract.models import SubModel
from codedfl.contract.models.survival import SurvivalModel
from codedfl.contract.words import explain
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from totals import conducted, dealt, total_of
from wording import exactly

TIMES = tuple(float(time) for time in range(5, 201, 5))
MODEL = SurvivalModel("m", ("ward",), "died", TIMES)


def test_curves_and_test_are_those_of_statsmodels():
    assert [line for line in lines() if line.difference > line.bound] == []


def test_curves_need_no_linear_model():
    case = made_up(2400)
    alone = case.study(MODEL, features="none")
    assert alone.statistics == ("census", "cells", "survival")
    (fit,), (beside,) = (found(case, study).models for study in (alone, case.study(MODEL)))
    assert isinstance(fit, SurvivalFinding) and fit.to_dict() == beside.to_dict()
    line = "models must go with linear features without noise, got 'age'"
    with pytest.raises(InvalidInput, match=exactly(line)):
        case.study(MODEL, SubModel("age", ("age",)), features="none")
    answers = [one for section in explain(alone) for one in section.answers]
    assert "version 1; the result is what its models say, and no model of its own" in answers


def test_no_interval_has_few_events_or_few_cut_short():
    """On a grid of single days: neither what is told nor a difference of it is a count below the smallest cell."""
    case = made_up(2400)
    (fit,) = found(case, case.study(replace(MODEL, times=tuple(float(day) for day in range(1, 200))))).models
    assert isinstance(fit, SurvivalFinding) and len(fit.curves[0].times) > 1
    for curve in fit.curves:
        of_group = case.values["ward"] == curve.group
        places = np.searchsorted(curve.times, case.values["days"][of_group])
        events, cut = (
            np.bincount(places[case.values["died"][of_group] == died], minlength=len(curve.times) + 1)
            for died in (1.0, 0.0)
        )
        assert curve.events.tolist() == events[:-1].tolist()
        assert curve.at_risk.tolist() == np.cumsum((events + cut)[::-1])[::-1][:-1].tolist()
        assert curve.censored.tolist() == cut[:-1].tolist() and curve.left == (events + cut)[-1]
        told = {*curve.events, *cut[:-1], curve.left, curve.at_risk[-1] - curve.events[-1]}
        assert told & {1, 2, 3, 4} == set()


def test_times_that_no_curve_has_are_named():
    """A study asks for day 30, and the curve has none: the result says what became of it."""
    case = made_up(2400)
    asked = tuple(float(day) for day in range(1, 200))
    (fit,) = found(case, case.study(replace(MODEL, times=asked))).models
    assert isinstance(fit, SurvivalFinding)
    assert {*fit.merged} == {*asked} - {*fit.curves[0].times} != set()
    times = ", ".join(f"{one:g}" for one in fit.merged)
    assert fit.lines()[-1] == f"times merged into the next one, since too few rows end there: {times}"
    assert fit.to_dict()["merged"] == list(fit.merged)
    assert "merged" not in replace(fit, merged=()).lines()[-1]


def test_what_cannot_be_joined_is_withheld():
    case = made_up(2400)
    of_c = case.values["ward"] == "c"
    case.values["died"][of_c] = np.arange(of_c.sum()) < 3
    (fit,) = found(case, case.study(MODEL)).models
    assert fit.lines() == [
        "none: times of the model 'm' must leave an interval in which, as after it, every group has none or at least 5"
        " people with the event (smallest_cell) and as many censored, by the census, got none such: take fewer and"
        " longer times, or join groups"
    ]


def test_models_of_a_study_end_intervals_at_the_same_times():
    """Or the difference of two curves, by other groups, would be few people between two times."""
    case = made_up(2400)
    case = replace(case, values={**case.values, "sex": np.where(np.arange(2400) % 2 == 0, "f", "m")})
    by_ward, by_sex = found(case, case.study(MODEL, replace(MODEL, name="n", columns=("sex",)))).models
    assert isinstance(by_ward, SurvivalFinding) and isinstance(by_sex, SurvivalFinding)
    assert by_sex.curves[0].times.tolist() == by_ward.curves[0].times.tolist()
    line = (
        "times of the model 'n' must be those of 'm', got [31.0, 60.0]: curves that differ by one time show single"
        " people"
    )
    with pytest.raises(InvalidInput, match=exactly(line)):
        case.study(replace(MODEL, times=(30.0, 60.0)), replace(MODEL, name="n", times=(31.0, 60.0)))


def test_who_holds_which_row_changes_no_bit():
    case = made_up()
    study = case.study(MODEL)
    first, second = (dealt(study, case.table, n, seed=n) for n in (3, 8))
    ask = Ask("survival", model="m")
    assert total_of(study, ask, first) == total_of(study, ask, second)
    assert conducted(study, first).models[0].to_dict()["log_rank"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"times": (3.0, 2.0)}, "times of the model 'm' must be 1 to 1000 ascending numbers from 0, got [3.0, 2.0]"),
        ({"times": ()}, "times of the model 'm' must be 1 to 1000 ascending numbers from 0, got []"),
        ({"columns": ("died",), "event": "ward"}, "columns of the model 'm' must be one category, got ['died']"),
        ({"event": "none"}, "'none' of the model 'm' must be a column of the study beside the model's columns"),
    ],
)
def test_keys_that_do_not_fit(keys: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        made_up().study(replace(MODEL, **keys))
