"""Survival curves and the log-rank test beside statsmodels' SurvfuncRight and survdiff."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codedfl.analyses.survival import SurvivalFinding
from codedfl.contract.models.survival import SurvivalModel
from experiments.statistics.cases import Case, Line, found

BOUND = 1e-9
TIMES = tuple(range(10, 201, 10))


def made_up(n: int = 2400, seed: int = 0) -> Case:
    """Three groups; some times are cut short."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1])
    time, end = np.ceil(rng.exponential(np.where(ward == "b", 60, 100), n)), np.ceil(rng.uniform(0, 300, n))
    values = {"ward": ward, "died": (time <= end) * 1.0, "days": np.minimum(time, end)}
    return Case(values, "days", {"died": 1.0, "days": 1.0}, beside=("died",))


def lines() -> Iterator[Line]:
    """Curves and test on the times as they were joined."""
    from statsmodels.duration.survfunc import SurvfuncRight, survdiff

    case = made_up()
    study = case.study(SurvivalModel("m", ("ward",), "died", tuple(map(float, TIMES))))
    (fit,) = found(case, study).models
    assert isinstance(fit, SurvivalFinding), fit.lines()
    kept = fit.curves[0].times
    place = np.searchsorted(kept, case.values["days"])
    time = np.append(kept, kept[-1] + 1)[place]
    died = np.where(place == len(kept), 0.0, case.values["died"])
    for curve in fit.curves:
        of_group = case.values["ward"] == curve.group
        truth = SurvfuncRight(time[of_group], died[of_group])
        where = np.searchsorted(curve.times, truth.surv_times[truth.surv_times <= kept[-1]])
        n = len(where)
        share = float(np.abs(curve.share[where] - truth.surv_prob[:n]).max())
        yield Line(f"survival of {curve.group}: shares", share, BOUND)
        error = float(np.abs(curve.standard_errors[where] - truth.surv_prob_se[:n]).max())
        yield Line(f"survival of {curve.group}: standard errors", error, BOUND)
    chi_squared, p = survdiff(time, died, case.values["ward"])
    yield Line("log-rank test: chi^2, relative", abs(fit.chi_squared / float(chi_squared) - 1), BOUND)
    yield Line("log-rank test: p", abs(fit.p - float(p)), BOUND)
