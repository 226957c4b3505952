"""From data set to problem to model file and back."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from codedfl.data.model import TrainedModel
from codedfl.data.score import score_of
from codedfl.errors import InvalidInput
from codedfl.run.sums_in_process import secure_moments_in_process
from codedfl.solve.krylov import ConjugateGradient
from codedfl_lab import datasets
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.problem import make_problem, model_of
from small_problems import digits


def regression() -> Dataset:
    X, y = load_diabetes(return_X_y=True)
    return Dataset("diabetes", X[:350], y[:350], X[350:], y[350:], "regression")


def test_rows_are_grouped_by_device_and_sorted_by_label():
    problem = digits()
    assert problem.n_devices == 10
    assert problem.offsets[-1] == len(problem.X) == len(problem.Y)
    labels = problem.Y.argmax(axis=1)
    assert (np.diff(labels) >= 0).all()
    assert repr(problem) == "<Problem 'digits': 1438 samples of 60 features and 10 outputs on 10 devices>"


def test_mini_batches_part_each_device():
    problem = digits()
    for device in range(problem.n_devices):
        rows = np.concatenate([np.arange(len(problem.X))[problem.mini_batch(device, b)] for b in range(5)])
        assert np.array_equal(rows, np.arange(len(problem.X))[problem.rows_of(device)])


def test_features_never_step_over_their_bound():
    """float32 rounding of sqrt(2/d) may go up; the ring's proof would break."""
    for d in (60, 61, 77):
        problem = digits(n_features=d)
        assert float(np.abs(problem.X).max()) <= problem.feature_map.bound


def test_the_largest_devices_size_is_rounded_up():
    problem = digits()
    assert problem.samples_of_device.max() == 144
    assert problem.bounds.samples_per_device == 256


@pytest.fixture
def trained(tmp_path):
    problem = digits(n_features=100)
    theta = list(CentralTotals(problem).train(ConjugateGradient(12, 1e-4)))[-1]
    path = tmp_path / "deep" / "model.safetensors"
    model = model_of(problem, theta, scheme="coded-keys", alpha=8)
    model.save(path)
    return problem, model, path


def test_a_saved_model_predicts_the_same(trained):
    _, model, path = trained
    data = datasets.load("digits")
    again = TrainedModel.load(path)
    assert np.array_equal(model.predict(data.X_test), again.predict(data.X_test))
    assert again.provenance["scheme"] == "coded-keys"
    assert again.provenance["dataset"] == "digits"
    assert again.score(data.X_test, data.y_test) > 0.85
    assert repr(again) == "<TrainedModel classification, 64 columns, 100 features, 10 outputs>"


def test_equal_models_have_equal_files(trained, tmp_path):
    """Its writer puts the metadata in another order each time."""
    _, model, path = trained
    for _ in range(20):
        model.save(tmp_path / "again.safetensors")
        assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_the_model_scores_raw_rows_as_training_did(trained):
    problem, model, _ = trained
    data = datasets.load("digits")
    assert model.score(data.X_test, data.y_test) == pytest.approx(problem.score(model.theta), abs=0.005)


def test_wrong_columns_are_refused(trained):
    _, model, _ = trained
    with pytest.raises(InvalidInput, match=re.escape("X must have 64 columns, got shape (2, 3)")):
        model.predict(np.zeros((2, 3)))


@pytest.mark.parametrize("damage", [b"", b"not a model", b"\xff" * 100])
def test_a_damaged_file_is_refused(tmp_path, damage):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(damage)
    with pytest.raises(InvalidInput, match="the model file must be a codedfl model"):
        TrainedModel.load(path)


def test_a_missing_or_foreign_file_is_refused(tmp_path, trained):
    from safetensors.numpy import save_file

    with pytest.raises(InvalidInput, match="the model file must exist"):
        TrainedModel.load(tmp_path / "none")
    save_file({"theta": np.zeros((2, 2))}, tmp_path / "foreign")
    message = "the model file must have format codedfl-model-2, got None"
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        TrainedModel.load(tmp_path / "foreign")


def test_text_labels_come_back():
    data = datasets.load("digits")
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    text = Dataset("text", data.X_train, names[data.y_train], data.X_test, names[data.y_test], "classification",
                   public_range=(0.0, 1.0))  # fmt: skip
    problem = make_problem(text, n_devices=4, n_features=80)
    theta = list(CentralTotals(problem).train(ConjugateGradient(10, 1e-4)))[-1]
    predicted = model_of(problem, theta).predict(data.X_test)
    assert set(predicted) <= set(names)
    assert score_of(predicted, text.y_test, "classification") > 0.8


def test_regression_without_public_ranges_uses_secure_sums():
    problem = make_problem(
        regression(), n_devices=5, partition_name="random", features="linear", secure_moments=secure_moments_in_process
    )
    theta = list(CentralTotals(problem).train(ConjugateGradient(30, 1e-3)))[-1]
    model = model_of(problem, theta)
    assert model.score(regression().X_test, regression().y_test) > 0.4


def test_without_range_or_secure_sum_nothing_is_guessed():
    message = "data set 'diabetes' has no public range: secure_moments must be given, got None"
    with pytest.raises(InvalidInput, match=re.escape(message)):
        make_problem(regression(), n_devices=5, partition_name="random")


def test_unknown_features_are_refused():
    with pytest.raises(InvalidInput, match="features must be linear or rbf or scattering, got 'cubic'"):
        make_problem(datasets.load("digits"), n_devices=5, features="cubic")


def test_r_squared():
    assert score_of(np.array([1.0, 2.0]), np.array([1.0, 2.0]), "regression") == 1.0
    assert score_of(np.array([1.5, 1.5]), np.array([1.0, 2.0]), "regression") == 0.0
    assert score_of(np.array([1.0, 2.0]), np.array([3.0, 3.0]), "regression") == 0.0
