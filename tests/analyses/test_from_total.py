"""What the one total holds beside linear models, next to scipy and scikit-learn, and what is not told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.statistics.cases import found
from experiments.statistics.from_total import lines, made_up
from typer.testing import CliRunner

from codedfl.cli.app import app
from codedfl.contract.models import StudyModel
from codedfl.contract.models.from_total import AnovaModel, AssociationModel, ComponentsModel
from codedfl.errors import InvalidInput
from wording import exactly


def test_all_are_those_of_others():
    told = list(lines())
    assert len(told) == 11
    assert [line for line in told if not line.difference <= line.bound] == []


def test_nobody_is_asked():
    study = made_up().study(AnovaModel("m", ("ward",)), AssociationModel("n", ("ward", "sex")))
    assert study.statistics == ("census", "cells", "gram")


def test_a_target_of_classes_is_one_side_of_a_table():
    case = made_up()
    ill = np.where(case.values["age"] > 55, "yes", "no")
    case = replace(case, values={**case.values, "days": ill}, steps={"age": 0.1, "weight": 0.1})
    (fit,) = found(case, case.study(AssociationModel("m", ("ward",)))).models
    counts = np.array([[((case.values["ward"] == a) & (ill == b)).sum() for b in ("no", "yes")] for a in "abc"])
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    assert fit.to_dict()["chi_squared"] == pytest.approx(((counts - expected) ** 2 / expected).sum(), rel=1e-12)


def test_a_table_with_a_rare_cell_is_not_tested():
    case = made_up()
    sex = np.where(case.values["ward"] == "a", "f", case.values["sex"])
    sex[np.flatnonzero(case.values["ward"] == "a")[:3]] = "m"
    case = replace(case, values={**case.values, "sex": sex})
    (none,) = found(case, case.study(AssociationModel("m", ("ward", "sex")))).models
    assert none.lines() == [
        "none: cells of the table of the model 'm' must have none or at least 5 rows (smallest_cell), got one with"
        " fewer, which the test would tell: join levels"
    ]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (AnovaModel("m", ("age",)), "columns of the model 'm' must be one category, got ['age']"),
        (ComponentsModel("m", ("age",)), "columns of the model 'm' must be at least two, got 1"),
        (
            AssociationModel("m", ("ward",)),
            "columns of the model 'm' must be two categories, or one beside a target of classes, got ['ward']",
        ),
    ],
)
def test_keys_that_do_not_fit(model: StudyModel, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        made_up().study(model)


# -- results of several disclosure groups


def result(folder: Path, coefficient: float, error: float | None) -> Path:
    folder.mkdir()
    row = {"name": "age", "coefficient": coefficient, "standard_error": error}
    (folder / "result.json").write_text(json.dumps({"models": [{"name": "m", "coefficients": [row]}]}))
    return folder


def test_results_that_differ_by_more_than_chance(tmp_path: Path):
    folders = [result(tmp_path / str(k), *pair) for k, pair in enumerate([(0.1, 0.1), (0.3, 0.1), (0.8, 0.2)])]
    said = CliRunner().invoke(app, ["study", "heterogeneity", *map(str, folders)])
    assert said.exit_code == 0, said.output
    assert " ".join(said.stdout.split()) == (
        "m, age: Q 10 on 2, p 0.00674, I^2 80 %, tau^2 0.06; together 0.3556 (std err 0.16)"
    )


def test_results_without_errors_have_nothing_in_common(tmp_path: Path):
    folders = [result(tmp_path / str(k), 0.1, None) for k in range(2)]
    said = CliRunner().invoke(app, ["study", "heterogeneity", *map(str, folders)])
    assert said.exit_code == 2
    line = "FOLDER must hold results with coefficients in common that have standard errors, got none"
    assert line in " ".join(said.stderr.split())
