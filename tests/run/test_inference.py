"""Inference from totals: statsmodels' numbers on the gridded table, and on the raw one within the grid's effect."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_diabetes

from codedfl.data.problem import Problem
from codedfl.data.studies import NumberTarget, parse_study
from codedfl.data.studies.draft import draft_study
from codedfl.data.studies.problem import study_problem
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import FixedPoint
from codedfl.run.inference import Inference, infer
from codedfl.run.secure_sum import secure_moments_in_process
from codedfl.run.study_rehearsal import dealt_out


def table(**extra: np.ndarray) -> RawTable:
    data = load_diabetes(scaled=False)
    columns = {name: data.data[:, j] for j, name in enumerate(data.feature_names)}
    columns["sex"] = np.where(columns["sex"] == 1, "f", "m")
    return as_raw_table({**columns, **extra, "outcome": data.target}, "diabetes.csv")


def problem(raw: RawTable, target_range: tuple[float, float] | None = None) -> Problem:
    study = replace(parse_study(draft_study(raw, "outcome", "d")), held_out=0.0, max_rows=512, max_rows_per_device=128)
    if target_range is not None:
        study = replace(study, target=NumberTarget("outcome", target_range))
    return study_problem(study, dealt_out(raw, 5, np.random.default_rng(0)), secure_moments_in_process)


def gridded(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The rows as the ring saw them, in their own units."""
    bounds = replace(problem.bounds, features=max(problem.bounds.features, problem.bounds.labels))
    format_ = FixedPoint.derive(bounds, problem.n_features + 1, problem.n_devices)
    rows = np.hstack((problem.X.astype(np.float64), problem.Y))
    seen = np.ldexp(format_.grid_features(rows), -format_.feature_bits)
    scaling = problem.recipe.preprocessing
    return seen[:, 1:-1] * scaling.scale + scaling.shift, problem.recipe.decode(seen[:, -1:])


def norm_wise(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.fixture(scope="module")
def inference() -> tuple[Problem, Inference]:
    made = problem(table())
    assert not made.clipped
    return made, infer(made)


def test_statsmodels_numbers_on_the_gridded_table(inference: tuple[Problem, Inference]):
    made, found = inference
    X, y = gridded(made)
    expected = sm.OLS(y, sm.add_constant(X)).fit()
    assert found.rows == int(expected.nobs) == 442
    assert norm_wise(found.coefficients, expected.params) < 1e-9
    assert norm_wise(found.standard_errors, expected.bse) < 1e-9
    assert norm_wise(found.t_values, expected.tvalues) < 1e-9
    assert norm_wise(found.p_values, expected.pvalues) < 1e-9
    assert norm_wise(np.column_stack((found.low, found.high)), expected.conf_int()) < 1e-9
    assert norm_wise(found.covariance, expected.cov_params()) < 1e-9
    assert found.r_squared == pytest.approx(expected.rsquared, rel=1e-9)
    assert found.adjusted_r_squared == pytest.approx(expected.rsquared_adj, rel=1e-9)
    assert found.residual_deviation**2 == pytest.approx(expected.scale, rel=1e-9)


def test_the_raw_table_within_a_thousandth_of_a_standard_error(inference: tuple[Problem, Inference]):
    made, found = inference
    raw = table()
    X = made.recipe.matrix(raw)
    expected = sm.OLS(raw.columns["outcome"], sm.add_constant(X)).fit()
    moved = np.abs((found.coefficients - expected.params) / expected.bse)
    assert moved.max() < 1e-3
    assert found.grid_effect / 3 < moved.max() < 3 * found.grid_effect
    assert found.summary().endswith(f"moves coefficients by about {found.grid_effect:.1e} standard errors at most")
    assert np.abs(found.standard_errors / expected.bse - 1).max() < 1e-3


def test_the_summary_has_a_line_for_each_coefficient(inference: tuple[Problem, Inference]):
    lines = inference[1].summary().splitlines()
    assert lines[0].startswith("ordinary least squares, 442 rows, R^2 0.51")
    assert [line.split("  ")[0].strip() for line in lines[2:-1]] == list(inference[1].names)
    assert inference[1].names[:3] == ("constant", "age", "sex = m")


def test_columns_that_depend_on_each_other_are_named():
    data = load_diabetes(scaled=False).data
    made = problem(table(twice=2 * data[:, 2] + data[:, 3]))
    message = "columns must be independent for inference, got some that depend on each other: 'bmi', 'bp', 'twice';"
    message += " leave some out"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        infer(made)


@pytest.mark.parametrize(("reach", "moved"), [(1e7, "0.4"), (1e10, "inf")])
def test_residuals_below_the_grid_are_no_errors(reach: float, moved: str):
    message = (
        "inference must have residuals far above the grid that rows are seen on, got coefficients that it moves by"
        f" about {moved} standard errors: narrow the ranges of target and columns"
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        infer(problem(table(), (-reach, reach)))


def test_a_coarse_grid_is_remarked():
    found = infer(problem(table(), (-1e5, 1e5)))
    assert 1e-3 < found.grid_effect < 0.1
    assert found.summary().endswith(" standard errors at most: narrower ranges move them less")


def test_what_has_no_inference_is_refused(inference: tuple[Problem, Inference]):
    made = inference[0]
    with pytest.raises(InvalidInput, match=r"^level must lie between 0 and 1, got 95$"):
        infer(made, level=95)
    few = made.without(made.device_names[2:])
    assert infer(few).rows == few.n_samples
    classes = parse_study(draft_study(table(), "sex", "d"))
    parts = dealt_out(table(), 5, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match=r"^inference must have a number to predict, got classes$"):
        infer(study_problem(classes, parts, secure_moments_in_process))
