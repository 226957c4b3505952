"""The one recipe: rows to X and Y, what was clipped counted; Theta to labels; a digest of all that decides."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import codedfl
from codedfl.data.clipped import Clipped
from codedfl.data.columns import Columns
from codedfl.data.features import (
    FEATURE_MAPS,
    FeatureChoice,
    choose_features,
    feature_map_from_dict,
    register_feature_map,
)
from codedfl.data.features.feature_map import PlainMap
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.data.labels import Labels
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from wording import exactly

SCALING = Preprocessing.from_range([0.0, -2.0], [10.0, 2.0], 2)
LINEAR = Recipe(SCALING, LinearFeatures(2, 1.0), Labels.for_targets(0, 4), Columns.of_numbers(("age", "weight")))
KERNEL = Recipe(SCALING, RandomFourierFeatures(2, 30, 0.3, 7), Labels.for_classes(["no", "yes"]))


def test_rows_become_features_and_labels_and_what_was_clipped_is_counted():
    made = LINEAR.rows(np.array([[5.0, 0.0], [12.0, -2.0], [-1.0, 3.0]]), np.array([1.0, 5.0, 4.0]))
    assert made.X.tolist() == [[1, 0.5, 0.5], [1, 1, 0], [1, 0, 1]]
    assert made.X.dtype == np.float32
    assert made.Y.tolist() == [[-0.5], [1], [1]]
    assert made.clipped.columns.tolist() == [2, 1]
    assert made.clipped.targets == 1
    assert made.clipped.total == 4
    assert made.clipped.words(LINEAR.column_names) == "2 of 'age', 1 of 'weight' and 1 target"
    assert repr(LINEAR) == "<Recipe for regression: 2 columns, 3 linear features, 1 outputs>"


def test_many_rows_are_made_as_few_are():
    X = np.random.default_rng(0).uniform(-1, 11, (9000, 2))
    y = np.array(["yes", "no"] * 4500)
    made, parts = KERNEL.rows(X, y), [KERNEL.rows(X[i : i + 4096], y[i : i + 4096]) for i in (0, 4096, 8192)]
    assert np.array_equal(made.X, np.concatenate([part.X for part in parts]))
    assert made.clipped.columns.tolist() == (parts[0].clipped + parts[1].clipped + parts[2].clipped).columns.tolist()
    assert made.clipped.total > 0


def test_features_stay_within_the_public_bound():
    bounds = KERNEL.bounds(1000, 64)
    assert (bounds.features, bounds.labels, bounds.samples, bounds.samples_per_device) == ((2 / 30) ** 0.5, 1, 1000, 64)
    X, _ = KERNEL.features(np.random.default_rng(0).uniform(0, 10, (5000, 2)))
    assert float(np.abs(X).max()) <= bounds.features


def test_theta_comes_back_to_labels():
    theta = np.array([[0.0], [1.0], [0.0]])
    scores, clipped = LINEAR.scores(theta, np.array([[5.0, 0.0], [99.0, 0.0]]))
    assert scores.tolist() == [[0.5], [1.0]]
    assert (clipped.columns.tolist(), clipped.targets) == ([1, 0], 0)
    assert LINEAR.decode(scores).tolist() == [3.0, 4.0]
    assert KERNEL.decode(np.array([[0.1, 0.9]])).tolist() == ["yes"]


@pytest.mark.parametrize("recipe", [LINEAR, KERNEL])
def test_json_brings_it_back_with_the_same_digest(recipe: Recipe):
    again = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
    assert again.digest() == recipe.digest()
    assert (again.columns, again.task) == (recipe.columns, recipe.task)
    X = np.random.default_rng(0).uniform(0, 1, (3, 2))
    assert np.array_equal(again.features(X)[0], recipe.features(X)[0])


def test_the_digest_follows_everything_that_decides_x_and_y():
    others = [
        LINEAR,
        KERNEL,
        replace(LINEAR, columns=None),
        replace(LINEAR, columns=Columns.of_numbers(("weight", "age"))),
        replace(LINEAR, labels=Labels.for_targets(0, np.nextafter(4, 5))),
        replace(LINEAR, preprocessing=Preprocessing.from_range([0.0, -2.0], [np.nextafter(10, 11), 2.0], 2)),
        replace(LINEAR, feature_map=LinearFeatures(2, 1.0, intercept=False)),
        replace(KERNEL, feature_map=RandomFourierFeatures(2, 30, 0.3, 8)),
        replace(KERNEL, feature_map=RandomFourierFeatures(2, 30, np.nextafter(0.3, 1), 7)),
        replace(KERNEL, feature_map=RandomFourierFeatures(2, 31, 0.3, 7)),
        replace(KERNEL, labels=Labels.for_classes(["no", "yes", "perhaps"])),
        replace(KERNEL, labels=Labels.for_classes([0, 1])),
    ]
    assert len({other.digest() for other in others}) == len(others)
    assert all(len(other.digest()) == 32 for other in others)


def test_the_digest_is_what_it_was():
    """Nodes of different machines and releases must agree: a change is a new protocol version."""
    assert LINEAR.digest().hex() == "bb14f4e5b684b0713cca7cf38866776504cb60e5a0c97d7b57312c92b739d1ed"


def test_minus_zero_and_whole_numbers_mean_the_same():
    one = Recipe(Preprocessing.from_range(-0.0, 1, 1), LinearFeatures(1, 1.0), Labels.for_targets(0, 1))
    two = Recipe(Preprocessing.from_range(0.0, 1.0, 1), LinearFeatures(1, 1), Labels.for_targets(0.0, 1))
    assert one.digest() == two.digest()


def test_pieces_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match=r"^feature_map must take the 2 columns of the preprocessing, got 3$"):
        replace(LINEAR, feature_map=LinearFeatures(3, 1.0))
    with pytest.raises(InvalidInput, match=r"^columns must make 2 columns of X, got 1$"):
        replace(LINEAR, columns=Columns.of_numbers(["age"]))
    with pytest.raises(InvalidInput, match=r"^y must hold one label per row \(2\), got 1$"):
        LINEAR.rows(np.zeros((2, 2)), np.zeros(1))
    with pytest.raises(InvalidInput, match=r"^X must have 2 columns, got shape \(2, 3\)$"):
        LINEAR.features(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": "ab"}, "saved columns must be a list, got 'ab'"),
        ({"labels": 1}, "a saved recipe must hold preprocessing, features and labels, got other values"),
        (
            {"features": {"kind": "cubic"}},
            "kind of feature map must be 'frozen-encoder' or 'linear' or 'principal-fourier'"
            " or 'random-fourier' or 'wavelet-scattering', got 'cubic'",
        ),
    ],
)
def test_a_spoilt_file_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        Recipe.from_dict({**LINEAR.to_dict(), **change})
    with pytest.raises(InvalidInput, match=r"^a saved recipe must be complete, got KeyError\('labels'\)$"):
        Recipe.from_dict({name: value for name, value in LINEAR.to_dict().items() if name != "labels"})


def test_nothing_clipped_says_so():
    assert Clipped(np.zeros(2, dtype=np.int64)).words() == "0 targets"
    assert not Clipped(np.zeros(2, dtype=np.int64))


# -- a feature map from outside


@dataclass(frozen=True)
class Squares(PlainMap):
    """Columns and their squares: what a user would write in one file."""

    bound: float

    name: ClassVar[str] = "squares"
    kind: ClassVar[str] = "squares"
    called: ClassVar[str] = "saved squares"

    @property
    def n_features(self) -> int:
        return 2 * self.input_dim

    def transform(self, X: np.ndarray) -> np.ndarray:
        return np.hstack((X, np.square(X) / self.bound))

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> Squares:
        return cls(inputs.n_columns, inputs.bound)


def test_a_feature_map_is_one_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FEATURE_MAPS, "known", dict(FEATURE_MAPS.known))
    assert register_feature_map(Squares) is Squares
    made = choose_features("squares", SCALING, FeatureChoice())
    assert made == Squares(2, 1.0)
    recipe = replace(LINEAR, feature_map=made)
    assert feature_map_from_dict(made.to_dict()) == made
    assert Recipe.from_dict(recipe.to_dict()).digest() == recipe.digest()
    assert choose_features(made, SCALING, FeatureChoice()) is made
    with pytest.raises(InvalidInput, match=r"^name and kind of a feature map must be new, got 'squares' again$"):
        register_feature_map(Squares)


LIGHT = """
import sys, types
for heavy in ("scipy", "sklearn", "matplotlib", "pyarrow", "pandas"):
    sys.modules[heavy] = None  # as if it were not installed
package = types.ModuleType("codedfl")  # without what the package's own __init__ imports
package.__path__ = [sys.argv[1]]
sys.modules["codedfl"] = package
import numpy as np
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.data.labels import Labels
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.recipe import Recipe
from codedfl_lab.primes.fixed_point import FixedPoint
recipe = Recipe(Preprocessing.from_range(0, 1, 2), RandomFourierFeatures(2, 5, 1.0, 0), Labels.for_classes([0, 1]))
made = recipe.rows(np.ones((4, 2)), np.array([0, 1, 1, 0]))
print(FixedPoint.derive(recipe.bounds(8, 4), 5, 2).gram_planes(made.X).shape)
"""


def test_a_recipe_and_its_gram_matrix_need_numpy_and_numba_alone():
    package = str(Path(codedfl.__file__).parent)
    done = subprocess.run([sys.executable, "-c", LIGHT, package], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(2, 15)"
