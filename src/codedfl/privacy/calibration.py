"""How much noise is worth how much: from epsilon and delta to the noise on X'X and X'Y, and back.

Record level: add or remove one row. The account is kept in zero-concentrated differential privacy (rho), which adds up
over runs and is proven for discrete Gaussians: noise of deviation sigma on numbers that one row moves by at most Delta
costs Delta^2 / (2 sigma^2) (Canonne, Kamath, Steinke 2020, theorem 4). X'X and X'Y have half of it each. All that is
made of them later, epochs, solvers and models, costs nothing more; every new run does.

No single party draws the noise: it is a sum over devices, and a sum of discrete Gaussians is not quite one. The
difference is bounded by Kairouz, Liu, Steinke (The distributed discrete Gaussian mechanism, 2021, theorem 1) and
counted.

An analytic Gaussian mechanism (Balle, Wang 2018) would need 5 to 10 % less noise for the same epsilon; that it holds
for discrete Gaussians in many dimensions is not proven, so it is not used.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from codedfl.errors import InvalidInput

if TYPE_CHECKING:  # without noise a device loads nothing of it
    from codedfl.exact.row_noise import RowNoise

_LEAST_RHO, _MOST_RHO = 1e-12, 1e4
_ORDERS = 400
_STEPS = 80
_ROUNDED_UP = 1 + 1e-9  # so that what comes back of a multiplier is never above the epsilon that it was made for


def epsilon_of(rho: float, delta: float) -> float:
    """The epsilon that rho is worth at this delta (Canonne, Kamath, Steinke, proposition 12); 0 for rho = 0.

    The bound holds for every order alpha > 1, so that the best of a fine grid of them is a bound too.
    """
    _check_delta(delta)
    if not rho >= 0:
        raise InvalidInput(f"rho must be at least 0, got {rho}")
    if rho == 0:
        return 0.0
    # The best order is near 1 + sqrt(ln(1/delta) / rho); it is looked for on both sides, and then once more nearby.
    best = 1 + math.sqrt(math.log(1 / delta) / rho)
    for reach in (8.0, 1.05):
        orders = (1 + (best - 1) * reach ** (2 * step / _ORDERS - 1) for step in range(_ORDERS + 1))
        best = min(orders, key=lambda order: _epsilon_at(order, rho, delta))
    return max(0.0, _epsilon_at(best, rho, delta))


def rho_for(epsilon: float, delta: float) -> float:
    """The largest rho that is worth no more than this epsilon at this delta."""
    _check_delta(delta)
    if not 0 < epsilon < math.inf:
        raise InvalidInput(f"epsilon must be a positive finite number, got {epsilon}")
    low, high = _LEAST_RHO, _MOST_RHO
    if epsilon_of(low, delta) > epsilon or epsilon_of(high, delta) < epsilon:
        raise InvalidInput(f"epsilon must be within reach of noise at delta = {delta:g}, got {epsilon}")
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


def noise_for(epsilon: float, delta: float, honest: int, clip_norm: float) -> RowNoise:
    """The least noise with which a run costs no more than this epsilon at this delta."""
    from codedfl.exact.row_noise import RowNoise

    return RowNoise(_ROUNDED_UP / math.sqrt(rho_for(epsilon, delta)), honest, clip_norm)


def rho_of(noise: RowNoise, numbers: int) -> float:
    """What one run with this noise costs; ``numbers`` are the entries of X'X and X'Y.

    1 / (2 multiplier^2) for each of the two, and what the sum of the honest devices' noise lacks of one Gaussian.
    """
    from codedfl.exact.row_noise import LEAST_SIGMA

    return 1 / noise.multiplier**2 + numbers * gap_of_sum(LEAST_SIGMA, noise.honest) / 4


def gap_of_sum(sigma: float, count: int) -> float:
    """tau: how far ``count`` discrete Gaussians of parameter sigma are from one with the variance of all, at most.

    As a logarithm of the ratio of probabilities, for each number. 0 for one; below 1e-270 for a sigma of 8.
    """
    return 10 * sum(math.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)) for k in range(1, count))


def advantage(epsilon: float, delta: float) -> float:
    """The most that any test for a row's membership has: true positives less false positives."""
    return (math.expm1(epsilon) + 2 * delta) / (math.exp(epsilon) + 1)


def _epsilon_at(order: float, rho: float, delta: float) -> float:
    return order * rho + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must be between 0 and 1, got {delta}")
