"""Inverse probability weighting beside statsmodels' TreatmentEffect, whose errors are of both steps together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from codedfl.analyses.weighting import IptwFinding, IptwFit
from codedfl.contract.models.weighting import IptwModel
from experiments.statistics.cases import Case, Line, found

GRIDDED, ERRORS = 1e-6, 1e-5
COLUMNS = ("age", "ward")


def made_up(kind: str, n: int = 900, seed: int = 0) -> Case:
    """Who is older is treated more often, and fares worse."""
    rng = np.random.default_rng(seed)
    age, ward = np.round(rng.uniform(20, 90, n), 2), rng.choice(["a", "b", "c"], n)
    drug = (rng.random(n) < 1 / (1 + np.exp(-(0.03 * (age - 55) + 0.6 * (ward == "b"))))).astype(np.float64)
    risk = 0.03 * (age - 55) + 0.5 * (ward == "b") - 0.8 * drug
    values: dict[str, Any] = {"age": age, "ward": ward, "drug": drug}
    steps = {"age": 0.01, "drug": 1.0}
    if kind == "classes":
        values["y"] = (rng.random(n) < 1 / (1 + np.exp(-risk))).astype(np.int64)
    else:
        values["y"], steps["y"] = np.round(20 + 5 * risk + rng.normal(0, 4, n), 1), 0.1
    return Case(values, "y", steps, beside=("drug",))


def compared(kind: str) -> Iterator[Line]:
    """Means or risks, their difference, and the propensity."""
    import statsmodels.api as sm
    from statsmodels.treatment.treatment_effects import TreatmentEffect

    case = made_up(kind)
    study = case.study(IptwModel("m", COLUMNS, treatment="drug"))
    (fit,) = found(case, study).models
    assert isinstance(fit, IptwFinding) and isinstance(fit.inference.fit, IptwFit), fit.lines()
    values, of = case.gridded(study), fit.inference.fit
    X = np.column_stack((np.ones(of.rows), values["age"], values["ward"] == "b", values["ward"] == "c"))
    y, drug = np.asarray(values["y"], dtype=np.float64), values["drug"]
    chance = sm.Logit(drug, X).fit(disp=0, tol=1e-14, maxiter=100)
    truth = TreatmentEffect(sm.OLS(y, X), drug, results_select=chance).ipw(return_results=True, effect_group="all")
    params, errors = (np.asarray(one) for one in (truth.results_gmm.params, truth.results_gmm.bse))
    means = np.array([params[0], params[1], params[0] + params[1]])
    off = np.abs(np.array([of.difference, *of.means]) - means) / errors[0]
    yield Line(f"weighting, {kind}: effect and means in standard errors", float(off.max()), GRIDDED)
    yield Line(f"weighting, {kind}: error of the effect, relative", abs(of.difference_error / errors[0] - 1), ERRORS)
    yield Line(f"weighting, {kind}: error of a mean, relative", abs(of.mean_errors[0] / errors[1] - 1), ERRORS)
    coefficients = np.array(list(fit.propensity.values()))
    off = np.abs(coefficients - chance.params) / chance.bse
    yield Line(f"weighting, {kind}: propensity in standard errors", float(off.max()), GRIDDED)


def lines() -> Iterator[Line]:
    """A number and classes."""
    for kind in ("number", "classes"):
        yield from compared(kind)
