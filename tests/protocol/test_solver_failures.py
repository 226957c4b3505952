"""A solver that fails ends the run for good: devices wipe, the error says what to change, the last good model stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codedfl.errors import InvalidInput, RangeExceeded, SolverFailed
from codedfl.protocol.epoch import Epoch
from codedfl.protocol.epoch_total import EpochTotal, tell_solver
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.server_epochs import ServerEpochs
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import run_in_process
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, StepSchedule
from codedfl.state import State
from scenario import Network, Scenario, descent
from wording import exactly

ADVICE = "; change the solver's settings (a larger regularisation, a smaller step) and start anew"


def singular() -> Scenario:
    """Fewer samples than features: without regularisation X'X cannot be inverted."""
    return Scenario(sizes=(1, 1), alpha=1, d=4, scheme=ONE_SHOT)


class LetsTheSolverFail(ServerEpochs):
    """The rule as it was: whatever the solver raises passes through, and the server is where it was."""

    def _go_on(self, epoch: Epoch, total: EpochTotal, before: State) -> None:
        tell_solver(self.solver, self._session.agreed, epoch.question, total)
        assert self.solver.request() is None
        self.finish()


def test_under_the_old_rule_nothing_ends_and_nothing_is_wiped():
    network = Network.of(singular(), ClosedForm(0.0))
    network.server.epochs.__class__ = LetsTheSolverFail
    with pytest.raises(InvalidInput, match=r"^regularisation must be large enough"):
        network.run()
    assert network.server.phase is Phase.TRAINING
    assert Message.decode(network.server.resend().outgoing[0].data).kind is Kind.UPDATE  # and asks for ever
    assert not any(device.finished for device in network.devices.values())


def test_a_singular_one_shot_run_ends_and_says_what_to_change():
    network = Network.of(singular(), ClosedForm(0.0))
    message = (
        "the solver must make a model of the totals of epoch 1, it cannot: regularisation must be large enough to make"
        f" X'X/m + lambda positive definite, got 0{ADVICE}"
    )
    with pytest.raises(SolverFailed, match=exactly(message)) as caught:
        network.run()
    assert caught.value.model is None and network.server.model is None
    assert network.server.phase is Phase.FINISHED
    network.send(network.server.resend())
    network.run()
    assert all(device.finished and device.sharing.answer_constant is None for device in network.devices.values())


class Failing(GradientDescent):
    """Descent that breaks down on its way."""

    def __init__(self, error: Exception, when: str) -> None:
        super().__init__(4, 1e-3, StepSchedule(0.3))
        self.error, self.when = error, when

    def request(self) -> Any:
        if self.when == "request" and self._epoch == 2:
            raise self.error
        return super().request()

    def receive(self, sent: Any, product: Any) -> None:
        super().receive(sent, product)
        if self.when == "receive" and self._epoch == 3:
            self.model = np.full_like(product, np.nan)
            raise self.error


ERRORS = [
    np.linalg.LinAlgError("Singular matrix"),
    FloatingPointError("overflow encountered in multiply"),
    ValueError("no such thing"),
    InvalidInput("lambda must be positive, got 0"),
]


@pytest.mark.parametrize("when", ["request", "receive"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_any_error_of_a_solver_ends_the_run_with_the_last_good_model(error: Exception, when: str):
    scenario = Scenario(scheme=CODED_KEYS)
    server, devices = scenario.server(Failing(error, when)), scenario.devices()
    epoch = {"request": 2, "receive": 3}[when]
    message = f"the solver must make a model of the totals of epoch {epoch}, it cannot: {error}{ADVICE}"
    with pytest.raises(SolverFailed, match=exactly(message)) as caught:
        run_in_process(server, devices)
    good = scenario.expected_models(descent(4))[1]
    assert np.array_equal(server.model, good)
    assert np.array_equal(caught.value.model, good)
    assert all(device.finished for device in devices)  # the driver told them


def test_a_bug_in_a_solver_is_not_dressed_up():
    scenario = Scenario()
    with pytest.raises(AttributeError, match=r"^typo$"):
        run_in_process(scenario.server(Failing(AttributeError("typo"), "request")), scenario.devices())


def test_devices_wipe_when_an_update_cannot_be_sent():
    scenario = Scenario()
    server = scenario.server(GradientDescent(200, regularisation=0.0, step=StepSchedule(1e3)))
    devices = scenario.devices()
    with pytest.raises(RangeExceeded, match=r": it cannot be sent$"):
        run_in_process(server, devices)
    assert all(device.finished for device in devices)
