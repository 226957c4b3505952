"""What pictures are made of: residuals, calibration and the ROC curve, beside numpy, statsmodels and scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from codedfl.analyses.glm import GlmFinding
from codedfl.analyses.nested import nested
from codedfl.analyses.residuals import ResidualsFinding
from codedfl.contract.models import SubModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.residuals import ResidualsModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.data.tables import as_raw_table
from codedfl.run.rehearsal import dealt_out, rehearsal_key
from experiments.statistics import glm, robust
from experiments.statistics.cases import Line, found, found_by

BOUND = 1e-9


def residuals() -> Iterator[Line]:
    """Counts and QQ points."""
    import statsmodels.api as sm
    from scipy.stats import norm

    case = robust.made_up()
    study = case.study(ResidualsModel("m", ("age", "ward")))
    (fit,) = found(case, study).models
    assert isinstance(fit, ResidualsFinding), fit.lines()
    values = case.gridded(study)
    X = np.column_stack((np.ones(800), values["age"], values["ward"] == "b", values["ward"] == "c"))
    truth = sm.OLS(values["days"], X).fit()
    scaled = np.sort(truth.resid / truth.mse_resid**0.5)
    counts = np.histogram(scaled, [-np.inf, *fit.edges, np.inf])[0]
    yield Line("residuals: rows in a part", float(np.abs(counts - fit.counts).max()), 0.0)
    normal, edges = np.array(fit.qq()).T
    off = np.abs(norm.ppf(np.searchsorted(scaled, edges) / 800) - normal)
    yield Line("residuals: QQ points", float(off.max()), BOUND)


def calibration() -> Iterator[Line]:
    """Tenths of the chance, on the rows that the model was made of."""
    from sklearn.metrics import roc_auc_score, roc_curve

    case = glm.made_up("logistic", 1500)
    model = LogisticModel("m", ("age", "ward"))
    study = case.study(model)
    (fit,) = found(case, study).models
    assert isinstance(fit, GlmFinding) and fit.score is not None and fit.score.calibration is not None, fit.lines()
    values = case.gridded(study)
    chance, y = glm.oracle(case, model, values).fittedvalues, values["y"]
    tenths = np.minimum((chance * 10).astype(int), 9)
    for band in fit.score.calibration:
        inside = (chance >= band.low) & ((chance < band.high) | (band.high == 1.0))
        wrong = max(abs(int(inside.sum()) - band.rows), abs(int(y[inside].sum()) - band.second))
        yield Line(f"calibration from {band.low} to {band.high}: rows", float(wrong), 0.0)
    yield Line("area under the ROC curve, by tenths", abs(fit.score.auc - roc_auc_score(y, tenths)), BOUND)
    points = np.column_stack(roc_curve(y, tenths, drop_intermediate=False)[:2])
    off = max(float(np.abs(points - one).max(axis=1).min()) for one in fit.score.roc())
    yield Line("points of the ROC curve", off, BOUND)


def calibration_line() -> Iterator[Line]:
    """Intercept and slope beside a logistic model of the predictor, on the rows that devices hold out."""
    import statsmodels.api as sm

    case = glm.made_up("logistic", 1500)
    study = replace(case.study(LogisticModel("m", ("age", "ward"))), held_out=0.4)
    parts = dealt_out(case.table, 4, np.random.default_rng(0))
    (fit,) = found_by(study, parts).models
    assert isinstance(fit, GlmFinding) and fit.calibration is not None and fit.model is not None, fit.lines()
    rows = [take_snapshot(study, one, rehearsal_key(name)) for name, one in parts.items()]
    kept = [one.part(held_out=True) for one in rows]
    codes, y = (np.concatenate([getattr(one, key) for one in kept]) for key in ("codes", "target"))
    values = {one.name: one.values(codes[:, k]) for k, one in enumerate(study.columns)}
    chance = np.asarray(fit.model.predict(as_raw_table({one: values[one] for one in ("age", "ward")}, "rows"))).ravel()
    made = sm.Logit(y, sm.add_constant(np.log(chance / (1 - chance)))).fit(disp=0, tol=1e-14)
    ours = np.array([fit.calibration.intercept, fit.calibration.slope])
    yield Line(
        "calibration: intercept and slope, in errors", float((np.abs(ours - made.params) / made.bse).max()), 1e-6
    )
    errors = np.array([fit.calibration.intercept_error, fit.calibration.slope_error])
    yield Line("calibration: standard errors, relative", float(np.abs(errors / made.bse - 1).max()), 1e-5)


def nested_models() -> Iterator[Line]:
    """Least squares and logistic models of some columns and of all."""
    import statsmodels.api as sm

    case = robust.made_up()
    models = (SubModel("few", ("age",), inference=True), SubModel("all", ("age", "ward"), inference=True))
    study = case.study(*models)
    (one,) = nested(found(case, study).models)
    values = case.gridded(study)
    X = np.column_stack((np.ones(800), values["age"], values["ward"] == "b", values["ward"] == "c"))
    small, large = (sm.OLS(values["days"], part).fit() for part in (X[:, :2], X))
    f, p, among = large.compare_f_test(small)
    off = max(abs(one.statistic / f - 1), abs(one.p - p), abs(one.among - among))
    yield Line("nested linear models: F, relative, and p", off, BOUND)
    case = glm.made_up("logistic", 1500)
    few, whole = LogisticModel("few", ("age",)), LogisticModel("all", ("age", "ward"))
    study = case.study(few, whole)
    (one,) = nested(found(case, study).models)
    values = case.gridded(study)
    ratio = 2 * (glm.oracle(case, whole, values).llf - glm.oracle(case, few, values).llf)
    yield Line("nested logistic models: likelihood ratio, relative", abs(one.statistic / ratio - 1), 1e-8)


def lines() -> Iterator[Line]:
    """All of them."""
    yield from residuals()
    yield from calibration()
    yield from calibration_line()
    yield from nested_models()
