"""``codedfl study predict`` and ``codedfl study evaluate``: what a model file is for."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from rich.text import Text

from codedfl.additions import DATASETS, additions, load_addition
from codedfl.cli import options
from codedfl.cli.output_files import check_writable
from codedfl.cli.screen import Screen, score_name, table
from codedfl.data.clipped import Clipped
from codedfl.data.columns import Columns
from codedfl.data.labels import ClassLabels
from codedfl.data.model import TrainedModel
from codedfl.data.saved_labels import MeanLabels
from codedfl.data.score import score_of
from codedfl.data.tables import RawTable, read_file
from codedfl.data.task import as_labels
from codedfl.errors import InvalidInput
from codedfl.files import harmless
from codedfl.report.text import score as score_text
from codedfl.typing import Json, JsonObject

# Rows at a time: the bar moves, and the features of a large file are never in memory all at once.
_BLOCK = 4096

Model = Annotated[Path, typer.Argument()]


def predict(
    model: Model,
    data: options.Data,
    data_dir: options.DataDir = None,
    out: Annotated[
        Path | None, options.in_output(metavar="FILE", help="Where the CSV goes.", show_default="stdout")
    ] = None,
) -> None:
    """Predict the label of every row, as a CSV with one prediction per row.

    MODEL is a model.safetensors that a study or codedfl lab train wrote, or the model-N.safetensors of a study's Nth
    [[model]]: a logistic one gives the chance of the second class, a Poisson one the expected count. DATA is a .npz,
    .csv or .parquet file, or the name of a data set of codedfl-lab (digits, digits-shifted, mnist, fashion-mnist).

    A file needs the columns the model was trained on, by name and in any order; others are left alone. A row with
    a missing value or a name that the model does not know gets an empty cell, and a warning counts these. A named
    data set is predicted on its test part. Names of classes that a spreadsheet would run as a formula (they begin with
    =, +, - or @) get a ' in front.

    Example: `codedfl study predict results/model.safetensors new.csv --out predictions.csv`
    """
    screen = Screen()
    trained = TrainedModel.load(model)
    if out is not None:
        check_writable("--out", out)
    X, usable = _rows(screen, trained, data, data_dir)
    found, clipped = _predict(screen, trained, X)
    _warn(screen, trained, clipped)
    predicted = np.full(len(usable), "", dtype=object)
    predicted[usable] = found.tolist()
    if gone := len(usable) - len(found):
        screen.remark(
            "warning: without a prediction, for a missing value or a name that the model does not know:"
            f" {gone} of {len(usable)} rows; their cells are empty"
        )
    if isinstance(trained.recipe.labels, MeanLabels):
        screen.remark(f"note: a prediction is the {trained.recipe.labels.mean_of}")
    elif function := getattr(trained.recipe.labels, "function", ""):
        screen.remark(f"note: a prediction is {function}({trained.provenance.get('label', 'the target')})")
    if out is None:
        _write_predictions(sys.stdout, predicted)
        return
    with out.open("w", newline="", encoding="utf-8") as stream:
        _write_predictions(stream, predicted)
    screen.say(f"wrote {len(found)} predictions to {out}")


def evaluate(
    model: Model,
    data: options.Data,
    label: options.Label = None,
    data_dir: options.DataDir = None,
    json: options.Json = None,
) -> None:
    """Score a model on labelled rows, class by class.

    MODEL is a model.safetensors that a study or codedfl lab train wrote; DATA is a .npz, .csv or .parquet file, or
    the name of a data set of codedfl-lab (digits, digits-shifted, mnist, fashion-mnist).

    All rows of a file count, also those the model was trained on; of a named data set only the test part.

    Example: `codedfl study evaluate results/model.safetensors table.csv --label days`
    """
    screen = Screen(json)
    trained = TrainedModel.load(model)
    X, y = _labelled_rows(screen, trained, data, data_dir, label)
    predicted, clipped = _predict(screen, trained, X)
    score = score_of(predicted, y, trained.task)
    outcome: dict[str, Json] = {
        "command": "study evaluate",
        "model": str(model),
        "data": data,
        "rows": len(y),
        "clipped": clipped.total,
        "score_name": score_name(trained.task),
        "score": score,
    }
    facts = [
        (score_name(trained.task), f"{score_text(score, score_name(trained.task))} on {len(y)} rows of {data}"),
        ("clipped", f"{clipped.total} of {X.size} values lay outside the range the model was trained for"),
    ]
    if trained.task == "regression":
        errors = np.abs(predicted - y)
        outcome |= {"mean_absolute_error": float(errors.mean()), "root_mean_square_error": _rms(errors)}
        facts[1:1] = [("error", f"{errors.mean():.4g} on average, {_rms(errors):.4g} root mean square")]
    screen.facts(facts)
    _warn(screen, trained, clipped)
    if far := trained.recipe.labels.count_clipped(y):
        screen.remark(f"warning: beyond the range of the training, and scored as they are: {far} of {len(y)} targets")
    if isinstance(trained.recipe.labels, ClassLabels):
        classes = _by_class(trained.recipe.labels.classes, y, predicted)
        outcome["classes"] = [one.to_json() for one in classes]
        screen.say()
        _show_classes(screen, classes)
    if trained.provenance.get("dataset") == Path(data).stem and data not in additions(DATASETS):
        screen.remark(
            f"note: the model was trained on a file of the name {Path(data).stem!r}; if it was this one, the score"
            " also counts the rows it was trained on"
        )
    screen.write_json(outcome)


def _named(screen: Screen, name: str, data_dir: Path | None) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Test rows and labels of the data set of this name that another package adds; None where the name is a file's."""
    entry = additions(DATASETS).get(name)
    if entry is None:
        return None
    with screen.fetching() as progress:
        found = load_addition(entry, "data set").load(data_dir, progress, True)
    return found.X_test, found.y_test


def _rows(
    screen: Screen, model: TrainedModel, data_name: str, data_dir: Path | None
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The rows that can be predicted, and which of all these are."""
    if (named := _named(screen, data_name, data_dir)) is not None:
        return named[0], np.ones(len(named[0]), dtype=np.bool_)
    with screen.busy(f"reading {data_name}"):
        table = read_file(Path(data_name))
        columns = _columns(model, table, None)
        usable = columns.usable(table)
        return columns.matrix(table.rows(usable)), usable


def _labelled_rows(
    screen: Screen, model: TrainedModel, data_name: str, data_dir: Path | None, label: str | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    if (named := _named(screen, data_name, data_dir)) is not None:
        if label is not None:
            raise InvalidInput(f"--label must be left out for the data set {data_name!r}, got {label!r}")
        X, y = named
    else:
        with screen.busy(f"reading {data_name}"):
            table = read_file(Path(data_name))
        column = label or model.provenance.get("label") or ("y" if table.positional else "label")
        X, truth = _columns(model, table, column).matrix(table), table.column(column, "label")
        y = as_labels(truth, "regression" if model.task == "regression" else "classification")[0]
        y = model.recipe.labels.measured(y)
    model.recipe.labels.encode(y)  # refuses classes the model does not know
    return X, y


def _columns(model: TrainedModel, table: RawTable, label: str | None) -> Columns:
    """The model's columns; of a model without names all columns of a table but the label."""
    if model.recipe.columns is not None:
        return model.recipe.columns
    rest = table.without([name for name in (label, model.provenance.get("label")) if name is not None])
    return Columns.of_numbers(rest.without(["y"]).names if table.positional else rest.names)


def _warn(screen: Screen, model: TrainedModel, clipped: Clipped) -> None:
    if clipped:
        counts = clipped.words(model.recipe.column_names)
        screen.remark(f"warning: beyond the range of the training, and clipped to it: {counts}")


def _predict(screen: Screen, model: TrainedModel, X: NDArray[Any]) -> tuple[NDArray[Any], Clipped]:
    """Predictions, and what was clipped on the way."""
    parts = [np.empty(0, dtype=object)] if not len(X) else []
    clipped = Clipped(np.zeros(model.recipe.n_columns, dtype=np.int64))
    with screen.progress() as bar:
        task = bar.add_task("predicting", total=len(X))
        for start in range(0, len(X), _BLOCK):
            rows = X[start : start + _BLOCK]
            scores, beyond = model.recipe.scores(model.theta, rows)
            parts.append(model.recipe.decode(scores))
            clipped += beyond
            bar.update(task, advance=len(rows))
    return np.concatenate(parts), clipped


def _write_predictions(stream: Any, predicted: NDArray[Any]) -> None:
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["prediction"])
    rows.writerows([_harmless(value)] for value in predicted.tolist())


def _harmless(value: object) -> object:
    """A class's name is its author's: one that a spreadsheet would run as a formula is shown to it as text."""
    return harmless(value) if isinstance(value, str) else value


class ScoreByClass(NamedTuple):
    """How well one class is recognised: its rows, recall and precision, and what it is most often taken for."""

    name: str | int | float
    rows: int
    recall: float | None
    precision: float | None
    mistaken: str | int | float | None

    def to_json(self) -> JsonObject:
        shown = {"class": self.name, "rows": self.rows, "recall": self.recall, "precision": self.precision}
        return {**shown, "most_often_taken_for": self.mistaken}


def _by_class(classes: tuple[str | int | float, ...], y: NDArray[Any], predicted: NDArray[Any]) -> list[ScoreByClass]:
    """Per class: its rows, the part recognised, the part of its predictions that is right, what it is taken for."""
    found: list[ScoreByClass] = []
    for one in classes:
        mine, said = y == one, predicted == one
        right = int((mine & said).sum())
        names, counts = np.unique(predicted[mine & ~said], return_counts=True)
        found.append(
            ScoreByClass(
                one,
                rows=int(mine.sum()),
                recall=right / int(mine.sum()) if mine.any() else None,
                precision=right / int(said.sum()) if said.any() else None,
                mistaken=names[np.argmax(counts)].item() if len(names) else None,
            )
        )
    return found


def _show_classes(screen: Screen, classes: list[ScoreByClass]) -> None:
    def part(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f} %"

    shown = table("class", "rows", "recall", "precision", "most often taken for")
    for one in classes:
        shown.add_row(
            Text(str(one.name)),  # not markup: classes are the user's
            str(one.rows),
            part(one.recall),
            part(one.precision),
            Text("-" if one.mistaken is None else str(one.mistaken)),
        )
    screen.show(shown)


def _rms(errors: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
