"""Tables behind the figures: statistics over seeds, honest about seeds that never arrive."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.baselines.coded_fedl import CodedFedL
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.comparing.comparison import Entry, Settings, compare, draw_latencies, train_one
from codedfl_lab.comparing.results import Gain, Summary, summary
from codedfl_lab.costs.times import Conditions, models
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.schemes.coded_keys import CodedKeys, OneShot
from codedfl_lab.schemes.coded_padded import CodedPadded
from small_problems import digits

FLEET = Fleet.load("paper").scaled_to(10)
ENTRIES = [
    Entry(Conventional()),
    Entry(CodedPadded(8)),
    Entry(CodedPadded(10)),
    Entry(CodedKeys(8), "cg"),
    Entry(OneShot(8)),
    Entry(DropSlowest(3)),
    Entry(ConventionalFullBatch(), "cg"),
]


def settings(**changes) -> Settings:
    return replace(
        Settings(Conditions(FLEET), (0.7, 0.92), conventions=("authors", "multicast"), draws=20, max_epochs=60),
        **changes,
    )


@pytest.fixture(scope="module")
def outcome():
    return compare("digits", [(seed, digits(n_features=200, seed=seed)) for seed in (0, 1)], ENTRIES, settings())


def row(outcome, scheme, target=0.92, sharing="authors", **parameters):
    return next(
        entry
        for entry in outcome.schemes
        if (entry.scheme, entry.target_accuracy, entry.sharing) == (scheme, target, sharing)
        and all(entry.parameters.get(key) == value for key, value in parameters.items())
    )


def test_every_entry_target_and_convention_has_its_row(outcome):
    assert len(outcome.schemes) == len(ENTRIES) * 2 * 2


def test_conventional_is_once_itself(outcome):
    assert row(outcome, "conventional").speedup_over_conventional.median == 1.0


def test_coded_entries_share_their_trajectory(outcome):
    epochs = [row(outcome, "coded-padded", alpha=alpha).epochs_to_target for alpha in (8, 10)]
    assert epochs[0] == epochs[1]
    assert row(outcome, "coded-keys").epochs_to_target.median < epochs[0].median
    assert row(outcome, "one-shot").epochs_to_target.max == 1


def test_speedup_is_the_ratio_of_mean_times(outcome):
    """For two seeds the median of the ratios is their mean."""
    mine, theirs = row(outcome, "coded-keys"), row(outcome, "conventional")
    assert mine.time_to_target_s.min < mine.time_to_target_s.max
    least = theirs.time_to_target_s.min / mine.time_to_target_s.max
    most = theirs.time_to_target_s.max / mine.time_to_target_s.min
    assert least <= mine.speedup_over_conventional.median <= most


def test_the_gain_is_the_solver_s_times_the_code_s(outcome):
    mine, rival = row(outcome, "coded-keys"), row(outcome, "conventional-full-batch")
    assert mine.gain.solver == rival.speedup_over_conventional.median
    assert mine.gain.solver * mine.gain.code == pytest.approx(mine.speedup_over_conventional.median)
    assert mine.gain.code > 1
    assert rival.gain.code == 1.0
    assert row(outcome, "coded-padded").gain == Gain(), "no conventional FL with descent on the full batch was run"
    assert row(outcome, "conventional").gain == Gain()


class Broken(DropSlowest):
    """Cannot be trained; the way it fails is what CodedFedL did on many tables."""


@models.register(Broken)
def fail(scheme, *arguments):
    raise np.linalg.LinAlgError("Matrix is not positive definite")


def test_a_scheme_that_cannot_run_is_a_row_that_says_why():
    entries = [Entry(Conventional()), Entry(Broken(3)), Entry(CodedPadded(11)), Entry(CodedKeys(8), "cg")]
    outcome = compare("digits", [(seed, digits(seed=seed)) for seed in (0, 1)], entries, settings(targets=(0.7,)))
    here = [one for one in outcome.schemes if one.sharing == "authors"]
    assert [one.reason for one in here] == [
        None,
        "Matrix is not positive definite",
        "alpha must be between 1 and the number of devices (10), got 11",
        None,
    ]
    assert [(one.seeds, one.seeds_reached) for one in here] == [(2, 2), (2, 0), (2, 0), (2, 2)]
    assert {one.scheme for one in outcome.traces} == {"conventional", "coded-keys"}


@pytest.mark.parametrize("devices", [2, 3, 5, 7, 10, 15, 20])
def test_every_small_fleet_gets_its_table(devices):
    fleet = Fleet.load("paper").scaled_to(devices)
    entries = [Entry(Conventional()), Entry(CodedFedL(0.1)), Entry(CodedFedL(0.8)), Entry(CodedKeys(devices), "cg")]
    problem = digits(devices, n_features=40)
    outcome = compare("digits", [(0, problem)], entries, settings(at=Conditions(fleet), draws=5, max_epochs=20))
    assert [one.reason for one in outcome.schemes if one.scheme != "coded-fedl"] == [None] * 8


def test_one_device_a_thousand_times_slower():
    slow = replace(FLEET.classes[0], count=1, mac_rate=FLEET.classes[0].mac_rate / 1000, name="slow")
    fleet = replace(FLEET, classes=(replace(FLEET.classes[0], count=9), slow))
    entries = [Entry(Conventional()), Entry(CodedFedL(0.1)), Entry(CodedKeys(2), "cg")]
    outcome = compare("digits", [(0, digits())], entries, settings(at=Conditions(fleet), draws=5, max_epochs=20))
    assert row(outcome, "coded-keys", target=0.7).reason is None
    assert row(outcome, "conventional", target=0.7).reason is None


def test_a_seed_that_never_arrives_is_counted_not_dropped(outcome):
    never = row(outcome, "drop-slowest")
    assert (never.seeds, never.seeds_reached) == (2, 0)
    assert never.epochs_to_target == Summary()
    assert never.time_to_target_s.p95 is None
    assert never.speedup_over_conventional.median == 0.0


def test_latencies_can_be_drawn_again_for_the_same_models():
    trained = train_one(0, digits(n_features=200), ENTRIES[:2], settings())
    first, again = (draw_latencies("digits", trained, ENTRIES[:2], settings()) for _ in range(2))
    other = draw_latencies("digits", trained, ENTRIES[:2], settings(latency_seed=1))
    assert first == again
    assert first[0] != other[0]


def test_traces_are_rows_of_the_first_convention(outcome):
    assert {entry.seed for entry in outcome.traces} == {0, 1}
    last = [entry for entry in outcome.traces if entry.scheme == "coded-keys" and entry.seed == 0]
    assert [entry.epoch for entry in last] == list(range(1, len(last) + 1))
    assert all(a.seconds < b.seconds for a, b in itertools.pairwise(last))


def test_summary_of_an_unreached_seed():
    assert summary([1.0, float("inf"), 3.0]) == Summary(3.0, None, 1.0, None)
    assert summary([]) == Summary()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "sgd"}, "solver must be one of gd, nesterov, cg, block-krylov, closed-form, got 'sgd'"),
        ({"step": "big"}, "step must be one of derived, paper, literal, got 'big'"),
        ({"solver": "cg"}, "solver must be gd for conventional (no exact gradients), got 'cg'"),
    ],
)
def test_bad_entries_are_refused(options, message):
    with pytest.raises(InvalidInput) as caught:
        Entry(Conventional(), **options)
    assert str(caught.value) == message


def test_no_problem_at_all_is_refused():
    with pytest.raises(InvalidInput) as caught:
        compare("none", [], ENTRIES, settings())
    assert str(caught.value) == "problems must hold at least one, got none"
