"""An overflow is refused, not trained on; the model so far is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import oracle
from codedfl.errors import RangeExceeded
from codedfl.exact.scales import Bounds
from codedfl.protocol.messages import Kind
from codedfl.protocol.server_session import Phase
from codedfl.solve.descent import GradientDescent, StepSchedule
from scenario import Network, Scenario, descent, gram_limit
from wording import exactly


def overflowing(**changes: Any) -> Scenario:
    """Sixteen samples at the bound where the run was promised five: X'X is three times larger than proved."""
    scenario = Scenario(sizes=(4, 4, 4, 4), bounds=Bounds(1.0, 1.0, 5, 4), **changes)
    scenario.data = [(np.ones((4, 4)), np.full((4, 2), 0.1)) for _ in range(4)]
    return scenario


def test_a_product_beyond_its_proof_is_refused_and_the_model_so_far_kept():
    scenario = overflowing(claimed_samples=5)
    network = Network.of(scenario)
    while network.server.epoch < 2:  # epoch 1 is fine: X'Y = 1.6 is below 5
        network.deliver(network.pending()[0])
    server = network.server
    kept = server.model.copy()
    format_ = server.agreement.fixed_point
    totals = scenario.totals(server.agreement)
    room = format_.ring.modulus // 8 // gram_limit(format_)
    integers, _ = oracle.update_on_grid(kept.tolist(), room)
    limit = gram_limit(format_) * oracle.column_norm(integers)
    largest = max(abs(v) for row in oracle.product(totals.gram, integers) for v in row)
    assert largest > limit
    message = (
        f"decoded X'X e must stay within +-{limit} ring units, got {largest}:"
        " an overflow or a corrupted answer, not used"
    )
    with pytest.raises(RangeExceeded, match=exactly(message)):
        network.run()
    assert server.phase is Phase.FINISHED
    assert np.array_equal(server.model, kept)
    # Nothing goes on afterwards: what is still on its way is late.
    network.run()
    assert np.array_equal(server.model, kept)


def test_more_samples_than_promised_are_noticed_when_they_are_summed():
    scenario = overflowing(public_samples=False)
    network = Network.of(scenario)
    with pytest.raises(RangeExceeded, match=exactly("the summed sample count must be between 4 and 5, got 16")):
        network.run()
    assert network.server.phase is Phase.FINISHED
    assert network.server.model is None


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_corrupted_device_is_noticed(epoch: int):
    """What decodes is then uniform on the ring: each of the eight numbers lies within M/8 with a chance of 1/4.

    Every answer is needed here, so nobody can say whether it is an answer or the data that break the bound.
    """
    network = Network.of(Scenario(alpha=1))
    network.run_until(Kind.UPDATE, Kind.FINISH)
    kept = Scenario().expected_models(descent())[0] if epoch == 2 else None
    held = network.devices["device-0"].sharing
    held.answer_constant[0, :] += 1
    if epoch == 2:
        held.answer_constant[0, :] -= 1
        held.answer_matrix[0] += 1
    message = r"^decoded (G\^\(1\)|X'X e) must stay within \+-\d+ ring units, got \d+: an overflow or a corrupted"
    with pytest.raises(RangeExceeded, match=message + " answer, not used$"):
        network.run()
    assert network.server.phase is Phase.FINISHED
    if kept is None:
        assert network.server.model is None
    else:
        assert np.array_equal(network.server.model, kept)


def test_a_diverging_training_is_stopped_with_the_model_so_far():
    """A step far too large: the update outgrows the room before a single number wraps."""
    scenario = Scenario()
    solver = GradientDescent(200, regularisation=0.0, step=StepSchedule(1e3))
    network = Network.of(scenario, solver)
    format_ = scenario.agreement().fixed_point
    room = format_.ring.modulus // 8 // gram_limit(format_)
    with pytest.raises(
        RangeExceeded, match=rf"^the update must have a column 1-norm of at most {room}, got \S+: it cannot be sent$"
    ):
        network.run()
    assert network.server.phase is Phase.FINISHED
    # Every epoch that was run is the centralised one, up to the last.
    again = GradientDescent(network.server.epoch, regularisation=0.0, step=StepSchedule(1e3))
    assert np.array_equal(network.server.model, scenario.expected_models(again)[-1])
