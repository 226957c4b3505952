"""One shot: the ridge solution from securely summed statistics, after one answer."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from codedfl.errors import InvalidInput, SolverFailed
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.solve.closed_form import ClosedForm
from scenario import Network, Scenario, descent

LAMBDA = 1e-2


def one_shot(**options) -> Scenario:
    return Scenario(scheme=ONE_SHOT, **options)


@pytest.mark.parametrize("options", [{"alpha": 1}, {"alpha": 3}, {"alpha": 4, "public_samples": False}], ids=str)
def test_it_solves_the_oracles_normal_equations(options):
    """The totals are those of plain integers; the solution satisfies the normal equations they make."""
    scenario = one_shot(**options)
    solver = ClosedForm(LAMBDA, [0.1, 1.0])
    network = Network.of(scenario, solver)
    network.run()
    totals = scenario.totals()
    m = sum(scenario.sizes)
    gram = np.array(totals.gram, dtype=float) * 2.0**-totals.gram_bits / m
    cross = -np.array(totals.constant, dtype=float) * 2.0**-totals.constant_bits / m
    for value, theta in solver.path.items():
        residual = gram @ theta + value * theta - cross
        assert np.abs(residual).max() < 1e-14
    assert set(solver.path) == {LAMBDA, 0.1, 1.0}
    assert np.array_equal(network.server.model, solver.path[LAMBDA])


def test_theta_1_does_not_matter():
    zero, warm = one_shot(), one_shot(initial=np.full((4, 2), 0.5))
    models = []
    for scenario in (zero, warm):
        network = Network.of(scenario, ClosedForm(LAMBDA))
        network.run()
        models.append(network.server.model)
    assert np.abs(models[0] - models[1]).max() < 1e-6  # G^(1) is rounded at another place


def test_a_singular_matrix_is_refused():
    scenario = one_shot(sizes=(1, 1), alpha=2)  # two samples, four features
    network = Network.of(scenario, ClosedForm(0.0))
    message = "regularisation must be large enough to make X'X/m + lambda positive definite, got 0"
    with pytest.raises(SolverFailed, match=re.escape(message)):
        network.run()


def test_a_device_of_another_scheme_never_gives_the_gram_matrix_away():
    """A coded-keys device asked to reveal X'X refuses to join."""
    scenario = Scenario(scheme=CODED_KEYS)
    parameters = replace(scenario.parameters, reveals_gram=True)
    network = Network(scenario.server(ClosedForm(LAMBDA), parameters=parameters), scenario.devices())
    network.send(network.server.invite())
    network.run()
    assert {device.objection for device in network.devices.values()} == {
        "reveals_gram must be False for this device, got True"
    }
    assert set(network.server.joining.refusals) == set(scenario.names)


def test_solver_and_scheme_must_agree():
    with pytest.raises(InvalidInput, match="the solver must want X'X itself exactly when the scheme reveals it"):
        one_shot().server(descent())
