"""What pictures are made of: residuals, calibration and the ROC curve, beside numpy, statsmodels and scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codedfl.analyses.glm import GlmFinding
from codedfl.analyses.residuals import ResidualsFinding
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.residuals import ResidualsModel
from experiments.statistics import glm, robust
from experiments.statistics.cases import Line, found

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


def lines() -> Iterator[Line]:
    """Both."""
    yield from residuals()
    yield from calibration()
