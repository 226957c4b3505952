"""Logistic and Poisson models beside statsmodels, and the one line that each kind of failure is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.statistics.cases import Case, found
from experiments.statistics.glm import MADE, breast_cancer, compared, made_up, oracle, penalised
from experiments.statistics.robust import made_up as robust_case

from codedfl.analyses.glm import GlmFinding
from codedfl.analyses.robust import InferenceFinding
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.from_table_one import draft_from_table_one
from codedfl.authoring.study_text import study_text
from codedfl.contract.models import StudyModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.contract.models.robust import RobustModel
from codedfl.contract.models.table import TableModel
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.contract.words import explain
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn
from codedfl.data.model import TrainedModel
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from codedfl.report.study_files import write_results
from totals import conducted, dealt
from wording import exactly

MODEL = LogisticModel("m", ("age", "ward"))


@pytest.mark.parametrize("name", MADE)
def test_a_model_is_that_of_statsmodels(name: str):
    assert all(line.difference <= line.bound for line in compared(name))


@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_a_penalty_is_that_of_scikit_learn(kind: str):
    assert all(line.difference <= line.bound for line in penalised(kind))


@pytest.mark.parametrize("name", ["made up, logistic", "cancer"])
def test_a_model_file_predicts_as_statsmodels_does(name: str, tmp_path: Path):
    """The second has an offset, which is one more column of the table."""
    case, model = MADE[name]()
    study = case.study(model)
    fit = found(case, study).models[0]
    assert isinstance(fit, GlmFinding) and fit.model is not None
    fit.model.save(tmp_path / "model.safetensors")
    gridded = {**case.values, **case.gridded(study)}
    said = TrainedModel.load(tmp_path / "model.safetensors").predict(as_raw_table(gridded, "rows"))
    np.testing.assert_allclose(said, oracle(case, model, gridded).fittedvalues, rtol=1e-6)


@pytest.mark.parametrize("model", [LogisticModel("m", ("ward",)), TableModel("m", ("ward",))])
def test_the_second_class_of_the_file_is_modelled_whatever_the_alphabet_says(model: StudyModel, tmp_path: Path):
    """3 of 4 exposed are cases, 1 of 3 others: the odds ratio of being a case is 3 / (1 / 2) = 6."""
    ill = ["case"] * 75 + ["control"] * 25 + ["case"] * 30 + ["control"] * 60
    table = as_raw_table({"ward": np.repeat(["exposed", "not"], [100, 90]), "ill": np.array(ill)}, "rows")
    ward = CategoryColumn("ward", ("not", "exposed"))
    for classes, odds in ((("control", "case"), 6.0), (("case", "control"), 1 / 6)):
        study = Study("s", (ward,), ClassTarget("ill", classes), 500, 190, 3, held_out=0.0, models=(model,))
        found = conducted(study, dealt(study, table))
        (fit,) = found.models
        assert isinstance(fit, GlmFinding) and np.isclose(np.exp(fit.coefficients[1]), odds, rtol=1e-8)
        page = write_results(tmp_path, study, found, {"gram": ["a", "b", "c"]})
        told = json.loads((tmp_path / "result.json").read_text())
        assert told["class_modelled"] == told["models"][0]["modelled"] == classes[1]
        rows = (tmp_path / "coefficients.csv").read_text().splitlines()[1:]
        assert [row.endswith(f',"{classes[1]}"') for row in rows] == [True, True]
        assert f"<dt>class modelled</dt><dd>{classes[1]}</dd>" in page.read_text()
        assert f"Class modelled:{classes[1]:>23}" in (tmp_path / "summary.txt").read_text()
        assert any(f"odds are those of {classes[1]}" in one for section in explain(study) for one in section.answers)


def test_who_holds_which_row_changes_no_bit():
    case = made_up("poisson")
    study = case.study(PoissonModel("m", ("age", "ward"), weights="weight"))
    first, second = (conducted(study, dealt(study, case.table, n, seed=n)).models[0].to_dict() for n in (3, 8))
    assert first == second


def test_ranges_of_a_table_one_leave_room_for_the_bound():
    """As a user would: describe, draft, with one further model."""
    case, _ = MADE["fair"]()
    described = parse_study(study_text(draft_of_table(case.table, case.target, "fair").describing()))
    told = conducted(described, dealt(described, case.table)).to_dict()
    study = parse_study(study_text(replace(draft_from_table_one(told, "", "fair"), kind="logistic")))
    assert [one.kind for one in study.models] == ["logistic"]
    (fit,) = conducted(study, dealt(study, case.table)).models
    assert isinstance(fit, GlmFinding), fit.lines()


# -- failures


def refused(case: Case, study: Study, line: str) -> None:
    assert found(case, study).models[0].lines() == [f"none: {line}"]


def beyond(bound: int, reach: str, widest: str) -> str:
    return (
        f"the linear predictor of the model 'm' must stay within {bound} over the ranges, got a likelihood that grows"
        f" towards {reach} (over their ranges it moves with {widest}): columns that tell 'ill' without error"
        " (separation), or ranges far wider than the values; give it a ridge penalty (regularisation), narrower ranges"
        " or a larger bound"
    )


def test_separation_is_named_and_a_penalty_is_its_remedy():
    case, model = breast_cancer(30, 200.0)
    refused(case, case.study(model), beyond(200, "297", "'x2' by 112, 'x0' by 96.9, 'x10' by 47.5"))
    fit = found(case, case.study(replace(model, regularisation=0.01))).models[0]
    assert isinstance(fit, GlmFinding) and fit.fit.iterations < 12 and fit.inference is None
    case, model = breast_cancer(10, 10.0)
    refused(case, case.study(model), beyond(10, "54.2", "'x0' by 47.9, 'x2' by 35.7, 'x3' by 11.7"))


def test_points_are_counted_over_all_models():
    case = made_up("logistic")
    models = (MODEL, replace(MODEL, name="n"))
    first, second = found(case, case.study(*models, points=5)).models
    assert isinstance(first, GlmFinding) and first.fit.iterations == 3
    assert second.lines() == [
        "none: points must be more than 5 for the model 'n' to be fitted, got no convergence: give it a ridge penalty"
        " (regularisation), or the study more points"
    ]


@pytest.mark.parametrize("levels", ["abcd", "dabc"])
@pytest.mark.parametrize(
    ("case", "model"),
    [
        (made_up("logistic"), MODEL),
        (made_up("logistic"), TableModel("m", ("ward",))),
        (robust_case(300), RobustModel("m", ("age", "ward"), "HC3")),
    ],
)
def test_a_level_that_nobody_has_changes_nothing(case: Case, model: StudyModel, levels: str):
    """Also where it would be the one that the others are compared with."""
    study = case.study(model)
    ward = CategoryColumn("ward", tuple(levels))
    columns = tuple(ward if one.name == "ward" else one for one in study.columns)
    without, with_it = (found(case, one).models[0] for one in (study, replace(study, columns=columns)))
    for one in (without, with_it):
        assert isinstance(one, GlmFinding | InferenceFinding) and one.inference is not None, one.lines()
    assert with_it.inference.names == without.inference.names
    assert with_it.inference.coefficients == pytest.approx(without.inference.coefficients, rel=1e-7)
    assert with_it.inference.covariance == pytest.approx(without.inference.covariance, rel=1e-6)
    assert with_it.inference.references == without.inference.references


def test_columns_that_depend_on_each_other():
    case = made_up("logistic")
    values = {**case.values, "again": 200.0 - case.values["age"]}
    case = replace(case, values=values, steps={**case.steps, "again": 0.01})
    line = (
        "columns of the model 'm' must be independent, got some that depend on each other: age, again; leave some out"
    )
    refused(case, case.study(replace(MODEL, columns=("age", "again", "ward"))), line)


def test_weights_that_pick_out_people():
    case = made_up("logistic")
    weight = np.ones(600)
    weight[:4] = 2.0
    case = replace(case, values={**case.values, "weight": weight})
    line = (
        "columns and times of the model 'm' must be left after merging, got too few: they vary in too few people, or a"
        " column that may not be merged was"
    )
    refused(case, case.study(replace(MODEL, weights="weight")), line)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"columns": ("age", "weight")}, "columns of the model 'm' must be in_model, got 'weight', which is not"),
        (
            {"weights": "ward", "columns": ("age",)},
            "weights of the model 'm' must be a number without missing values, got 'ward'",
        ),
        ({"offset": "age"}, "'age' of the model 'm' must be a column of the study beside the model's columns"),
        ({"bound": 501.0}, "bound of the model 'm' must be above 0 and at most 500, got 501"),
        ({"regularisation": -1.0}, "regularisation of the model 'm' must be at least 0, got -1.0"),
    ],
)
def test_keys_that_do_not_fit(keys: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        made_up("logistic").study(replace(MODEL, **keys))


def test_targets_that_do_not_fit():
    with pytest.raises(InvalidInput, match=exactly("the target 'y' must have two classes for the model 'm'")):
        made_up("poisson").study(MODEL)
    with pytest.raises(InvalidInput, match=exactly("the target 'y' must be whole numbers from 0 for the model 'm'")):
        made_up("logistic").study(PoissonModel("m", ("age",)))
    below = NumberColumn("weight", (-1.0, 1.0), 1.0, in_model=False)
    study = made_up("logistic").study(replace(MODEL, weights="weight"))
    with pytest.raises(InvalidInput, match=exactly("weights of the model 'm' must be from 0, got 'weight' below")):
        replace(study, columns=(*study.columns[:2], below))
