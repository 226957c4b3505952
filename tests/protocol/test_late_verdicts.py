"""Answers that come late and contradict: they stop nothing and accuse nobody until the epoch was asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pytest
from test_lying_devices import SCHEMES, make_liar
from test_state import plain

import oracle
from codedfl.code.answer_check import judge
from codedfl.code.gradient_code import GradientCode
from codedfl.errors import WrongAnswers
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Answer, Kind, Update
from codedfl.protocol.server import Server
from codedfl.protocol.server_epochs import ServerEpochs
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import everyone_in_order, run_in_process
from codedfl.solve.krylov import ConjugateGradient
from codedfl.typing import Planes
from scenario import Network, Scenario, descent, tamper

EPOCHS = 4
SIZES = (3, 2, 4, 2, 3, 2)
Arrivals = Callable[[int, Sequence[str]], Sequence[str]]


def conspire(device: Device, epochs: Collection[int]) -> None:
    """Answer as one of several who agree with device-0 on another codeword, on which device-1 is the odd one out."""

    def change(update: Update, planes: Planes) -> None:
        if update.epoch in epochs:
            code = device._session.agreed.code
            assert isinstance(code, GradientCode)
            for k, p in enumerate(code.primes):
                offset = code.points[k][device._session.position] - code.points[k][0]
                planes[k, -1] = oracle.centred(int(planes[k, -1]) + offset, p)

    tamper(device, change)


class StopsAtALateVerdict(ServerEpochs):
    """The rule as it was: late answers are judged along with those used, and the verdict is carried out at once."""

    def _on_late_answer(self, sender: int, answer: Answer) -> None:
        session, last = self._session, self.last
        if last is None or (answer.epoch, answer.update_digest) != (last.number, last.update_digest):
            return
        planes = session.agreed.ring.unpack(answer.packed, session.parameters.answer_length(answer.epoch))
        last.take_late(session.agreed, sender, planes)
        verdict = judge(self._code, last.projected)
        used = [session.agreed.names[i] for i in verdict.liars if i in last.used]
        if used:
            self._exclude(verdict.liars, answer.epoch)
            self._fail(WrongAnswers(f"decoded from that of {', '.join(used)}", used, self.solver.model))


def train(
    n_devices: int,
    alpha: int,
    epochs: Collection[int],
    rule: type[ServerEpochs] = ServerEpochs,
    arrivals: Arrivals = everyone_in_order,
    liars: Collection[int] = (2, 3),
) -> tuple[Scenario, Server]:
    """Two decode: device-0 and device-1 answer first, then the two who conspire against device-1."""
    scenario = Scenario(sizes=SIZES[:n_devices], alpha=alpha)
    server, devices = scenario.server(descent(EPOCHS)), scenario.devices()
    server.epochs.__class__ = rule
    for i in liars:
        conspire(devices[i], epochs)
    run_in_process(server, devices, arrivals)
    return scenario, server


def test_under_the_old_rule_two_late_liars_have_an_honest_device_named_and_the_run_ended():
    with pytest.raises(WrongAnswers) as caught:
        train(6, 5, [3], StopsAtALateVerdict)
    assert caught.value.suspects == ("device-1",)


@pytest.mark.parametrize("n_devices", [4, 5, 6])
def test_they_reach_nothing(n_devices: int):
    """Asked again, everybody answers as before: whom they accuse is cleared, whether they can be named or not."""
    scenario, server = train(n_devices, n_devices - 1, [3])
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])
    assert "device-1" not in server.liars
    assert server.epoch == EPOCHS + 2  # epoch 4 was put off, epoch 3 asked again as epoch 5
    assert server.epochs.mended == []
    if n_devices == 6:  # four beside the two used: enough to tell who they are
        assert server.liars == {"device-2": 3, "device-3": 3}
        assert sorted(server.epochs.disputed) == []
    else:
        assert server.liars == {}
        assert sorted(server.epochs.disputed) == [3]


def test_who_lies_again_is_found_out_by_the_rest():
    scenario, server = train(6, 5, range(2, 99))
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])
    assert set(server.liars) == {"device-2", "device-3"}


def test_who_was_refuted_once_is_not_listened_to_when_late():
    """Late liars who answer truly when everybody is waited for cannot have every epoch asked again."""
    scenario, server = train(4, 3, [2, 5, 6, 7, 8, 9])
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])
    assert server.epoch == EPOCHS + 2
    assert sorted(server.epochs.disputed) == [2]


@SCHEMES
@pytest.mark.parametrize("epoch", [1, 3])
def test_an_epoch_that_rests_on_a_wrong_answer_is_mended(scheme, epoch: int):
    scenario = Scenario(sizes=SIZES[:4], alpha=3, scheme=scheme)
    server, devices = scenario.server(descent(EPOCHS)), scenario.devices()
    make_liar(devices[1], lambda e: e == epoch, used_with=[0, 1])
    assert np.array_equal(run_in_process(server, devices), scenario.expected_models(descent(EPOCHS))[-1])
    assert (server.liars, server.epochs.mended, sorted(server.epochs.disputed)) == ({"device-1": epoch}, [epoch], [])


def test_a_question_put_in_vain_counts_among_those_agreed_on():
    """Devices that answered epoch 3 before epoch 2 was found wrong answer one less: the run ends an epoch early."""
    scenario = Scenario(sizes=SIZES[:4], alpha=3)
    network = Network.of(scenario, descent(EPOCHS))
    make_liar(network.devices["device-1"], lambda epoch: epoch == 2, used_with=[0, 1], units=2**30)
    network.run_until(Kind.UPDATE)
    for first, then in (((0, 1), (2, 3)), ((0, 1), ())):  # epoch 1, and epoch 2 without its late answers
        for name in scenario.names:
            network.deliver(("down", name))
        for i in (*first, *then):
            network.deliver(("up", scenario.names[i]))
    assert network.server.epoch == 3
    for name in scenario.names:
        network.deliver(("down", name))  # answered in vain
    network.deliver(("up", "device-2"))
    assert network.server.epochs.current.confirms
    network.run()
    assert network.server.epochs.mended == [2]
    assert network.server.phase is Phase.FINISHED
    assert np.array_equal(network.server.model, scenario.expected_models(descent(EPOCHS))[-2])


def test_a_mended_epoch_is_undone_in_a_solver_that_remembers_much():
    scenario = Scenario(sizes=SIZES[:5], alpha=4)
    solvers = [ConjugateGradient(9, 1e-3, tolerance=0.0, restart=3) for _ in range(2)]
    server, devices = scenario.server(solvers[0]), scenario.devices()
    make_liar(devices[1], lambda e: e == 5, used_with=[0, 1])
    assert np.array_equal(run_in_process(server, devices), scenario.expected_models(solvers[1])[-1])
    assert server.epochs.mended == [5]


def test_after_the_last_epoch_nothing_late_is_read_any_more():
    """The run's keys are forgotten: whoever wants the last epoch checked takes spare answers."""
    scenario, server = train(6, 5, [EPOCHS])
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])
    assert (server.liars, sorted(server.epochs.disputed), server.epoch) == ({}, [], EPOCHS)


def test_with_one_answer_beyond_those_needed_nothing_could_be_confirmed():
    scenario, server = train(3, 2, [2], liars=(2,))
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])
    assert (server.liars, sorted(server.epochs.disputed), server.epoch) == ({}, [2], EPOCHS)


def test_who_cannot_be_waited_for_does_not_hold_the_run_up():
    """device-2 disputes epoch 2 and then falls silent; with three of four left, nothing can be confirmed."""
    scenario, server = train(
        4, 3, [2], liars=(2,), arrivals=lambda epoch, names: [name for name in names if epoch < 3 or name != "device-2"]
    )
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])
    assert (server.liars, sorted(server.epochs.disputed)) == ({}, [2])


def test_without_the_silent_the_others_confirm():
    scenario, server = train(
        5, 4, [2], liars=(2,), arrivals=lambda epoch, names: [name for name in names if epoch < 3 or name != "device-2"]
    )
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[-1])
    assert (server.liars, sorted(server.epochs.disputed)) == ({"device-2": 2}, [])


def test_a_confirmation_that_is_torn_beyond_repair_ends_with_the_model_before_the_dispute():
    """Of the six asked again three lie, each in its own way, and one of them so that some totals stay within bounds."""
    scenario = Scenario(sizes=SIZES, alpha=4)  # 3 decode, 3 more
    server, devices = scenario.server(descent(EPOCHS)), scenario.devices()
    conspire(devices[3], [3, 5])
    for i, used_with in ((4, [0, 1, 4]), (5, [0, 2, 5])):
        make_liar(devices[i], lambda epoch: epoch == 5, used_with=used_with)
    with pytest.raises(WrongAnswers, match=r"^the answers to epoch 5 must agree on the code"):
        run_in_process(server, devices)
    assert np.array_equal(server.model, scenario.expected_models(descent(EPOCHS))[1])
    assert all(device.finished for device in devices)


def test_a_server_that_restarts_before_every_message_goes_on_with_the_confirmation():
    scenario = Scenario(sizes=SIZES[:5], alpha=4)
    network = Network.of(scenario, descent(EPOCHS))
    make_liar(network.devices["device-1"], lambda epoch: epoch == 2, used_with=[0, 1])
    confirmed = 0
    served: Counter[tuple[str, str]] = Counter()
    while links := network.pending():
        link = min(links, key=lambda link: served[link])  # in turn, so that what is late comes before what is later
        served[link] += 1
        old = network.server
        confirmed += old.epochs.current.confirms
        network.server = scenario.server(descent(EPOCHS), identity=old.identity)
        network.server.restore(plain(old.state()))
        network.deliver(link)
    assert confirmed > 3
    assert np.array_equal(network.server.model, scenario.expected_models(descent(EPOCHS))[-1])
    assert (network.server.epochs.mended, network.server.liars) == ([2], {"device-1": 2})
