"""Matched sets and estimating equations beside statsmodels' ConditionalLogit and GEE."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from codedfl.analyses.conditional_logit import ConditionalFit
from codedfl.analyses.gee import GeeFit
from codedfl.analyses.inference import Inference
from codedfl.analyses.robust import InferenceFinding
from codedfl.contract.models import StudyModel
from codedfl.contract.models.conditional_logit import ConditionalLogitModel
from codedfl.contract.models.gee import GeeModel
from codedfl.typing import Floats
from experiments.statistics.cases import Case, Line, found_by

GRIDDED, ERRORS = 1e-6, 1e-5
COLUMNS = ("age", "ward")


def made_up(n_sets: int = 160, *, counts: bool = False, cases: int = 1, seed: int = 0) -> Case:
    """Sets of 2 to 6 people who have something in common."""
    rng = np.random.default_rng(seed)
    sets = np.repeat(np.arange(n_sets, dtype=np.float64), rng.integers(2, 7, n_sets))
    n = len(sets)
    age, ward = np.round(rng.uniform(20, 90, n), 1), rng.choice(["a", "b", "c"], n)
    level = 0.02 * (age - 50) + 0.7 * (ward == "b") + rng.normal(0, 0.6, n_sets)[sets.astype(int)]
    values: dict[str, Any] = {"age": age, "ward": ward, "set": sets}
    if counts:
        values["ill"] = rng.poisson(np.exp(0.8 + level)).astype(np.float64)
        return Case(values, "ill", {"age": 0.1, "set": 1.0, "ill": 1.0}, beside=("set",))
    score = level + rng.logistic(size=n)
    ill = np.zeros(n, dtype=bool)
    for one in range(n_sets):
        (rows,) = np.nonzero(sets == one)
        ill[rows[np.argsort(-score[rows])[:cases]]] = True
    values["ill"] = np.where(ill if cases < 3 else score > 0, "yes", "no")
    return Case(values, "ill", {"age": 0.1, "set": 1.0}, beside=("set",))


def by_set(case: Case, n_devices: int = 4) -> Mapping[str, Any]:
    """No set is on two devices."""
    return {f"d-{k}": case.table.rows(np.flatnonzero(case.values["set"] % n_devices == k)) for k in range(n_devices)}


def fitted(case: Case, model: StudyModel) -> tuple[Inference, Floats, Floats, Floats]:
    """What a federation finds; the design, the target and the sets as its totals see them."""
    study = case.study(model)
    (fit,) = found_by(study, by_set(case)).models
    assert isinstance(fit, InferenceFinding), fit.lines()
    values = case.gridded(study)
    y = values["ill"] if "ill" in case.steps else np.asarray(case.values["ill"] == "yes", dtype=np.float64)
    X = np.column_stack((values["age"], values["ward"] == "b", values["ward"] == "c")).astype(np.float64)
    return fit.inference, X, y, values["set"]


def conditional() -> Iterator[Line]:
    """One case a set, and several."""
    from statsmodels.discrete.conditional_models import ConditionalLogit

    for cases, what in ((1, "one case a set"), (2, "two cases a set"), (3, "any number of cases")):
        of, X, y, sets = fitted(made_up(cases=cases), ConditionalLogitModel("m", COLUMNS, "set"))
        assert isinstance(of.fit, ConditionalFit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sets of one class are left out
            made = ConditionalLogit(y, X, groups=sets)
            truth = made.fit(disp=0, gtol=1e-9)  # which ends a few 1e-5 errors before its maximum
        off = np.abs(truth.cov_params() @ made.score(of.coefficients)) / truth.bse
        yield Line(f"conditional logit, {what}: Newton's next step in standard errors", float(off.max()), GRIDDED)
        relative = np.abs(of.standard_errors / truth.bse - 1)
        yield Line(f"conditional logit, {what}: standard errors, relative", float(relative.max()), ERRORS)
        likelihood = abs(of.fit.log_likelihood / truth.llf - 1)
        yield Line(f"conditional logit, {what}: log-likelihood, relative", float(likelihood), ERRORS)


def equations() -> Iterator[Line]:
    """Classes and counts."""
    import statsmodels.api as sm

    for case, family, what in (
        (made_up(cases=3), sm.families.Binomial(), "logistic"),
        (made_up(counts=True), sm.families.Poisson(), "Poisson"),
    ):
        of, X, y, sets = fitted(case, GeeModel("m", COLUMNS, cluster="set"))
        assert isinstance(of.fit, GeeFit)
        design = sm.add_constant(X)
        made = sm.GEE(y, design, groups=sets, family=family, cov_struct=sm.cov_struct.Exchangeable())
        truth = made.fit(ctol=1e-12, maxiter=200)
        off = np.abs(of.coefficients - truth.params) / truth.bse
        yield Line(f"GEE, {what}: coefficients in standard errors", float(off.max()), GRIDDED)
        relative = np.abs(of.standard_errors / truth.bse - 1)
        yield Line(f"GEE, {what}: standard errors, relative", float(relative.max()), ERRORS)
        yield Line(f"GEE, {what}: correlation", abs(of.fit.correlation - float(made.cov_struct.dep_params)), ERRORS)
        dispersion = float((truth.resid_pearson**2).sum()) / (len(y) - design.shape[1])
        yield Line(f"GEE, {what}: dispersion, relative", abs(of.fit.dispersion / dispersion - 1), ERRORS)


def lines() -> Iterator[Line]:
    """All of them."""
    yield from conditional()
    yield from equations()
