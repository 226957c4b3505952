"""Survival curves and the log-rank test beside statsmodels; intervals with few ends are joined before they are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.statistics.cases import found
from experiments.statistics.survival import lines, made_up

from codedfl.analyses import SurvivalFinding
from codedfl.contract.models import SurvivalModel
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.statistics import Ask
from totals import conducted, dealt, total_of
from wording import exactly

TIMES = tuple(float(time) for time in range(5, 201, 5))
MODEL = SurvivalModel("m", ("ward",), "died", TIMES)


def test_curves_and_test_are_those_of_statsmodels():
    assert [line for line in lines() if line.difference > line.bound] == []


def test_no_interval_has_few_ends():
    """On a grid of single days: risk sets never differ by fewer people than the smallest cell."""
    case = made_up(400)
    study = case.study(replace(MODEL, times=tuple(float(day) for day in range(1, 200))))
    (fit,) = found(case, study).models
    assert isinstance(fit, SurvivalFinding)
    for curve in fit.curves:
        days = case.values["days"][case.values["ward"] == curve.group]
        ends = np.bincount(np.searchsorted(curve.times, days), minlength=len(curve.times) + 1)
        assert len(ends) == len(curve.times) + 1 and set(ends) & {1, 2, 3, 4} == set()
        assert curve.at_risk.tolist() == np.cumsum(ends[::-1])[::-1][:-1].tolist()


def test_who_holds_which_row_changes_no_bit():
    case = made_up()
    study = case.study(MODEL)
    first, second = (dealt(study, case.table, n, seed=n) for n in (3, 8))
    point = (np.arange(len(TIMES)) % 2).astype(np.float64)
    ask = Ask("survival", (), point, "m")
    assert total_of(study, ask, first) == total_of(study, ask, second)
    assert conducted(study, first).models[0].to_dict()["log_rank"]


def test_a_point_is_zeros_and_ones():
    study = made_up().study(MODEL)
    for point in (np.full(len(TIMES), 0.5), np.zeros(len(TIMES))):
        line = "an ask must fit the study: the point of survival must be 0 or 1 for each time, and 1 for some"
        with pytest.raises(MessageRefused, match=exactly(line)):
            Ask.decode(Ask("survival", (), point, "m").encode(), study)


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
