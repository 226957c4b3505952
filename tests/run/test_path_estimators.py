"""Choosing lambda on held-out rows, in scikit-learn's way; and models that go to scikit-learn."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from codedfl.data.labels import ClassLabels
from codedfl.data.model import TrainedModel
from codedfl.errors import InvalidInput
from codedfl.estimators.ridge import CodedRidge, CodedRidgeClassifier
from codedfl.estimators.ridge_path import CodedRidgeClassifierCV, CodedRidgeCV


@parametrize_with_checks(
    [
        CodedRidgeCV(n_devices=2, regularisations=(1e-4, 1e-2)),
        CodedRidgeClassifierCV(n_devices=2, regularisations=(1e-4, 1e-2)),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def noisy() -> tuple[np.ndarray, np.ndarray]:
    """Many columns, few rows and much noise: little regularisation fits the noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 60))
    return X, X[:, 0] + 3 * rng.normal(size=120)


def test_the_path_is_that_of_one_training_for_each() -> None:
    X, y = noisy()
    found = CodedRidgeCV(regularisations=[1.0, 1e-4, 1e-1]).fit(X, y)
    assert list(found.path_scores_) == [1e-4, 1e-1, 1.0]
    assert found.regularisation_ == 1.0
    assert found.best_score_ == max(found.path_scores_.values())
    same = CodedRidge(regularisation=1.0).fit(X, y)
    assert np.array_equal(found.predict(X), same.predict(X))


def test_the_scores_are_those_of_held_out_rows() -> None:
    """Recomputed by hand: rows held out, a model of the others for each lambda, squared errors of the held-out."""
    X, y = noisy()
    found = CodedRidgeCV(regularisations=[1e-3, 1e-1], n_devices=3).fit(X, y)
    rows = found._rows(X, y, None, None)
    out = np.concatenate(list(found._judges_and_others(rows)[0].values()))
    assert 10 < len(out) < 40
    kept = np.setdiff1d(np.arange(len(X)), out)
    labels = found.model_.recipe.labels
    unit = (labels.high - labels.low) / 2
    for weight, score in found.path_scores_.items():
        alone = CodedRidge(regularisation=weight).fit(X[kept], y[kept])
        expected = -np.mean(np.square((alone.predict(X[out]) - y[out]) / unit))
        # The scaling is that of all rows there, of the others here: the penalty differs a little.
        assert score == pytest.approx(expected, rel=0.02)


def test_classes_are_judged_by_accuracy() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    found = CodedRidgeClassifierCV(regularisations=(1e-4, 10.0)).fit(X, y)
    assert 0.9 < found.best_score_ <= 1.0
    assert found.regularisation_ == 1e-4


def test_bad_candidates_are_refused() -> None:
    X, y = noisy()
    for bad in ([], [-1.0]):
        message = f"regularisations must be numbers of at least 0, got {bad}"
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            CodedRidgeCV(regularisations=bad).fit(X, y)


# -- to scikit-learn


def turned_round(model: TrainedModel) -> TrainedModel:
    """The same with its classes in the other order, as a study file may list them."""
    labels = ClassLabels(tuple(reversed(model.recipe.labels.classes)))
    return replace(model, theta=model.theta[:, ::-1], recipe=replace(model.recipe, labels=labels))


@pytest.mark.parametrize("features", ["linear", "rbf"])
def test_predictions_are_the_same_in_scikit_learn(features: str, tmp_path: Any) -> None:
    X, y = load_diabetes(return_X_y=True)
    X = np.column_stack((X, np.ones(len(X))))
    model = CodedRidge(features=features, n_features=50, regularisation=1e-3, random_state=0).fit(X, y).model_
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X), rtol=1e-6)
    with pytest.warns(UserWarning, match="^beyond the range of the training: "):
        clipped = model.predict(1000 * X)
    np.testing.assert_allclose(model.to_sklearn().predict(1000 * X), clipped, rtol=1e-6)
    for data in (load_breast_cancer, load_iris):
        X, y = data(return_X_y=True)
        classifier = CodedRidgeClassifier(features=features, n_features=50, random_state=0).fit(X, y)
        classifier.model_.save(tmp_path / "m")
        pipeline = TrainedModel.load(tmp_path / "m").to_sklearn()
        assert np.array_equal(pipeline.predict(X), classifier.predict(X))
        assert np.array_equal(turned_round(classifier.model_).to_sklearn().predict(X), classifier.predict(X))
        np.testing.assert_allclose(pipeline.decision_function(X), classifier.decision_function(X), rtol=0, atol=1e-6)
