"""Against float64 gradient descent on the same data the model differs by rounding only, within a bound proved here.

Let G = X'X, C = X'Y on the data as they are, Theta_t the float64 iterates from Theta_1 = 0 and That_t ours:

    Theta_(t+1) = Theta_t - mu ((G Theta_t - C)/m + lambda Theta_t)
    That_(t+1)  = That_t  - mu ((Ghat e_t - Chat)/m + lambda That_t),      e_t = That_t rounded to be sent

The difference E_t = That_t - Theta_t obeys

    E_(t+1) = (1 - mu (G/m + lambda)) E_t - mu/m ((Ghat - G) e_t + G (e_t - That_t) - (Chat - C)).

While mu (largest eigenvalue of G/m + lambda) <= 2 the first factor does not lengthen anything, so

    |E_T| <= mu/m  sum_t ( |Ghat - G| |e_t| + |G|_2 |e_t - That_t| + |Chat - C| )          (Frobenius norms)

and every term is known: with |x| <= x_max rounded by at most dx = 2^-(f+1), |y| <= y_max by dy, X'X rounded once on
each of D devices by at most 2^-(g+1), X'Y by 2^-(c+1), e by 2^-(bits+1) in that epoch, entry by entry

    |Ghat - G| <= m (2 x_max dx + dx^2) + D 2^-(g+1)
    |Chat - C| <= m (x_max dy + y_max dx + dx dy) + D 2^-(c+1).

Both computations also round to float64: at most (m + d + 10) 2^-52 of the sizes involved, each epoch.
"""

from __future__ import annotations

import numpy as np
import pytest
from scenario import Network, Scenario, decoded

from codedfl.fixed_point import FixedPoint
from codedfl.protocol.messages import Kind, Update
from codedfl.solvers import GradientDescent, StepSchedule

EPOCHS, STEP, REGULARISATION = 60, 0.8, 1e-3


def float_descent(X: np.ndarray, Y: np.ndarray) -> list[np.ndarray]:
    theta, models = np.zeros((X.shape[1], Y.shape[1])), []
    for _ in range(EPOCHS):
        gradient = (X.T @ (X @ theta) - X.T @ Y) / len(X) + REGULARISATION * theta
        theta = theta - STEP * gradient
        models.append(theta)
    return models


def rounding_bound(scenario: Scenario, format_: FixedPoint, updates: list[Update], models: list[np.ndarray]) -> float:
    """The bound of the module's docstring for the model after the last epoch."""
    X, Y = (np.concatenate(parts) for parts in zip(*scenario.data, strict=True))
    m, (d, c), devices = len(X), (scenario.d, scenario.c), scenario.n_devices
    dx, dy = 2.0 ** -(format_.feature_bits + 1), 2.0 ** -(format_.label_bits + 1)
    x, y = format_.bounds.features, format_.bounds.labels
    gram_error = d * (m * (2 * x * dx + dx**2) + devices * 2.0 ** -(format_.gram_bits + 1))
    cross_error = np.sqrt(d * c) * (m * (x * dy + y * dx + dx * dy) + devices * 2.0 ** -(format_.constant_bits + 1))
    largest = np.linalg.norm(X.T @ X, 2)
    assert STEP * (largest / m + REGULARISATION) <= 2  # the condition of the proof
    bound = EPOCHS * cross_error
    for update, model in zip(updates[1:], models, strict=False):
        sent_error = np.sqrt(d * c) * 2.0 ** -(update.fraction_bits + 1)
        bound += gram_error * (np.linalg.norm(model) + sent_error) + largest * sent_error
    sizes = largest * np.linalg.norm(models[-1]) + np.linalg.norm(X.T @ Y)
    floats = EPOCHS * (m + d + 10) * 2.0**-52 * (STEP / m * sizes + 2 * np.linalg.norm(models[-1]))
    return float(STEP / m * bound + floats)


def trained(scenario: Scenario) -> tuple[FixedPoint, list[Update], list[np.ndarray]]:
    """A run: its scales, the updates as they were on the wire, and the model after each epoch."""
    models: list[np.ndarray] = []

    def keep(model: np.ndarray) -> bool:
        models.append(model.copy())
        return False

    solver = GradientDescent(EPOCHS, regularisation=REGULARISATION, step=StepSchedule(STEP))
    network = Network.of(scenario, solver, stop_when=keep)
    network.run()
    seen = [data for saw in network.device_saw.values() for data in saw]
    updates = {u.epoch: u for u in (Update.decode(m.body) for m in decoded(seen, Kind.UPDATE))}
    assert sorted(updates) == list(range(1, EPOCHS + 1))
    return network.server.agreement.fixed_point, [updates[e] for e in sorted(updates)], models


@pytest.mark.parametrize("precision", [None, 45], ids=["two primes", "three primes"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_model_is_that_of_float64_descent_up_to_the_bound(precision: int | None, seed: int):
    scenario = Scenario(sizes=(30, 50, 20, 41, 9), alpha=3, d=10, c=3, precision=precision, seed=seed)
    format_, updates, models = trained(scenario)
    X, Y = (np.concatenate(parts) for parts in zip(*scenario.data, strict=True))
    reference = float_descent(X, Y)
    bound = rounding_bound(scenario, format_, updates, models)
    error = np.linalg.norm(models[-1] - reference[-1])
    assert 0 < error <= bound
    # And the bound says something: four digits are certain, and the model has moved by far more.
    assert bound < 1e-4 * max(1.0, np.linalg.norm(reference[-1])) * 10
    assert np.linalg.norm(reference[-1] - reference[-2]) < np.linalg.norm(reference[-1])


def test_with_three_primes_only_the_grid_of_the_data_is_left():
    """On data that are on the grid already, more precision brings the model closer to float64 descent."""
    errors = {}
    for precision in (None, 45):
        scenario = Scenario(sizes=(30, 50, 20, 41, 9), alpha=3, d=10, c=3, precision=precision)
        scenario.data = [(np.rint(x * 2**10) / 2**10, np.rint(y * 2**10) / 2**10) for x, y in scenario.data]
        _, _, models = trained(scenario)
        X, Y = (np.concatenate(parts) for parts in zip(*scenario.data, strict=True))
        errors[precision] = np.linalg.norm(models[-1] - float_descent(X, Y)[-1])
    assert errors[45] < errors[None] / 100
    assert errors[45] < 1e-9
