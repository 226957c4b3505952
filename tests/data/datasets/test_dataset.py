"""What a data set refuses, how labels are read, how test rows are drawn; the embedded data set."""

from typing import Any

import numpy as np
import pytest

from codedfl.data.columns import Columns
from codedfl.data.task import as_labels
from codedfl_lab.datasets import load
from codedfl_lab.datasets.splitting import split_rows
from codedfl_lab.datasets.table_file import TableReading
from codedfl_lab.problems.dataset import Dataset


def good(**changes: Any) -> dict[str, Any]:
    return {
        "name": "toy",
        "X_train": np.arange(8.0).reshape(4, 2),
        "y_train": np.array([0, 1, 0, 1]),
        "X_test": np.ones((2, 2)),
        "y_test": np.array([1, 1]),
        "task": "classification",
        **changes,
    }


def test_repr() -> None:
    assert repr(Dataset(**good())) == "<Dataset toy: 4 + 2 rows, 2 columns, 2 classes>"
    targets = good(y_train=np.linspace(0, 1, 4), y_test=np.zeros(2), task="regression")
    assert repr(Dataset(**targets)) == "<Dataset toy: 4 + 2 rows, 2 columns, a regression target>"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X_train": np.ones(4)}, "X_train must be a matrix of numbers, got 1 dimension(s) of float64"),
        ({"X_train": np.ones((4, 2), dtype=int)}, "X_train must be float32 or float64, got int64"),
        ({"X_test": np.ones((0, 2))}, "X_test must have at least one row and one column, got shape (0, 2)"),
        ({"X_train": np.ones((4, 0))}, "X_train must have at least one row and one column, got shape (4, 0)"),
        (
            {"X_train": np.array([[0.0, 1], [2, np.nan], [3, 4], [5, 6]])},
            "X_train must be finite, got nan in row 1, column 1",
        ),
        ({"X_test": np.array([[0.0, 1], [-np.inf, 2]])}, "X_test must be finite, got -inf in row 1, column 0"),
        ({"y_train": np.array([0, 1, 0])}, "y_train must hold one label per row (4), got shape (3,)"),
        ({"y_train": np.array([0.0, 1, 0, 1])}, "y_train must be int64 or text for classification, got float64"),
        ({"y_train": np.zeros(4, dtype=int)}, "y_train must hold at least two classes, got only 0"),
        ({"y_train": np.array(["a"] * 4)}, "y_train must hold at least two classes, got only 'a'"),
        ({"y_test": np.array([1, 7])}, "y_test must hold only classes that y_train holds, got 7"),
        ({"X_test": np.ones((2, 3))}, "X_test must have as many columns as X_train (2), got 3"),
        ({"task": "regression"}, "y_train must be float64 for regression, got int64"),
        ({"task": "ranking"}, "task must be 'classification' or 'regression', got 'ranking'"),
        (
            {"task": "regression", "y_train": np.array([0, np.inf, 1, 2])},
            "y_train must be finite, got inf in row 1",
        ),
        ({"device": np.array([1, 2])}, "device must name one device per training row (4), got 2"),
        ({"public_range": (1.0, 1.0)}, "public_range must be (low, high) with low < high, got (1.0, 1.0)"),
        ({"columns": Columns.of_numbers(["a"])}, "columns must make 2 columns of X, got 1"),
    ],
)
def test_bad_data_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011, the whole message is compared
        Dataset(**good(**changes))
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("y", "task", "dtype"),
    [
        (np.array(["b", "a"]), "classification", "U"),
        (np.array([True, False] * 2), "classification", "i"),
        (np.array([3, 4, 3, 4], dtype=np.uint8), "classification", "i"),
        (np.array([1.0, 2.0] * 2), "classification", "i"),
        (np.array([1.0, 2.5]), "regression", "f"),
        (np.arange(40) % 20, "classification", "i"),
        (np.arange(1000) % 21, "regression", "f"),
        (np.arange(20), "regression", "f"),
    ],
)
def test_the_task_is_read_off_the_labels(y: np.ndarray, task: str, dtype: str) -> None:
    labels, said = as_labels(y, None)
    assert (said, labels.dtype.kind) == (task, dtype)


def test_the_user_overrules() -> None:
    assert as_labels(np.array([1, 2]), "regression")[0].dtype == np.float64
    assert as_labels(np.arange(500), "classification")[0].dtype == np.int64
    with pytest.raises(ValueError, match=r"^labels must be numbers for regression, got 'a'$"):
        as_labels(np.array(["a"]), "regression")
    with pytest.raises(ValueError, match=r"^labels must be text or whole numbers for classification, got 0.5$"):
        as_labels(np.array([1, 0.5]), "classification")
    with pytest.raises(ValueError, match=r"^labels must be finite, got nan in row 1$"):
        as_labels(np.array([1, np.nan]), None)
    with pytest.raises(ValueError, match=r"^labels must be text or numbers, got an array of complex128$"):
        as_labels(np.array([1j]), None)


def test_the_split_takes_the_same_fraction_of_each_class_and_leaves_none_without() -> None:
    y = np.array([0] * 50 + [1] * 20 + [2])
    train, test = split_rows(y, "classification", 0.2, np.random.default_rng(0))
    assert np.bincount(y[test], minlength=3).tolist() == [10, 4, 0]
    assert sorted([*train, *test]) == list(range(71))
    again = split_rows(y, "classification", 0.2, np.random.default_rng(0))[1]
    assert np.array_equal(test, again)
    assert not np.array_equal(test, split_rows(y, "classification", 0.2, np.random.default_rng(1))[1])


def test_the_split_for_regression_is_by_rows() -> None:
    train, test = split_rows(np.linspace(0, 1, 10), "regression", 0.3, np.random.default_rng(0))
    assert (len(train), len(test)) == (7, 3)


def test_the_split_refuses_what_leaves_a_part_empty() -> None:
    rng = np.random.default_rng(0)
    for fraction in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"^test_fraction must lie strictly between 0 and 1, got"):
            split_rows(np.array([0, 1]), "classification", fraction, rng)
    with pytest.raises(ValueError, match=r"^test_fraction must leave at least one test row of 2, got 0\.2$"):
        split_rows(np.array([0, 1]), "classification", 0.2, rng)


def test_digits_are_the_same_for_everyone() -> None:
    digits = load("digits")
    assert repr(digits) == "<Dataset digits: 1438 + 359 rows, 64 columns, 10 classes>"
    assert digits.public_range == (0.0, 1.0)
    assert (digits.X_train.min(), digits.X_train.max()) == (0.0, 1.0)
    assert np.array_equal(digits.X_test, load("digits").X_test)


def test_a_named_data_set_refuses_options_of_files() -> None:
    with pytest.raises(ValueError, match=r"^label must be left out for the data set 'digits', got 'kind'$"):
        load("digits", reading=TableReading(label="kind"))
    with pytest.raises(
        ValueError,
        match=r"^data set must be one of digits, digits-shifted, mnist, fashion-mnist, cifar-10 or a file, got 'dig'$",
    ):
        load("dig")
