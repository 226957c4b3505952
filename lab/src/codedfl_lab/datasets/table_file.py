"""The user's own data: a table file with a label column and, if wanted, a device column.

What the other columns are is guessed from the table (``codedfl.data.columns``): on one machine that sees all of them
one may. Devices that share a training take it from the study file instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.authoring.guessed_columns import guess_columns
from codedfl.data.tables import RawTable, read_file
from codedfl.data.tables.npz_file import NpzFile, matrix_table
from codedfl.data.task import Task, as_labels
from codedfl.errors import InvalidInput
from codedfl_lab.datasets.splitting import split_rows
from codedfl_lab.problems.dataset import Dataset, check_rows


@dataclass(frozen=True)
class TableReading:
    """How a file becomes a data set; None is the usual way.

    label: the label column, "label" unless named ("y" in an .npz with a matrix X).
    device: the column that says who holds each row; None if the rows are still to be split.
    task: None decides by the labels, see `as_labels`.
    test_fraction: the part of the rows that is set apart for testing, a fifth unless said; an .npz with X_test and
        y_test has its own test part, and neither this nor the seed is used.
    seed: how these rows are drawn, 0 unless said.
    columns: exactly these columns.
    drop: all but these columns.
    """

    label: str | None = None
    device: str | None = None
    task: Task | None = None
    test_fraction: float | None = None
    seed: int | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] | None = None


def load_file(path: Path, reading: TableReading | None = None) -> Dataset:
    """Read a data set from a file."""
    reading = reading or TableReading()
    device = reading.device
    table = read_file(path)
    label = reading.label or ("y" if table.positional else "label")
    y, task = _labels(table, label, reading.task)
    ids = None if device is None else _no_gaps(table, device, "device")
    used = [name for name in (label, device) if name is not None]
    guess = guess_columns(table.without(used), keep=reading.columns, drop=reading.drop or ())
    X = guess.columns.matrix(table)
    check_rows(path.name, X)
    test = _test_part(path) if table.positional else None
    if test is None:
        fraction = 0.2 if reading.test_fraction is None else reading.test_fraction
        train_rows, test_rows = split_rows(y, task, fraction, np.random.default_rng(reading.seed or 0))
        X_test, y_test = X[test_rows], y[test_rows]
    else:
        train_rows = np.arange(len(y))
        X_test, (y_test, _) = guess.columns.matrix(test), _labels(test, "y_test", task)
    return Dataset(
        name=path.name.partition(".")[0],
        X_train=X[train_rows],
        y_train=y[train_rows],
        X_test=X_test,
        y_test=y_test,
        task=task,
        device=None if ids is None else ids[train_rows],
        columns=guess.columns,
        notes=guess.notes,
    )


def _test_part(path: Path) -> RawTable | None:
    with NpzFile(path) as archive:
        if "X_test" not in archive.files:
            return None
        if "y_test" not in archive.files:
            raise InvalidInput(f"{path.name} must hold y_test beside X_test, got X_test alone")
        return matrix_table(path, archive, "X_test", ["y_test"])


def _labels(table: RawTable, label: str, task: Task | None) -> tuple[NDArray[Any], Task]:
    values = _no_gaps(table, label, "label")
    try:
        return as_labels(values, task)
    except InvalidInput as error:
        raise InvalidInput(f"{table.name}: {error}") from error


def _no_gaps(table: RawTable, name: str, role: str) -> NDArray[Any]:
    values = table.column(name, role)
    gap = values == "" if values.dtype.kind == "U" else np.isnan(values)
    if gap.any():
        row = int(np.flatnonzero(gap)[0]) + 1
        raise InvalidInput(
            f"column {name!r} of {table.name} must have no missing values, got {int(gap.sum())}, the first in row"
            f" {row}: leave those rows out"
        )
    return values
