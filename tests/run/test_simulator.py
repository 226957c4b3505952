"""Virtual time: the real protocol and the fast mode make the same model bit for bit, on the same clock."""

from __future__ import annotations

import numpy as np
import pytest

from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import STEP_LITERAL, STEP_PAPER, GradientDescent, Nesterov, StepSchedule
from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.comparing.simulator import simulate, trajectory
from codedfl_lab.costs.times import Conditions, Descent, Draws, TrainingTimes, WorkShape, epoch_end_times
from codedfl_lab.costs.times import models as models_of
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.role_keys import RoleKeys, RoleSums
from small_problems import digits, totals
from trainings import repeatable

FLEET = Fleet.load("paper").scaled_to(10)
AT = Conditions(FLEET)
DESCENT = Descent(STEP_PAPER, 1e-4)


def solvers():
    return {
        "gd": lambda: GradientDescent(6, 1e-4, STEP_PAPER),
        "nesterov": lambda: Nesterov(6, 1e-4, STEP_LITERAL),
        "cg": lambda: ConjugateGradient(8, 1e-4, restart=3),
        "block-krylov": lambda: BlockKrylov(8, 1e-4, memory=4),
        "derived step": lambda: Nesterov(8, 1e-4),
    }


@pytest.mark.parametrize("solver", solvers())
@pytest.mark.parametrize(
    "scheme",
    [CodedPadded(8), CodedKeys(8), CodedKeys(3, groups=2), RoleKeys(1, narrow=True, blocks=2)],
    ids=lambda s: s.label,
)
def test_fast_mode_is_the_protocol_bit_for_bit(scheme, solver):
    make = solvers()[solver]
    real = simulate(scheme, digits(), make(), AT, np.random.default_rng(1))
    fast = trajectory(
        models_of(scheme, TrainingTimes(totals(), make(), DESCENT, AT, np.random.default_rng(2))),
        totals(),
        max_epochs=50,
        target=2.0,
    )
    assert np.array_equal(real.model, fast.model)
    assert np.array_equal(real.scores, fast.scores)
    assert np.array_equal(real.epochs, fast.epochs)


@pytest.mark.parametrize(("scheme", "narrow"), [(OneShot(8), False), (RoleSums(1, narrow=True), True)])
def test_one_shot_too(scheme, narrow):
    real = simulate(scheme, digits(), ClosedForm(1e-4), AT, np.random.default_rng(1))
    assert np.array_equal(real.model, totals().ridge(1e-4, narrow=narrow))
    assert len(real.epochs) == 1


def test_32_bits_take_the_epochs_of_48_to_a_target_and_two_thirds_of_the_upload():
    """Another model, whose score is the same to a few rows of the test set."""
    wide, narrow = (
        simulate(RoleKeys(1, narrow=short), digits(), BlockKrylov(8, 1e-4), AT, np.random.default_rng(1))
        for short in (False, True)
    )
    assert wide.epochs_to(0.85) == narrow.epochs_to(0.85) is not None
    assert np.abs(wide.scores - narrow.scores).max() < 0.01
    assert not np.array_equal(wide.model, narrow.model)
    shape = WorkShape.of(digits())
    assert 3 * shape.on_ring_of(RoleKeys(1, narrow=True)).bulk_bits == 2 * shape.bulk_bits


@pytest.mark.parametrize("policy", ["restart", "finish"])
def test_devices_that_cannot_be_in_time_need_not_compute(policy):
    at = Conditions(FLEET, policy=policy)
    lazy, eager = (
        simulate(
            CodedPadded(7),
            digits(),
            GradientDescent(5, 1e-4, STEP_PAPER),
            at,
            np.random.default_rng(3),
            everyone_computes=everyone,
            random_bytes=repeatable("same"),
        )
        for everyone in (False, True)
    )
    assert np.array_equal(lazy.model, eager.model)
    assert np.array_equal(lazy.seconds, eager.seconds)


def test_both_modes_read_the_same_clock():
    """With the same generator, the protocol's epochs end when the vectorised latencies say."""
    scheme = CodedPadded(8)
    real = simulate(scheme, digits(), GradientDescent(5, 1e-4, STEP_PAPER), AT, np.random.default_rng(4))
    start, ends = epoch_end_times(scheme, WorkShape.of(digits()), AT, 5, Draws(1, np.random.default_rng(4)))
    assert np.array_equal(real.seconds, ends[0])
    assert real.seconds[0] > start[0]


def test_a_seed_repeats_everything():
    runs = [
        simulate(CodedKeys(8), digits(), GradientDescent(3, 1e-4, STEP_PAPER), AT, np.random.default_rng(5))
        for _ in range(2)
    ]
    assert np.array_equal(runs[0].seconds, runs[1].seconds)
    assert np.array_equal(runs[0].model, runs[1].model)


def test_trajectory_stops_past_the_target():
    run = trajectory(
        models_of(
            CodedKeys(8), TrainingTimes(totals(), ConjugateGradient(50, 1e-4), DESCENT, AT, np.random.default_rng(0))
        ),
        totals(),
        max_epochs=50,
        target=0.8,
        beyond_target=1.0,
    )
    assert run.epochs_to(0.8) == run.epochs[-1]
    assert run.epochs_to(2.0) is None


def test_every_epoch_is_scored_and_several_at_once_as_one_by_one():
    run = trajectory(
        models_of(
            CodedKeys(8),
            TrainingTimes(totals(), GradientDescent(40, 1e-4, STEP_PAPER), DESCENT, AT, np.random.default_rng(0)),
        ),
        totals(),
        max_epochs=40,
        target=2.0,
    )
    assert run.epochs.tolist() == list(range(1, 41))
    models = totals().train(GradientDescent(40, 1e-4, STEP_PAPER))
    assert run.scores.tolist() == [digits().score(theta) for theta in models]


def test_the_first_crossing_is_found_whichever_mini_batch_it_falls_on():
    """Conventional FL cycles through five mini-batches and its score swings: every fifth epoch misses the crossing."""
    run = trajectory(
        models_of(Conventional(), TrainingTimes(totals(), None, DESCENT, AT, np.random.default_rng(0))),
        totals(),
        max_epochs=200,
        target=2.0,
    )
    targets = np.unique(run.scores)
    crossings = [run.epochs_to(target) for target in targets]
    assert crossings == [int(np.flatnonzero(run.scores >= target)[0]) + 1 for target in targets]
    assert len({crossing % 5 for crossing in crossings}) > 1


def test_a_training_that_overflows_ends_with_the_scores_it_had():
    run = trajectory(
        models_of(
            Conventional(),
            TrainingTimes(totals(), None, Descent(StepSchedule(1e6), 1e-4), AT, np.random.default_rng(0)),
        ),
        totals(),
        max_epochs=400,
        target=2.0,
    )
    assert 1 < len(run.scores) < 400
    assert np.isfinite(run.model).all()


def test_a_diverging_training_ends_where_its_updates_no_longer_fit():
    run = trajectory(
        models_of(
            CodedKeys(8),
            TrainingTimes(
                totals(), GradientDescent(400, 1e-4, StepSchedule(50.0)), DESCENT, AT, np.random.default_rng(0)
            ),
        ),
        totals(),
        max_epochs=400,
        target=2.0,
    )
    assert 1 < len(run.epochs) < 400
