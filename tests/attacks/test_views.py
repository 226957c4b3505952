"""The recorder keeps every byte and changes nothing; a view opens what its owner can open, and no more."""

from __future__ import annotations

import random
from contextlib import nullcontext

import numpy as np
import pytest
from experiments.attacks.coded_run import coded_sums, decoded_total, true_parts
from experiments.views import Recording, recorded

from codedfl.data.problem import Problem
from codedfl.errors import InvalidInput
from codedfl.protocol.messages import SERVER, Kind, Message
from codedfl.protocol.schemes.coded_keys import CodedKeys, OneShot
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.run.in_process import run_in_process
from codedfl.run.parties import make_parties
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import STEP_PAPER, GradientDescent
from codedfl.solve.solver import Solver
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import Fleet
from small_problems import digits

ALPHA = 3
SCHEMES = pytest.mark.parametrize(
    "scheme", [CodedPadded(ALPHA), CodedKeys(ALPHA), OneShot(ALPHA)], ids=lambda s: s.name
)


def problem() -> Problem:
    return digits(n_devices=6, n_features=12)


def solver_for(scheme: CodedScheme) -> Solver:
    return ClosedForm(9e-6) if scheme.reveals_gram else GradientDescent(3, 9e-6, STEP_PAPER)


def trained(scheme: CodedScheme, recording: Recording | None = None) -> np.ndarray:
    with recorded(recording) if recording else nullcontext():
        server, devices = make_parties(scheme, problem(), solver_for(scheme), random_bytes=random.Random(1).randbytes)
        return run_in_process(server, devices)


@SCHEMES
def test_recording_changes_no_bit_of_the_model(scheme: CodedScheme):
    assert np.array_equal(trained(scheme), trained(scheme, Recording()))


@SCHEMES
def test_in_process_every_party_has_a_view_of_all_it_received(scheme: CodedScheme):
    recording = Recording()
    trained(scheme, recording)
    assert set(recording.views) == {SERVER, *problem().device_names}
    kinds = [Message.decode(data).kind for data in recording.server.received]
    assert kinds.count(Kind.JOIN) == kinds.count(Kind.SHARES) == kinds.count(Kind.READY) == 6
    assert set(recording.server.answers(1)) == set(problem().device_names)
    assert bool(recording.server.uploads()) == (scheme.name != "coded-padded")


def test_the_simulated_run_is_recorded_too():
    recording = Recording()
    at = Conditions(Fleet.load("paper").scaled_to(6))
    solver, rng = GradientDescent(3, 9e-6, STEP_PAPER), np.random.default_rng(0)
    with recorded(recording):
        simulate(CodedKeys(ALPHA), problem(), solver, at, rng, everyone_computes=True)
    assert len(recording.server.answers(2)) == 6
    assert all(len(recording.device(name).updates()) == 3 for name in problem().device_names)


@SCHEMES
def test_the_view_holds_the_total_bit_for_bit(scheme: CodedScheme):
    recording = Recording([SERVER])
    trained(scheme, recording)
    view = recording.server
    ring = view.agreed.fixed_point.ring
    epochs = (1,) if scheme.reveals_gram else (1, 2, 3)
    for epoch in epochs:
        truth = ring.to_integers(true_parts(view, problem(), epoch)).sum(axis=0)
        assert np.any(truth)
        assert np.array_equal(ring.to_integers(decoded_total(view, coded_sums(view, epoch))), truth)
    with pytest.raises(InvalidInput, match=rf"^epoch must be one that <View .*> holds an update of, got {epoch + 1}$"):
        view.update_on_ring(epoch + 1)


@SCHEMES
def test_a_device_is_given_something_of_its_row_of_the_code_only(scheme: CodedScheme):
    recording = Recording()
    trained(scheme, recording)
    for i, name in enumerate(recording.server.agreed.names):
        view = recording.device(name)
        row = {view.agreed.names[j] for j in view.agreed.code.row_support(i)} - {name}
        with_pads = {sender for sender, secrets in view.shares().items() if secrets.pad}
        padded = scheme.name == "coded-padded"
        assert set(view.padded_data()) == (row if padded else set())
        assert with_pads == (set() if padded else row)
        assert len(view.mask_seeds) == ALPHA + 1


def test_a_recording_is_of_one_run_and_of_whom_it_is_told():
    recording = Recording([SERVER])
    trained(CodedKeys(ALPHA), recording)
    with pytest.raises(InvalidInput, match="a view must be of a party of the run"):
        recording.device("device-0")
    with pytest.raises(InvalidInput, match="a recording must be of one run"):
        trained(CodedKeys(ALPHA), recording)


def test_no_secret_is_in_a_repr():
    recording = Recording()
    trained(CodedKeys(ALPHA), recording)
    view = recording.device("device-0")
    text = repr(view) + repr(recording)
    assert not any(secret.hex() in text or repr(secret) in text for secret in view.drawn)
