"""From epsilon and delta to noise and back, beside dp-accounting and numerical integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.privacy_loss_mechanism import DiscreteGaussianPrivacyLoss, GaussianPrivacyLoss
from scipy.optimize import brentq
from scipy.stats import norm

from codedfl.errors import InvalidInput
from codedfl.privacy.calibration import advantage, epsilon_of, gap_of_sum, noise_for, rho_for, rho_of
from wording import exactly

PAIRS = [(0.1, 1e-6), (1.0, 1e-5), (3.0, 1e-5), (8.0, 1e-5), (2.0, 1e-2)]


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_rho_and_epsilon_are_inverse(epsilon: float, delta: float):
    assert epsilon_of(rho_for(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)
    noise = noise_for(epsilon, delta, honest=5, clip_norm=1.0)
    assert epsilon * (1 - 1e-6) < epsilon_of(rho_of(noise, 10**6), delta) <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_what_is_stated_is_dp_accountings_guarantee_and_a_little_more(epsilon: float, delta: float):
    """dp-accounting computes delta exactly for one number; the bound for many is proven and up to a tenth above it."""
    sigma = 1 / math.sqrt(2 * rho_for(epsilon, delta))
    exact = brentq(lambda e: GaussianPrivacyLoss(sigma).get_delta_for_epsilon(e) - delta, 1e-4, 2 * epsilon)
    assert exact <= epsilon
    assert exact > (0.88 if delta < 1e-3 else 0.75) * epsilon


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS[1:4])
def test_the_same_for_the_discrete_gaussian(epsilon: float, delta: float):
    """On a grid of a few units, which is coarser than any grid here."""
    sensitivity = 10
    sigma = sensitivity / math.sqrt(2 * rho_for(epsilon, delta))
    loss = DiscreteGaussianPrivacyLoss(sigma, sensitivity=sensitivity)
    assert 0.05 * delta < loss.get_delta_for_epsilon(epsilon) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_the_conversion_is_the_best_of_all_orders(epsilon: float, delta: float):
    """Written out once more, over a grid of orders that is a hundred times finer."""
    rho = rho_for(epsilon, delta)
    orders = 1 + np.logspace(-2, 4, 60_000)
    bound = rho * orders + np.log((orders - 1) / orders) - (np.log(delta) + np.log(orders)) / (orders - 1)
    assert epsilon_of(rho, delta) == pytest.approx(bound.min(), rel=1e-6)


def test_a_sum_of_discrete_gaussians_is_nearly_one():
    """The gap bounds the true ratio of probabilities where it can be computed, and is nothing at the least sigma."""
    sigma, count, reach = 0.9, 2, 30
    grid = np.arange(-reach, reach + 1)

    def pmf(variance: float) -> np.ndarray:
        weights = np.exp(-(grid**2) / (2 * variance))
        return weights / weights.sum()

    summed = np.convolve(pmf(sigma**2), pmf(sigma**2), mode="same")
    middle = slice(reach - 6, reach + 7)
    ratio = np.abs(np.log(summed / pmf(count * sigma**2)))[middle].max()
    assert 0 < ratio <= gap_of_sum(sigma, count)
    assert gap_of_sum(8, 1) == 0.0
    assert gap_of_sum(8, 1000) < 1e-260


def test_advantage_is_that_of_the_best_test():
    """For one Gaussian number the best test has less; without any privacy it has everything."""
    for epsilon, delta in PAIRS:
        mu = math.sqrt(2 * rho_for(epsilon, delta))
        assert 2 * norm.cdf(mu / 2) - 1 <= advantage(epsilon, delta) <= 1
    assert advantage(0.0, 0.0) == 0.0
    assert advantage(50.0, 0.0) == pytest.approx(1.0)


def test_bad_budgets_are_refused():
    for call, message in (
        (lambda: rho_for(0.0, 1e-5), "epsilon must be a positive finite number, got 0.0"),
        (lambda: rho_for(1.0, 1.0), "delta must be between 0 and 1, got 1.0"),
        (lambda: rho_for(1e9, 1e-5), "epsilon must be within reach of noise at delta = 1e-05, got 1000000000.0"),
        (lambda: epsilon_of(-1.0, 1e-5), "rho must be at least 0, got -1.0"),
    ):
        with pytest.raises(InvalidInput, match=exactly(message)):
            call()
    assert epsilon_of(0.0, 1e-5) == 0.0
