"""Answers that are wrong beyond repair: the devices are told, and the last good model stays."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
from codedfl.errors import CodedFLError, RangeExceeded, SolverFailed, WrongAnswers
from codedfl.protocol.device_epochs import DeviceEpochs
from codedfl.protocol.epoch_total import read_total
from codedfl.protocol.messages import Update
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import run_in_process
from codedfl.solve.closed_form import ClosedForm
from fake_post import FakePost, Killed, leftovers, make_conductor, make_hosts
from scenario import Scenario, descent


@pytest.fixture
def lied_to(monkeypatch: pytest.MonkeyPatch, no_power_cuts: None) -> Scenario:
    """One redundant answer shows that somebody lies from epoch 3 on, but not who."""
    honest = DeviceEpochs._answer

    def answer(self: DeviceEpochs, update: Update, digest: bytes) -> Any:
        planes = honest(self, update, digest)
        if self._session.name == "device-1" and update.epoch >= 3:
            code = self._session.agreed.code
            for k, p in enumerate(code.primes):  # one unit of the total, where it is decoded from the first three
                factor = int(code.decoding_vector([0, 1, 2])[k, 1])
                planes[k, 0] = oracle.centred(int(planes[k, 0]) + pow(factor, -1, p), p)
        return planes

    monkeypatch.setattr(DeviceEpochs, "_answer", answer)
    return Scenario(sizes=(3, 5, 2, 4), alpha=2, d=40, scheme=CODED_KEYS)


def test_when_answers_contradict_each_other_the_devices_are_told_and_the_good_model_stays(
    lied_to: Scenario, tmp_path: Path
):
    conductor = make_conductor(lied_to, FakePost(make_hosts(lied_to, tmp_path)), tmp_path, descent, spare=1)
    with pytest.raises(WrongAnswers, match=r"^the answers to epoch 3 must agree on the code"):
        conductor.run()
    assert leftovers(tmp_path) == []
    assert np.array_equal(conductor.model, run_in_process(lied_to.server(descent(2)), lied_to.devices()))


def test_when_a_total_breaks_its_bound_the_devices_are_told_and_the_good_model_stays(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    totals = itertools.count(1)

    def read(*arguments: Any) -> Any:
        if next(totals) >= 3:
            raise RangeExceeded("the total must be within its bound, got another")
        return read_total(*arguments)

    monkeypatch.setattr("codedfl.protocol.server_epochs.read_total", read)
    conductor = make_conductor(scenario, FakePost(make_hosts(scenario, tmp_path)), tmp_path, descent)
    with pytest.raises(RangeExceeded, match=r"^the total must be within its bound, got another$"):
        conductor.run()
    assert leftovers(tmp_path) == []
    monkeypatch.undo()
    assert np.array_equal(conductor.model, run_in_process(scenario.server(descent(2)), scenario.devices()))


def test_when_the_solver_fails_the_devices_are_told_and_nothing_is_resumed(tmp_path: Path):
    """Fewer samples than features, and no regularisation: X'X cannot be inverted, now or later."""
    scenario = Scenario(sizes=(1, 1), alpha=1, d=4, scheme=ONE_SHOT)
    post = FakePost(make_hosts(scenario, tmp_path))
    conductor = make_conductor(scenario, post, tmp_path, lambda: ClosedForm(0.0))
    with pytest.raises(SolverFailed, match=r"^the solver must make a model of the totals of epoch 1, it cannot: "):
        conductor.run()
    assert leftovers(tmp_path) == []


def test_a_run_that_ended_for_good_is_not_resumed_as_if_it_had_not(lied_to: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(lied_to, tmp_path))
    first = make_conductor(lied_to, post, tmp_path, descent, spare=1)

    def tick() -> None:
        if first.server is not None and first.server.phase is Phase.FINISHED:
            raise Killed

    post.tick = tick
    with pytest.raises(Killed):
        first.run()
    post.tick = lambda: None
    again = make_conductor(lied_to, post, tmp_path, descent, spare=1)
    with pytest.raises(CodedFLError, match=r"^the answers to epoch 3 must agree on the code"):
        again.run()
    assert np.array_equal(again.model, first.model)
    assert leftovers(tmp_path) == []
