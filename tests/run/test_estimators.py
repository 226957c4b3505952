"""The scikit-learn estimators: the rules of the house of scikit-learn, and the numbers of its own ridge."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from codedfl.data.clipped import ClippedWarning
from codedfl.data.model import TrainedModel
from codedfl.estimators import ridge as estimators
from codedfl.estimators import training_rows
from codedfl.estimators.ridge import CodedRidge, CodedRidgeClassifier
from codedfl.estimators.ridge_base import LEAST_REACH
from codedfl.solve.krylov import BlockKrylov

Floats = NDArray[np.float64]


# Two devices, so that the hundred checks with their hundreds of trainings take seconds.
@parametrize_with_checks([CodedRidge(n_devices=2), CodedRidgeClassifier(n_devices=2)])
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


# -- the same predictions as scikit-learn


def ridge(X: Floats, y: Floats, regularisation: float) -> Pipeline:
    return make_pipeline(StandardScaler(), Ridge(alpha=len(X) * regularisation)).fit(X, y)


@pytest.fixture(scope="module")
def diabetes() -> tuple[Floats, Floats]:
    X, y = load_diabetes(return_X_y=True)
    return X, y


@pytest.mark.parametrize("colluders", [0, 1, 3])
@pytest.mark.parametrize("regularisation", [0.0, 1e-4, 0.1])
def test_predicts_as_ridge(diabetes: tuple[Floats, Floats], colluders: int, regularisation: float) -> None:
    X, y = diabetes
    model = CodedRidge(colluders=colluders, regularisation=regularisation).fit(X, y)
    expected = ridge(X, y, regularisation).predict(X)
    np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-4 * y.std())
    np.testing.assert_allclose(X @ model.coef_ + model.intercept_, expected, rtol=0, atol=1e-4 * y.std())
    assert model.n_iter_ <= X.shape[1] + 3
    assert model.n_clipped_ == 0


@pytest.mark.parametrize("shift", [0.0, -1e4])
def test_units_do_not_matter(diabetes: tuple[Floats, Floats], shift: float) -> None:
    X, y = diabetes
    scale = 10.0 ** np.linspace(-6, 6, X.shape[1])
    plain = CodedRidge().fit(X, y).predict(X)
    for unit in (1e-6, 1e6):
        other = CodedRidge().fit((X + shift) * scale, (y + shift) * unit).predict((X + shift) * scale)
        np.testing.assert_allclose(other / unit - shift, plain, rtol=0, atol=1e-4 * y.std())


def test_constant_columns_have_no_effect(diabetes: tuple[Floats, Floats]) -> None:
    X, y = diabetes
    constant = np.tile([0.0, 0.1, 1e6, -1e-6], (len(X), 1))
    model = CodedRidge().fit(np.hstack((X, constant)), y)
    assert (model.coef_[-4:] == 0).all()
    np.testing.assert_array_equal(
        model.predict(np.hstack((X, constant + 1e9))), model.predict(np.hstack((X, constant)))
    )
    np.testing.assert_allclose(model.predict(np.hstack((X, constant))), CodedRidge().fit(X, y).predict(X), atol=1e-3)


@pytest.mark.parametrize("value", [0.0, 3.3, -1e9])
def test_a_constant_target_is_predicted(value: float) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    assert CodedRidge().fit(X, np.full(20, value)).predict(X) == pytest.approx(value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_classifies_as_ridge_classifier(load: Callable[..., tuple[Floats, NDArray[Any]]]) -> None:
    X, y = load(return_X_y=True)
    regularisation = 1e-4
    model = CodedRidgeClassifier(regularisation=regularisation).fit(X, y)
    other = make_pipeline(StandardScaler(), RidgeClassifier(alpha=len(X) * regularisation)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), other.decision_function(X), rtol=0, atol=1e-3)
    assert (model.predict(X) == other.predict(X)).mean() > 0.99
    lines = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(np.squeeze(lines), model.decision_function(X), rtol=0, atol=1e-9)
    outputs = 1 if len(model.classes_) == 2 else len(model.classes_)
    assert (model.coef_.shape, model.intercept_.shape) == ((outputs, X.shape[1]), (outputs,))


def test_the_intercept_is_not_penalised() -> None:
    X, y = load_iris(return_X_y=True)
    for intercept in (True, False):
        model = CodedRidgeClassifier(regularisation=0.1, fit_intercept=intercept).fit(X, y)
        Z = StandardScaler().fit_transform(X)
        other = Ridge(alpha=len(X) * 0.1, fit_intercept=intercept).fit(Z, np.eye(3)[y])
        np.testing.assert_allclose(model.decision_function(X), 2 * other.predict(Z) - 1, rtol=0, atol=1e-4)


def test_random_features_are_those_of_rbf_sampler(diabetes: tuple[Floats, Floats]) -> None:
    X, y = diabetes
    model = CodedRidge(features="rbf", n_features=60, gamma=0.05, random_state=7, regularisation=1e-3).fit(X, y)
    other = make_pipeline(
        StandardScaler(),
        RBFSampler(n_components=60, gamma=0.05, random_state=7),
        Ridge(alpha=len(X) * 1e-3, fit_intercept=False),
    ).fit(X, y - y.mean())
    np.testing.assert_allclose(model.predict(X), other.predict(X) + y.mean(), rtol=0, atol=1e-3 * y.std())
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "intercept_")


@pytest.mark.parametrize(("solver", "close"), [("gd", 0.1), ("nesterov", 0.02)])
@pytest.mark.parametrize("features", ["linear", "rbf"])
def test_the_descents_converge_without_being_told_a_step(
    diabetes: tuple[Floats, Floats], solver: str, close: float, features: str
) -> None:
    X, y = diabetes
    common: Any = {"n_devices": 2, "features": features, "n_features": 20, "random_state": 0, "regularisation": 0.05}
    model = CodedRidge(solver=solver, epochs=40, **common).fit(X, y)
    assert np.abs(model.predict(X) - CodedRidge(**common).fit(X, y).predict(X)).max() < close * y.std()
    assert model.n_iter_ == 40


def nearly_collinear(rows: int, apart: float) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, rows))
    X = np.column_stack((one, one + apart * rng.normal(size=rows), other))
    return X, X @ [1.0, 2.0, 3.0] + 0.1 * rng.normal(size=rows)


@pytest.mark.parametrize("apart", [0.1, 0.01, 1e-3])
def test_least_squares_finds_the_slopes_of_columns_that_differ_a_little(apart: float) -> None:
    X, y = nearly_collinear(500, apart)
    slopes = LinearRegression().fit(X, y).coef_
    model = CodedRidge(regularisation=0.0).fit(X, y)
    np.testing.assert_allclose(model.coef_, slopes, rtol=0, atol=0.03 * np.abs(slopes).max())
    np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X, y).predict(X), rtol=0, atol=1e-3)


@pytest.mark.parametrize("apart", [1e-4, 1e-5, 1e-6])
def test_columns_that_rounding_makes_collinear_are_warned_of(apart: float) -> None:
    X, y = nearly_collinear(500, apart)
    with pytest.warns(ConvergenceWarning, match=r"^columns are collinear up to rounding \(X'X/m has an eigenvalue of "):
        CodedRidge(regularisation=0.0).fit(X, y)
    CodedRidge(regularisation=1e-4).fit(X, y)  # ridge says which of them it wants: no warning


def test_equal_columns_share_their_slope() -> None:
    X, y = nearly_collinear(500, 0.0)
    slopes = CodedRidge(regularisation=0.0).fit(X, y).coef_
    assert slopes[0] == pytest.approx(1.5, abs=0.02) == slopes[1]


@pytest.mark.parametrize("solver", ["block-krylov", "cg"])
def test_too_few_epochs_are_warned_of(diabetes: tuple[Floats, Floats], solver: str) -> None:
    X, y = diabetes
    with pytest.warns(
        ConvergenceWarning,
        match=r"^epochs=4 were too few to converge: give more epochs, or more regularisation$",
    ):
        CodedRidge(solver=solver, epochs=4).fit(X, y)


def test_the_solver_may_be_an_object(diabetes: tuple[Floats, Floats]) -> None:
    X, y = diabetes
    estimator = CodedRidge(solver=BlockKrylov(50, 1e-4, memory=4))
    models = [clone(estimator).fit(X, y).predict(X), estimator.fit(X, y).predict(X), estimator.fit(X, y).predict(X)]
    assert np.array_equal(models[0], models[1]) and np.array_equal(models[1], models[2])
    np.testing.assert_allclose(models[0], CodedRidge().fit(X, y).predict(X), atol=1e-3 * y.std())


def test_outliers_are_clipped_and_counted() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    X[3, 1] = 50.0
    y = X[:, 0].copy()
    assert CodedRidge().fit(X, y).n_clipped_ == 0
    with pytest.warns(ClippedWarning, match=r"^clipped at 5.0 standard deviations: 1 of column 1$"):
        model = CodedRidge(clip=5.0).fit(X, y)
    assert model.n_clipped_ == 1
    with pytest.warns(ClippedWarning, match=r"^beyond the range of the training: 2 of column 1$"):
        far = model.predict([[0.0, 1e3], [0.0, 1e6]])
    assert far[0] == far[1]


def test_nothing_is_lost_on_heavy_tails() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    X[:, 2] = np.exp(3 * X[:, 2])
    y = X @ [1.0, -2.0, 3.0] + np.exp(2.5 * rng.standard_normal(4000))
    deviations = np.abs(X - X.mean(axis=0)) / X.std(axis=0)
    assert deviations.max() > LEAST_REACH
    model = CodedRidge(regularisation=1e-6).fit(X, y)
    assert model.n_clipped_ == 0
    ridge = make_pipeline(StandardScaler(), Ridge(alpha=4000 * 1e-6)).fit(X, y)
    assert model.score(X, y) == pytest.approx(ridge.score(X, y), abs=1e-6)


# -- weights


def test_whole_weights_repeat_rows_bit_for_bit(diabetes: tuple[Floats, Floats]) -> None:
    X, y = diabetes
    counts = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = CodedRidge().fit(X, y, sample_weight=counts)
    order = np.random.default_rng(1).permutation(counts.sum())
    repeated = CodedRidge().fit(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order])
    assert np.array_equal(weighted.predict(X), repeated.predict(X))


@pytest.mark.parametrize("regularisation", [1e-6, 0.1])
def test_other_weights_are_those_of_ridge(diabetes: tuple[Floats, Floats], regularisation: float) -> None:
    X, y = diabetes
    weights = np.random.default_rng(0).gamma(2.0, size=len(X))
    weights[:50] = 0.0
    model = CodedRidge(regularisation=regularisation).fit(X, y, sample_weight=weights)
    scaler = StandardScaler().fit(X, sample_weight=weights)
    other = Ridge(alpha=regularisation * weights.sum()).fit(scaler.transform(X), y, sample_weight=weights)
    np.testing.assert_allclose(model.predict(X), other.predict(scaler.transform(X)), rtol=0, atol=2e-3 * y.std())
    classes = (y > y.mean()).astype(int)
    classifier = CodedRidgeClassifier(regularisation=regularisation).fit(X, classes, sample_weight=weights)
    ridge = RidgeClassifier(alpha=regularisation * weights.sum()).fit(scaler.transform(X), classes, weights)
    np.testing.assert_allclose(
        classifier.decision_function(X), ridge.decision_function(scaler.transform(X)), rtol=0, atol=2e-3
    )


# -- devices


def test_who_holds_which_rows_changes_rounding_only(diabetes: tuple[Floats, Floats]) -> None:
    X, y = diabetes
    expected = CodedRidge().fit(X, y).predict(X)
    wards = np.random.default_rng(1).choice(["ward-c", "ward-a", "ward-b"], len(X))
    for device in (wards, wards.astype(object), np.arange(len(X)) % 4, list(np.arange(len(X)) // 200)):
        model = CodedRidge().fit(X, y, device=device)
        assert model.devices_ == tuple(str(one) for one in np.unique(device))
        np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-4 * y.std())


@pytest.mark.parametrize(
    ("options", "rows", "devices", "colluders", "protection"),
    [
        ({}, 20, 5, 1, "no device is exposed by one colluder"),
        ({}, 3, 3, 1, "no device is exposed by one colluder"),
        ({}, 2, 2, 0, "one device that helps the server exposes the others"),
        ({"n_devices": 2}, 20, 2, 0, "one device that helps the server exposes the others"),
        ({"colluders": 0}, 20, 5, 0, "one device that helps the server exposes the others"),
        ({"colluders": 2}, 20, 5, 2, "no device is exposed by 2 colluders"),
    ],
)
def test_how_many_devices_and_what_protects_them(
    capsys: pytest.CaptureFixture[str],
    options: dict[str, Any],
    rows: int,
    devices: int,
    colluders: int,
    protection: str,
) -> None:
    X = np.random.default_rng(0).normal(size=(rows, 1))
    model = CodedRidge(**options, verbose=True).fit(X, X[:, 0])
    assert model.devices_ == tuple(f"device-{i}" for i in range(devices))
    about = model.model_.provenance
    assert (about["colluders"], about["protection"], model.protection_) == (colluders, protection, protection)
    assert capsys.readouterr().out == f"{devices} devices, {model.n_iter_} epochs: {protection}\n"
    assert model.predict(X) == pytest.approx(X[:, 0], abs=1e-3)


def test_secure_sums_withstand_as_many_colluders_as_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    moments = training_rows.secure_moments_in_process

    def noted(parts: Any, weights: Any, colluders: int) -> Any:
        asked.append(colluders)
        return moments(parts, weights, colluders)

    monkeypatch.setattr(training_rows, "secure_moments_in_process", noted)
    X = np.random.default_rng(0).normal(size=(20, 2))
    models = [CodedRidge(colluders=colluders).fit(X, X[:, 0]) for colluders in (None, 3, 0)]
    assert asked == [1, 3, 0]
    assert np.array_equal(models[0].predict(X), models[1].predict(X))


X6, Y6 = np.arange(12.0).reshape(6, 2) ** 2, np.arange(6.0)


@pytest.mark.parametrize(("options", "fit", "message"), [
    ({}, {"device": ["a"] * 6}, "device must name at least two devices, to hide one's data in the sum, got a only"),
    ({}, {"device": [1, 1, np.nan, 2, 2, 2]}, "device must name the device of each row, got nan in row 2"),
    ({}, {"device": np.array(["a", None] * 3)}, "device must name the device of each row, got None in row 1"),
    ({"n_devices": 1}, {}, "n_devices must be at least 2, to hide one's data in the sum, got 1"),
    ({"colluders": 4}, {}, "colluders must be between 0 and 3, devices less two, got 4"),
    ({"number_bits": 40}, {}, "number_bits must be 32, 48 or 64, got 40"),
    ({"solver": "svd"}, {}, "solver must be one of gd, nesterov, cg, block-krylov, closed-form, got 'svd'"),
    ({"features": "poly"}, {}, "features must be linear or rbf or scattering, got 'poly'"),
    ({"regularisation": -1.0}, {}, "regularisation must be at least 0, got -1.0"),
    ({"clip": 0.0}, {}, "clip must be a positive number of standard deviations, got 0.0"),
])  # fmt: skip
def test_what_is_refused(options: dict[str, Any], fit: dict[str, Any], message: str) -> None:
    for estimator, y in ((CodedRidge(**options), Y6), (CodedRidgeClassifier(**options), Y6 > 2)):
        with pytest.raises(ValueError) as refused:  # noqa: PT011 (the whole message is compared below)
            estimator.fit(X6, y, **fit)
        assert str(refused.value) == message


def test_too_little_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^X must have at least 2 samples, one for each of two devices, got 1 sample$"
    ):
        CodedRidge().fit(X6[:1], Y6[:1])
    with pytest.raises(ValueError, match=r"^y must hold at least two classes, got one class only: 'yes'$"):
        CodedRidgeClassifier().fit(X6, ["yes"] * 6)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CodedRidge().fit(X6, Y6, device=[1, 2])


# -- labels, files


@pytest.mark.parametrize("names", [[False, True], ["no", "yes"], [-1.0, 3.0], np.array(["b", "c"], dtype=object)])
def test_classes_come_back_as_they_were(names: Any, tmp_path: Path) -> None:
    y = np.asarray(names)[(X6[:, 0] > 10).astype(int)]
    model = CodedRidgeClassifier().fit(X6, y)
    assert model.classes_.dtype == y.dtype
    assert model.predict(X6).tolist() == y.tolist()
    model.model_.save(tmp_path / "model")
    assert TrainedModel.load(tmp_path / "model").predict(X6).tolist() == y.tolist()


# -- inside scikit-learn's machinery


def test_in_a_pipeline_with_devices() -> None:
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(FunctionTransformer(np.log1p), CodedRidgeClassifier(regularisation=1e-3))
    pipeline.fit(X, y, codedridgeclassifier__device=np.arange(len(X)) % 3)
    assert pipeline[-1].devices_ == ("0", "1", "2")
    assert pipeline.score(X, y) > 0.8


def test_grid_search_routes_devices_to_the_folds(diabetes: tuple[Floats, Floats]) -> None:
    X, y = diabetes
    device = np.arange(len(X)) % 3
    weights = [1e-3, 10.0]
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = CodedRidge(solver="cg", epochs=20).set_fit_request(device=True)
        search = GridSearchCV(make_pipeline(StandardScaler(), estimator), {"codedridge__regularisation": weights}, cv=2)
        search.fit(X, y, device=device)
    assert search.best_params_ == {"codedridge__regularisation": 1e-3}
    assert search.best_estimator_[-1].devices_ == ("0", "1", "2")
    # Each fold has half of the rows, on which Ridge's alpha is half as large for the same regularisation.
    theirs = [
        cross_val_score(make_pipeline(StandardScaler(), Ridge(alpha=len(X) / 2 * one)), X, y, cv=2).mean()
        for one in weights
    ]
    assert search.cv_results_["mean_test_score"] == pytest.approx(theirs, abs=1e-3)


def test_the_examples_in_the_docstrings() -> None:
    result = doctest.testmod(estimators)
    assert (result.failed, result.attempted > 0) == (0, True)
