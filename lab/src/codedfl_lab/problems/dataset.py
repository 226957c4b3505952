"""What a data set is once it is in memory (paper III: the points (x, y) that the devices hold between them).

`Dataset` carries raw columns, before preprocessing and before the feature map, and refuses at birth whatever
would spoil a training run later: no rows, rows that do not match, NaN or infinity, a single class.
It does not say which device holds which row, unless the data themselves do (`device`): that is
`codedfl_lab.problems.partition`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.checks import check_matrix, check_vector
from codedfl.data.columns import Columns
from codedfl.data.task import Task
from codedfl.errors import InvalidInput

Rows = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Training and test rows with their labels, checked.

    X_train, X_test: two-dimensional, float32 or float64, the same columns in both.
    y_train, y_test: whole numbers (int64) or text for classification, float64 for regression.
    device: who holds each training row; None when the rows are still to be split (`codedfl_lab.problems.partition`).
    public_range: least and greatest value any column can take, known without looking at the data;
        None when nothing is known (then `preprocessing` needs ranges or securely summed moments).
    columns: what each column of the table was, None when the rows never were a table.
    notes: what a user should know about how the table was read, one line per note.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Dataset
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> y = np.array(["low", "low", "low", "high", "high", "high"])
    >>> Dataset("made up", X[:4], y[:4], X[4:], y[4:], "classification")
    <Dataset made up: 4 + 2 rows, 2 columns, 2 classes>
    """

    name: str
    X_train: Rows
    y_train: NDArray[Any]
    X_test: Rows
    y_test: NDArray[Any]
    task: Task
    device: NDArray[Any] | None = None
    public_range: tuple[float, float] | None = None
    columns: Columns | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, X, y in (("train", self.X_train, self.y_train), ("test", self.X_test, self.y_test)):
            check_rows(f"X_{part}", X)
            if X.dtype not in (np.float32, np.float64):
                raise InvalidInput(f"X_{part} must be float32 or float64, got {X.dtype}")
            _check_labels(f"y_{part}", y, len(X), self.task)
        if self.X_train.shape[1] != self.X_test.shape[1]:
            raise InvalidInput(
                f"X_test must have as many columns as X_train ({self.n_columns}), got {self.X_test.shape[1]}"
            )
        if self.task == "classification":
            classes = np.unique(self.y_train)
            if len(classes) < 2:
                raise InvalidInput(f"y_train must hold at least two classes, got only {classes.tolist()[0]!r}")
            unseen = np.setdiff1d(self.y_test, classes)
            if len(unseen):
                raise InvalidInput(f"y_test must hold only classes that y_train holds, got {unseen.tolist()[0]!r}")
        if self.device is not None and self.device.shape != (len(self.X_train),):
            raise InvalidInput(
                f"device must name one device per training row ({len(self.X_train)}), got {len(self.device)}"
            )
        if self.public_range is not None and not self.public_range[0] < self.public_range[1]:
            raise InvalidInput(f"public_range must be (low, high) with low < high, got {self.public_range}")
        if self.columns is not None and self.columns.width != self.n_columns:
            raise InvalidInput(f"columns must make {self.n_columns} columns of X, got {self.columns.width}")

    @property
    def n_columns(self) -> int:
        return int(self.X_train.shape[1])

    def __repr__(self) -> str:
        classes = f"{len(np.unique(self.y_train))} classes"
        what = classes if self.task == "classification" else "a regression target"
        rows = f"{len(self.X_train)} + {len(self.X_test)} rows"
        return f"<Dataset {self.name}: {rows}, {self.n_columns} columns, {what}>"


def check_rows(argument: str, X: NDArray[Any]) -> None:
    """Refuse what is not a matrix of finite numbers with at least one row and one column."""
    check_matrix(argument, X)
    if 0 in X.shape:
        raise InvalidInput(f"{argument} must have at least one row and one column, got shape {X.shape}")


def _check_labels(argument: str, y: NDArray[Any], rows: int, task: Task) -> None:
    if task not in ("classification", "regression"):
        raise InvalidInput(f"task must be 'classification' or 'regression', got {task!r}")
    if y.shape != (rows,):
        raise InvalidInput(f"{argument} must hold one label per row ({rows}), got shape {y.shape}")
    if task == "regression":
        if y.dtype != np.float64:
            raise InvalidInput(f"{argument} must be float64 for regression, got {y.dtype}")
        check_vector(argument, y)
    elif y.dtype != np.int64 and y.dtype.kind != "U":
        raise InvalidInput(f"{argument} must be int64 or text for classification, got {y.dtype}")
