"""Random intercepts beside statsmodels' MixedLM."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from codedfl.analyses.intercepts import MixedFit
from codedfl.analyses.robust import InferenceFinding
from codedfl.contract.models.intercepts import RandomInterceptModel
from codedfl.typing import Floats
from experiments.statistics.cases import Case, Line, found_by

GRIDDED, ERRORS = 1e-6, 1e-5
COLUMNS = ("age", "ward")


def made_up(deviation: float = 2.0, clinics: int = 160, seed: int = 0) -> Case:
    """Clinics of one to forty people; each size is that of several."""
    rng = np.random.default_rng(seed)
    sizes = np.tile(np.arange(1, 41), clinics // 40)
    clinic = np.repeat(np.arange(clinics, dtype=np.float64), sizes)
    n = len(clinic)
    age, ward = np.round(rng.uniform(20, 90, n), 1), rng.choice(["a", "b", "c"], n)
    shared = rng.normal(0, deviation, clinics)[clinic.astype(int)]
    days = np.round(10 + 0.1 * age + 2.0 * (ward == "b") + shared + rng.normal(0, 3, n), 1)
    values = {"age": age, "ward": ward, "clinic": clinic, "days": days}
    return Case(values, "days", {"age": 0.1, "clinic": 1.0, "days": 0.1}, beside=("clinic",))


def plain_errors(X: Floats, clinic: Floats, residual: float, shared: float) -> Floats:
    """By the definition, with the whole covariance of the rows; statsmodels' are of a Hessian by differences."""
    covariance = residual * np.eye(len(X)) + shared * (clinic[:, None] == clinic)
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(X.T @ np.linalg.solve(covariance, X)))))


def lines() -> Iterator[Line]:
    """Weak and strong clusters."""
    import statsmodels.api as sm

    for deviation in (0.5, 2.0, 8.0):
        case = made_up(deviation)
        study = case.study(RandomInterceptModel("m", COLUMNS, "clinic"))
        parts = {f"d-{k}": case.table.rows(np.flatnonzero(case.values["clinic"] // 40 == k)) for k in range(4)}
        (fit,) = found_by(study, parts).models
        assert isinstance(fit, InferenceFinding) and isinstance(fit.inference.fit, MixedFit), fit.lines()
        values, of = case.gridded(study), fit.inference.fit
        X = np.column_stack((np.ones(of.rows), values["age"], values["ward"] == "b", values["ward"] == "c"))
        made = sm.MixedLM(values["days"], X, groups=values["clinic"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small gradients
            truth = made.fit(reml=True, method=["bfgs", "powell"], gtol=1e-12, xtol=1e-12, ftol=1e-14)
        what = f"random intercept, deviation {deviation:g}"
        errors = plain_errors(X, values["clinic"], truth.scale, float(np.asarray(truth.cov_re)[0, 0]))
        off = np.abs(fit.inference.coefficients - truth.fe_params) / errors
        yield Line(f"{what}: coefficients in standard errors", float(off.max()), GRIDDED)
        relative = np.abs(fit.inference.standard_errors / errors - 1)
        yield Line(f"{what}: standard errors, relative", float(relative.max()), ERRORS)
        yield Line(f"{what}: residual variance, relative", abs(of.residual_variance / truth.scale - 1), ERRORS)
        ratio = float(np.asarray(truth.cov_re)[0, 0])
        yield Line(f"{what}: intercepts' variance, relative", abs(of.intercept_variance / ratio - 1), 1e-4)
        less = max(0.0, truth.llf - of.log_likelihood)
        yield Line(f"{what}: restricted log-likelihood, below statsmodels'", less, 1e-5)
