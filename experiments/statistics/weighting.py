"""Inverse probability weighting beside statsmodels' TreatmentEffect, whose errors are of both steps together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from codedfl.analyses.weighted_times import HazardFinding
from codedfl.analyses.weighting import IptwFinding, IptwFit
from codedfl.contract.models.weighting import IptwCoxModel, IptwModel
from codedfl.typing import Floats
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


def times_made_up(n: int = 600, seed: int = 0) -> Case:
    """As ``made_up``, with times until an event on a grid of ten days."""
    case = made_up("number", n, seed)
    rng = np.random.default_rng(seed + 1)
    hazard = 0.02 * (case.values["age"] - 55) - 0.6 * case.values["drug"]
    time, end = np.ceil(rng.exponential(80 * np.exp(-hazard))), np.ceil(rng.uniform(0, 250, n))
    values = {name: case.values[name] for name in ("age", "ward", "drug")}
    values |= {"died": (time <= end) * 1.0, "days": np.minimum(np.minimum(time, end), 300.0)}
    return Case(values, "days", {**case.steps, "died": 1.0, "days": 1.0}, beside=("drug", "died"))


TIMES = tuple(map(float, range(10, 201, 10)))


def efron_score(beta: float, weight: Floats, x: Floats, time: Floats, event: Floats) -> float:
    """The weighted score of one column, by its definition."""
    score, hazard = 0.0, weight * np.exp(beta * x)
    for one in np.unique(time[event == 1]):
        risk, dies = time >= one, (time == one) & (event == 1)
        count, share = int(dies.sum()), weight[dies].mean()
        score += float(weight[dies] @ x[dies])
        for place in range(count):
            part = np.where(dies, 1.0 - place / count, 1.0) * risk * hazard
            score -= float(share * (part @ x) / part.sum())
    return score


def by_definition(X: Floats, x: Floats, time: Floats, event: Floats) -> tuple[float, float]:
    """Log hazard ratio and its error: slopes by differences, what a row adds by a change of its weight."""
    import statsmodels.api as sm
    from scipy.optimize import brentq

    alpha = sm.Logit(x, X).fit(disp=0, tol=1e-14, maxiter=100).params

    def weights(at: Floats) -> Floats:
        chance = 1 / (1 + np.exp(-X @ at))
        return np.where(x == 1, 1 / chance, 1 / (1 - chance))

    w, small = weights(alpha), 1e-5
    beta = float(brentq(lambda b: efron_score(b, w, x, time, event), -3, 3, xtol=1e-13))
    step = small * np.eye(len(w)) * w
    each = [(efron_score(beta, w + one, x, time, event) - efron_score(beta, w - one, x, time, event)) for one in step]
    scores = np.column_stack(((x - 1 / (1 + np.exp(-X @ alpha)))[:, None] * X, np.array(each) / (2 * small)))
    chance = 1 / (1 + np.exp(-X @ alpha))
    d = len(alpha)
    slopes = np.zeros((d + 1, d + 1))
    slopes[:d, :d] = (X.T * (chance * (1 - chance))) @ X
    for place in range(d):
        change = np.eye(d)[place] * small
        high, low = (efron_score(beta, weights(alpha + sign * change), x, time, event) for sign in (1, -1))
        slopes[d, place] = -(high - low) / (2 * small)
    high, low = (efron_score(beta + sign * small, w, x, time, event) for sign in (1, -1))
    slopes[d, d] = -(high - low) / (2 * small)
    back = np.linalg.inv(slopes)
    return beta, float((back @ (scores.T @ scores) @ back.T)[d, d] ** 0.5)


def hazards() -> Iterator[Line]:
    """The weighted hazard ratio beside its definition, row by row."""
    case = times_made_up()
    study = case.study(IptwCoxModel("m", COLUMNS, "died", TIMES, treatment="drug"), smallest_cell=1)
    (fit,) = found(case, study).models
    assert isinstance(fit, HazardFinding), fit.lines()
    values = case.gridded(study)
    X = np.column_stack((np.ones(600), values["age"], values["ward"] == "b", values["ward"] == "c")).astype(np.float64)
    place = np.searchsorted(fit.times, values["days"])
    event = np.where(place == len(fit.times), 0.0, values["died"])
    beta, error = by_definition(X, values["drug"], place.astype(np.float64), event)
    ours = fit.inference
    yield Line("weighted hazard ratio, in standard errors", abs(float(ours.coefficients[0]) - beta) / error, GRIDDED)
    yield Line("weighted hazard ratio: error, relative", abs(float(ours.standard_errors[0]) / error - 1), ERRORS)


def lines() -> Iterator[Line]:
    """A number and classes."""
    for kind in ("number", "classes"):
        yield from compared(kind)
    yield from hazards()
