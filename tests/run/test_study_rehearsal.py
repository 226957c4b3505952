"""A study from tables to a model: scores as scikit-learn's, and the federation's model bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from codedfl.data.preprocessing import Moments
from codedfl.data.recipe import Recipe
from codedfl.data.score_sums import NumberScore
from codedfl.data.studies import Study, parse_study
from codedfl.data.studies.draft import draft_study
from codedfl.data.studies.problem import device_rows, rehearsal_key, study_problem
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.engine.learning import Learning
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.fleet.fleet import Fleet
from codedfl.protocol import Parameters, Policy
from codedfl.run.in_process import run_in_process
from codedfl.run.secure_sum import secure_moments_in_process
from codedfl.run.study_rehearsal import dealt_out, read_folder, rehearse_study
from codedfl.schemes import CodedKeys, Conditions
from codedfl.schemes.of_study import scheme_of
from codedfl.solve.krylov import BlockKrylov

LOADERS = {"breast_cancer": load_breast_cancer, "wine": load_wine, "diabetes": load_diabetes}


def setting(name: str) -> tuple[Study, RawTable]:
    data = LOADERS[name]()
    columns = {str(column): data.data[:, j] for j, column in enumerate(data.feature_names)}
    table = as_raw_table({**columns, "outcome": data.target}, f"{name}.csv")
    study = parse_study(draft_study(table, "outcome", name))
    return replace(study, max_rows=1024, max_rows_per_device=256, epochs=100), table


def rehearsed(study: Study, table: RawTable, scheme: CodedKeys = CodedKeys(3)):  # noqa: B008 (frozen)
    rng = np.random.default_rng(0)
    at = Conditions(Fleet.load("paper").scaled_to(5))
    return rehearse_study(study, dealt_out(table, 5, rng), scheme, at, rng)


@pytest.mark.parametrize("name", LOADERS)
def test_scores_are_those_of_pooled_rows(name: str):
    study, table = setting(name)
    done = rehearsed(study, table)
    problem = study_problem(study, dealt_out(table, 5, np.random.default_rng(0)), secure_moments_in_process)
    assert not problem.clipped
    # The same rows for scikit-learn: the features come back from the centred and scaled ones.
    scaling = problem.recipe.preprocessing
    X, X_test = (rows[:, 1:] * scaling.scale + scaling.shift for rows in (problem.X, problem.X_test))
    alpha = study.regularisation * problem.n_samples
    if study.task == "classification":
        other = make_pipeline(StandardScaler(), RidgeClassifier(alpha=alpha)).fit(X, problem.Y.argmax(axis=1))
    else:
        y = problem.recipe.decode(problem.Y)
        other = make_pipeline(StandardScaler(), Ridge(alpha=alpha)).fit(X, y)
    expected = other.score(X_test, problem.y_test)
    assert problem.score(done.model.theta) == pytest.approx(expected, abs=0.005)
    summed = done.score.r_squared if isinstance(done.score, NumberScore) else done.score.accuracy
    assert summed == pytest.approx(expected, abs=0.005)
    assert done.score.rows == len(problem.y_test)


@pytest.mark.parametrize("high", [30.0, 300.0])
def test_a_range_far_beyond_the_rows_costs_no_model(high: float):
    study, table = setting("diabetes")
    study = replace(study, max_rows=50_000)
    first, *others = study.columns
    wide = replace(study, columns=(replace(first, range=(-high, high)), *others))
    plain, found = rehearsed(study, table), rehearsed(wide, table)
    assert isinstance(plain.score, NumberScore) and isinstance(found.score, NumberScore)
    assert found.score.r_squared == pytest.approx(plain.score.r_squared, abs=0.005)
    # A third prime, or no digit would be left of an update.
    assert study.precision(plain.problem.recipe, 5) is None
    assert wide.precision(found.problem.recipe, 5) is not None


def test_a_range_that_leaves_no_digits_is_refused():
    study, table = setting("diabetes")
    first, *others = study.columns
    wide = replace(study, columns=(replace(first, range=(-1e8, 1e8)), *others))
    message = (
        r"^ranges must leave digits for the training, got one of column 'age' that reaches 2\.1e\+09 times its unit:"
        r" narrow it, or give fewer max_rows$"
    )
    with pytest.raises(InvalidInput, match=message):
        rehearsed(wide, table)


def test_the_intercept_is_not_penalised():
    study, table = setting("diabetes")
    study = replace(study, regularisation=0.3, held_out=0.0)
    done = rehearsed(study, table)
    X, y = study.table_columns.matrix(table), table.columns["outcome"]
    predicted = done.model.predict(table)
    assert predicted.mean() == pytest.approx(y.mean(), rel=1e-4)
    ridge = make_pipeline(StandardScaler(), Ridge(alpha=0.3 * len(y))).fit(X, y)
    np.testing.assert_allclose(predicted, ridge.predict(X), rtol=0, atol=1e-3 * y.std())


def test_the_model_is_the_federations_bit_for_bit():
    """Each device makes its rows by itself, from the recipe as a file would bring it, with the study's bounds."""
    study, table = setting("wine")
    done = rehearsed(study, table)
    recipe = Recipe.from_dict(done.problem.recipe.to_dict())
    parts = dealt_out(table, 5, np.random.default_rng(0))
    scheme = CodedKeys(2)
    parameters = Parameters(scheme.name, 2, recipe.n_features, recipe.n_outputs, study.bounds(recipe))
    devices = []
    for name, part in parts.items():
        X, y, held_out = device_rows(study, part, rehearsal_key(name))
        moments = Moments(1, recipe.preprocessing.shift, np.square(recipe.preprocessing.scale))
        learning = Learning.of_study(study, moments)
        assert learning.recipe.digest() == recipe.digest()
        rows = learning.rows(X[~held_out], y[~held_out])
        devices.append(scheme.device_type(name, *rows, policy=Policy(allow_gram=True)))
    server = scheme.server_type(parameters, list(parts), BlockKrylov(study.epochs, study.regularisation))
    theta = run_in_process(server, devices)
    assert np.array_equal(study.model(recipe, theta).theta, done.model.theta)


def test_devices_that_die_after_their_upload_change_the_score_alone():
    study, table = setting("diabetes")
    study = replace(study, scheme="role-keys")
    parts = dealt_out(table, 8, np.random.default_rng(0))
    at, scheme = Conditions(Fleet.load("paper").scaled_to(8)), scheme_of(study, 8)
    all_there = rehearse_study(study, parts, scheme, at, np.random.default_rng(1))
    few = rehearse_study(study, parts, scheme, at, np.random.default_rng(1), gone=sorted(parts)[:3])
    assert np.array_equal(few.model.theta, all_there.model.theta)
    assert (few.scored, all_there.scored) == (5, 8)
    assert 0 < few.score.rows < all_there.score.rows
    with pytest.raises(NotEnoughDevices, match=r"^epoch 1 needs 2 answers \(one of each role\) but only 0 devices are"):
        rehearse_study(study, parts, scheme, at, np.random.default_rng(1), gone=list(parts))


def test_a_model_goes_by_the_names_of_its_columns():
    study, table = setting("diabetes")
    model = rehearsed(study, table).model
    shuffled = RawTable("other.csv", dict(reversed(table.columns.items())))
    assert np.array_equal(model.predict(shuffled), model.predict(table))
    with pytest.raises(InvalidInput, match=r"^other\.csv must have the column 'bmi', got "):
        model.predict(shuffled.without(["bmi"]))


def test_a_folder_of_tables(tmp_path: Path):
    for name in ("b.csv", "a.CSV"):
        (tmp_path / name).write_text("x,y\n1,2\n")
    (tmp_path / "notes.md").write_text("no table")
    assert sorted(read_folder(tmp_path)) == ["a", "b"]
    (tmp_path / "b.tsv").write_text("x\ty\n1\t2\n")
    with pytest.raises(InvalidInput, match=r"^tables must have one file a device, got several of one name in "):
        read_folder(tmp_path)
    with pytest.raises(InvalidInput, match=r"^tables must be a folder of table files, one a device, got "):
        read_folder(tmp_path / "none")


def test_too_few_devices_or_too_many_rows():
    study, table = setting("wine")
    with pytest.raises(InvalidInput, match=r"^the study must have at least 5 devices \(least_participants\), got 1$"):
        study_problem(study, {"one": table}, secure_moments_in_process)
    small = replace(study, max_rows_per_device=100)
    with pytest.raises(InvalidInput, match=r"^wine\.csv must have between 1 and 100 rows, got 178$"):
        study_problem(small, dict.fromkeys("abcde", table), secure_moments_in_process)
