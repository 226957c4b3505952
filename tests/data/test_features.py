"""The feature maps: sklearn's numbers, the public bound, the rule for gamma, what a model file keeps."""

import json
from typing import Any

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler

from codedfl.data.features import FEATURE_MAPS, feature_map_from_dict
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.features.rbf import RandomFourierFeatures, default_gamma
from codedfl.data.labels import Labels
from codedfl_lab.datasets import load


@pytest.mark.parametrize("rows", [0, 1, 1024, 2100])
def test_the_same_numbers_as_sklearn(rows: int) -> None:
    X = np.random.default_rng(0).random((rows, 5))
    sampler = RBFSampler(n_components=40, gamma=0.3, random_state=7).fit(np.zeros((1, 5)))
    features = RandomFourierFeatures(5, 40, 0.3, 7).transform(X)
    assert features.shape == (rows, 40)
    if rows:
        # Blocks of rows may add up a product in another order: the last bits of the argument differ.
        assert np.abs(features - sampler.transform(X)).max() < 1e-14


@pytest.mark.parametrize(
    ("columns", "d", "gamma", "seed"), [(1, 1, 50.0, 0), (5, 40, 0.3, 7), (64, 333, 0.245, 2**32 - 1)]
)
def test_the_very_draw_of_sklearn(columns: int, d: int, gamma: float, seed: int) -> None:
    """Bit for bit: models of version 0.1 drew their features through scikit-learn."""
    sampler = RBFSampler(n_components=d, gamma=gamma, random_state=seed).fit(np.zeros((1, columns)))
    weights, offsets = RandomFourierFeatures(columns, d, gamma, seed).drawn
    assert np.array_equal(weights, sampler.random_weights_)
    assert np.array_equal(offsets, sampler.random_offset_)


def test_float32_rows_are_computed_in_float64() -> None:
    X = np.random.default_rng(0).random((4, 5), dtype=np.float32)
    features = RandomFourierFeatures(5, 8, 0.3, 7)
    assert np.array_equal(features.transform(X), features.transform(X.astype(np.float64)))


@pytest.mark.parametrize("d", [1, 3, 10, 2000])
def test_no_feature_exceeds_the_bound(d: int) -> None:
    features = RandomFourierFeatures(2, d, 50.0, 0)
    assert features.bound == np.sqrt(2.0 / d)
    values = features.transform(np.random.default_rng(0).normal(0, 100, (500, 2)))
    assert np.abs(values).max() <= features.bound
    assert np.abs(values).max() > 0.99 * features.bound


def test_inner_products_follow_the_kernel() -> None:
    X = np.random.default_rng(0).random((6, 4))
    Z = RandomFourierFeatures(4, 20_000, 0.7, 1).transform(X)
    kernel = np.exp(-0.7 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    assert np.abs(Z @ Z.T - kernel).max() < 0.03


def test_the_rule_for_gamma() -> None:
    assert default_gamma(784) == pytest.approx(0.02)
    assert default_gamma(64) == pytest.approx(0.245)
    assert default_gamma(10, width=8) == pytest.approx(0.0245)
    with pytest.raises(ValueError, match=r"^input_dim must be at least 1, got 0$"):
        default_gamma(0)
    with pytest.raises(ValueError, match=r"^width must be a positive number, got 0$"):
        default_gamma(3, 0)


def test_the_rule_works_on_digits() -> None:
    digits = load("digits")
    labels = Labels.for_classes(digits.y_train)
    features = RandomFourierFeatures(64, 1000, default_gamma(64), 0)
    Z, Y = features.transform(digits.X_train), labels.encode(digits.y_train)
    ridge = np.linalg.solve(Z.T @ Z + len(Z) * 9e-6 * np.eye(1000), Z.T @ Y)
    assert (labels.decode(features.transform(digits.X_test) @ ridge) == digits.y_test).mean() >= 0.97


def test_linear_features_put_a_constant_in_front() -> None:
    X = np.array([[0.5, -4.0]])
    assert LinearFeatures(2, 4.0).transform(X).tolist() == [[1, 0.5, -4]]
    assert LinearFeatures(2, 4.0, intercept=False).transform(X).tolist() == [[0.5, -4]]
    small = LinearFeatures(2, 0.25)
    assert small.transform(np.zeros((1, 2))).tolist() == [[0.25, 0, 0]]
    assert (small.n_features, small.bound) == (3, 0.25)
    with pytest.raises(ValueError, match=r"^X must lie within the bound 0.25, got 4$"):
        small.transform(X)


@pytest.mark.parametrize(
    "features",
    [RandomFourierFeatures(5, 3, 0.3, 7), RandomFourierFeatures(1, 30, 2.0, 0), LinearFeatures(4, 1.5, False)],
)
def test_a_model_file_brings_the_same_map_back(features: Any) -> None:
    saved = json.loads(json.dumps(features.to_dict()))
    again = feature_map_from_dict(saved)
    assert again == features
    X = np.random.default_rng(0).random((3, features.input_dim))
    assert np.array_equal(again.transform(X), features.transform(X))


def test_other_numbers_from_the_same_seed_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    features = RandomFourierFeatures(5, 16, 0.3, 7)
    saved = features.to_dict()
    weights, offsets = features.drawn
    one_off = weights.copy()
    one_off[3, 11] += 0.01
    monkeypatch.setattr(RandomFourierFeatures, "drawn", (np.nextafter(weights, np.inf), offsets))
    feature_map_from_dict(saved)
    monkeypatch.setattr(RandomFourierFeatures, "drawn", (one_off, offsets))
    with pytest.raises(ValueError, match=r"^fingerprint of the feature map must be .* draws other numbers"):
        feature_map_from_dict(saved)


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (
            {},
            f"kind of feature map must be {' or '.join(sorted(repr(one.kind) for one in FEATURE_MAPS.values()))},"
            " got None",
        ),
        ({"kind": "linear"}, "saved linear features must be complete, got KeyError('input_dim')"),
        (
            {"kind": "random-fourier", "input_dim": None},
            "saved random Fourier features must be complete, got KeyError('n_components')",
        ),
        (
            {"kind": "linear", "input_dim": 1, "bound": "x", "intercept": True},
            "saved linear features must be complete, got ValueError(\"could not convert string to float: 'x'\")",
        ),
    ],
)
def test_an_incomplete_one_is_refused(saved: dict[str, Any], message: str) -> None:
    saved = {key: 1 if value is None else value for key, value in saved.items()}
    with pytest.raises(ValueError) as raised:  # noqa: PT011, the whole message is compared
        feature_map_from_dict(saved)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 1.0, 0), "input_dim must be at least 1, got 0"),
        ((1, 0, 1.0, 0), "n_components must be at least 1, got 0"),
        ((1, 1, float("nan"), 0), "gamma must be a positive number, got nan"),
        ((1, 1, 1.0, -1), "seed must be between 0 and 4294967295, got -1"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011, the whole message is compared
        RandomFourierFeatures(*arguments)
    assert str(raised.value) == message


def test_bad_rows_are_refused() -> None:
    features = RandomFourierFeatures(2, 3, 1.0, 0)
    with pytest.raises(ValueError, match=r"^X must have 2 columns, got 3$"):
        features.transform(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"^X must be finite, got inf in row 0, column 0$"):
        features.transform(np.array([[np.inf, 0]]))
    with pytest.raises(ValueError, match=r"^input_dim must be at least 1, got 0$"):
        LinearFeatures(0, 1.0)
    with pytest.raises(ValueError, match=r"^bound must be a positive number, got inf$"):
        LinearFeatures(1, float("inf"))
