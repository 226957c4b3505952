"""Generalised linear models beside statsmodels' GLM and, with a penalty, scikit-learn's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from codedfl.analyses.glm import GlmFinding
from codedfl.contract.models.glm import GlmModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.contract.models.table import TableModel
from codedfl.typing import Floats
from experiments.statistics.cases import Case, Line, found

GRIDDED, RAW, ERRORS = 1e-6, 1e-3, 1e-5  # in standard errors, and of the standard errors themselves


def _frame(name: str) -> dict[str, Any]:
    from statsmodels import datasets

    data = getattr(datasets, name).load_pandas().data
    return {column: data[column].to_numpy(dtype=np.float64) for column in data.columns}


def spector() -> tuple[Case, GlmModel]:
    """32 students; the smallest real table."""
    values = _frame("spector")
    values["GRADE"] = values["GRADE"].astype(np.int64)
    return Case(values, "GRADE", {"GPA": 0.01, "TUCE": 1.0, "PSI": 1.0}), LogisticModel("m", ("GPA", "TUCE", "PSI"))


def fair() -> tuple[Case, GlmModel]:
    """6366 women; the classes are any affair and none."""
    values = _frame("fair")
    values["affairs"] = (values["affairs"] > 0).astype(np.int64)
    steps = {name: 0.5 for name in values if name != "affairs"}
    return Case(values, "affairs", steps), LogisticModel("m", tuple(steps))


def randhie() -> tuple[Case, GlmModel]:
    """20190 people's visits to a doctor."""
    values = _frame("randhie")
    fine = dict.fromkeys(("lncoins", "lpi", "fmde", "physlm", "disea"), 1e-5)
    steps = {**dict.fromkeys(values, 1.0), **fine}
    columns = tuple(name for name in values if name != "mdvis")
    return Case(values, "mdvis", steps), PoissonModel("m", columns)


def cancer() -> tuple[Case, GlmModel]:
    """Deaths in 301 counties, by the logarithm of the population as an offset and its size."""
    values = _frame("cancer")
    values["offset"] = np.log(values["population"] / 10_000)
    case = Case(values, "cancer", {"cancer": 1.0, "population": 1.0, "offset": 1e-6}, beside=("offset",))
    return case, PoissonModel("m", ("population",), offset="offset")


def breast_cancer(columns: int = 10, bound: float = 200.0) -> tuple[Case, GlmModel]:
    """Ten means are nearly separated; all thirty columns are."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    names = tuple(f"x{place}" for place in range(columns))
    values = {**dict(zip(names, X[:, :columns].T, strict=True)), "ill": y.astype(np.int64)}
    steps = {name: 10.0 ** np.floor(np.log10(values[name].max()) - 4) for name in names}
    return Case(values, "ill", steps), LogisticModel("m", names, bound=bound)


def made_up(kind: str, n: int = 600, seed: int = 0) -> Case:
    """A table with a number, a category and weights; the target follows the model."""
    rng = np.random.default_rng(seed)
    age, ward = np.round(rng.uniform(20, 90, n), 2), rng.choice(["a", "b", "c"], n)
    predictor = -1.0 + 0.02 * (age - 50) + 0.8 * (ward == "b")
    values: dict[str, Any] = {"age": age, "ward": ward, "weight": rng.integers(1, 4, n).astype(np.float64)}
    steps = {"age": 0.01, "weight": 1.0}
    if kind == "logistic":
        values["y"] = (rng.random(n) < 1 / (1 + np.exp(-predictor))).astype(np.int64)
        return Case(values, "y", steps, beside=("weight",))
    values["y"] = rng.poisson(np.exp(predictor)).astype(np.float64)
    return Case(values, "y", {**steps, "y": 1.0}, beside=("weight",))


MADE: dict[str, Callable[[], tuple[Case, GlmModel]]] = {
    "spector": spector,
    "fair": fair,
    "randhie": randhie,
    "cancer": cancer,
    "breast_cancer, ten means": breast_cancer,
    "made up, logistic": lambda: (made_up("logistic"), LogisticModel("m", ("age", "ward"))),
    "made up, logistic, weights": lambda: (
        made_up("logistic", seed=1),
        LogisticModel("m", ("age", "ward"), weights="weight"),
    ),
    "made up, poisson, weights": lambda: (
        made_up("poisson", seed=2),
        PoissonModel("m", ("age", "ward"), weights="weight"),
    ),
}


def design_of(case: Case, model: GlmModel, values: Mapping[str, Any]) -> Floats:
    """A constant, numbers, and a column for each level but the first."""
    columns = [np.ones(len(case.table))]
    for name in case.values:
        if name in model.columns:
            column = np.asarray(values[name])
            texts = column.dtype.kind == "U"
            columns += [column == level for level in np.unique(column)[1:]] if texts else [column]
    return np.column_stack(columns).astype(np.float64)


def oracle(case: Case, model: GlmModel, values: Mapping[str, Any]) -> Any:
    """statsmodels on the pooled rows."""
    import statsmodels.api as sm

    family = sm.families.Poisson() if isinstance(model, PoissonModel) else sm.families.Binomial()
    options = {
        key: np.asarray(values[name], dtype=np.float64)
        for key, name in (("freq_weights", model.weights), ("offset", model.offset))
        if name
    }
    y = np.asarray(values[case.target], dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fitted chances of nearly 1 in breast_cancer
        return sm.GLM(y, design_of(case, model, values), family=family, **options).fit(tol=1e-14, maxiter=100)


def compared(name: str) -> Iterator[Line]:
    """A case on gridded and on raw rows."""
    case, model = MADE[name]()
    # Of 32 people at nine sites no class has five at more than one: a census would refuse it, and rightly so.
    few = {"smallest_cell": 1} if len(case.table) < 100 else {}
    study = case.study(model, **few)
    (fit,) = found(case, study).models
    if not isinstance(fit, GlmFinding):
        raise SystemExit(f"{name}: {fit.lines()}")
    for rows, values, bound in (("gridded", case.gridded(study), GRIDDED), ("raw", case.values, RAW)):
        truth = oracle(case, model, values)
        errors = np.abs(fit.coefficients - truth.params) / truth.bse
        yield Line(f"{name}, {rows} rows: coefficients in standard errors", float(errors.max()), bound)
        if rows == "gridded":
            assert fit.inference is not None
            off = float(np.abs(fit.inference.standard_errors / truth.bse - 1).max())
            yield Line(f"{name}: standard errors, relative", off, ERRORS)
            yield Line(f"{name}: deviance, relative", abs(fit.fit.deviance / truth.deviance - 1), ERRORS)
            yield Line(f"{name}: AIC, relative", abs(fit.fit.aic / truth.aic - 1), ERRORS)


def penalised(kind: str) -> Iterator[Line]:
    """A ridge penalty of standardised columns, beside scikit-learn."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor

    case, strength = made_up(kind), 0.05
    made = LogisticModel if kind == "logistic" else PoissonModel
    model = made("m", ("age", "ward"), regularisation=strength)
    study = case.study(model)
    (fit,) = found(case, study).models
    assert isinstance(fit, GlmFinding)
    values = case.gridded(study)
    X, y = design_of(case, model, values)[:, 1:], np.asarray(values["y"], dtype=np.float64)
    scale = np.array([X[:, 0].std(), 1.0, 1.0])  # levels are not scaled
    if kind == "logistic":
        truth = LogisticRegression(C=1 / (strength * len(y)), tol=1e-12, solver="newton-cholesky", max_iter=1000)
    else:
        truth = PoissonRegressor(alpha=strength, tol=1e-12, solver="newton-cholesky", max_iter=1000)
    slopes = truth.fit(X / scale, y).coef_.ravel() / scale
    off = float(np.abs(fit.coefficients[1:] / slopes - 1).max())
    yield Line(f"made up, {kind}, ridge penalty: coefficients, relative", off, GRIDDED)


def tabled(kind: str) -> Iterator[Line]:
    """Categorical columns alone, from one cross-table, and that iterations find the same."""
    rng = np.random.default_rng(3)
    levels = {"ward": ["a", "b", "c"], "sex": ["f", "m"], "stage": ["1", "2", "3", "4"]}
    values: dict[str, Any] = {name: rng.choice(all_, 1500) for name, all_ in levels.items()}
    predictor = -0.5 + 0.8 * (values["ward"] == "b") + 0.4 * (values["sex"] == "m") - 0.3 * (values["stage"] == "3")
    chance = 1 / (1 + np.exp(-predictor))
    values["y"] = (rng.random(1500) < chance).astype(np.int64) if kind == "logistic" else rng.poisson(chance) * 1.0
    case = Case(values, "y", {} if kind == "logistic" else {"y": 1.0})
    made = LogisticModel if kind == "logistic" else PoissonModel
    model = made("iterated", tuple(levels))
    for fit in found(case, case.study(TableModel("table", tuple(levels)), model)).models:
        assert isinstance(fit, GlmFinding) and fit.inference is not None, fit.lines()
        truth = oracle(case, model, case.values)
        off = np.abs(fit.coefficients - truth.params) / truth.bse
        yield Line(f"{kind}, {fit.name}: coefficients in standard errors", float(off.max()), GRIDDED)
        relative = np.abs(fit.inference.standard_errors / truth.bse - 1)
        yield Line(f"{kind}, {fit.name}: standard errors, relative", float(relative.max()), ERRORS)
        yield Line(f"{kind}, {fit.name}: deviance, relative", abs(fit.fit.deviance / truth.deviance - 1), ERRORS)
        yield Line(f"{kind}, {fit.name}: AIC, relative", abs(fit.fit.aic / truth.aic - 1), ERRORS)


def lines() -> Iterator[Line]:
    """All of them."""
    for name in MADE:
        yield from compared(name)
    for kind in ("logistic", "poisson"):
        yield from penalised(kind)
        yield from tabled(kind)
