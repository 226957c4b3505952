"""Cox's model beside statsmodels' PHReg; intervals in which few leave are joined; one line for each failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.statistics.cases import found
from experiments.statistics.cox import (
    COLUMNS,
    TIMES,
    baseline_errors,
    compared,
    exact_times,
    fitted,
    made_up,
    penalised,
)

from codedfl.analyses.cox import CoxFinding
from codedfl.contract.models.cox import CoxModel
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.statistics.statistic import Ask
from totals import dealt, total_of
from wording import exactly

MODEL = CoxModel("m", COLUMNS, "died", TIMES)
BOTH = replace(MODEL, entry="from", strata="centre")


@pytest.mark.parametrize("keys", [{}, {"strata": "centre"}, {"entry": "from"}, {"entry": "from", "strata": "centre"}])
def test_everything_is_that_of_statsmodels(keys: dict[str, Any]):
    lines = list(compared("m", replace(MODEL, **keys)))
    assert len(lines) >= 7
    assert [line for line in lines if not line.difference <= line.bound] == []


def test_a_grid_of_days_is_exact_and_a_penalty_is_a_ridge():
    assert [line for line in (*exact_times(), *penalised()) if not line.difference <= line.bound] == []


def test_the_baseline_has_errors_and_rows_have_a_hazard():
    lines = list(baseline_errors())
    assert len(lines) == 3
    assert [line for line in lines if not line.difference <= line.bound] == []


def test_who_holds_which_row_changes_no_bit():
    case = made_up(300)
    study = case.study(BOTH)
    point = np.array([0.5, -0.3, 0.2])
    first, second = (total_of(study, Ask("cox", (), point, "m"), dealt(study, case.table, n, seed=n)) for n in (1, 7))
    assert first == second


def test_between_two_times_of_a_stratum_leave_enough_or_none():
    """Events and times cut short; and as many begin in an interval. Both are what risk sets differ by."""
    case = made_up(900)
    fit, values = fitted(case, replace(BOTH, times=tuple(float(day) for day in range(1, 300))))
    times = fit.baseline["x"][0]
    assert 3 < len(times) < 100
    for centre in ("x", "y"):
        mine = values["centre"] == centre
        place, begin = (np.searchsorted(times, values[name][mine]) for name in ("days", "from"))
        begin = begin[values["from"][mine] > 0]
        for one in (place[values["died"][mine] == 1], place[values["died"][mine] == 0], begin):
            counts = np.bincount(one, minlength=len(times) + 1)
            counts = counts[:-1] if one is not begin else counts
            assert set(counts.tolist()) & {1, 2, 3, 4} == set()


def test_events_that_are_in_no_risk_set_are_told():
    fit, values = fitted(made_up(), replace(MODEL, entry="from"), smallest_cell=1)
    times = fit.baseline[""][0]
    begin = np.searchsorted(np.append(0.0, times), values["from"])
    end = np.searchsorted(times, values["days"])
    lost = int(((begin > end) & (values["died"] == 1) & (end < len(times))).sum())
    assert lost > 10 and fit.fit.lost == lost
    assert ("Events never at risk", str(lost)) in fit.fit.facts()
    assert fitted(made_up(), MODEL)[0].fit.lost == 0


def test_a_hazard_ratio_that_fades_is_noticed():
    case = made_up(2000, seed=4)
    rng, fading = np.random.default_rng(4), case.values["ward"] == "b"
    days = np.ceil(rng.weibull(np.where(fading, 0.6, 1.6)) * 100)
    case = replace(case, values={**case.values, "days": np.minimum(days, 300.0), "died": (days <= 300) * 1.0})
    fit, _ = fitted(case, MODEL)
    p = {name: p for name, _, _, p in fit.proportional}
    assert p["ward"] < 1e-6 < p["age"]


# -- failures


def refused(model: CoxModel, line: str, values: dict[str, Any] | None = None) -> None:
    case = made_up()
    case = replace(case, values={**case.values, **(values or {})})
    assert found(case, case.study(model)).models[0].lines() == [f"none: {line}"]


def test_a_column_that_tells_who_lives_has_no_maximum_but_with_a_penalty():
    values = {"died": made_up().values["died"] * (made_up().values["ward"] != "c")}
    line = (
        "the linear predictor of the model 'm' must stay within 10 over the ranges, got a likelihood that grows towards"
        " {}: a column of which some values never have the event, or ranges far wider than the values; give it a ridge"
        " penalty (regularisation), narrower ranges or a larger bound"
    )
    case = made_up()
    case = replace(case, values={**case.values, **values})
    (none,) = found(case, case.study(MODEL)).models
    (told,) = none.lines()
    head, tail = line.split("{}")
    assert told.startswith(f"none: {head}") and told.endswith(tail)
    (fit,) = found(case, case.study(replace(MODEL, regularisation=0.01))).models
    assert isinstance(fit, CoxFinding) and fit.inference is None and "penalty" in "".join(fit.lines())


def test_nobody_has_the_event():
    line = "'died' must be 1 in some row within the times of the model 'm', got none"
    refused(
        MODEL,
        line,
        {"died": np.append(np.zeros(700), np.ones(200)), "days": np.append(np.arange(700) % 50 + 1.0, [300.0] * 200)},
    )


def test_a_device_refuses_coefficients_beyond_the_bound():
    study, line = made_up().study(MODEL), "the linear predictor of 'm' must lie within -10 and 10 over the ranges"
    with pytest.raises(MessageRefused, match=f"^an ask must fit the study: {line}"):
        Ask.decode(Ask("cox", (), np.array([11.0, 0.0, 0.0]), "m").encode(), study)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"entry": "ward", "columns": ("age",)},
            "entry of the model 'm' must be a number without missing values, got 'ward'",
        ),
        ({"strata": "from"}, "strata of the model 'm' must be a category, got 'from'"),
        ({"bound": 0.0}, "bound of the model 'm' must be above 0 and at most 500, got 0"),
        (
            {"event": "from"},
            "event of the model 'm' must be 0 or 1 without missing values, got 'from': give it range = [0, 1] and"
            " step = 1",
        ),
        ({"times": (3.0, 2.0)}, "times of the model 'm' must be 1 to 1000 ascending numbers from 0, got [3.0, 2.0]"),
    ],
)
def test_keys_that_do_not_fit(keys: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        made_up().study(replace(MODEL, **keys))
