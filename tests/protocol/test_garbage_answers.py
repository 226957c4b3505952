"""One answer of garbage where none is to spare: a disagreement like any other, and not the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

import oracle
from codedfl.errors import RangeExceeded, WrongAnswers
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Update
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server import Server
from codedfl.protocol.server_epochs import ServerEpochs
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import run_in_process
from codedfl.solve.closed_form import ClosedForm
from codedfl.typing import Planes
from scenario import Network, Scenario, descent, tamper
from wording import exactly

EPOCHS = 4
SCHEMES = pytest.mark.parametrize("scheme", [CODED_PADDED, CODED_KEYS])


def spoil(device: Device, epochs: Iterable[int]) -> None:
    """Every number of its answers to these epochs is another one."""

    def change(update: Update, planes: Planes) -> None:
        if update.epoch in epochs:
            for k, prime in enumerate(device._session.agreed.ring.primes):
                for x in range(planes.shape[1]):
                    planes[k, x] = oracle.centred(int(planes[k, x]) + 12345 + 6789 * (x + k), prime)

    tamper(device, change)


def train(
    scenario: Scenario, liars: Iterable[str], epochs: Iterable[int], heard: int | None = None
) -> tuple[Server, Callable[[], np.ndarray]]:
    server, devices = scenario.server(descent(EPOCHS)), scenario.devices()
    for device in devices:
        if device.name in liars:
            spoil(device, epochs)
    return server, lambda: run_in_process(server, devices, lambda _, names: names[:heard])


class EndsAtABadTotal(ServerEpochs):
    """The rule as it was: the first D - alpha + 1 answers are decoded, and a total out of its bounds is the end."""

    def _settle(self, alive: Iterable[int] | None = None) -> None:
        session, epoch = self._session, self.current
        if self.shortfall(epoch.answers):
            return
        epoch.check(session.agreed, session.random_bytes(32))
        try:
            self._finish_epoch(self._read(epoch.decode(session.agreed)), ())
        except RangeExceeded as error:
            self._fail(error)


def test_under_the_old_rule_one_device_ends_the_run():
    server, run = train(Scenario(sizes=(3, 2, 4, 2), alpha=3), ["device-1"], [3])
    server.epochs.__class__ = EndsAtABadTotal
    with pytest.raises(RangeExceeded, match=r"^decoded X'X e must stay within"):
        run()
    assert (server.phase, server.liars) == (Phase.FINISHED, {})


@SCHEMES
@pytest.mark.parametrize("epoch", [1, 3])
@pytest.mark.parametrize("alpha", [2, 3, 4])
def test_the_device_is_named_and_the_run_goes_on(scheme, epoch: int, alpha: int):
    """With two answers more the code tells who it is; with one, what the total may be does."""
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=alpha, scheme=scheme)
    for liar in scenario.names[: 5 - alpha]:  # those whose answers are used
        server, run = train(scenario, [liar], [epoch])
        assert np.array_equal(run(), scenario.expected_models(descent(EPOCHS))[-1])
        assert server.liars == {liar: epoch}


def test_two_are_named_where_enough_others_answer():
    scenario = Scenario(sizes=(3, 2, 4, 2, 3, 2), alpha=5)
    server, run = train(scenario, ["device-0", "device-1"], [2])
    assert np.array_equal(run(), scenario.expected_models(descent(EPOCHS))[-1])
    assert server.liars == {"device-0": 2, "device-1": 2}


def test_in_groups_the_guilty_group_is_found():
    scenario = Scenario(groups=2, sizes=(2, 3, 1, 4, 2, 3), alpha=3, scheme=CODED_KEYS)
    server, run = train(scenario, ["device-3"], [2])
    assert np.array_equal(run(), scenario.expected_models(descent(EPOCHS))[-1])
    assert server.liars == {"device-3": 2}


def test_a_summed_sample_count_out_of_its_bounds_is_a_disagreement_too():
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=3, public_samples=False)
    server, run = train(scenario, ["device-0"], [1])
    run()
    assert server.liars == {"device-0": 1}


def test_one_shot_goes_on_as_well():
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=3, scheme=ONE_SHOT)
    honest = run_in_process(scenario.server(ClosedForm(1e-3)), scenario.devices())
    server, devices = scenario.server(ClosedForm(1e-3)), scenario.devices()
    spoil(devices[1], [1])
    assert np.array_equal(run_in_process(server, devices), honest)
    assert server.liars == {"device-1": 1}


def test_the_epoch_waits_and_a_server_that_restarts_in_between_waits_on():
    scenario = Scenario(sizes=(3, 2, 4, 2, 3), alpha=3)  # 3 answers decode
    network = Network.of(scenario, descent(EPOCHS))
    spoil(network.devices["device-1"], [1])
    network.run_until(Kind.UPDATE)
    network.run_until(Kind.ANSWER)
    for count, name in enumerate(scenario.names, 1):
        network.deliver(("up", name))
        assert network.server.epoch == (1 if count < 5 else 2)
        fresh = scenario.server(descent(EPOCHS), identity=network.server.identity)
        fresh.restore(network.server.state())
        network.server = fresh
    assert network.server.liars == {"device-1": 1}
    network.run()
    assert np.array_equal(network.server.model, scenario.expected_models(descent(EPOCHS))[-1])


def test_a_driver_that_gives_up_on_the_silent_has_the_rest_judged():
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=3)
    server, run = train(scenario, ["device-1"], [2], heard=3)  # 2 decode, 1 more answers, nobody else does
    assert np.array_equal(run(), scenario.expected_models(descent(EPOCHS))[-1])
    assert server.liars == {"device-1": 2}


def test_when_it_cannot_be_told_the_run_ends_with_the_last_good_model():
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=2)
    server, run = train(scenario, ["device-0", "device-1"], [3])  # all 4 answer, 3 must be right
    message = (
        "the answers to epoch 3 must agree on the code: they do not, and there are too few to tell whose is wrong"
        " (those of device-0, device-1, device-2, device-3)"
    )
    with pytest.raises(WrongAnswers, match=exactly(message)) as caught:
        run()
    good = scenario.expected_models(descent(EPOCHS))[1]
    assert np.array_equal(caught.value.model, good)
    assert np.array_equal(server.model, good)
