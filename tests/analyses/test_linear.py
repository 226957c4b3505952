"""Every linear model of one total: scikit-learn's ridge and statsmodels' least squares on the pooled gridded rows."""

from __future__ import annotations

import builtins
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import ElasticNet, Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from statsmodels.stats.outliers_influence import variance_inflation_factor

from codedfl.analyses.inference import Inference
from codedfl.analyses.least_squares import LeastSquaresFit
from codedfl.analyses.linear import LinearTotal
from codedfl.analyses.study_analysis import refit
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study, SubModel
from codedfl.data.columns import CategoryColumn, ClassTarget, Column, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from totals import dealt, pooled, total_of
from wording import exactly

RANGES = {
    "age": (0.0, 110.0, 1.0), "bmi": (10.0, 60.0, 0.1), "bp": (30.0, 200.0, 0.01), "s1": (50.0, 400.0, 1.0),
    "s2": (0.0, 300.0, 0.1), "s3": (0.0, 150.0, 0.5), "s4": (0.0, 15.0, 0.01), "s5": (2.0, 8.0, 0.0001),
    "s6": (40.0, 200.0, 1.0),
}  # fmt: skip


def table(**extra: np.ndarray) -> RawTable:
    data = load_diabetes(scaled=False)
    columns = {name: data.data[:, j] for j, name in enumerate(data.feature_names)}
    columns["sex"] = np.where(columns["sex"] == 1, "f", "m")
    return as_raw_table({**columns, **extra, "outcome": data.target}, "diabetes.csv")


def study(scale: str = "moments", extra: tuple[Column, ...] = (), **changes: Any) -> Study:
    columns = [NumberColumn(name, ends[:2], ends[2], scale=scale) for name, ends in RANGES.items()]
    sex = CategoryColumn("sex", ("f", "m"))
    made = Study(
        "diabetes", (*columns, sex, *extra), NumberTarget("outcome", (0.0, 400.0), 1.0), 1000, 500, 3, held_out=0.3
    )
    return replace(made, **changes)


def totalled(made: Study, raw: RawTable) -> tuple[LinearTotal, list[Snapshot]]:
    snapshots = dealt(made, raw)
    return LinearTotal(made, total_of(made, Ask("gram"), snapshots)), snapshots


def gridded(made: Study, snapshots: list[Snapshot], held_out: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """In their own units."""
    codes, target = pooled(snapshots, held_out)
    return made.matrix(codes), made.target.values(target)


def largest(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(np.asarray(found) / np.asarray(expected) - 1).max())


@pytest.fixture(scope="module")
def made() -> tuple[LinearTotal, list[Snapshot]]:
    return totalled(study(), table())


def test_moments(made: tuple[LinearTotal, list[Snapshot]]):
    total, snapshots = made
    X, _ = gridded(total.study, snapshots)
    moments = total.moments()
    assert (moments.count, total.held_out) == (len(X), 442 - len(X))
    assert largest(moments.mean, X.mean(axis=0)) < 1e-13
    assert largest(moments.variance, X.var(axis=0)) < 1e-12
    assert np.abs(total.covariance() / np.cov(X.T, bias=True) - 1).max() < 1e-10


@pytest.mark.parametrize("scale", ["moments", "range"])
@pytest.mark.parametrize("regularisation", [0.0, 1e-4, 0.3])
def test_ridge_is_scikit_learns(scale: str, regularisation: float):
    total, snapshots = totalled(study(scale), table())
    X, y = gridded(total.study, snapshots)
    model = total.model(regularisation)
    numbers = slice(0, 9)
    if scale == "moments":
        scaler = ColumnTransformer([("numbers", StandardScaler(), numbers)], remainder="passthrough")
        oracle = make_pipeline(scaler, Ridge(alpha=len(X) * regularisation, solver="svd")).fit(X, y)
        expected = oracle.predict(X)
        slopes = oracle[-1].coef_
    else:
        widths = np.array([high - low for low, high, _ in RANGES.values()] + [1.0])
        oracle = Ridge(alpha=len(X) * regularisation, solver="svd").fit(X / widths, y)
        expected, slopes = oracle.predict(X / widths), oracle.coef_
    per_unit = model.theta[1:, 0] * 200 / model.recipe.preprocessing.scale  # half the target's range is its unit
    deviation = np.append(X[:, numbers].std(axis=0), 1.0) if scale == "moments" else widths
    assert largest(per_unit * deviation, slopes) < 1e-9
    codes, _ = pooled(snapshots)
    assert largest(model.predict(total.study.matrix(codes)), expected) < 1e-9


def test_the_model_predicts_from_raw_tables(made: tuple[LinearTotal, list[Snapshot]]):
    model = made[0].model()
    X, _ = gridded(*made_study(made))
    raw = table()
    direct = model.predict(raw)
    assert direct.shape == (442,)
    assert np.corrcoef(direct, raw.columns["outcome"])[0, 1] > 0.7
    assert model.provenance["rows"] == len(X)


def made_study(made: tuple[LinearTotal, list[Snapshot]]) -> tuple[Study, list[Snapshot]]:
    return made[0].study, made[1]


def test_classes_are_ridge_on_one_hot_rows():
    data = load_iris()
    raw = as_raw_table({**{f"x{j}": data.data[:, j] for j in range(4)}, "kind": data.target}, "iris.csv")
    columns = tuple(NumberColumn(f"x{j}", (0.0, 10.0), 0.1) for j in range(4))
    total, snapshots = totalled(Study("iris", columns, ClassTarget("kind", (0, 1, 2)), 500, 500, 3), raw)
    codes, target = pooled(snapshots)
    X = total.study.matrix(codes)
    model = total.model(1e-3)
    oracle = make_pipeline(StandardScaler(), Ridge(alpha=len(X) * 1e-3, solver="svd")).fit(X, np.eye(3)[target])
    assert np.abs(model.scores(X) - oracle.predict(X)).max() < 1e-12
    slopes = model.theta[1:] / model.recipe.preprocessing.scale[:, None] * X.std(axis=0)[:, None]
    assert largest(slopes, oracle[-1].coef_.T) < 1e-9
    # As the statistic takes it: for columns that every device has.
    direct = total.on_design(model.theta)
    integers = total.study.design(codes) / total.study.units.limit
    assert np.abs(direct[0] + integers @ direct[1:] - model.scores(X)).max() < 1e-12
    with pytest.raises(InvalidInput, match=exactly("inference must have a number to predict, got classes")):
        total.ols()


@pytest.mark.parametrize("columns", [None, ("bmi",), ("sex", "age", "s5")])
def test_least_squares_is_statsmodels(made: tuple[LinearTotal, list[Snapshot]], columns: tuple[str, ...] | None):
    total, _ = made
    X, y = gridded(*made_study(made))
    names = [*RANGES, "sex"]
    chosen = [j for j, name in enumerate(names) if columns is None or name in columns]
    expected = sm.OLS(y, sm.add_constant(X[:, chosen])).fit()
    found = (total if columns is None else total.only(columns)).ols()
    assert found.names == ("constant", *(total.study.design_names[j] for j in chosen))
    assert found.rows == int(expected.nobs)
    assert largest(found.coefficients, expected.params) < 1e-9
    assert largest(found.standard_errors, expected.bse) < 1e-9
    assert largest(found.t, expected.tvalues) < 1e-9
    assert largest(found.p, expected.pvalues) < 1e-9
    assert largest(np.column_stack((found.low, found.high)), expected.conf_int()) < 1e-8
    assert np.linalg.norm(found.covariance - expected.cov_params()) < 1e-9 * np.linalg.norm(expected.cov_params())
    fit = found.fit
    assert isinstance(fit, LeastSquaresFit)
    said = (
        fit.r_squared,
        fit.adjusted_r_squared,
        fit.residual_deviation**2,
        fit.f,
        fit.log_likelihood,
        fit.aic,
        fit.bic,
    )
    theirs = ("rsquared", "rsquared_adj", "scale", "fvalue", "llf", "aic", "bic")
    assert largest(np.array(said), np.array([getattr(expected, name) for name in theirs])) < 1e-9
    assert fit.f_p == pytest.approx(expected.f_pvalue, rel=1e-6)


def test_questions_to_the_covariance_are_statsmodels(made: tuple[LinearTotal, list[Snapshot]]):
    """Joint tests, nested models, contrasts, predictions and variance inflation."""
    total, _ = made
    X, y = gridded(*made_study(made))
    names, design = total.study.design_names, sm.add_constant(X)
    expected, found = sm.OLS(y, design).fit(), total.ols(level=0.9)
    some = [names.index(name) for name in ("s1", "s2", "sex = m")]
    joint = found.joint(["s1", "s2", "sex = m"])
    theirs = expected.f_test(np.eye(11)[[1 + j for j in some]])
    assert (joint.among, joint.freedom) == (theirs.df_num, theirs.df_denom)
    assert largest(np.array([joint.statistic, joint.p]), np.array([theirs.fvalue, theirs.pvalue])) < 1e-8
    nested = expected.compare_f_test(sm.OLS(y, np.delete(design, [1 + j for j in some], axis=1)).fit())
    assert largest(np.array([joint.statistic, joint.p]), np.array(nested[:2])) < 1e-8
    contrast = found.contrast({"s1": 1, "s2": -2.0, "sex = f": 5.0})  # the reference level is 0
    row = np.zeros(11)
    row[[1 + names.index("s1"), 1 + names.index("s2")]] = 1.0, -2.0
    theirs = expected.t_test(row)
    low, high = theirs.conf_int(alpha=0.1)[0]
    assert (
        largest(
            np.array(contrast), np.array([theirs.effect[0], *theirs.sd[0], *theirs.tvalue[0], theirs.pvalue, low, high])
        )
        < 1e-8
    )
    prediction = found.get_prediction(X[:7])
    theirs = expected.get_prediction(design[:7])
    assert largest(prediction.mean, theirs.predicted_mean) < 1e-10
    assert largest(prediction.standard_error, theirs.se_mean) < 1e-9
    assert largest(np.column_stack(prediction[2:]), theirs.conf_int(alpha=0.1)) < 1e-9
    inflation = [variance_inflation_factor(design, j) for j in range(1, 11)]
    assert list(total.vif()) == list(names)
    assert largest(np.array(list(total.vif().values())), np.array(inflation)) < 1e-8
    with pytest.raises(InvalidInput, match=r"^a coefficient must be one of constant, age, .*, got 'ward'$"):
        found.joint(["age", "ward"])
    with pytest.raises(InvalidInput, match=r"^a coefficient must be one of constant, age, .*, got 'ward'$"):
        found.contrast({"ward": 1})
    with pytest.raises(
        InvalidInput, match=exactly("a contrast must have at least one coefficient beside the reference, got none")
    ):
        found.contrast({"sex = f": 1})


@pytest.mark.parametrize("l1_ratio", [1.0, 0.3])
def test_the_lasso_is_scikit_learns(made: tuple[LinearTotal, list[Snapshot]], l1_ratio: float):
    total, _ = made
    X, y = gridded(*made_study(made))
    scaler = ColumnTransformer([("numbers", StandardScaler(), slice(0, 9))], remainder="passthrough").fit(X)
    Z = scaler.transform(X)
    found = total.lasso(l1_ratio)
    assert found.coefficients.shape == (100, 11) and np.count_nonzero(found.coefficients[0, 1:]) == 0
    for at in (5, 30, 60, 99):
        oracle = ElasticNet(alpha=found.weights[at], l1_ratio=l1_ratio, tol=1e-14, max_iter=10**6).fit(Z, y)
        per_unit = oracle.coef_ / np.append(X[:, :9].std(axis=0), 1.0)
        assert np.array_equal(found.coefficients[at, 1:] == 0, per_unit == 0)
        furthest = np.abs(found.coefficients[at, 1:] - per_unit) * X.std(axis=0)
        assert furthest.max() < 1e-7 * y.std()
        assert found.coefficients[at, 0] + X[0] @ found.coefficients[at, 1:] == pytest.approx(oracle.predict(Z[:1])[0])
    assert found.criterion == "R^2 on held-out rows" and found.best == int(np.argmax(found.scores))
    held, truth = gridded(*made_study(made), held_out=True)
    assert found.scores[found.best] == pytest.approx(r2_score(truth, found.model.predict(held)), rel=1e-9)
    assert max(map(len, found.summary().splitlines())) <= 79
    few = total.lasso(l1_ratio, weights=[found.weights[30]])
    assert np.allclose(few.coefficients[0], found.coefficients[30], rtol=1e-9)


def test_the_lasso_without_held_out_rows_takes_bic():
    total, snapshots = totalled(study(held_out=0.0), table())
    X, y = gridded(total.study, snapshots)
    found = total.lasso()
    left = [np.mean((y - one[0] - X @ one[1:]) ** 2) for one in found.coefficients]
    inside = [np.count_nonzero(one[1:]) for one in found.coefficients]
    bic = len(y) * np.log(left) + np.log(len(y)) * (1 + np.array(inside))
    assert (found.criterion, found.best) == ("BIC", int(np.argmin(bic)))
    assert largest(found.scores, bic) < 1e-9
    for wrong, message in ((0.0, "l1_ratio must be above 0 and at most 1, got 0.0"),):
        with pytest.raises(InvalidInput, match=exactly(message)):
            total.lasso(wrong)
    with pytest.raises(InvalidInput, match=exactly("weights must be at least 0, got -1")):
        total.lasso(weights=[-1.0])


def test_lambda_by_generalised_cross_validation(made: tuple[LinearTotal, list[Snapshot]]):
    """Against the hat matrices of the pooled rows."""
    total, _ = made
    X, y = gridded(*made_study(made))
    Z = (X - X.mean(axis=0)) / np.append(X[:, :9].std(axis=0), 1.0)

    def criterion(weight: float) -> float:
        hat = Z @ np.linalg.solve(Z.T @ Z + len(Z) * weight * np.eye(10), Z.T)
        left = (y - y.mean()) - hat @ y
        return float(left @ left / (len(y) - 1 - np.trace(hat)) ** 2)

    weight = total.chosen("gcv")
    around = np.geomspace(weight / 30, weight * 30, 200)
    assert criterion(weight) <= min(map(criterion, around)) * (1 + 1e-9)
    assert total.model("gcv").provenance["regularisation"] == weight
    assert np.array_equal(total.ridge("gcv"), total.ridge(weight))
    chosen = refit(replace(total.study, regularisation="gcv"), total.integers)
    assert np.array_equal(chosen.model.theta, total.ridge(weight))
    with pytest.raises(InvalidInput, match=exactly("regularisation must be 'gcv', or at least 0 and finite, got aic")):
        total.chosen("aic")


@pytest.mark.parametrize("levels", [("f", "m", "x"), ("x", "f", "m"), ("f", "x", "m")])
def test_levels_that_nobody_has_have_no_coefficients(levels: tuple[str, ...]):
    plain = study(held_out=0.0)
    sex = CategoryColumn("sex", levels)
    only = CategoryColumn("only", ("a", "b"))
    made = replace(plain, columns=(*plain.columns[:-1], sex, only))
    total, _ = totalled(made, table(only=np.full(442, "b")))
    assert "depend" in refusal(total) or "constant" in refusal(total)
    found = refit(made, total.integers, wanted=SubModel("all", made.table_columns.names, 0.1, inference=True)).inference
    expected, _ = totalled(plain, table())
    assert found.names == ("constant", *plain.design_names) and found.references == (("sex", "f"),)
    assert largest(found.coefficients, expected.ols().coefficients) < 1e-9


def refusal(total: LinearTotal) -> str:
    with pytest.raises(InvalidInput) as error:
        total.ols()
    return str(error.value)


def test_columns_that_nearly_depend_on_each_other_cost_no_digits():
    """Powers of a column, compared with least squares in fractions."""
    rng = np.random.default_rng(0)
    x = np.round(rng.uniform(0, 1000, 200))
    powers = {f"power {k}": np.round(x**k / 1000 ** (k - 1), 2) for k in range(1, 7)}
    raw = as_raw_table({**powers, "y": np.round(x / 10 + rng.normal(0, 5, 200), 1)}, "powers.csv")
    columns = tuple(NumberColumn(name, (0.0, 1000.0), 0.01) for name in powers)
    target = NumberTarget("y", (-100.0, 300.0), 0.1)
    total, snapshots = totalled(Study("p", columns, target, 500, 500, 3, held_out=0.0), raw)
    codes, y = pooled(snapshots)
    rows = [[Fraction(1), *(Fraction(int(one), 100) for one in row)] for row in codes]
    equations: list[list[Any]] = [
        [sum(row[i] * row[j] for row in rows) for j in range(7)]
        + [sum(row[i] * (Fraction(int(one), 10) - 100) for row, one in zip(rows, y, strict=True))]
        for i in range(7)
    ]
    for i in range(7):  # Gauss and Jordan
        equations[i] = [one / equations[i][i] for one in equations[i]]
        for k in set(range(7)) - {i}:
            equations[k] = [a - equations[k][i] * b for a, b in zip(equations[k], equations[i], strict=True)]
    found = total.ols()
    assert largest(found.coefficients, np.array([float(row[-1]) for row in equations])) < 1e-12
    correlations = np.linalg.eigvalsh(np.corrcoef(codes.T))
    assert correlations[0] < 1e-8 * correlations[-1]


def test_a_mean_far_from_the_deviation_costs_no_digit():
    """Days since 1970 of one year, on a grid of one day; the oracle has them centred."""
    rng = np.random.default_rng(0)
    day = np.round(20_000 + 100 * rng.random(300))
    raw = as_raw_table({"day": day, "y": np.round(day - 20_000 + 30 * rng.normal(size=300))}, "days.csv")
    columns = (NumberColumn("day", (0.0, 10_000_000.0), 1.0),)
    total, snapshots = totalled(Study("d", columns, NumberTarget("y", (-300.0, 300.0), 1.0), 500, 500, 3), raw)
    X, y = gridded(*made_study((total, snapshots)))
    expected = sm.OLS(y, sm.add_constant(X - 20_000)).fit()
    found = total.ols()
    assert largest(found.coefficients[1], expected.params[1]) < 1e-12
    assert largest(found.standard_errors[1], expected.bse[1]) < 1e-12
    assert found.coefficients[0] + 20_000 * found.coefficients[1] == pytest.approx(expected.params[0], rel=1e-9)


def test_the_held_out_score(made: tuple[LinearTotal, list[Snapshot]]):
    total, _ = made
    X, y = gridded(*made_study(made), held_out=True)
    assert len(X) > 90
    for regularisation in (0.0, 1e-4, 1.0):
        model = total.model(regularisation)
        predicted = model.predict(X)
        found = total.score(model.theta)
        assert found.rows == len(X)
        assert found.r_squared == pytest.approx(r2_score(y, predicted), rel=1e-10)
        assert found.root_mean_square_error == pytest.approx(np.sqrt(np.mean((y - predicted) ** 2)), rel=1e-10)
    nothing, _ = totalled(study(held_out=0.0), table())
    assert nothing.score(nothing.ridge()) is None


def test_columns_that_depend_on_each_other_are_named():
    raw = table()
    twice = 2 * np.round(raw.columns["bmi"], 1) + np.round(raw.columns["bp"], 2)
    refused = "columns must be independent for inference, got some that {}; leave some out"
    column = NumberColumn("twice", (0.0, 400.0), 0.01)
    total, _ = totalled(study(extra=(column,)), table(twice=twice))
    message = refused.format("depend on each other (one clipped value would hide it): 'bmi', 'bp', 'twice'")
    with pytest.raises(InvalidInput, match=exactly(message)):
        total.ols()
    assert total.only(("bmi", "twice", "age")).ols().rows == total.rows
    column = NumberColumn("same", (0.0, 400.0), 1.0)
    total, _ = totalled(study(extra=(column,)), table(same=np.full(442, 7.0)))
    with pytest.raises(InvalidInput, match=exactly(refused.format("are constant: 'same'"))):
        total.ols()
    model = total.model()  # the ridge does not mind
    assert model.theta[11, 0] == 0.0
    total, _ = totalled(study(extra=(NumberColumn("twice", (0.0, 400.0), 0.01),)), table(twice=twice))
    message = "regularisation must be above 0 for these columns, got some that depend on each other"
    with pytest.raises(InvalidInput, match=exactly(message)):
        total.ridge(0.0)
    found = refit(total.study, total.integers, wanted=SubModel("all", total.study.table_columns.names, inference=True))
    assert (found.model, found.no_model, found.score, found.inference) == (None, message, None, None)
    assert np.isfinite(total.ridge(1e-6)).all()


def test_what_has_no_inference_is_refused(made: tuple[LinearTotal, list[Snapshot]]):
    total, _ = made
    with pytest.raises(InvalidInput, match=exactly("level must lie between 0 and 1, got 95")):
        total.ols(level=95)
    with pytest.raises(InvalidInput, match=r"^columns must be of the study \(age, bmi, .*, got 'weight'$"):
        total.only(("age", "weight"))
    with pytest.raises(InvalidInput, match=r"^a total of gram must be 156 integers, got 3$"):
        LinearTotal(total.study, [1, 2, 3])
    raw = table(age=table().columns["outcome"])
    perfect, _ = totalled(study(columns=(NumberColumn("age", (0.0, 400.0), 1.0),)), raw)
    with pytest.raises(InvalidInput, match=r"^the target 'outcome' must not be a sum of columns for inference"):
        perfect.ols()


def test_the_summary_fits_a_terminal(made: tuple[LinearTotal, list[Snapshot]]):
    lines = made[0].ols().summary().splitlines()
    assert re.match(r"Target: +outcome   R\^2: +0\.5\d+$", lines[2])
    assert [line.split()[0] for line in lines[10:13]] == ["constant", "age", "bmi"]
    assert lines[-1] == "Reference levels: sex = f"
    names = ("constant", "a column with a name as long as people make them = some level")
    numbers = np.array([-1.234567e-200, -9.87654321e12])
    fit = LeastSquaresFit("a target with a name as long as people make them, and longer", 10**9, 1, 0.5, 1e-200)
    wide = Inference(names, numbers, np.diag([1e-8, 1e-30]), fit.freedom, fit, ((names[1], names[1]),) * 3)
    assert max(map(len, (*lines, *wide.summary().splitlines()))) <= 79
    assert made[0].ols().to_dicts()[1]["name"] == "age"


def test_without_scipy_there_is_one_line(made: tuple[LinearTotal, list[Snapshot]], monkeypatch: pytest.MonkeyPatch):
    true_import = builtins.__import__

    def no_scipy(name: str, *rest: Any) -> object:
        if name.startswith("scipy"):
            raise ImportError(name)
        return true_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_scipy)
    with pytest.raises(
        InvalidInput, match=exactly("scipy must be installed for p values: pip install 'codedfl[inference]'")
    ):
        made[0].ols()
    assert made[0].model().theta.shape == (11, 1)


def test_refitting_asks_nobody(made: tuple[LinearTotal, list[Snapshot]]):
    total, _ = made
    found = refit(total.study, total.integers, wanted=SubModel("two", ("bmi", "sex"), inference=True))
    assert (found.name, found.columns) == ("two", ("bmi", "sex"))
    slopes = found.inference.coefficients[1:]
    scaling = found.model.recipe.preprocessing
    assert largest(found.model.theta[1:, 0] * 200 / scaling.scale, slopes) < 1e-9
    assert found.model.predict({"bmi": [25.0], "sex": ["m"]}).shape == (1,)
    assert 0 < found.score.r_squared < 1
    assert found.no_inference == ""
