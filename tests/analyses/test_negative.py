"""Negative binomial models beside statsmodels, and what is said where counts vary no more than their means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.statistics.cases import found
from experiments.statistics.dispersion import COLUMNS, made_up, negative

from codedfl.contract.models.negative import NegativeBinomialModel
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.statistics.statistic import Ask
from totals import dealt, total_of
from wording import exactly

MODEL = NegativeBinomialModel("m", COLUMNS)


def test_coefficients_and_alpha_are_those_of_statsmodels():
    lines = list(negative())
    assert len(lines) == 6
    assert [line for line in lines if not line.difference <= line.bound] == []


def test_who_holds_which_row_changes_no_bit():
    case = made_up("poisson", 300)
    study = case.study(replace(MODEL, weights="times"))
    ask = Ask("negative", (), np.array([0.1, 0.5, -0.2, 0.3, -0.7]), "m")
    first, second = (total_of(study, ask, dealt(study, case.table, n, seed=n)) for n in (1, 7))
    assert first == second


def test_counts_that_vary_less_than_their_means():
    case = made_up("poisson")
    case = replace(case, values={**case.values, "y": np.where(np.arange(800) % 3 == 0, 4.0, 5.0)})
    (none,) = found(case, case.study(MODEL)).models
    assert none.lines() == [
        "none: counts of the model 'm' must vary more than their means, got an alpha that goes to 0: take kind ="
        " 'poisson'"
    ]


def test_a_device_refuses_an_alpha_beyond_all_reason():
    study = made_up("poisson").study(MODEL)
    message = "an ask must fit the study: the logarithm of alpha of 'm' must be at most 7 in size, got 7.5"
    with pytest.raises(MessageRefused, match=exactly(message)):
        Ask.decode(Ask("negative", (), np.array([0.0, 0.0, 0.0, 0.0, 7.5]), "m").encode(), study)


def test_its_errors_are_its_own():
    message = "errors of the model 'm' must be model, got 'HC0': for robust ones take kind = 'poisson'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        made_up("poisson").study(replace(MODEL, errors="HC0"))
