"""Models of categorical columns from one cross-table: exact, and only if no combination is rare."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.statistics.cases import Case
from experiments.statistics.glm import made_up, tabled

from codedfl.analyses.analysis import Finding
from codedfl.analyses.study_analysis import conduct
from codedfl.contract.models.table import TableModel
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from totals import census_of, dealt, total_of
from wording import exactly

MODEL = TableModel("m", ("ward", "sex"))


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_a_model_is_that_of_statsmodels(kind: str):
    found = list(tabled(kind))
    assert len(found) == 8
    assert all(line.difference <= line.bound for line in found)


def people(n: int = 300) -> Case:
    rng = np.random.default_rng(0)
    ward, sex = rng.choice(["a", "b", "c"], n), rng.choice(["f", "m"], n)
    return Case({"ward": ward, "sex": sex, "ill": (rng.random(n) < 0.4).astype(np.int64)}, "ill", {})


def asked_and_found(case: Case, study: Study, n_devices: int = 4) -> tuple[list[str], Finding]:
    rows, run, asked = dealt(study, case.table, n_devices, seed=n_devices), conduct(study), []
    ask = next(run)
    while True:
        asked.append(ask.statistic)
        try:
            ask = run.send(census_of(study, rows) if ask.statistic == "census" else total_of(study, ask, rows))
        except StopIteration as end:
            return asked, end.value.models[0]


def test_one_table_is_asked_for_and_who_holds_which_row_changes_no_bit():
    case = people()
    study = case.study(MODEL)
    asked, found = asked_and_found(case, study)
    assert asked == ["census", "cells", "gram", "contingency"]
    assert asked_and_found(case, study, 3)[1].to_dict() == found.to_dict()


def test_a_rare_combination_is_refused_before_the_target_is_summed():
    case = people()
    alone = np.flatnonzero((case.values["ward"] == "c") & (case.values["sex"] == "m"))[4:]
    sex = case.values["sex"].copy()
    sex[alone] = "f"
    case = replace(case, values={**case.values, "sex": sex})
    asked, found = asked_and_found(case, case.study(MODEL))
    assert "contingency" not in asked
    assert found.lines() == [
        "none: combinations of columns that occur in the model 'm' must each have at least 5 people, got 1 with fewer:"
        " take coarser steps, join levels, leave a column out, or take a logistic or Poisson model"
    ]


def test_levels_without_doubt():
    case = people()
    ill = np.where(case.values["ward"] == "b", 1, case.values["ill"])
    case = replace(case, values={**case.values, "ill": ill})
    line = (
        "none: the target must be uncertain in the model 'm', got levels in which it is always the same (separation):"
        " join levels, or take a logistic or Poisson model with a ridge penalty (regularisation)"
    )
    assert asked_and_found(case, case.study(MODEL))[1].lines() == [line]


def test_many_combinations():
    case = made_up("logistic")
    study = case.study(TableModel("m", ("age", "ward")))
    line = "none: columns of the model 'm' must have at most 4096 combinations for a table, got 20988"
    assert asked_and_found(case, study)[1].lines() == [line]


def test_targets_that_do_not_fit():
    case = people()
    case = replace(case, values={**case.values, "ill": case.values["ill"] / 2}, steps={"ill": 0.5})
    with pytest.raises(InvalidInput, match=exactly("the target 'ill' must be whole numbers from 0 for the model 'm'")):
        case.study(MODEL)
