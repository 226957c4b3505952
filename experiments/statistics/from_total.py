"""Correlations, components, tests of groups and tables beside scipy and scikit-learn; AUC's interval by definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from codedfl.analyses.from_total import TotalFinding
from codedfl.analyses.heterogeneity import heterogeneity
from codedfl.analyses.scoring import ClassScore
from codedfl.contract.models import StudyModel
from codedfl.contract.models.from_total import AnovaModel, AssociationModel, ComponentsModel, CorrelationModel
from codedfl.statistics.score import BINS
from experiments.statistics.cases import Case, Line, found

BOUND = 1e-9


def made_up(n: int = 700, seed: int = 0) -> Case:
    """Two numbers and two categories that have to do with the target."""
    rng = np.random.default_rng(seed)
    ward, sex = rng.choice(["a", "b", "c"], n), rng.choice(["f", "m"], n)
    age = np.round(rng.uniform(20, 90, n), 1)
    weight = np.round(40 + 0.4 * age + 6 * (sex == "m") + rng.normal(0, 9, n), 1)
    days = np.round(2 + 0.1 * age + 2.0 * (ward == "b") + rng.normal(0, 4, n), 1)
    values = {"age": age, "weight": weight, "ward": ward, "sex": sex, "days": days}
    return Case(values, "days", {"age": 0.1, "weight": 0.1, "days": 0.1})


def one(case: Case, model: StudyModel) -> TotalFinding:
    """What a federation finds."""
    (fit,) = found(case, case.study(model)).models
    assert isinstance(fit, TotalFinding), fit.lines()
    return fit


def counted(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A table of two categories."""
    return np.array([[int(((first == a) & (second == b)).sum()) for b in np.unique(second)] for a in np.unique(first)])


def auc_interval() -> Iterator[Line]:
    """DeLong's interval of scores in tenths, by all pairs of rows."""
    rng = np.random.default_rng(1)
    y = rng.random(400) < 0.4
    part = np.clip((rng.normal(4 + 2 * y, 2)).astype(int), 0, BINS - 1)
    bins = [np.bincount(part[y == k], minlength=BINS) for k in (0, 1)]
    right = [int(((part >= BINS // 2) == k)[y == c].sum()) for c in (0, 1) for k in (0, 1)]
    score = ClassScore.of([*right, *bins[0].tolist(), *bins[1].tolist()], 2)
    won = (part[y][:, None] > part[~y]) + 0.5 * (part[y][:, None] == part[~y])
    variance = won.mean(axis=1).var(ddof=1) / y.sum() + won.mean(axis=0).var(ddof=1) / (~y).sum()
    low, high = won.mean() + 1.959963984540054 * np.sqrt(variance) * np.array([-1, 1])
    assert score.auc is not None and score.auc_interval is not None, score
    off = np.abs(np.array([score.auc, *score.auc_interval]) - [won.mean(), low, high])
    yield Line("area under the ROC curve and its interval", float(off.max()), BOUND)


def differing() -> Iterator[Line]:
    """Heterogeneity beside statsmodels' combine_effects."""
    from statsmodels.stats.meta_analysis import combine_effects

    rng = np.random.default_rng(2)
    errors = rng.uniform(0.1, 0.4, 6)
    estimates = rng.normal(0.3, 0.4, 6)
    truth = combine_effects(estimates, errors**2, method_re="dl")
    made = heterogeneity(estimates.tolist(), errors.tolist())
    ours = (made.q, made.i_squared, made.tau_squared, *made.fixed, *made.random)
    of_random = (truth.mean_effect_re, truth.sd_eff_w_re)
    theirs = (truth.q, truth.i2, truth.tau2, truth.mean_effect_fe, truth.sd_eff_w_fe, *of_random)
    off = float(np.abs(np.array(ours) - np.array(theirs)).max())
    yield Line("heterogeneity: Q, I^2, tau^2 and pooled estimates", off, BOUND)


def lines() -> Iterator[Line]:
    """All of them."""
    from scipy import stats
    from sklearn.decomposition import PCA

    case = made_up()
    values = case.gridded(case.study())
    fit = one(case, CorrelationModel("m", ("age", "weight")))
    pairs = [("age", "weight"), ("age", "days"), ("weight", "days")]
    truth = np.array([stats.pearsonr(values[a], values[b]) for a, b in pairs])
    yield Line("correlations and their p", float(np.abs(fit.table - truth).max()), BOUND)
    fit = one(case, ComponentsModel("m", ("age", "weight", "sex")))
    X = np.column_stack((values["age"], values["weight"], values["sex"] == "m")).astype(np.float64)
    made = PCA().fit((X - X.mean(axis=0)) / X.std(axis=0))
    yield Line("components: shares", float(np.abs(fit.table[1] - made.explained_variance_ratio_).max()), BOUND)
    yield Line("components: loadings", float(np.abs(np.abs(fit.table[2:].T) - np.abs(made.components_)).max()), BOUND)
    fit = one(case, AnovaModel("m", ("ward",)))
    groups = [values["days"][values["ward"] == level] for level in "abc"]
    f, p = stats.f_oneway(*groups)
    yield Line("analysis of variance: F, relative", abs(float(fit.facts["F"]) / f - 1), BOUND)
    yield Line("analysis of variance: p", abs(float(fit.facts["p"]) - p), BOUND)
    means = np.array([group.mean() for group in groups])
    yield Line("analysis of variance: means", float(np.abs(fit.table[:, 0] - means).max()), BOUND)
    fit = one(case, AnovaModel("m", ("sex",)))
    t, p = stats.ttest_ind(values["days"][values["sex"] == "m"], values["days"][values["sex"] == "f"])
    off = max(abs(float(fit.facts["t"]) - t), abs(float(fit.facts["p"]) - p))
    yield Line("Student's t test: t and p", off, BOUND)
    fit = one(case, AssociationModel("m", ("ward", "sex")))
    chi_squared, p, _, _ = stats.chi2_contingency(counted(values["ward"], values["sex"]), correction=False)
    off = max(abs(float(fit.facts["chi_squared"]) - chi_squared), abs(float(fit.facts["p"]) - p))
    yield Line("chi^2 test: chi^2 and p", off, BOUND)
    two = Case(
        {**case.values, "ward": np.where(case.values["ward"] == "c", "a", case.values["ward"])}, "days", case.steps
    )
    fit = one(two, AssociationModel("m", ("ward", "sex")))
    p = stats.fisher_exact(counted(two.values["ward"], two.values["sex"])).pvalue
    yield Line("Fisher's exact test: p", abs(float(fit.facts["fishers_p"]) - p), BOUND)
    yield from auc_interval()
    yield from differing()
