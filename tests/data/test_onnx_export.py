"""A model as ONNX: the same labels and scores in another program."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest

from codedfl.data.columns import CategoryColumn, Columns, NumberColumn
from codedfl.data.features import FeatureChoice, FeatureMap, Principal, choose_features
from codedfl.data.features.pca_rbf import PrincipalFourierFeatures
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.data.labels import Labels
from codedfl.data.model import TrainedModel
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.recipe import Recipe
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput

COLUMNS = Columns((NumberColumn("age", missing=50.0), CategoryColumn("ward", ("a", "b")), NumberColumn("same")))
TABLE = as_raw_table(
    {
        "same": [7.0] * 40,
        "age": [float("nan"), 1e6, *np.linspace(10, 95, 38)],  # a missing value, and one beyond its range
        "ward": ["a", "b"] * 20,
    },
    "t.csv",
)


def model(features: str, labels: Any) -> TrainedModel:
    scaling = Preprocessing(
        np.array([40.0, 0.1, 0.5, 7.0]),
        np.array([20.0, 1.0, 1.0, 0.0]),
        np.array([-2.0, -1.0, -1.0, -4.0]),
        np.array([3.0, 1.0, 1.0, 4.0]),
    )
    if features == "pca-rbf":
        principal = Principal(
            np.array([0.1, 0.2, 0.3, 0.0]), np.linalg.qr(np.arange(16.0).reshape(4, 4) ** 2)[0][:, :2]
        )
        feature_map: FeatureMap = PrincipalFourierFeatures(principal, RandomFourierFeatures(2, 50, 0.3, 5))
    else:
        feature_map = choose_features(features, scaling, FeatureChoice(50, 0.3, 5))
    recipe = Recipe(scaling, feature_map, labels, COLUMNS)
    theta = np.random.default_rng(1).normal(size=(recipe.n_features, recipe.n_outputs))
    return TrainedModel(theta, recipe, {})


@pytest.mark.parametrize("features", ["linear", "rbf", "pca-rbf"])
@pytest.mark.parametrize(
    "labels",
    [Labels.for_targets(-3.0, 17.0), Labels.for_classes([2, 5, 9]), Labels.for_classes(["no", "yes"])],
    ids=["number", "whole", "text"],
)
def test_labels_and_scores_are_those_of_the_model(features: str, labels: Any):
    made = model(features, labels)
    X = made.recipe.matrix(TABLE).astype(np.float64)
    session = onnxruntime.InferenceSession(made.to_onnx().SerializeToString())
    found, scores = session.run(["label", "scores"], {"X": X})
    expected, clipped = made.recipe.scores(made.theta, X)
    assert clipped.total == 1
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-12)
    if labels.n_outputs == 1:
        np.testing.assert_allclose(found, made.recipe.decode(expected), rtol=0, atol=1e-6)
    else:
        assert found.tolist() == made.recipe.decode(expected).tolist()
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    assert tuple(names) == made.recipe.column_names == ("age", "age missing", "ward = b", "same")


def test_without_onnx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "codedfl.data.onnx_export", None)
    with pytest.raises(InvalidInput, match=r"^onnx must be installed for to_onnx: pip install 'codedfl\[onnx\]'$"):
        model("linear", Labels.for_targets(0.0, 1.0)).to_onnx()
