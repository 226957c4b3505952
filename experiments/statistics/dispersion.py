"""Errors of generalised linear models beside statsmodels' GLM: by a dispersion, robust, by clusters; Gamma models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from codedfl.analyses.glm import GlmFinding
from codedfl.contract.models.dispersed import GammaModel, QuasiPoissonModel
from codedfl.contract.models.glm import GlmModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.negative import NegativeBinomialModel
from codedfl.contract.models.poisson import PoissonModel
from experiments.statistics.cases import Case, Line, found_by
from experiments.statistics.glm import design_of

GRIDDED, ERRORS = 1e-6, 1e-5
COLUMNS = ("age", "ward")
KINDS: dict[str, type[GlmModel]] = {"logistic": LogisticModel, "poisson": PoissonModel, "gamma": GammaModel}


def made_up(kind: str, n: int = 800, seed: int = 0) -> Case:
    """Clinics of about twenty people share a part, so that counts vary more than their mean; one column is weights."""
    rng = np.random.default_rng(seed)
    age, ward = np.round(rng.uniform(20, 90, n), 2), rng.choice(["a", "b", "c"], n)
    clinic = np.sort(rng.integers(0, 40, n)).astype(np.float64)
    predictor = 0.5 + 0.01 * (age - 50) + 0.5 * (ward == "b") + rng.normal(0, 0.6, 40)[clinic.astype(int)]
    values: dict[str, Any] = {"age": age, "ward": ward, "clinic": clinic, "times": rng.integers(1, 4, n) * 1.0}
    steps = {"age": 0.01, "clinic": 1.0, "times": 1.0, "y": 1.0}
    if kind == "logistic":
        values["y"] = (rng.random(n) < 1 / (1 + np.exp(0.5 - predictor))).astype(np.int64)
        steps.pop("y")
    elif kind == "gamma":
        values["y"] = np.maximum(np.round(rng.gamma(2.0, np.exp(predictor) / 2), 2), 0.01)
        steps["y"] = 0.01
    else:
        values["y"] = rng.poisson(np.exp(predictor)).astype(np.float64)
    return Case(values, "y", steps, beside=("clinic", "times"))


def by_clinics(case: Case) -> Mapping[str, Any]:
    """Devices of ten clinics each: clusters are inside devices."""
    return {
        f"device-{place}": case.table.rows(np.flatnonzero(case.values["clinic"] // 10 == place)) for place in range(4)
    }


def oracle(case: Case, model: GlmModel, values: Mapping[str, Any], errors: str) -> Any:
    """statsmodels on the pooled rows; its GLM has no HC1, which is HC0 times a factor. Weights repeat rows."""
    if model.weights:
        times = np.asarray(values[model.weights]).astype(np.int64)
        case = replace(case, values={name: np.repeat(one, times) for name, one in case.values.items()})
        values = {name: np.repeat(one, times) for name, one in values.items()}
    import statsmodels.api as sm

    families = {"binomial": sm.families.Binomial, "poisson": sm.families.Poisson}
    gamma = sm.families.Gamma(sm.families.links.Log()) if model.family == "gamma" else None
    y = np.asarray(values["y"], dtype=np.float64)
    options: dict[str, Any] = {"scale": "X2"} if model.dispersed else {}
    if errors != "model":
        options["cov_type"] = errors.replace("HC1", "HC0")
    if errors == "cluster":
        options["cov_kwds"] = {"groups": values["clinic"]}
    made = sm.GLM(y, design_of(case, model, values), family=gamma or families[model.family]())
    return made.fit(tol=1e-14, maxiter=100, **options)


def compared(kind: str, weights: str = "") -> Iterator[Line]:
    """All errors of one kind of model."""
    case = made_up(kind)
    models = [
        KINDS[kind](errors, COLUMNS, weights=weights, errors=errors, cluster="clinic" if errors == "cluster" else "")
        for errors in ("model", "HC0", "HC1", "cluster")
    ]
    if kind == "poisson":
        models.append(QuasiPoissonModel("quasi", COLUMNS, weights=weights))
    study = case.study(*models)
    values = case.gridded(study)
    for model, fit in zip(models, found_by(study, by_clinics(case)).models, strict=True):
        assert isinstance(fit, GlmFinding) and fit.inference is not None, fit.lines()
        truth = oracle(case, model, values, model.errors)
        what = f"{kind}{', weights' if weights else ''}, errors {model.name}"
        off = np.abs(fit.coefficients - truth.params) / truth.bse
        yield Line(f"{what}: coefficients in standard errors", float(off.max()), GRIDDED)
        factor = np.sqrt(truth.nobs / truth.df_resid) if model.errors == "HC1" else 1.0
        relative = np.abs(fit.inference.standard_errors / (factor * truth.bse) - 1)
        yield Line(f"{what}: standard errors, relative", float(relative.max()), ERRORS)
        yield Line(f"{what}: deviance, relative", abs(fit.fit.deviance / truth.deviance - 1), ERRORS)
        if fit.fit.dispersion is not None:
            dispersion = truth.pearson_chi2 / truth.df_resid
            yield Line(f"{what}: dispersion, relative", abs(fit.fit.dispersion / dispersion - 1), ERRORS)
        if kind == "gamma" and model.errors == "model":
            yield Line(f"{what}: log-likelihood, relative", abs(fit.fit.log_likelihood / truth.llf - 1), ERRORS)


def negative_binomial(what: str, case: Case, model: NegativeBinomialModel) -> Iterator[Line]:
    """Beside statsmodels' joint fit."""
    import statsmodels.api as sm

    study = case.study(model)
    (fit,) = found_by(study, by_clinics(case)).models
    assert isinstance(fit, GlmFinding) and fit.inference is not None, fit.lines()
    values = case.gridded(study)
    y = np.asarray(values["y"], dtype=np.float64)
    offset = {"offset": np.asarray(values[model.offset])} if model.offset else {}
    made = sm.NegativeBinomial(y, design_of(case, model, values), **offset)
    near = np.append(fit.coefficients, fit.fit.alpha)
    truth = made.fit(start_params=near * 1.01, method="newton", disp=0, maxiter=200, tol=1e-14)
    off = np.abs(np.append(fit.coefficients, fit.fit.alpha) - truth.params) / truth.bse
    yield Line(f"{what}: coefficients and alpha in standard errors", float(off.max()), GRIDDED)
    relative = np.abs(np.append(fit.inference.standard_errors, fit.fit.alpha_error) / truth.bse - 1)
    yield Line(f"{what}: standard errors, relative", float(relative.max()), ERRORS)
    yield Line(f"{what}: log-likelihood, relative", abs(fit.fit.log_likelihood / truth.llf - 1), ERRORS)


def negative() -> Iterator[Line]:
    """Without and with an offset."""
    yield from negative_binomial("negative binomial", made_up("poisson"), NegativeBinomialModel("m", COLUMNS))
    late = NegativeBinomialModel("m", COLUMNS, offset="times")
    yield from negative_binomial("negative binomial, offset", made_up("poisson", seed=2), late)


def lines() -> Iterator[Line]:
    """All of them."""
    for kind in KINDS:
        yield from compared(kind)
    yield from compared("poisson", weights="times")
    yield from negative()
