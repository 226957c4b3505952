"""Each claim of the paper's section V on results made so that it holds, fails or cannot be judged."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from codedfl.data import datasets
from codedfl.data.problem import make_problem
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.schemes import CodedPadded, Conventional, DropSlowest
from codedfl.study.claims import (
    alpha_is_never_fastest,
    alpha_never_beats_conventional,
    beats_coded_fedl,
    best_alpha_changes,
    coding_gains_over_dropping,
    conventional_wins_below,
    dropping_keeps_accuracy_on_shuffled,
    dropping_loses_accuracy_on_sorted,
    headline_speedup,
    paper_claims,
    slightly_slower_than_coded_fedl,
    smaller_alpha_wins_between,
)
from codedfl.study.comparison import Comparison, Entry, Settings, compare
from codedfl.study.paper import EXPERIMENTS
from codedfl.study.results import SchemeResult
from made_up_results import entry


@pytest.mark.parametrize(
    ("speedups", "holds"),
    [
        ((6.3, 7.2, 8.9), True),
        ((6.3, 7.7, 8.9), False),  # the median is 17 % off
        ((6.7, 7.2, 8.9), False),  # the paper's 6.6 is below every seed
        ((0.0, 0.0, 0.0), False),  # never reached by ours
    ],
)
def test_headline_needs_the_median_near_and_the_paper_inside(speedups: tuple[float, float, float], holds: bool) -> None:
    claim = headline_speedup([entry(0.95, 1200.0, alpha=23, speedups=speedups)], "mnist", EXPERIMENTS["mnist"])
    assert claim.holds is holds
    assert f"median {speedups[1]:.2f}" in claim.evidence
    assert f"{speedups[0]:.2f} to {speedups[2]:.2f} over 2 of 2 seeds" in claim.evidence


def test_headline_is_not_judged_without_its_entry_or_its_baseline() -> None:
    others = [entry(0.95, 1200.0, alpha=25, speedups=(6, 6.6, 7)), entry(0.9, 900.0, alpha=23, speedups=(6, 6.6, 7))]
    assert headline_speedup(others, "mnist", EXPERIMENTS["mnist"]).holds is None
    unreached = headline_speedup([entry(0.95, 1200.0, alpha=23)], "mnist", EXPERIMENTS["mnist"])
    assert unreached.holds is None
    assert "conventional FL reaches the target" in unreached.evidence


@pytest.mark.parametrize(
    "change", [{"sharing": "multicast"}, {"step": "literal"}, {"solver": "cg"}, {"dataset": "fashion-mnist"}]
)
def test_only_entries_run_as_the_paper_ran_them_count(change: dict[str, Any]) -> None:
    wrong = entry(0.95, 1200.0, alpha=23, speedups=(6.3, 6.6, 7.0), **change)
    claim = headline_speedup([wrong], "mnist", EXPERIMENTS["mnist"])
    assert claim.holds is None
    assert claim.evidence.startswith("missing: coded-padded, α = 23 at 95")


def test_conventional_wins_below_looks_at_every_lower_target_and_no_other() -> None:
    schemes = [entry(0.8, 100.0), entry(0.8, 200.0, alpha=6), entry(0.8, 300.0, alpha=23)]
    at_limit = [entry(0.9, 500.0), entry(0.9, 400.0, alpha=23)]
    assert conventional_wins_below(schemes + at_limit, "mnist", 0.9).holds is True
    assert conventional_wins_below(at_limit, "mnist", 0.9).holds is None
    lost = [entry(0.85, 250.0), entry(0.85, 240.0, alpha=6)]
    claim = conventional_wins_below(schemes + lost, "mnist", 0.9)
    assert claim.holds is False
    assert "conventional FL in 250\u202fs, coded-padded, α = 6 in 240\u202fs" in claim.evidence


def test_a_target_nobody_reaches_says_nothing() -> None:
    assert conventional_wins_below([entry(0.8, None), entry(0.8, None, alpha=6)], "mnist", 0.9).holds is None


def test_never_is_later_than_any_time() -> None:
    schemes = [entry(0.8, 100.0), entry(0.8, None, alpha=6)]
    claim = conventional_wins_below(schemes, "mnist", 0.9)
    assert claim.holds is True
    assert "coded-padded, α = 6 never" in claim.evidence


def test_alpha_wins_or_beats_conventional() -> None:
    schemes = [entry(0.9, 100.0), entry(0.9, 90.0, alpha=6), entry(0.9, 50.0, alpha=23)]
    assert alpha_is_never_fastest(schemes, "mnist", 6).holds is True
    assert alpha_never_beats_conventional(schemes, "mnist", 6).holds is False
    assert alpha_is_never_fastest(schemes, "mnist", 23).holds is False
    assert alpha_is_never_fastest(schemes, "mnist", 16).holds is None
    assert alpha_never_beats_conventional(schemes[1:], "mnist", 6).holds is None


@pytest.mark.parametrize(("delta_seconds", "holds"), [(900.0, True), (1300.0, False), (700.0, False), (None, False)])
def test_slightly_slower_is_neither_faster_nor_much_slower(delta_seconds: float | None, holds: bool) -> None:
    schemes = [entry(0.95, 1200.0, alpha=23), entry(0.95, delta_seconds, delta=0.8)]
    assert slightly_slower_than_coded_fedl(schemes, "mnist", 0.95, 23, 0.8).holds is holds


def test_beats_coded_fedl() -> None:
    schemes = [entry(0.95, 1200.0, alpha=23), entry(0.95, 4800.0, delta=0.1)]
    claim = beats_coded_fedl(schemes, "mnist", 0.95, 23, 0.1)
    assert claim.holds is True
    assert "0.25 times as long" in claim.evidence
    assert beats_coded_fedl(schemes, "mnist", 0.95, 25, 0.1).holds is None
    assert slightly_slower_than_coded_fedl(schemes, "mnist", 0.95, 23, 0.8).holds is None


def test_smaller_alpha_wins_between() -> None:
    def at(target: float, conventional: float, smaller: float, whole: float) -> list[SchemeResult]:
        return [entry(target, conventional), entry(target, smaller, alpha=16), entry(target, whole, alpha=25)]

    held = at(0.8, 900, 600, 800) + at(0.85, 9000, 2700, 1800)  # at 85 % replication may win
    assert smaller_alpha_wins_between(held, "mnist", 0.8, 0.85, 25).holds is True
    assert smaller_alpha_wins_between(held + at(0.84, 9000, 900, 800), "mnist", 0.8, 0.85, 25).holds is False
    assert smaller_alpha_wins_between(held + at(0.82, 500, 600, 800), "mnist", 0.8, 0.85, 25).holds is False
    assert smaller_alpha_wins_between(held[3:], "mnist", 0.8, 0.85, 25).holds is None


def test_best_alpha_changes() -> None:
    low = [entry(0.8, 300.0, alpha=6), entry(0.8, 500.0, alpha=23)]
    high = [entry(0.95, 7000.0, alpha=6), entry(0.95, 1200.0, alpha=23)]
    claim = best_alpha_changes(low + high, "mnist")
    assert (claim.holds, claim.evidence) == (True, "80\u202f%: α = 6; 95\u202f%: α = 23")
    assert best_alpha_changes([low[1], *high], "mnist").holds is None
    same = [entry(0.9, 400.0, alpha=6), entry(0.9, 500.0, alpha=23)]
    assert best_alpha_changes(low + same, "mnist").holds is False


@pytest.mark.parametrize(("final", "lost"), [(0.87, True), (0.946, False)])
def test_dropping_and_accuracy(final: float, lost: bool) -> None:
    def on(dataset: str) -> list[SchemeResult]:
        return [
            entry(0.95, 8000.0, dataset=dataset),
            entry(0.95, None, dataset=dataset, dropped=5, final=final),
        ]

    assert dropping_loses_accuracy_on_sorted(on("mnist"), "mnist", 5).holds is lost
    assert dropping_keeps_accuracy_on_shuffled(on("mnist (shuffled)"), "mnist", 5).holds is not lost
    assert dropping_loses_accuracy_on_sorted(on("mnist"), "mnist", 3).holds is None
    assert dropping_keeps_accuracy_on_shuffled(on("mnist"), "mnist", 5).holds is None


def test_coding_is_set_against_dropping_at_the_highest_target_both_reach() -> None:
    low = [entry(0.8, 700.0, alpha=23), entry(0.8, 500.0, dropped=5, final=0.87)]
    middle = [entry(0.85, 710.0, alpha=23), entry(0.85, 1900.0, dropped=5, final=0.87)]
    high = [entry(0.95, 1200.0, alpha=23), entry(0.95, None, dropped=5, final=0.87)]
    claim = coding_gains_over_dropping(low + middle + high, "mnist", 5)
    assert (claim.holds, claim.target_accuracy) == (True, 0.85)
    assert coding_gains_over_dropping(low + high, "mnist", 5).holds is False
    never = coding_gains_over_dropping(high, "mnist", 5)
    assert (never.holds, never.target_accuracy) == (True, 0.95)
    worse = [entry(0.8, 400.0, alpha=23, final=0.86), low[1]]
    assert coding_gains_over_dropping(worse, "mnist", 5).holds is False


@pytest.mark.parametrize("dataset", EXPERIMENTS)
def test_without_results_every_claim_is_listed_as_not_judged(dataset: str) -> None:
    claims = paper_claims(dataset, [])
    assert len(claims) >= 9
    assert {claim.holds for claim in claims} == {None}
    assert all(claim.evidence.startswith("missing: ") for claim in claims)


def test_other_data_sets_have_no_claims() -> None:
    with pytest.raises(
        InvalidInput, match=r"^dataset must be one of mnist, fashion-mnist \(the paper's\), got 'digits'$"
    ):
        paper_claims("digits", [])


@pytest.fixture(scope="module")
def sorted_and_shuffled() -> tuple[Comparison, Comparison]:
    """Small and real: digits with 100 features on the paper's fleet."""
    data = datasets.load("digits")
    settings = Settings(Fleet.load("paper"), (0.8, 0.9), draws=10, max_epochs=120)
    schemes = (Conventional(), CodedPadded(6), CodedPadded(23), CodedPadded(25), DropSlowest(5))
    outcomes = []
    for name, way in (("mnist", "sorted"), ("mnist (shuffled)", "random")):
        problems = [
            (seed, make_problem(data, n_devices=25, partition_name=way, n_features=100, seed=seed)) for seed in (0, 1)
        ]
        outcomes.append(compare(name, problems, [Entry(scheme) for scheme in schemes], settings))
    return outcomes[0], outcomes[1]


def test_a_real_comparison_can_be_judged(sorted_and_shuffled: tuple[Comparison, Comparison]) -> None:
    """Digits under the name of MNIST: what is judged depends on the entries alone, and dropping drifts here as well."""
    plain, shuffled = sorted_and_shuffled
    claims = {claim.statement: claim for claim in paper_claims("mnist", plain.schemes, shuffled.schemes)}
    judged = [statement for statement, claim in claims.items() if claim.holds is not None]
    assert any("loses accuracy on sorted" in statement for statement in judged)
    assert dropping_loses_accuracy_on_sorted(plain.schemes, "mnist", 5).holds is True
    assert dropping_keeps_accuracy_on_shuffled(shuffled.schemes, "mnist", 5).holds is True
    unjudged = [statement for statement in claims if statement not in judged]
    assert all("CodedFedL" in statement or "6.6 times" in statement for statement in unjudged)
    assert json.loads(json.dumps([asdict(claim) for claim in claims.values()], allow_nan=False))
