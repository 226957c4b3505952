"""Tables behind the figures: statistics over seeds, honest about seeds that never arrive."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.schemes import CodedKeys, CodedPadded, Conventional, DropSlowest, OneShot
from codedfl.study.comparison import Entry, Settings, compare, draw_latencies, train_all
from codedfl.study.results import Summary, summary
from small_problems import digits

FLEET = Fleet.load("paper").scaled_to(10)
ENTRIES = [
    Entry(Conventional()),
    Entry(CodedPadded(8)),
    Entry(CodedPadded(10)),
    Entry(CodedKeys(8), "cg"),
    Entry(OneShot(8)),
    Entry(DropSlowest(3)),
]


def settings(**changes) -> Settings:
    return replace(
        Settings(FLEET, (0.7, 0.92), conventions=("authors", "multicast"), draws=20, max_epochs=60), **changes
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


def test_a_seed_that_never_arrives_is_counted_not_dropped(outcome):
    never = row(outcome, "drop-slowest")
    assert (never.seeds, never.seeds_reached) == (2, 0)
    assert never.epochs_to_target == Summary()
    assert never.time_to_target_s.p95 is None
    assert never.speedup_over_conventional.median == 0.0


def test_latencies_can_be_drawn_again_for_the_same_models():
    trained = train_all([(0, digits(n_features=200))], ENTRIES[:2], settings())
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
        ({"solver": "sgd"}, "solver must be one of gd, nesterov, cg, got 'sgd'"),
        ({"step": "big"}, "step must be one of paper, literal, got 'big'"),
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
