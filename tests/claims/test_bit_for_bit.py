"""The model is bit for bit the centralised one, whichever devices straggle, drop out or come back, in any order.

The oracle quantises the features with fractions, adds up in Python integers, and feeds the same solver with exact
products; it knows nothing of rings, codes, pads, masks or devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.server import Server
from codedfl.run.in_process import run_in_process
from codedfl.solve.descent import Nesterov, StepSchedule
from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
from codedfl.solve.solver import Solver
from scenario import Scenario, descent

EPOCHS = 5
THETA = np.array([[0.3, -1.7], [2.0, 0.0], [-0.9, 5.5], [0.01, -0.02]])
SOLVERS: dict[str, Callable[[], Solver]] = {
    "descent": lambda: descent(EPOCHS),
    "Nesterov": lambda: Nesterov(EPOCHS, regularisation=1e-3, step=StepSchedule(0.2)),
    "conjugate gradient": lambda: ConjugateGradient(EPOCHS, regularisation=1e-3, restart=2),
    "block Krylov": lambda: BlockKrylov(EPOCHS, regularisation=1e-3),
}
SCENARIOS = {
    "D = 2, uncoded": Scenario(sizes=(3, 4), alpha=1),
    "D = 2, replication": Scenario(sizes=(3, 4), alpha=2),
    "uncoded": Scenario(sizes=(2, 1, 7, 3, 1), alpha=1),
    "coded": Scenario(sizes=(2, 1, 7, 3, 1), alpha=3),
    "replication": Scenario(sizes=(2, 1, 7, 3, 1), alpha=5),
    "three primes": Scenario(sizes=(2, 1, 7, 3, 1), alpha=3, precision=50),
    "Theta^(1) not zero": Scenario(sizes=(2, 1, 7, 3, 1), alpha=2, initial=THETA),
    "Theta^(1) not zero, three primes": Scenario(sizes=(2, 1, 7, 3, 1), alpha=4, initial=THETA, precision=50),
    "m securely summed": Scenario(sizes=(2, 1, 7, 3, 1), alpha=3, public_samples=False),
    "m summed, Theta^(1) not zero": Scenario(sizes=(2, 9, 1, 1), alpha=2, public_samples=False, initial=THETA),
    "one feature, one output": Scenario(sizes=(1, 1, 1), alpha=2, d=1, c=1),
    "more outputs than features": Scenario(sizes=(2, 3, 2), alpha=2, d=2, c=7),
    "masks off": Scenario(sizes=(2, 1, 7, 3, 1), alpha=3, masks=False),
    "coded keys": Scenario(sizes=(2, 1, 7, 3, 1), alpha=3, scheme=CODED_KEYS),
}


@cache
def expected(scenario: str, solver: str) -> list[np.ndarray]:
    return SCENARIOS[scenario].expected_models(SOLVERS[solver]())


def models_of(
    scenario: Scenario, solver: Solver, arrivals: Callable[[int, Sequence[str]], Sequence[str]]
) -> tuple[Server, list[np.ndarray]]:
    """The model after each epoch of a real run."""
    server = scenario.server(solver)
    models: list[np.ndarray] = []

    def keep(epoch: int) -> None:
        assert server.model is not None
        assert epoch == len(models) + 1
        models.append(server.model.copy())

    run_in_process(server, scenario.devices(), arrivals, keep)
    return server, models


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_model_is_the_centralised_one(name: str, solver: str):
    """With as many stragglers as the code allows, others in every epoch."""
    scenario = SCENARIOS[name]
    rng = np.random.default_rng(len(name))
    needed = scenario.n_devices - scenario.alpha + 1

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        del epoch
        return rng.permutation(names)[:needed].tolist()

    server, models = models_of(scenario, SOLVERS[solver](), arrivals)
    assert len(models) == len(expected(name, solver))
    for model, truth in zip(models, expected(name, solver), strict=True):
        assert np.array_equal(model, truth)
    assert len(server.agreement.fixed_point.ring.primes) == (3 if scenario.precision else 2)
    if scenario.initial is not None:
        assert np.any(server.agreement.initial_model)


@pytest.mark.parametrize("name", ["coded", "Theta^(1) not zero", "m securely summed", "D = 2, replication"])
@given(data=st.data())
@settings(max_examples=15)
def test_whoever_arrives_in_whatever_order(name: str, data: st.DataObject):
    """Any order, any subset that is large enough, answers after the deciding ones included: drawn for each epoch."""
    scenario = SCENARIOS[name]
    needed = scenario.n_devices - scenario.alpha + 1

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        order = data.draw(st.permutations(names), label=f"epoch {epoch}")
        return order[: data.draw(st.integers(needed, len(names)), label="how many")]

    _, models = models_of(scenario, SOLVERS["descent"](), arrivals)
    for model, truth in zip(models, expected(name, "descent"), strict=True):
        assert np.array_equal(model, truth)


def test_a_device_that_drops_out_and_comes_back_changes_nothing():
    """device-2 of five is away in epochs 2 and 3, device-4 from epoch 3 on; everybody else comes in another order."""
    away = {2: {"device-2"}, 3: {"device-2", "device-4"}, 4: {"device-4"}, 5: {"device-4"}}

    def arrivals(epoch: int, names: Sequence[str]) -> Sequence[str]:
        there = [name for name in names if name not in away.get(epoch, ())]
        return there[epoch % len(there) :] + there[: epoch % len(there)]

    _, models = models_of(SCENARIOS["coded"], SOLVERS["descent"](), arrivals)
    for model, truth in zip(models, expected("coded", "descent"), strict=True):
        assert np.array_equal(model, truth)


def test_the_oracle_tells_scenarios_and_epochs_apart():
    """Equality above means something: a last bit is a difference, and so are other stragglers' data."""
    coded = expected("coded", "descent")
    assert not any(np.array_equal(one, other) for one, other in pairwise(coded))
    assert not np.array_equal(coded[-1], expected("three primes", "descent")[-1])
    without = Scenario(sizes=(2, 1, 7, 3, 1), alpha=3)
    without.data[1] = (np.zeros((1, 4)), np.zeros((1, 2)))
    assert not np.array_equal(coded[-1], without.expected_models(descent(EPOCHS))[-1])


@pytest.mark.parametrize("alpha", [1, 7, 20])
def test_twenty_devices_with_twelve_features(alpha: int):
    scenario = Scenario(sizes=tuple(1 + i % 5 for i in range(20)), alpha=alpha, d=12, c=3)
    rng = np.random.default_rng(alpha)
    _, models = models_of(scenario, descent(3), lambda _, names: rng.permutation(names)[: 21 - alpha].tolist())
    for model, truth in zip(models, scenario.expected_models(descent(3)), strict=True):
        assert np.array_equal(model, truth)
