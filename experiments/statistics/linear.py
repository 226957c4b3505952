"""Everything that follows from the one total, beside statsmodels' OLS and scikit-learn on the pooled gridded rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codedfl.analyses.least_squares import LeastSquaresFit
from codedfl.analyses.linear import LinearTotal
from codedfl.contract.merging import merged_study
from codedfl.typing import Floats
from experiments.statistics.cases import Case, Line, found

EXACT, CONVERGED = 1e-8, 1e-6  # relative; of what an oracle itself finds by iterations


def diabetes() -> Case:
    """442 patients, with a category."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    values = {name: data.data[:, j] for j, name in enumerate(data.feature_names)}
    values["sex"] = np.where(values["sex"] == 1, "f", "m")
    steps = {"age": 1.0, "bmi": 0.1, "bp": 0.01, "s1": 1.0, "s2": 0.1, "s3": 0.5, "s4": 0.01, "s5": 1e-4, "s6": 1.0}
    return Case({**values, "outcome": data.target}, "outcome", {**steps, "outcome": 1.0})


def lines() -> Iterator[Line]:
    """A line for each kind of result."""
    import statsmodels.api as sm
    from sklearn.linear_model import ElasticNet, Ridge, lars_path_gram
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    case = diabetes()
    study = case.study()
    findings = found(case, study)
    total = LinearTotal(merged_study(study, findings.merged), findings.total)
    rows = case.gridded(study)
    names = total.study.design_names
    X = np.column_stack([rows["sex"] == "m" if name == "sex = m" else rows[name] for name in names]).astype(float)
    y, design = rows["outcome"], sm.add_constant(X)
    truth, ours = sm.OLS(y, design).fit(), total.ols()
    assert isinstance(ours.fit, LeastSquaresFit)

    def off(what: str, mine: object, theirs: object, bound: float = EXACT) -> Line:
        difference = np.abs(np.asarray(mine, float) - np.asarray(theirs, float)).max()
        return Line(f"linear: {what}", float(difference / np.abs(np.asarray(theirs, float)).max()), bound)

    distance = np.abs((ours.coefficients - truth.params) / truth.bse)
    yield Line("linear: coefficients in standard errors", float(distance.max()), EXACT)
    yield off("standard errors", ours.standard_errors / truth.bse, np.ones(len(truth.bse)))
    yield off("covariance of the coefficients", ours.covariance, truth.cov_params())
    yield off("confidence intervals", ours.conf_int(), truth.conf_int())
    fit = ours.fit
    whole = (fit.r_squared, fit.adjusted_r_squared, fit.f, fit.log_likelihood, fit.aic, fit.bic)
    theirs = (truth.rsquared, truth.rsquared_adj, truth.fvalue, truth.llf, truth.aic, truth.bic)
    yield off("R^2, adjusted R^2, F, likelihood, AIC, BIC", np.divide(whole, theirs), np.ones(6))
    some = ("s1", "s2", "sex = m")
    places = [1 + names.index(name) for name in some]
    joint, nested = ours.joint(some), truth.compare_f_test(sm.OLS(y, np.delete(design, places, axis=1)).fit())
    yield off("joint test, as nested models", (joint.statistic, joint.p), nested[:2])
    row = np.zeros(design.shape[1])
    row[places[:2]] = 1.0, -1.0
    contrast, test = ours.contrast({"s1": 1.0, "s2": -1.0}), truth.t_test(row)
    yield off("contrast with its error", contrast[:2], (test.effect[0], test.sd[0, 0]))
    predicted = truth.get_prediction(design)
    yield off(
        "predictions with their errors", ours.get_prediction(X)[:2], (predicted.predicted_mean, predicted.se_mean)
    )
    inflation = [variance_inflation_factor(design, 1 + j) for j in range(len(names))]
    yield off("variance inflation", list(total.vif().values()), inflation)
    scale = np.where([name == "sex = m" for name in names], 1.0, X.std(axis=0))
    Z = (X - X.mean(axis=0)) / scale
    centred = y - y.mean()
    ridge = Ridge(alpha=0.1 * len(y), solver="svd").fit(Z, y).predict(Z)
    yield off("ridge", total.model(0.1).predict(X), ridge)
    best = min(_gcv(Z, centred, weight) for weight in np.geomspace(1e-6, 10, 400))
    mine = _gcv(Z, centred, total.chosen("gcv"))
    yield Line("linear: lambda by cross-validation, above the least criterion", max(0.0, mine / best - 1), CONVERGED)
    for l1_ratio in (1.0, 0.5):
        path = total.lasso(l1_ratio)
        settings = {"l1_ratio": l1_ratio, "tol": 1e-14, "max_iter": 10**6}
        slopes = [ElasticNet(alpha=one, **settings).fit(Z, y).coef_ for one in path.weights[::10]]
        kind = "lasso" if l1_ratio == 1 else "elastic net"
        yield off(f"path of the {kind}", path.coefficients[::10, 1:] * scale, slopes, CONVERGED)
    alphas, _, lars = lars_path_gram(Z.T @ centred, Z.T @ Z, n_samples=len(y), method="lasso")
    corners = total.lasso(weights=alphas[1:-1].tolist())
    yield off("lasso at the corners of lars_path_gram", corners.coefficients[:, 1:] * scale, lars.T[1:-1], CONVERGED)


def _gcv(Z: Floats, y: Floats, weight: float) -> float:
    hat = Z @ np.linalg.solve(Z.T @ Z + len(Z) * weight * np.eye(Z.shape[1]), Z.T)
    left = y - hat @ y
    return float(left @ left / (len(y) - 1 - np.trace(hat)) ** 2)
