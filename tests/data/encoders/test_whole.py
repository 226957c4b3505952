"""Encoder and head together: in one ONNX file, and as a pipeline of scikit-learn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

from codedfl.data.encoders import Encoder, Items, encode
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.labels import Labels
from codedfl.data.model import TrainedModel
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.estimators.embed import Embed
from made_up_encoders import SIDE, WIDTH, picture_encoder, text_encoder

PICTURES = np.random.default_rng(0).integers(0, 256, size=(80, SIDE, SIDE, 3), dtype=np.uint8)


def head(encoder: Encoder) -> TrainedModel:
    scaling = Preprocessing.from_range(encoder.low, encoder.high, encoder.width)
    recipe = Recipe(scaling, LinearFeatures(encoder.width, 1.0, True), Labels.for_classes(["cat", "dog", "eel"]))
    theta = np.random.default_rng(1).normal(size=(recipe.n_features, 3))
    return TrainedModel(theta, recipe, {})


def test_one_file_takes_bytes_and_gives_the_labels_of_the_model(tmp_path: Path):
    encoder = replace(picture_encoder(tmp_path), low=-0.5, high=0.5, step=0.125, mean=(0.4, 0.5, 0.6)).beside(tmp_path)
    model = head(encoder)
    whole = model.to_onnx(encoder)
    session = onnxruntime.InferenceSession(whole.SerializeToString())
    assert [(one.name, one.type) for one in session.get_inputs()] == [("X", "tensor(uint8)")]
    labels, scores = session.run(["label", "scores"], {"X": PICTURES})
    values = encode(encoder, Items(PICTURES, [str(one) for one in range(80)])).values.astype(np.float64)
    expected, _ = model.recipe.scores(model.theta, values)
    near = np.abs(scores - expected).max(axis=1)
    assert (near < 1e-9).mean() > 0.9  # elsewhere a last bit of float32 went to the next step of the grid
    assert labels[near < 1e-9].tolist() == model.predict(values)[near < 1e-9].tolist()
    assert session.get_modelmeta().custom_metadata_map["encoder"] == encoder.digest()


def test_one_file_of_texts_takes_pieces(tmp_path: Path):
    encoder = text_encoder(tmp_path)
    session = onnxruntime.InferenceSession(head(encoder).to_onnx(encoder).SerializeToString())
    pieces, there = encoder.batch([[0, 1], [2]])
    names = [one.name for one in session.get_inputs()]
    (scores,) = session.run(["scores"], dict(zip(names, (pieces, there), strict=True)))
    values = encode(encoder, Items(["p0 p1", "p2"], ["a", "b"])).values.astype(np.float64)
    np.testing.assert_allclose(scores, head(encoder).recipe.scores(head(encoder).theta, values)[0], atol=1e-9)


def test_an_encoder_of_another_width_is_refused(tmp_path: Path):
    encoder = picture_encoder(tmp_path)
    wide = replace(encoder, width=WIDTH + 1).beside(tmp_path)
    with pytest.raises(InvalidInput, match=f"^encoder must give the {WIDTH} columns of the model, got {WIDTH + 1}$"):
        head(encoder).to_onnx(wide)


def test_an_estimator_of_pictures_is_a_pipeline(tmp_path: Path):
    encoder = picture_encoder(tmp_path)
    encoder.save(tmp_path / "e.toml")
    y = encode(encoder, Items(PICTURES, [str(one) for one in range(80)])).values[:, 0] > 0
    model = clone(make_pipeline(Embed(tmp_path / "e.toml", cache=tmp_path / "cache"), RidgeClassifier(alpha=1e-6)))
    assert model.fit(PICTURES, y).score(PICTURES, y) > 0.9
    assert list(model[0].get_feature_names_out()) == [f"x{place}" for place in range(WIDTH)]


def test_a_damaged_row_is_refused_by_its_number(tmp_path: Path):
    (tmp_path / "a.png").write_text("no picture")
    with pytest.raises(InvalidInput, match=f"^{re.escape('row 1 of X must be whole, got UnidentifiedImageError: ')}"):
        Embed(picture_encoder(tmp_path)).fit_transform([PICTURES[0], tmp_path / "a.png"])
