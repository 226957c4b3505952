"""Scores from sums over devices: those of scikit-learn on the rows together."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import confusion_matrix, mean_absolute_error, r2_score, roc_auc_score

from codedfl.data.features import LinearFeatures
from codedfl.data.labels import Labels
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.recipe import Recipe
from codedfl.data.score_sums import ClassScore, NumberScore, score_from_sums, score_sums
from codedfl.errors import InvalidInput
from codedfl.run.secure_sum import secure_sum_in_process


def fitted(X: np.ndarray, y: np.ndarray, labels: Labels) -> tuple[Recipe, np.ndarray]:
    scaling = Preprocessing.from_range(X.min(axis=0), X.max(axis=0), X.shape[1])
    recipe = Recipe(scaling, LinearFeatures(X.shape[1], 1.0), labels)
    made = recipe.rows(X, y)
    return recipe, np.linalg.lstsq(made.X.astype(np.float64), made.Y, rcond=None)[0]


def summed(recipe: Recipe, theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> ClassScore | NumberScore:
    parts = np.array_split(np.arange(len(X)), 4)
    return score_from_sums(recipe, secure_sum_in_process([score_sums(recipe, theta, X[p], y[p]) for p in parts]))


def test_two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    recipe, theta = fitted(X, y, Labels.for_classes([0, 1]))
    found = summed(recipe, theta, X, y)
    assert isinstance(found, ClassScore)
    scores, _ = recipe.scores(theta, X)
    predicted = recipe.decode(scores)
    assert found.rows == len(y)
    assert np.array_equal(found.confusion, confusion_matrix(y, predicted))
    assert found.accuracy == np.mean(predicted == y)
    assert found.auc == pytest.approx(roc_auc_score(y, scores[:, 1] - scores[:, 0]), abs=1e-3)
    assert found.calibration is not None and sum(count for count, _ in found.calibration) == len(y)
    assert found.calibration[0][1] == 0.0 and found.calibration[-1][1] == 1.0


def test_more_classes():
    X, y = load_iris(return_X_y=True)
    recipe, theta = fitted(X, y, Labels.for_classes([0, 1, 2]))
    found = summed(recipe, theta, X, y)
    assert isinstance(found, ClassScore)
    assert np.array_equal(found.confusion, confusion_matrix(y, recipe.decode(recipe.scores(theta, X)[0])))
    assert (found.auc, found.calibration) == (None, None)


def test_a_number_far_from_zero():
    X, y = load_diabetes(return_X_y=True)
    y = y + 1e6
    recipe, theta = fitted(X, y, Labels.for_targets(y.min(), y.max()))
    found = summed(recipe, theta, X, y)
    predicted = recipe.decode(recipe.scores(theta, X)[0])
    assert isinstance(found, NumberScore)
    assert found.r_squared == pytest.approx(r2_score(y, predicted), abs=1e-8)
    assert found.mean_absolute_error == pytest.approx(mean_absolute_error(y, predicted), rel=1e-6)
    assert found.root_mean_square_error == pytest.approx(np.sqrt(np.mean((y - predicted) ** 2)), rel=1e-6)


def test_no_rows_and_wrong_totals():
    X, y = load_iris(return_X_y=True)
    recipe, theta = fitted(X[:100], y[:100], Labels.for_classes([0, 1]))
    nothing = score_from_sums(recipe, score_sums(recipe, theta, X[:0], y[:0]))
    assert isinstance(nothing, ClassScore)
    assert (nothing.rows, nothing.accuracy, nothing.auc) == (0, 0.0, None)
    with pytest.raises(InvalidInput, match=r"^total must hold 204 sums, got 3$"):
        score_from_sums(recipe, np.zeros(3))
