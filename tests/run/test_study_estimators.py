"""Lasso, logistic and Poisson regression in scikit-learn's way, by the same analyses as studies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import ElasticNet, LogisticRegression, PoissonRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from codedfl import CodedLasso, CodedLogisticRegression, CodedPoissonRegressor
from codedfl.errors import InvalidInput
from wording import exactly


@parametrize_with_checks(
    [
        CodedLasso(n_devices=3, alpha=1e-3),
        CodedLogisticRegression(n_devices=3, regularisation=0.01),
        CodedPoissonRegressor(n_devices=3, regularisation=0.01),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_the_lasso_is_scikit_learns_and_least_squares_statsmodels() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = CodedLasso(alpha=2.0, l1_ratio=0.7).fit(X, y, device=np.arange(len(y)) % 7)
    oracle = make_pipeline(StandardScaler(), ElasticNet(alpha=2.0, l1_ratio=0.7, tol=1e-12)).fit(X, y)
    assert len(model.devices_) == 7
    np.testing.assert_allclose(model.predict(X), oracle.predict(X), rtol=0, atol=1e-3)
    found, theirs = model.results_, sm.OLS(y, sm.add_constant(X)).fit()
    assert np.abs((found.coefficients - theirs.params) / theirs.bse).max() < 1e-3
    assert np.abs(found.conf_int() - theirs.conf_int()).max() < 1e-3 * theirs.bse.max()
    assert "Ordinary least squares" in found.summary()
    means = found.get_prediction(X[:3]).mean
    np.testing.assert_allclose(means, theirs.get_prediction(sm.add_constant(X)[:3]).predicted_mean, rtol=1e-5)
    assert 0 < np.count_nonzero(CodedLasso().fit(X, y).coef_) < 10  # by BIC


def test_logistic_regression_is_statsmodels_and_with_a_penalty_scikit_learns() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, [1, 4, 8]]
    found = CodedLogisticRegression().fit(X, y).results_
    theirs = sm.Logit(y, sm.add_constant(X)).fit(disp=False)
    assert np.abs((found.coefficients - theirs.params) / theirs.bse).max() < 1e-3
    np.testing.assert_allclose(found.standard_errors, theirs.bse, rtol=1e-4)
    np.testing.assert_allclose(found.conf_int(), theirs.conf_int(), rtol=1e-3, atol=1e-3)
    model = CodedLogisticRegression(regularisation=0.1).fit(X, y)
    oracle = make_pipeline(StandardScaler(), LogisticRegression(C=1 / (0.1 * len(y)), tol=1e-10)).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(X), rtol=0, atol=1e-4)
    message = "regularisation must be 0 for standard errors, got 0.1"
    with pytest.raises(InvalidInput, match=exactly(message)):
        _ = model.results_


def test_poisson_regression_is_statsmodels_and_with_a_penalty_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [1.0, 5.0, 0.1]
    y = rng.poisson(np.exp(0.5 + X @ [0.3, -0.05, 2.0]))
    found = CodedPoissonRegressor().fit(X, y).results_
    theirs = sm.GLM(y, sm.add_constant(X), family=sm.families.Poisson()).fit()
    assert np.abs((found.coefficients - theirs.params) / theirs.bse).max() < 1e-3
    np.testing.assert_allclose(found.standard_errors, theirs.bse, rtol=1e-4)
    for target in (y, y / 3):
        model = CodedPoissonRegressor(regularisation=0.1).fit(X, target)
        oracle = make_pipeline(StandardScaler(), PoissonRegressor(alpha=0.1, tol=1e-10)).fit(X, target)
        np.testing.assert_allclose(model.predict(X), oracle.predict(X), rtol=2e-3)
    with pytest.raises(InvalidInput, match=exactly("y must be whole numbers for standard errors, got fractions")):
        _ = CodedPoissonRegressor().fit(X, y / 3).results_


def test_too_few_devices() -> None:
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InvalidInput, match=exactly("n_devices must be at least 3, got 2")):
        CodedLasso(n_devices=2).fit(X, y)
    with pytest.raises(InvalidInput, match=exactly("device must name at least 3 devices, got 2")):
        CodedLasso().fit(X, y, device=np.arange(len(y)) % 2)
