"""Random features of principal components: the directions of largest variance, made again from a file."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from codedfl.data.features import Principal, feature_map_from_dict
from codedfl.data.features.pca_rbf import PrincipalFourierFeatures, principal_directions
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.errors import InvalidInput

ROWS = np.random.default_rng(0).normal(size=(90, 5)) @ np.diag([1, 3, 0.1, 2, 0.5]).clip(0) / 12 + 0.05


def test_the_components_are_those_of_the_pooled_rows():
    parts = np.array_split(ROWS, 4)
    centre = sum(part.sum(axis=0) for part in parts) / len(ROWS)
    found = principal_directions(centre, sum(part.T @ part for part in parts) / len(ROWS) - np.outer(centre, centre), 2)
    expected = PCA(2, svd_solver="full").fit(ROWS)
    np.testing.assert_allclose(found.centre, expected.mean_, atol=1e-12)
    np.testing.assert_allclose(np.abs(found.components.T @ expected.components_.T), np.eye(2), atol=1e-9)
    assert (found.components[np.abs(found.components).argmax(axis=0), [0, 1]] > 0).all()


def test_a_map_is_made_again_from_its_file():
    principal = principal_directions(ROWS.mean(axis=0), np.cov(ROWS.T), 3)
    made = PrincipalFourierFeatures(principal, RandomFourierFeatures(3, 40, 0.5, 7))
    again = feature_map_from_dict(made.to_dict())
    assert again.definition() == made.definition()
    assert (again.input_dim, again.n_features, again.bound) == (5, 40, made.random.bound)
    assert np.array_equal(again.transform(ROWS), made.transform(ROWS))
    projected = (ROWS - principal.centre) @ principal.components
    assert np.array_equal(made.transform(ROWS), made.random.transform(projected))


def test_what_is_refused():
    with pytest.raises(InvalidInput, match=r"^components must be between 1 and the number of columns \(5\), got 6$"):
        principal_directions(np.zeros(5), np.eye(5), 6)
    random = RandomFourierFeatures(3, 40, 0.5, 7)
    with pytest.raises(InvalidInput, match=r"^components must be 5 x 3, got shape \(5, 2\)$"):
        PrincipalFourierFeatures(Principal(np.zeros(5), np.zeros((5, 2))), random)
    with pytest.raises(InvalidInput, match=r"^saved principal features must be complete, got KeyError"):
        PrincipalFourierFeatures.from_dict({"kind": "principal-fourier"})
