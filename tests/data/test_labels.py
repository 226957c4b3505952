"""Labels to Y and back, for classes of numbers and text and for targets."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.data.labels import ClassLabels, Labels, TargetLabels
from codedfl.data.saved_labels import labels_from_dict


@pytest.mark.parametrize("y", [[3, -1, 7, 3], ["cat", "dog", "ape", "cat"]])
def test_classes_there_and_back(y: list[Any]) -> None:
    labels = Labels.for_classes(y)
    Y = labels.encode(np.array(y))
    assert labels.n_outputs == 3
    assert Y.sum(axis=1).tolist() == [1, 1, 1, 1]
    assert [labels.classes[k] for k in Y.argmax(axis=1)] == y
    assert labels.decode(Y).tolist() == y
    assert labels.decode(Y - 0.3).tolist() == y
    assert labels.count_clipped(np.array(y)) == 0


def test_classes_keep_the_order_they_are_given_in() -> None:
    labels = ClassLabels(("yes", "no", "maybe"))
    assert labels.encode(np.array(["no", "maybe", "yes"])).tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert labels.decode(np.array([[0.1, 0.2, 0.9], [1.0, 0.0, 0.0]])).tolist() == ["maybe", "yes"]


def test_truth_values_and_small_types_become_numbers() -> None:
    assert Labels.for_classes(np.array([True, False])).classes == (0, 1)
    assert Labels.for_classes(np.array([2, 9], dtype=np.uint8)).classes == (2, 9)


def test_of_equal_scores_the_first_wins() -> None:
    assert Labels.for_classes([5, 6]).decode(np.array([[0.5, 0.5]])).tolist() == [5]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_targets_there_and_back(low: float, width: float, places: list[float]) -> None:
    labels = Labels.for_targets(low, low + width)
    y = np.array([min(low + place * width, labels.high) for place in places])
    Y = labels.encode(y)
    assert Y.shape == (len(y), 1)
    assert np.abs(Y).max() <= labels.bound
    assert labels.count_clipped(y) == 0
    assert np.allclose(labels.decode(Y), y, rtol=0, atol=1e-9 * (abs(low) + width))


def test_targets_beyond_the_range_are_clipped_and_counted() -> None:
    labels = Labels.for_targets(0, 10)
    y = np.array([-5.0, 0.0, 5.0, 10.0, 11.0])
    assert labels.encode(y).ravel().tolist() == [-1, -1, 0, 1, 1]
    assert labels.count_clipped(y) == 2
    assert labels.decode(np.array([[2.0]])).tolist() == [15]


@pytest.mark.parametrize("labels", [ClassLabels((1, 4)), ClassLabels(("é", "a")), TargetLabels(-0.1, 1 / 3)])
def test_a_model_file_brings_them_back(labels: Labels) -> None:
    assert labels_from_dict(json.loads(json.dumps(labels.to_dict()))) == labels


@pytest.mark.parametrize(
    "saved", [{}, {"kind": "classes"}, {"kind": "classes", "classes": "ab"}, {"kind": "targets", "low": 0.0}]
)
def test_an_incomplete_one_is_refused(saved: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"^saved labels must hold classes, low and high of the targets, or a link, got"
    ):
        labels_from_dict(saved)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ((), "classes must be at least two, got []"),
        ((1,), "classes must be at least two, got [1]"),
        ((1, "a"), "classes must be all whole numbers or all text, got (1, 'a')"),
        ((True, False), "classes must be all whole numbers or all text, got (True, False)"),
        ((2, 1, 2), "classes must be different, got (2, 1, 2)"),
        (("a", "a"), "classes must be different, got ('a', 'a')"),
    ],
)
def test_bad_classes_are_refused(classes: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011, the whole message is compared
        ClassLabels(classes)
    assert str(raised.value) == message


def test_bad_labels_are_refused() -> None:
    labels = Labels.for_classes([1, 4])
    with pytest.raises(ValueError, match=r"^y must hold the 2 classes only, got 5$"):
        labels.encode(np.array([4, 5]))
    with pytest.raises(ValueError, match=r"^y must be a vector of classes such as 1, got 1 dimension\(s\) of <U1$"):
        labels.encode(np.array(["1"]))
    with pytest.raises(ValueError, match=r"^y must hold the 2 classes only, got 'b'$"):
        Labels.for_classes(["a", "c"]).encode(np.array(["c", "b"]))
    with pytest.raises(
        ValueError, match=r"^classes must be a list of whole numbers or of text, got an array of float64$"
    ):
        Labels.for_classes([0.5, 1.0])
    with pytest.raises(ValueError, match=r"^scores must be a matrix with 2 columns, got shape \(3, 1\)$"):
        labels.decode(np.zeros((3, 1)))
    with pytest.raises(ValueError, match=r"^low must be below high, both finite, got 1.0 and 1.0$"):
        Labels.for_targets(1, 1)
    with pytest.raises(ValueError, match=r"^y must be finite, got nan in row 0$"):
        Labels.for_targets(0, 1).encode(np.array([np.nan]))
