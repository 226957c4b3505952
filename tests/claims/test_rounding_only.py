"""Against float64 gradient descent on the same data the model differs by rounding only, within a bound proved here.

Let G = X'X, C = X'Y on the data as they are, Theta_t the float64 iterates from Theta_1 = 0 and That_t ours:

    Theta_(t+1) = Theta_t - mu ((G Theta_t - C)/m + lambda Theta_t)
    That_(t+1)  = That_t  - mu ((Ghat e_t - Chat)/m + lambda That_t),      e_t = That_t rounded to be sent

The difference E_t = That_t - Theta_t obeys

    E_(t+1) = (1 - mu (G/m + lambda)) E_t - mu/m ((Ghat - G) e_t + G (e_t - That_t) - (Chat - C)).

With rho = |1 - mu (G/m + lambda)|_2, in Frobenius norms elsewhere,

    |E_(t+1)| <= rho |E_t| + mu/m ( |Ghat - G| |e_t| + |G|_2 |e_t - That_t| + |Chat - C| )

and every term is known: with |x| <= x_max rounded by at most dx = 2^-(f+1), |y| <= y_max by dy, X'X rounded once on
each of D devices by at most 2^-(g+1), X'Y by 2^-(c+1), e by 2^-(bits+1) in that epoch, entry by entry

    |Ghat - G| <= m (2 x_max dx + dx^2) + D 2^-(g+1)
    |Chat - C| <= m (x_max dy + y_max dx + dx dy) + D 2^-(c+1).

Data that are on the grid already have dx = dy = 0.

Both computations also round to float64: at most (m + d + 10) 2^-52 of the sizes involved, each epoch.
"""

from __future__ import annotations

import numpy as np
import pytest

from codedfl.exact.totals import round_update
from codedfl.solve.descent import GradientDescent, StepSchedule
from codedfl_lab import CodedPadded
from codedfl_lab.primes.fixed_point import FixedPoint
from trainings import Small

EPOCHS, STEP, REGULARISATION = 60, 0.8, 1e-3


def float_descent(X: np.ndarray, Y: np.ndarray) -> list[np.ndarray]:
    theta, models = np.zeros((X.shape[1], Y.shape[1])), []
    for _ in range(EPOCHS):
        gradient = (X.T @ (X @ theta) - X.T @ Y) / len(X) + REGULARISATION * theta
        theta = theta - STEP * gradient
        models.append(theta)
    return models


def rounding_bound(
    scenario: Small, format_: FixedPoint, sent_bits: list[int], models: list[np.ndarray], on_grid: bool
) -> float:
    """The bound of the module's docstring for the model after the last epoch."""
    X, Y = joined(scenario)
    m, (d, c), devices = len(X), (scenario.d, scenario.c), len(scenario.sizes)
    dx, dy = (0.0 if on_grid else 2.0 ** -(bits + 1) for bits in (format_.feature_bits, format_.label_bits))
    x, y = format_.bounds.features, format_.bounds.labels
    gram_error = d * (m * (2 * x * dx + dx**2) + devices * 2.0 ** -(format_.gram_bits + 1))
    cross_error = np.sqrt(d * c) * (m * (x * dy + y * dx + dx * dy) + devices * 2.0 ** -(format_.constant_bits + 1))
    largest = np.linalg.norm(X.T @ X, 2)
    rho = np.linalg.norm(np.eye(d) - STEP * (X.T @ X / m + REGULARISATION * np.eye(d)), 2)
    size = max(np.linalg.norm(model) for model in models)
    floats = (m + d + 10) * 2.0**-52 * (STEP / m * (largest * size + np.linalg.norm(X.T @ Y)) + 2 * size)
    bound = 0.0
    for bits, model in zip(sent_bits, [np.zeros((d, c)), *models[:-1]], strict=True):
        sent_error = np.sqrt(d * c) * 2.0 ** -(bits + 1) if model.any() else 0.0
        moved = gram_error * (np.linalg.norm(model) + sent_error) + largest * sent_error + cross_error
        bound = rho * bound + STEP / m * moved + floats
    return float(bound)


def joined(scenario: Small) -> tuple[np.ndarray, np.ndarray]:
    X, Y = (np.concatenate(parts) for parts in zip(*scenario.data, strict=True))
    return X, Y


class Noted(GradientDescent):
    """Keeps what it asks for."""

    def request(self) -> np.ndarray | None:
        wanted = super().request()
        if wanted is not None:
            self.__dict__.setdefault("asked", []).append(wanted)
        return wanted


def trained(scenario: Small) -> tuple[FixedPoint, list[int], list[np.ndarray]]:
    """A run: its scales, the fraction bits of each e as it was sent, and the model after each epoch."""
    solver = Noted(EPOCHS, regularisation=REGULARISATION, step=StepSchedule(STEP))
    models = scenario.models(CodedPadded(3), solver)
    scales = scenario.statistic(CodedPadded(3)).scales
    return scales, [0, *(round_update(scales, one)[1] for one in solver.__dict__["asked"])], models


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("on_grid", "precision", "useful"),
    [
        (False, None, 1e-3),  # the bound, as a part of the model's size: three digits are certain whatever the data
        (False, 45, 1e-3),  # a third prime does not make the grid of the data finer
        (True, None, 1e-4),
        (True, 45, 1e-8),
    ],
)
def test_the_model_is_that_of_float64_descent_up_to_the_bound(
    on_grid: bool, precision: int | None, useful: float, seed: int
):
    scenario = Small((30, 50, 20, 41, 9), d=10, c=3, precision=precision, seed=seed)
    if on_grid:
        scenario.data = [(np.rint(x * 2**12) / 2**12, np.rint(y * 2**12) / 2**12) for x, y in scenario.data]
    format_, sent_bits, models = trained(scenario)
    reference = float_descent(*joined(scenario))
    bound = rounding_bound(scenario, format_, sent_bits, models, on_grid)
    size = np.linalg.norm(reference[-1])
    error = np.linalg.norm(models[-1] - reference[-1])
    assert 0 < error <= bound
    assert bound < useful * size
    assert size > 0.3  # the training went somewhere
