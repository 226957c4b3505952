"""Solving with noise in X'X: the spectrum cleared, AdaSSP's ridge, and which solver gets what."""

from __future__ import annotations

import math

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.krylov import BlockKrylov
from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.registry import make_solver
from codedfl.solve.shrunken import Shrunken, shrunken_ridge
from codedfl_lab.primes.fixed_point import FixedPoint
from wording import exactly

LEVEL = NoiseLevel(sigma=2.0, n_features=50, samples=1000)


def symmetric_noise(d: int, sigma: float, seed: int) -> np.ndarray:
    draws = np.random.default_rng(seed).normal(size=(d, d)) * sigma
    return np.asarray((draws + draws.T) / 2)


def test_eigenvalues_are_taken_back_to_where_they_were():
    """Those that stand out to themselves but for a few per cent, those that noise made of nothing to 0."""
    d, sigma = 400, 1.0
    radius = math.sqrt(2 * d) * sigma
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(d, 3)))[0]
    gram = q * [3 * radius, 1.5 * radius, 1.2 * radius] @ q.T
    noisy = gram + symmetric_noise(d, sigma, 1)
    assert np.linalg.eigvalsh(noisy)[-2] > 1.05 * 1.5 * radius
    # With X'Y = I the inverse of the cleared matrix can be read off.
    inverse = shrunken_ridge(noisy, np.eye(d), radius)
    cleared = np.linalg.eigvalsh(np.linalg.inv(inverse)) - radius / 2
    assert cleared[-3:] == pytest.approx([1.2 * radius, 1.5 * radius, 3 * radius], rel=0.05)
    assert np.count_nonzero(np.abs(cleared) < 1e-6 * radius) > 0.98 * d


def test_without_noise_it_is_the_ridge():
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(60, 5)), rng.normal(size=(60, 2))
    silent = Shrunken(NoiseLevel(0.0, 5, 60), regularisation=1e-2)
    plain = ClosedForm(1e-2)
    for solver in (silent, plain):
        solver.take_gram((X.T @ X)[np.triu_indices(5)])
        solver.start(np.zeros((5, 2)), -X.T @ Y, 60)
        assert solver.request() is None
    assert np.allclose(silent.model, plain.model)


def test_the_level_is_that_of_all_owners():
    format_ = FixedPoint.derive(Bounds(0.1, 1.0, 1000, 100), 50, 25, noise=RowNoise(3.0, 20, 1.0), n_outputs=2)
    level = NoiseLevel.of(format_)
    assert level.sigma == pytest.approx(3.0 * math.sqrt(25 / 20), rel=0.01)
    assert (level.n_features, level.samples) == (50, 1000)
    assert level.radius == pytest.approx(10 * level.sigma)
    assert level.ridge == pytest.approx(level.sigma * math.sqrt(50 * math.log(2 * 50**2 / 0.05)) / 1000)
    plain = FixedPoint.derive(Bounds(0.1, 1.0, 1000, 100), 50, 25)
    with pytest.raises(InvalidInput, match=exactly("the scales of a sum must include its noise, got some without")):
        NoiseLevel.of(plain)


def test_who_gets_what():
    assert isinstance(make_solver("block-krylov", regularisation=0.1, gram=True, noise=LEVEL), Shrunken)
    products = make_solver("block-krylov", regularisation=0.1, noise=LEVEL)
    assert isinstance(products, BlockKrylov)
    assert products.regularisation == pytest.approx(0.1 + LEVEL.ridge)
    own = ClosedForm(0.5)
    given = make_solver(own, regularisation=0.1, gram=True, noise=LEVEL)
    assert isinstance(given, ClosedForm) and given.regularisation == 0.5
