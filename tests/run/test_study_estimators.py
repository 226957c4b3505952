"""The models of studies in scikit-learn's way, by the same analyses: statsmodels' numbers, and its two questions."""

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

from codedfl import (
    CodedCoxRegression,
    CodedGammaRegressor,
    CodedLasso,
    CodedLinearRegression,
    CodedLogisticRegression,
    CodedNegativeBinomialRegressor,
    CodedPoissonRegressor,
)
from codedfl.errors import InvalidInput
from wording import exactly


@parametrize_with_checks(
    [
        CodedLinearRegression(n_devices=3),
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


@pytest.mark.parametrize("errors", ["model", "HC0", "HC3"])
def test_least_squares_is_statsmodels(errors: str) -> None:
    X, y = load_diabetes(return_X_y=True, scaled=False)
    model = CodedLinearRegression(errors=errors).fit(X, y, device=np.arange(len(y)) % 4)
    theirs = sm.OLS(y, sm.add_constant(X)).fit(cov_type="nonrobust" if errors == "model" else errors)
    found = model.results_
    assert np.abs((found.coefficients - theirs.params) / theirs.bse).max() < 1e-3
    np.testing.assert_allclose(found.standard_errors, theirs.bse, rtol=1e-4)
    assert np.abs((model.conf_int() - theirs.conf_int()) / theirs.bse[:, None]).max() < 1e-3
    assert model.summary() == found.summary() and "constant" in model.summary()
    np.testing.assert_allclose(model.predict(X), theirs.predict(sm.add_constant(X)), rtol=1e-5)


def test_cox_is_statsmodels_on_the_very_times() -> None:
    rng = np.random.default_rng(3)
    X = np.column_stack((rng.normal(size=(300, 2)), np.full(300, 4.0), rng.random(300) < 0.4)) * [1, 20, 1, 1]
    time = rng.weibull(1.5, 300) * np.exp(-X @ [0.5, -0.02, 0, 0.4])
    end = rng.uniform(0.0, 3.0, 300)
    time, event = np.minimum(time, end), time <= end
    time[:100] = np.ceil(time[:100] * 20) / 20  # ties
    model = CodedCoxRegression().fit(X, np.column_stack((time, event)), device=np.arange(300) % 6)
    theirs = sm.PHReg(time, X[:, [0, 1, 3]], status=event, ties="efron").fit()
    found = model.results_
    assert np.abs((found.coefficients - theirs.params) / theirs.bse).max() < 1e-4
    np.testing.assert_allclose(found.standard_errors, theirs.bse, rtol=1e-5)
    assert np.abs((model.conf_int() - theirs.conf_int()) / theirs.bse[:, None]).max() < 1e-4
    assert model.coef_[2] == 0 and "Efron" in model.summary()
    risk = X @ model.coef_
    np.testing.assert_allclose(model.predict(X), risk - risk.mean(), atol=1e-9)
    curves = model.predict_survival(X[:2])
    assert curves.shape == (2, len(np.unique(time[event]))) and (np.diff(curves, axis=1) < 0).all()
    assert model.baseline_.times[-1] == time[event].max() and (np.diff(model.baseline_.standard_errors) > 0).any()
    named = np.array(list(zip(event, time, strict=True)), dtype=[("cens", bool), ("days", float)])
    assert np.array_equal(
        CodedCoxRegression().fit(X, named).coef_, CodedCoxRegression().fit(X, np.column_stack((time, event))).coef_
    )
    pairs = [
        (i, j)
        for i in np.flatnonzero(event)
        for j in range(300)
        if time[j] > time[i] or (time[j] == time[i] and not event[j])
    ]
    assert model.score(X, named) == pytest.approx(np.mean([risk[i] > risk[j] for i, j in pairs]), abs=1e-12)


def test_counts_and_costs_that_vary_more_than_a_poissons() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)) * [1.0, 5.0]
    mean = np.exp(0.5 + X @ [0.3, -0.05])
    design = sm.add_constant(X)
    counts = rng.poisson(mean * rng.gamma(2.0, 0.5, 400))
    model = CodedNegativeBinomialRegressor().fit(X, counts)
    theirs = sm.NegativeBinomial(counts, design).fit(disp=False, gtol=1e-10, maxiter=200)
    assert np.abs((model.results_.coefficients - theirs.params[:3]) / theirs.bse[:3]).max() < 1e-3
    assert model.alpha_ == pytest.approx(theirs.params[3], rel=1e-4)
    costs = mean * rng.gamma(3.0, 1 / 3, 400)
    of_costs = CodedGammaRegressor().fit(X, costs)
    many = CodedGammaRegressor().fit(
        np.tile(X, (5, 1)), np.tile(20.0 * costs, 5)
    )  # whose sums would not fit a bound for all
    assert np.allclose(many.coef_, of_costs.coef_, atol=1e-6)
    glm = sm.GLM(costs, design, family=sm.families.Gamma(sm.families.links.Log())).fit(tol=1e-12)
    assert np.abs((of_costs.results_.coefficients - glm.params) / glm.bse).max() < 1e-3
    np.testing.assert_allclose(of_costs.results_.standard_errors, glm.bse, rtol=1e-4)
    robust = CodedPoissonRegressor(errors="HC0").fit(X, counts)
    sandwich = sm.GLM(counts, design, family=sm.families.Poisson()).fit(cov_type="HC0")
    np.testing.assert_allclose(robust.results_.standard_errors, sandwich.bse, rtol=1e-4)
    with pytest.raises(InvalidInput, match=exactly("y must be whole numbers, got 1.5")):
        CodedNegativeBinomialRegressor().fit(X, counts + 0.5)
    with pytest.raises(InvalidInput, match=exactly("y must be above 0, got 0")):
        CodedGammaRegressor().fit(X, counts)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.ones(9), "y must have two columns, the time and 1 for the event or 0, got shape (9,)"),
        (np.column_stack((np.arange(9), np.arange(9))), "events of y must be 0 or 1, got 2"),
        (np.column_stack((np.arange(9), np.zeros(9))), "y must have the event in some row, got none"),
        (np.full((9, 2), np.nan), "times of y must be finite, got NaN or infinity"),
        (
            np.zeros(9, dtype=[("a", float), ("b", float)]),
            "y must have two fields, of which one is of truth values, got a, b",
        ),
    ],
)
def test_times_that_are_none(y: np.ndarray[Any, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=exactly(message)):
        CodedCoxRegression().fit(np.arange(18.0).reshape(9, 2), y)


def test_a_column_may_have_the_name_of_the_target() -> None:
    pandas = pytest.importorskip("pandas")
    X, y = load_diabetes(return_X_y=True)
    table = pandas.DataFrame(X[:, :2], columns=["y", "event"])
    model = CodedLinearRegression().fit(table, y)
    assert model.results_.names == ("constant", "y", "event")
    with pytest.raises(InvalidInput, match=exactly("errors must be model, HC0, HC1, HC2 or HC3, got 'HC9'")):
        CodedLinearRegression(errors="HC9").fit(X, y)


def test_too_few_devices() -> None:
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(InvalidInput, match=exactly("n_devices must be at least 3, got 2")):
        CodedLasso(n_devices=2).fit(X, y)
    with pytest.raises(InvalidInput, match=exactly("device must name at least 3 devices, got 2")):
        CodedLasso().fit(X, y, device=np.arange(len(y)) % 2)
