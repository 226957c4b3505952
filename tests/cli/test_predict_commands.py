from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command_runner import Run
from experiments.statistics.cases import found
from experiments.statistics.glm import made_up
from table_files import numbers, prices, species, write_csv, write_npz

from codedfl.analyses.glm import GlmFinding
from codedfl.contract.models.logistic import LogisticModel
from codedfl.data.model import TrainedModel
from codedfl.errors import InvalidInput
from codedfl.report.study_files import write_results
from codedfl_lab import datasets
from wording import exactly


def garden_model(run: Run, label: str) -> Path:
    """A model trained on garden.csv, which stays beside it."""
    path = write_csv(Path("garden.csv"), label)
    arguments = ("--device-column", "shop", "--features", "linear", "--epochs", "8", "--out", "model")
    assert run("lab", "train", path, "--label", label, *arguments).exit_code == 0
    return Path("model/model.safetensors")


def test_a_named_data_set_is_predicted_on_its_test_part(run: Run, digits_model: Path):
    result = run("study", "predict", digits_model, "digits")
    lines = result.stdout.splitlines()
    assert lines[0] == "prediction"
    expected = TrainedModel.load(digits_model).predict(datasets.load("digits").X_test)
    assert [int(line) for line in lines[1:]] == expected.tolist()
    assert result.stderr == ""


def test_predictions_go_to_a_file(run: Run, digits_model: Path):
    result = run("study", "predict", digits_model, "digits", "--out", "new/folder/said.csv")
    assert result.stdout == "wrote 359 predictions to new/folder/said.csv\n"
    assert len(Path("new/folder/said.csv").read_text().splitlines()) == 360


def test_columns_are_found_by_name_whatever_their_order(run: Run):
    model = garden_model(run, "species")
    X = numbers()
    with open("shuffled.csv", "w", newline="") as stream:
        lines = csv.writer(stream)
        lines.writerow(["age", "note", "width", "height"])
        lines.writerows([age, "text", width, height] for width, height, age in X)
    said = run("study", "predict", model, "shuffled.csv").stdout.splitlines()[1:]
    assert said == run("study", "predict", model, "garden.csv").stdout.splitlines()[1:]
    assert np.mean(np.array(said) == species(X)) > 0.9


@pytest.mark.hospitals
def test_no_prediction_is_run_by_a_spreadsheet(run: Run):
    """Names of classes are their author's; numbers stay numbers."""
    kinds = ("=cmd|' /C calc'!A0", "+1+2", "-sum(a1)", "@now", "plain")
    lines = ["width,label", *(f'{i % 5}.{i // 5},"{kinds[i % 5]}"' for i in range(100))]
    Path("kinds.csv").write_text("\n".join(lines) + "\n")
    arguments = ("--features", "rbf", "--n-features", 60, "--devices", 5, "--epochs", 20, "--out", "model")
    assert run("lab", "train", "kinds.csv", "--label", "label", *arguments).exit_code == 0
    said = {
        row[0]
        for row in csv.reader(run("study", "predict", "model/model.safetensors", "kinds.csv").stdout.splitlines()[1:])
    }
    assert said == {"plain", *(f"'{kind}" for kind in kinds[:4])}


def test_a_logistic_model_of_a_study_gives_chances(run: Run):
    case = made_up("logistic", n=300)
    study = case.study(LogisticModel("ill", ("age", "ward")))
    findings = found(case, study)
    write_results(Path(), study, findings, {})
    lines = [",".join(map(str, row)) for row in zip(*case.values.values(), strict=True)]
    Path("new.csv").write_text("\n".join((",".join(case.values), *lines)) + "\n")
    result = run("study", "predict", "model-1.safetensors", "new.csv")
    assert result.stderr == "note: a prediction is the chance of y = 1\n"
    fit = findings.models[0]
    assert isinstance(fit, GlmFinding) and fit.model is not None
    assert [float(one) for one in result.stdout.splitlines()[1:]] == fit.model.predict(case.table).tolist()
    assert run("study", "evaluate", "model-1.safetensors", "new.csv", "--label", "y").exit_code == 0
    refused = run("study", "evaluate", "model-1.safetensors", "new.csv", "--label", "weight")
    assert refused.stderr.startswith("error: y must be 0 or 1 beside the chance of y = 1, got ")
    for method in ("to_sklearn", "to_onnx"):
        line = f"{method} must have a linear model, got the chance of y = 1: take coefficients.csv"
        with pytest.raises(InvalidInput, match=exactly(line)):
            getattr(fit.model, method)()


@pytest.mark.hospitals
def test_a_row_with_a_gap_has_no_prediction_and_the_others_do(run: Run):
    model = garden_model(run, "price")
    head, *lines = Path("garden.csv").read_text().splitlines()
    age = head.split(",").index("age")
    for row, value in ((1, ""), (3, "NA")):
        cells = lines[row].split(",")
        cells[age] = value
        lines[row] = ",".join(cells)
    Path("gaps.csv").write_text("\n".join((head, *lines)) + "\n")
    whole = run("study", "predict", model, "garden.csv").stdout.splitlines()
    result = run("study", "predict", model, "gaps.csv")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [*whole[:2], '""', whole[3], '""', *whole[5:]]
    assert result.stderr == (
        "warning: without a prediction, for a missing value or a name that the model does not know: 2 of 120 rows;"
        " their cells"
        " are empty\n"
    )
    Path("none.csv").write_text(f"{head}\n{lines[1]}\n")
    none = run("study", "predict", model, "none.csv", "--out", "said.csv")
    assert (none.exit_code, none.stdout) == (0, "wrote 0 predictions to said.csv\n")
    assert run("study", "evaluate", model, "gaps.csv", "--label", "price").exit_code == 2


def test_a_missing_column_is_named(run: Run):
    model = garden_model(run, "species")
    Path("narrow.csv").write_text("width,age\n1,2\n")
    result = run("study", "predict", model, "narrow.csv")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: narrow.csv must have the column 'height', got 'width', 'age'\n",
    )


def test_a_model_and_data_of_another_width(run: Run, digits_model: Path):
    write_csv(Path("garden.csv"))
    result = run("study", "evaluate", digits_model, "garden.csv", "--label", "species")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: column 'shop' of garden.csv must hold numbers")


def test_evaluation_class_by_class(run: Run, digits_model: Path):
    result = run("study", "evaluate", digits_model, "digits", "--json", "-")
    outcome = json.loads(result.stdout)
    assert set(outcome) == {"command", "model", "data", "rows", "clipped", "score_name", "score", "classes"}
    data, model = datasets.load("digits"), TrainedModel.load(digits_model)
    assert outcome["score"] == model.score(data.X_test, data.y_test)
    assert [one["class"] for one in outcome["classes"]] == list(range(10))
    assert sum(one["rows"] for one in outcome["classes"]) == outcome["rows"] == 359
    right = sum(round(one["recall"] * one["rows"]) for one in outcome["classes"])
    assert right / 359 == pytest.approx(outcome["score"])
    said = model.predict(data.X_test)
    eight = outcome["classes"][8]
    assert eight["precision"] == np.mean(data.y_test[said == 8] == 8)
    wrong = said[(data.y_test == 8) & (said != 8)]
    assert np.sum(wrong == eight["most_often_taken_for"]) == np.bincount(wrong).max()
    assert " ".join(result.stderr.splitlines()[3].split()) == "class rows recall precision most often taken for"


def test_a_file_is_evaluated_whole_with_the_label_it_was_trained_on(run: Run):
    model = garden_model(run, "species")
    result = run("study", "evaluate", model, "garden.csv")
    assert result.exit_code == 0
    assert "on 120 rows of garden.csv" in result.stdout
    assert "[bee]" in result.stdout, "a class is not markup"
    assert result.stderr == (
        "note: the model was trained on a file of the name 'garden'; if it was this one, the score also counts the"
        " rows it was trained on\n"
    )


def test_regression_has_errors_instead_of_classes(run: Run):
    model = garden_model(run, "price")
    outcome = json.loads(run("study", "evaluate", model, "garden.csv", "--json", "-").stdout)
    truth = prices(numbers())
    said = np.array([float(line) for line in run("study", "predict", model, "garden.csv").stdout.splitlines()[1:]])
    assert outcome["score_name"] == "R^2" and outcome["score"] > 0.99
    assert outcome["mean_absolute_error"] == pytest.approx(np.mean(np.abs(said - truth)))
    assert outcome["root_mean_square_error"] == pytest.approx(np.sqrt(np.mean((said - truth) ** 2)))
    assert "classes" not in outcome
    Path("dear.csv").write_text(Path("garden.csv").read_text() + "0.1,5,3,shop-1,1000000\n")
    warned = run("study", "evaluate", model, "dear.csv").stderr
    assert "warning: beyond the range of the training, and scored as they are: 1 of 121 targets\n" in warned


def test_a_matrix_has_its_labels_in_y(run: Run):
    path = write_npz(Path("garden.npz"))
    run("lab", "train", path, "--features", "linear", "--devices", "3", "--out", "model")
    assert json.loads(run("study", "evaluate", "model/model.safetensors", path, "--json", "-").stdout)["rows"] == 120


def test_a_damaged_matrix_is_refused(run: Run, digits_model: Path):
    Path("broken.npz").write_bytes(b"no archive at all")
    result = run("study", "evaluate", digits_model, "broken.npz")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: broken.npz must be a readable .npz file, got ")


def test_an_unknown_class_is_refused(run: Run):
    model = garden_model(run, "species")
    Path("strange.csv").write_text("width,height,age,species\n1,2,3,wasp\n")
    result = run("study", "evaluate", model, "strange.csv")
    assert (result.exit_code, result.stderr) == (2, "error: y must hold the 2 classes only, got 'wasp'\n")


def test_values_beyond_the_common_range_are_counted(run: Run):
    model = garden_model(run, "species")
    Path("far.csv").write_text("width,height,age,species\n1000,5,3,ant\n-1000,5,3,ant\n0,5,3,ant\n")
    assert json.loads(run("study", "evaluate", model, "far.csv", "--json", "-").stdout)["clipped"] == 2
