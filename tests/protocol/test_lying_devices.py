"""Devices that answer wrongly, on purpose or by a fault: found out with spare answers, named, and left out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pytest

import oracle
from codedfl.errors import InvalidInput, NotEnoughDevices, WrongAnswers
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Update
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import everyone_in_order, run_in_process
from codedfl.solve.closed_form import ClosedForm
from codedfl.typing import Planes
from scenario import Network, Scenario, descent, tamper
from wording import exactly

SCHEMES = pytest.mark.parametrize("scheme", [CODED_PADDED, CODED_KEYS])
EPOCHS = 4
Lie = Callable[[int], bool]


def make_liar(
    device: Device, lies_in: Lie = lambda epoch: epoch >= 2, used_with: Sequence[int] = (), units: int = 1
) -> None:
    """The last number of the answer is off: by one modulo one prime, or, for a liar that knows with whom it is going to
    be decoded, so that the total is off by so many units and within every bound."""

    def change(update: Update, planes: Planes) -> None:
        if lies_in(update.epoch):
            code, position = device._session.agreed.code, device._session.position
            offsets = [0, 1]
            if used_with:
                factors = code.decoding_vector(list(used_with))[:, list(used_with).index(position)]
                offsets = [units * pow(int(a), -1, p) for a, p in zip(factors, code.primes, strict=True)]
            for k, p in enumerate(code.primes):
                planes[k, -1] = oracle.centred(int(planes[k, -1]) + offsets[k], p)

    tamper(device, change)


def parties(
    scenario: Scenario, liars: Collection[str], spare: int, lies_in: Lie, used_with: Sequence[int] = ()
) -> tuple[Server, list[Device]]:
    server, devices = scenario.server(descent(EPOCHS), spare=spare), scenario.devices()
    for device in devices:
        if device.name in liars:
            make_liar(device, lies_in, used_with)
    return server, devices


def train(
    scenario: Scenario,
    liars: Collection[str],
    spare: int,
    arrivals: Callable[[int, Sequence[str]], Sequence[str]] = everyone_in_order,
    lies_in: Lie = lambda epoch: epoch >= 2,
) -> Server:
    server, devices = parties(scenario, liars, spare, lies_in)
    run_in_process(server, devices, arrivals)
    return server


@SCHEMES
@pytest.mark.parametrize("spare", [2, 3])
def test_a_liar_is_named_left_out_and_changes_nothing(scheme, spare: int):
    scenario = Scenario(sizes=(3, 2, 4, 2, 3), alpha=4, scheme=scheme)
    expected = scenario.expected_models(descent(EPOCHS))[-1]
    for liar in scenario.names:
        server = train(scenario, [liar], spare)
        assert np.array_equal(server.model, expected)
        # Among the first answers it is found out in time; otherwise its late answer shows it all the same.
        assert server.liars == {liar: 2}
        assert sorted(server.epochs.disputed) == []


@SCHEMES
def test_two_liars_need_four_spare_answers(scheme):
    scenario = Scenario(sizes=(3, 2, 4, 2, 3, 2), alpha=5, scheme=scheme)
    expected = scenario.expected_models(descent(EPOCHS))[-1]
    for liars in (["device-0", "device-1"], ["device-2", "device-5"]):
        server = train(scenario, liars, 4)
        assert np.array_equal(server.model, expected)
        assert server.liars == dict.fromkeys(liars, 2)


def test_a_liar_is_named_in_the_log_once(caplog: pytest.LogCaptureFixture):
    train(Scenario(sizes=(3, 2, 4, 2, 3), alpha=4), ["device-1"], 2)
    message = "device-1 answered wrongly in epoch 2 and is excluded"
    assert caplog.record_tuples == [("codedfl.server", logging.ERROR, message)]


def test_answers_that_contradict_each_other_are_in_the_log(caplog: pytest.LogCaptureFixture):
    """One late answer shows that somebody lied, and not who."""
    train(Scenario(sizes=(3, 2, 4), alpha=2), ["device-2"], 0)
    assert [text for _, _, text in caplog.record_tuples] == [
        f"the answers of epoch {epoch} contradict each other, and cannot show who lies" for epoch in (2, 3)
    ]  # the late answer of the last epoch comes when the run is over


def test_a_liar_from_the_first_answer_on_is_found():
    scenario = Scenario(sizes=(3, 2, 4, 2, 3), alpha=3, public_samples=False)
    server = train(scenario, ["device-3"], 2, lies_in=lambda epoch: epoch >= 1)
    assert server.liars == {"device-3": 1}
    scenario.public_samples = True  # the oracle has no summed sample count to add: the scales are the same
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])


def test_one_shot_answers_are_checked_too():
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=3, scheme=ONE_SHOT)
    honest = run_in_process(scenario.server(ClosedForm(1e-3)), scenario.devices())
    server, devices = scenario.server(ClosedForm(1e-3), spare=2), scenario.devices()
    make_liar(devices[1], lambda epoch: epoch == 1)
    assert np.array_equal(run_in_process(server, devices), honest)
    assert server.liars == {"device-1": 1}


def test_groups_are_checked_each_on_its_own():
    scenario = Scenario(groups=2, sizes=(2, 3, 1, 4, 2, 3), alpha=3, scheme=CODED_KEYS)
    server = train(scenario, ["device-0", "device-3"], 2)  # one in each group of three
    assert server.liars == {"device-0": 2, "device-3": 2}
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])


def test_one_spare_answer_detects_and_the_next_one_tells_who():
    """Detection alone does not stop the run as long as another answer can come."""
    scenario = Scenario(sizes=(3, 2, 4, 2, 3), alpha=3)  # 3 answers decode
    network = Network.of(scenario, descent(EPOCHS), spare=1)
    make_liar(network.devices["device-1"])
    network.run_until(Kind.UPDATE)
    while network.server.epoch == 1:
        network.run_until(Kind.UPDATE, Kind.ANSWER)
        for name in scenario.names:
            network.deliver(("down", name))
        for name in scenario.names[:4]:
            network.deliver(("up", name))
    server = network.server
    for name in scenario.names:  # whoever was late in epoch 1 has that answer on its link still
        network.deliver(("down", name))
    network.deliver(("up", "device-4"))
    for name in scenario.names[:4]:
        network.deliver(("up", name))
    assert server.epoch == 2  # four answers are in, and they disagree
    assert server.liars == {}
    server.go_on_without([])
    network.deliver(("up", "device-4"))
    assert server.epoch == 3
    assert server.liars == {"device-1": 2}
    (update,) = server.resend().outgoing
    assert "device-1" not in update.receivers  # it is not asked again
    network.run()
    assert network.ignored["answer of an excluded device"] == 0
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])


def test_detection_without_location_stops_with_the_last_good_model():
    """A liar that knows with whom it is decoded keeps the wrong total within its bounds: nothing tells it apart."""
    scenario = Scenario(sizes=(3, 2, 4), alpha=2)
    server, devices = parties(scenario, ["device-2"], 1, lambda epoch: epoch == 3, used_with=[0, 2])
    message = (
        "the answers to epoch 3 must agree on the code: they do not, and there are too few to tell whose is wrong"
        " (those of device-0, device-1, device-2)"
    )
    with pytest.raises(WrongAnswers, match=exactly(message)) as caught:
        run_in_process(server, devices)
    assert caught.value.suspects == ("device-0", "device-1", "device-2")
    good = scenario.expected_models(descent(EPOCHS))[1]
    assert np.array_equal(caught.value.model, good)
    assert np.array_equal(server.model, good)
    assert server.phase is Phase.FINISHED


def test_a_driver_that_gives_up_on_the_rest_learns_of_the_dispute():
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=3)  # 2 answers decode
    server, devices = parties(scenario, ["device-0"], 1, lambda epoch: epoch == 1, used_with=[0, 1])
    with pytest.raises(WrongAnswers, match=r"^the answers to epoch 1 must agree on the code"):
        run_in_process(server, devices, lambda _, names: names[:3])
    assert server.model is None


def test_too_few_for_the_spare_answers_are_named():
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=3)
    message = (
        "epoch 1 needs 2 answers (D - alpha + 1) and 2 spare but only 3 devices are alive: 1 more needed,"
        " without device-3"
    )
    with pytest.raises(NotEnoughDevices, match=exactly(message)):
        train(scenario, [], 2, lambda _, names: names[:3])


def test_a_late_lie_is_named_without_waiting_for_it():
    scenario = Scenario(sizes=(3, 2, 4, 2, 3), alpha=4)  # 2 decode, 1 spare, 2 come late
    server = train(scenario, ["device-4"], 1)
    assert server.liars == {"device-4": 2}
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])


def test_a_late_answer_that_disagrees_without_telling_who_is_on_record():
    scenario = Scenario(sizes=(3, 2, 4), alpha=2)  # 2 decode, 1 comes late: who lies cannot be known
    server = train(scenario, ["device-2"], 0, lies_in=lambda epoch: epoch == 3)
    assert sorted(server.epochs.disputed) == [3]
    assert server.liars == {}


def test_honest_late_answers_raise_no_alarm():
    network = Network.of(Scenario(sizes=(3, 2, 4, 2, 3), alpha=4), descent(EPOCHS))
    for kind in (Kind.UPDATE, *[Kind.ANSWER, Kind.UPDATE] * EPOCHS):  # everybody answers every epoch
        network.run_until(kind)
    network.run()
    server = network.server
    assert server.phase is Phase.FINISHED
    assert server.liars == {}
    assert sorted(server.epochs.disputed) == []
    assert network.ignored == {"late answer": 3 * EPOCHS}


def test_a_lie_gets_through_unchecked():
    """What the check is for: without it, and without late answers, the model is simply wrong."""
    scenario = Scenario(sizes=(3, 2, 4, 2), alpha=3)
    server, devices = parties(scenario, ["device-1"], 0, lambda epoch: epoch == 2, used_with=[0, 1])
    model = run_in_process(server, devices, lambda _, names: names[:2])
    assert not np.array_equal(model, scenario.expected_models(descent(EPOCHS))[-1])


@pytest.mark.parametrize("spare", [-1, 2])
def test_spare_answers_must_exist(spare: int):
    with pytest.raises(InvalidInput, match=rf"^spare must be between 0 and alpha - 1 \(1\), got {spare}$"):
        Scenario(alpha=2).server(spare=spare)
