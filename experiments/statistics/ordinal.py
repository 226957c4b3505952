"""Proportional odds beside statsmodels' OrderedModel."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from codedfl.analyses.ordinal import OrdinalFit
from codedfl.analyses.robust import InferenceFinding
from codedfl.contract.models.ordinal import ProportionalOddsModel
from experiments.statistics.cases import Case, Line, found

GRIDDED, ERRORS = 1e-6, 1e-5
COLUMNS = ("age", "ward")


def made_up(n: int = 800, seed: int = 0) -> Case:
    """Four classes."""
    rng = np.random.default_rng(seed)
    age, ward = np.round(rng.uniform(20, 90, n), 2), rng.choice(["a", "b", "c"], n)
    latent = 0.04 * (age - 50) + 0.8 * (ward == "b") + rng.logistic(size=n)
    values: dict[str, Any] = {"age": age, "ward": ward, "stage": np.digitize(latent, [-1.0, 0.5, 2.0])}
    return Case(values, "stage", {"age": 0.01})


def lines() -> Iterator[Line]:
    """Coefficients, thresholds, errors and likelihood."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    case = made_up()
    study = case.study(ProportionalOddsModel("m", COLUMNS))
    (fit,) = found(case, study).models
    assert isinstance(fit, InferenceFinding) and isinstance(fit.inference.fit, OrdinalFit), fit.lines()
    values, of = case.gridded(study), fit.inference
    X = np.column_stack((values["age"], values["ward"] == "b", values["ward"] == "c")).astype(np.float64)
    made = OrderedModel(np.asarray(values["stage"], dtype=np.int64), X, distr="logit")
    cuts = of.coefficients[3:]
    near = np.concatenate((of.coefficients[:3], cuts[:1], np.log(np.diff(cuts)))) + 0.01
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is told to go on until nothing changes
        truth = made.fit(start_params=near, method="newton", disp=0, tol=1e-14, maxiter=100)
    expected = np.append(truth.params[:3], made.transform_threshold_params(truth.params)[1:-1])
    errors = of.standard_errors
    off = float((np.abs(of.coefficients - expected) / errors).max())
    yield Line("proportional odds: coefficients and thresholds in standard errors", off, GRIDDED)
    relative = np.abs(errors[:3] / truth.bse[:3] - 1)
    yield Line("proportional odds: standard errors, relative", float(relative.max()), ERRORS)
    likelihood = abs(of.fit.log_likelihood / truth.llf - 1)
    yield Line("proportional odds: log-likelihood, relative", float(likelihood), ERRORS)
