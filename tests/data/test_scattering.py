"""Wavelet scattering of small pictures: within its bound, blind to small shifts, refused where there is no picture."""

from __future__ import annotations

import sys
from math import isqrt

import numpy as np
import pytest
from sklearn.datasets import load_digits

from codedfl.analyses.scoring import ClassScore
from codedfl.authoring.check import check_table
from codedfl.contract.toml_file import parse_study
from codedfl.contract.words import explain
from codedfl.data.features import FeatureChoice, choose_features, feature_map_from_dict
from codedfl.data.features.scattering import WaveletScattering
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import words_of
from rehearsals import parts_of, rehearsed

MISSING = "kymatio must be installed for scattering features: pip install 'codedfl[scattering]'"


def made(n_pixels: int = 64) -> WaveletScattering:
    found = choose_features("scattering", Preprocessing.from_range(0.0, 1.0, n_pixels), FeatureChoice())
    assert isinstance(found, WaveletScattering)
    return found


@pytest.mark.parametrize(("n_pixels", "scales", "n_features"), [(16, 1, 37), (64, 2, 325), (784, 3, 1954)])
def test_the_size_of_the_picture_says_how_many(n_pixels: int, scales: int, n_features: int):
    features = made(n_pixels)
    assert (features.scales, features.n_features, features.bound) == (scales, n_features, 8.0)
    assert features.transform(np.full((2, n_pixels), 0.5)).shape == (2, n_features)


@pytest.mark.parametrize("n_pixels", [16, 64, 784])
def test_no_picture_gets_near_the_bound(n_pixels: int):
    rng, side = np.random.default_rng(0), isqrt(n_pixels)
    chess = np.indices((side, side)).sum(axis=0) % 2
    stripes = np.indices((side, side))[0] // 2 % 2
    pictures = np.array([chess.ravel(), stripes.ravel(), np.ones(n_pixels), *rng.integers(0, 2, (5, n_pixels))])
    features = made(n_pixels)
    found = features.transform(np.vstack((pictures, 2.0 * pictures - 1.0)))
    assert (found[:, 0] == 1).all()
    assert 0.9 < np.abs(found).max() < features.bound / 2


def test_a_shift_by_a_pixel_changes_little():
    pictures = np.pad(load_digits().images[:50] / 16, ((0, 0), (10, 10), (10, 10)))
    here, there = pictures.reshape(50, -1), np.roll(pictures, 1, axis=2).reshape(50, -1)
    features = made(784)
    moved = np.linalg.norm(features.transform(here) - features.transform(there))
    assert moved / np.linalg.norm(features.transform(here)) < np.linalg.norm(here - there) / np.linalg.norm(here) / 2


def test_a_map_is_made_again_from_its_file():
    features = made()
    again = feature_map_from_dict(features.to_dict())
    assert again == features and again.definition() == features.definition()
    rows = np.random.default_rng(0).uniform(size=(300, 64))  # more than a block
    assert np.array_equal(again.transform(rows.astype(np.float32)), features.transform(rows.astype(np.float32)))
    assert np.array_equal(features.transform(rows)[256:], features.transform(rows[256:]))


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch):
    message = r"scattering features must have the pixels of one square picture as columns, 4 x 4 or more, got"
    for n_pixels in (9, 63):
        with pytest.raises(InvalidInput, match=rf"^{message} {n_pixels} columns$"):
            made(n_pixels)
    with pytest.raises(InvalidInput, match=r"^scales must be between 1 and 3 for a side of 8, got 4$"):
        WaveletScattering(64, 1.0, 4)
    with pytest.raises(InvalidInput, match=r"^input_bound must be a positive number, got inf$"):
        WaveletScattering(64, np.inf, 2)
    with pytest.raises(InvalidInput, match=r"^saved scattering features must be complete, got KeyError"):
        WaveletScattering.from_dict({"kind": "wavelet-scattering"})
    monkeypatch.setitem(sys.modules, "kymatio.scattering2d.frontend.numpy_frontend", None)
    with pytest.raises(InvalidInput) as refused:
        made().transform(np.zeros((1, 64)))
    assert str(refused.value) == MISSING


# -- in a study


STUDY = """format = "codedfl-study-2"
name = "digits"
[matrix]
columns = 64
range = [0, 1]
step = 0.0625
[target]
name = "digit"
classes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
[features]
kind = "linear"
[protection]
least_participants = 3
max_rows = 2000
max_rows_per_device = 500
[result]
held_out = 0.4
"""


def table() -> RawTable:
    """Some pixels are never or hardly ever dark: what few rows have must not make the picture another shape."""
    data = load_digits()
    return as_raw_table({**{f"x{i}": data.data[:, i] / 16 for i in range(64)}, "digit": data.target}, "digits.npz")


def test_a_study_of_pictures(monkeypatch: pytest.MonkeyPatch):
    linear, study = parse_study(STUDY), parse_study(STUDY.replace('kind = "linear"', 'kind = "scattering"'))
    assert (linear.feature_count, study.feature_count) == (65, 325)
    assert any("56225 numbers" in line for part in explain(study, words=words_of(study)) for line in part.answers)
    tables = parts_of(table(), 4)
    done, plain = (rehearsed(one, tables).findings for one in (study, linear))
    assert isinstance(done.score, ClassScore) and isinstance(plain.score, ClassScore)
    assert done.score.accuracy > 0.95 > plain.score.accuracy
    monkeypatch.setitem(sys.modules, "kymatio.scattering2d.frontend.numpy_frontend", None)
    assert check_table(study, tables["device-0"]).objections == (MISSING,)
