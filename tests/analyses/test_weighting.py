"""Inverse probability weighting beside statsmodels' TreatmentEffect; one line for each failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.statistics.cases import found
from experiments.statistics.weighting import COLUMNS, TIMES, compared, hazards, made_up, times_made_up

from codedfl.analyses.weighting import IptwFinding, IptwFit
from codedfl.contract.models.weighting import IptwCoxModel, IptwModel
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.statistics.statistic import Ask
from totals import dealt, total_of
from wording import exactly

MODEL = IptwModel("m", COLUMNS, treatment="drug")
COX = IptwCoxModel("m", COLUMNS, "died", TIMES, treatment="drug")


@pytest.mark.parametrize("kind", ["number", "classes"])
def test_effects_and_their_errors_are_those_of_statsmodels(kind: str):
    lines = list(compared(kind))
    assert len(lines) == 4
    assert [line for line in lines if not line.difference <= line.bound] == []


@pytest.mark.parametrize("statistic", ["propensity", "weighted"])
def test_who_holds_which_row_changes_no_bit(statistic: str):
    case = made_up("number", 300)
    study = case.study(MODEL)
    point = np.array([0.1, 0.5, -0.2, 0.3, 0.2, -0.4][: 4 if statistic == "propensity" else 6])
    first, second = (
        total_of(study, Ask(statistic, (), point, "m"), dealt(study, case.table, n, seed=n)) for n in (1, 7)
    )
    assert first == second


def test_weights_balance_what_the_treatment_was_chosen_by():
    (fit,) = found(made_up("number"), made_up("number").study(MODEL)).models
    assert isinstance(fit, IptwFinding) and isinstance(fit.inference.fit, IptwFit)
    case, of = made_up("number"), fit.inference.fit
    age, drug = case.values["age"], case.values["drug"]
    assert abs(age[drug == 1].mean() - age[drug == 0].mean()) / age.std() > 0.4
    assert max(map(abs, of.balance.values())) < 0.1
    assert all(one < (drug == arm).sum() for arm, one in enumerate(of.effective))


# -- times until an event


def test_a_weighted_hazard_ratio_is_that_of_its_definition():
    lines = list(hazards())
    assert len(lines) == 2
    assert [line for line in lines if not line.difference <= line.bound] == []


@pytest.mark.parametrize("statistic", ["weighted-times", "weighted-scores"])
def test_who_holds_which_row_changes_no_bit_of_weighted_times(statistic: str):
    case = times_made_up(300)
    study = case.study(COX)
    rng, n = np.random.default_rng(3), len(TIMES)
    numbers = rng.normal(0, 0.2, 4 * n if statistic == "weighted-scores" else 0)
    point = np.append([0.1, 0.5, -0.2, 0.3], numbers)
    ask = Ask(statistic, (), point, "m")
    first, second = (total_of(study, ask, dealt(study, case.table, parts, seed=parts)) for parts in (1, 7))
    assert first == second


def test_an_arm_without_the_event():
    case = times_made_up()
    case = replace(case, values={**case.values, "died": case.values["died"] * case.values["drug"]})
    (none,) = found(case, case.study(COX)).models
    assert none.lines() == [
        "none: 'died' must be 1 in some row without and with 'drug' within the times of the model 'm', got an arm"
        " without"
    ]


def test_a_device_refuses_scores_beyond_their_bound():
    study, n = times_made_up().study(COX), len(TIMES)
    point = np.append(np.zeros(4), np.ones(4 * n))
    message = "an ask must fit the study: scores of 'm' must be at most 16 in size, got 21"
    with pytest.raises(MessageRefused, match=exactly(message)):
        Ask.decode(Ask("weighted-scores", (), point, "m").encode(), study)


# -- failures


@pytest.mark.parametrize("nobody", [False, True])
def test_a_treatment_that_the_columns_tell_or_that_nobody_had(nobody: bool):
    case = made_up("number")
    study = case.study(MODEL)
    drug = np.zeros(900) if nobody else (case.values["age"] > 55) * 1.0
    (none,) = found(replace(case, values={**case.values, "drug": drug}), study).models
    (line,) = none.lines()
    assert line.startswith("none: the linear predictor of the model 'm' must stay within 6 over the ranges")
    assert "columns that tell 'drug' without error (no overlap)" in line


def test_a_device_refuses_coefficients_and_means_beyond_their_bounds():
    study = made_up("number").study(MODEL)
    for point, line in (
        ([7.0, 0.0, 0.0, 0.0, 0.0, 0.0], "the linear predictor of 'm' must lie within -6 and 6 over the ranges"),
        ([0.0, 0.0, 0.0, 0.0, 0.0, 1.5], "both means of 'm' must lie between -1 and 1"),
    ):
        with pytest.raises(MessageRefused, match=f"^an ask must fit the study: {line}"):
            Ask.decode(Ask("weighted", (), np.array(point), "m").encode(), study)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"treatment": "ward", "columns": ("age",)},
            "treatment of the model 'm' must be 0 or 1 without missing values, got 'ward': give it range = [0, 1] and"
            " step = 1, and 0 and 1 for its words in every table",
        ),
        ({"treatment": ""}, "'' of the model 'm' must be a column of the study beside the model's columns"),
        ({"regularisation": 0.1}, "regularisation must be left out of the model 'm', got 0.1"),
        ({"errors": "HC0"}, "errors must be left out of the model 'm': they are those of both steps"),
    ],
)
def test_keys_that_do_not_fit(keys: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        made_up("number").study(replace(MODEL, **keys))
