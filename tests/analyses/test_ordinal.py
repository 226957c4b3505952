"""Proportional odds beside statsmodels' OrderedModel; one line for each failure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.statistics.cases import found
from experiments.statistics.ordinal import COLUMNS, lines, made_up

from codedfl.contract.models.ordinal import ProportionalOddsModel
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.statistics.statistic import Ask
from totals import dealt, total_of
from wording import exactly

MODEL = ProportionalOddsModel("m", COLUMNS)


def test_coefficients_and_thresholds_are_those_of_statsmodels():
    told = list(lines())
    assert len(told) == 3
    assert [line for line in told if not line.difference <= line.bound] == []


def test_who_holds_which_row_changes_no_bit():
    case = made_up(300)
    study = case.study(MODEL)
    ask = Ask("ordinal", (), np.array([-1.0, 0.2, 1.5, 0.5, -0.2, 0.3]), "m")
    first, second = (total_of(study, ask, dealt(study, case.table, n, seed=n)) for n in (1, 7))
    assert first == second


def test_columns_that_tell_the_classes():
    case = made_up()
    case = replace(case, values={**case.values, "stage": np.digitize(case.values["age"], [40.0, 55.0, 70.0])})
    (none,) = found(case, case.study(MODEL)).models
    assert none.lines() == [
        "none: thresholds and linear predictor of the model 'm' must stay within 10, got a likelihood that grows"
        " beyond: columns that tell the classes without error (separation), classes that hardly differ, or ranges far"
        " wider than the values; leave columns out, or give it a larger bound"
    ]


@pytest.mark.parametrize(
    ("point", "line"),
    [
        ([1.0, 0.0, 2.0, 0.0, 0.0, 0.0], "thresholds of 'm' must ascend by 0.02 within the bound"),
        ([-1.0, 0.0, 11.0, 0.0, 0.0, 0.0], "thresholds of 'm' must ascend by 0.02 within the bound"),
        (
            [-1.0, 0.0, 1.0, 9.0, 2.0, 0.0],
            "the linear predictor of 'm' must lie within -10 and 10 over the ranges, got [-9, 11]",
        ),
    ],
)
def test_a_device_refuses_what_is_beyond_the_bound(point: list[float], line: str):
    study = made_up().study(MODEL)
    with pytest.raises(MessageRefused, match=exactly(f"an ask must fit the study: {line}")):
        Ask.decode(Ask("ordinal", (), np.array(point), "m").encode(), study)


def test_two_classes_are_for_a_logistic_model():
    case = made_up()
    values: dict[str, Any] = {**case.values, "stage": np.minimum(case.values["stage"], 1)}
    message = "the target 'stage' must have three classes or more for the model 'm'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        replace(case, values=values).study(MODEL)
