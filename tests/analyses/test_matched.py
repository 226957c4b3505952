"""Conditional logistic models and estimating equations beside statsmodels; one line for each failure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.statistics.cases import Case, found_by
from experiments.statistics.matched import COLUMNS, by_set, lines, made_up

from codedfl.contract.models import StudyModel
from codedfl.contract.models.conditional_logit import ConditionalLogitModel
from codedfl.contract.models.gee import GeeModel
from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.statistics.statistic import Ask, contribution
from totals import total_of
from wording import exactly

LOGIT, GEE = ConditionalLogitModel("m", COLUMNS, "set"), GeeModel("m", COLUMNS, cluster="set")
AT = {"conditional": np.array([0.5, -0.2, 0.3]), "gee": np.array([0.1, 0.5, -0.2, 0.3, 0.25])}


def test_coefficients_and_errors_are_those_of_statsmodels():
    found = list(lines())
    assert len(found) == 17
    assert [line for line in found if not line.difference <= line.bound] == []


@pytest.mark.parametrize(("model", "name"), [(LOGIT, "conditional"), (GEE, "gee")])
def test_neither_who_holds_a_set_nor_the_order_of_its_rows_changes_a_bit(model: StudyModel, name: str):
    case = made_up(90, cases=2)
    study, ask = case.study(model), Ask(name, (), AT[name], "m")
    (whole,) = (take_snapshot(study, part, bytes(32)) for part in by_set(case, 1).values())
    parts = [take_snapshot(study, part, bytes(31) + bytes([n])) for n, part in enumerate(by_set(case, 7).values())]
    assert total_of(study, ask, parts) == total_of(study, ask, [whole])
    order = np.random.default_rng(0).permutation(len(whole))
    names = ("codes", "target", "held_out")
    shuffled: Snapshot = replace(whole, **{one: getattr(whole, one)[order] for one in names})
    assert contribution(study, ask, shuffled).tolist() == contribution(study, ask, whole).tolist()


def objection_of(study: Study, rows: Snapshot) -> str:
    named = dict(zip(study.table_columns.names, rows.codes.T, strict=True))
    return study.models[0].objection(named, study.most_points, study.smallest_cell)


def failure(case: Case, model: StudyModel) -> str:
    (none,) = found_by(case.study(model), by_set(case)).models
    (line,) = none.lines()
    return line


def separated() -> Case:
    """Whoever is ill has an age above that of the others of the set."""
    case = made_up(cases=2)
    return replace(case, values={**case.values, "age": np.where(case.values["ill"] == "yes", 80.0, 40.0)})


def test_separation_has_one_line():
    assert "columns that tell the classes within sets without error (separation)" in failure(separated(), LOGIT)
    assert "(separation)" in failure(separated(), GEE)


def test_too_few_sets_have_one_line():
    case = made_up(60, cases=1)
    lone = replace(case, values={**case.values, "set": case.values["set"] % 4})
    assert failure(lone, replace(LOGIT, columns=COLUMNS[:1])) == (
        "none: sets of the model 'm' with rows of both classes must be at least 5"
    )
    assert (
        failure(lone, replace(GEE, columns=COLUMNS[:1]))
        == "none: clusters of the model 'm' must be at least 5, got fewer"
    )


def test_the_census_refuses_few_people_in_sets_of_both_classes():
    """All sets have several rows, and all sums are of the two of them that have both classes."""
    case = made_up(200, cases=1)
    _, first, sizes = np.unique(case.values["set"], return_index=True, return_counts=True)
    ill = np.where((case.values["set"] // 4) % 2 == 0, "yes", "no")
    for place in first[sizes == 2][:2]:
        ill[place : place + 2] = "yes", "no"
    case = replace(case, values={**case.values, "ill": ill})
    assert failure(case, replace(LOGIT, columns=COLUMNS[:1])) == (
        "none: sets with several classes must have at least 5 people in the model 'm', got fewer: its sums are of them"
        " alone; take wider sets, or ask more devices to join"
    )


def test_rows_that_stand_alone_are_no_clusters():
    case = made_up(400, cases=3)
    first = np.unique(case.values["set"], return_index=True)[1]
    alone = replace(case, values={name: column[first] for name, column in case.values.items()})
    assert failure(alone, GEE) == "none: clusters of the model 'm' must have several rows, got one in most"


@pytest.mark.parametrize("model", [LOGIT, GEE])
def test_a_device_refuses_a_set_of_many_rows(model: StudyModel):
    case = made_up()
    case = replace(case, values={**case.values, "set": case.values["set"] // 20})
    study = case.study(model)
    message = objection_of(study, take_snapshot(study, case.table, bytes(32)))
    assert message.startswith("'set' of the model 'm' must have at most 50 rows of one value, got ")


@pytest.mark.parametrize(
    ("model", "name", "point", "line"),
    [
        (LOGIT, "conditional", [9.0, 2.0, 0.0], "the linear predictor of 'm' must lie within -10 and 10 over the"),
        (GEE, "gee", [0.0, 0.0, 0.0, 0.0, 0.96], "the correlation of 'm' must be from 0 to 0.95, got 0.96"),
        (GEE, "gee", [0.0, 9.0, 2.0, 0.0, 0.0], "the linear predictor of 'm' must lie within -10 and 10 over the"),
    ],
)
def test_a_device_refuses_what_is_beyond_the_bound(model: StudyModel, name: str, point: list[float], line: str):
    study = made_up().study(model)
    with pytest.raises(MessageRefused, match=f"^an ask must fit the study: {line}"):
        Ask.decode(Ask(name, (), np.array(point), "m").encode(), study)


def test_keys_without_a_meaning_are_refused():
    case = made_up()
    for key, message in (
        ({"cluster": ""}, "cluster of the model 'm' must be a column, got none"),
        ({"errors": "HC1"}, "errors must be left out of the model 'm': they are robust"),
        ({"regularisation": 0.1}, "regularisation must be left out of the model 'm', got 0.1"),
    ):
        with pytest.raises(InvalidInput, match=exactly(message)):
            case.study(replace(GEE, **key))
