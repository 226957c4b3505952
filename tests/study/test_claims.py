"""Each claim of the paper's section V on results made so that it holds, fails or cannot be judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest

from codedfl.errors import InvalidInput
from codedfl_lab import datasets
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.comparing.comparison import Settings, Trained, draw_latencies, train_one
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.results import SchemeResult
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.problems.problem import make_problem
from codedfl_lab.reproduce.claims import (
    accuracy_claims,
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
from codedfl_lab.reproduce.reproduce import as_the_paper
from codedfl_lab.schemes.coded_padded import CodedPadded
from made_up_results import timed

CONVENTIONAL = timed(0.95, [6600.0, 6600.0, 6600.0])


@pytest.mark.parametrize(
    ("speedups", "verdict"),
    [
        ((6.3, 6.6, 7.2), "holds"),
        ((6.3, 7.2, 8.9), "tie"),  # a wide spread helps nobody: 8.9 is 35 % off
        ((7.7, 7.8, 8.9), "fails"),  # every seed is more than 15 % off
        ((4.0, 6.6, 9.0), "tie"),
        ((0.0, 0.0, 0.0), "fails"),  # never reached by ours
    ],
)
def test_headline_needs_the_whole_interval_near_the_papers_value(
    speedups: tuple[float, float, float], verdict: str
) -> None:
    coded = timed(0.95, [6600.0 / one if one else None for one in speedups], alpha=23)
    claim = headline_speedup([coded, CONVENTIONAL], "mnist", EXPERIMENTS["mnist"])
    assert claim.verdict == verdict
    assert f"{speedups[1]:.2f} ({speedups[0]:.2f} to {speedups[2]:.2f}) times faster" in claim.evidence
    assert f"({speedups[0] / 6.6:.2f} to {speedups[2] / 6.6:.2f}) of the paper's value" in claim.evidence


def test_headline_is_not_judged_without_its_entry_its_baseline_or_three_seeds() -> None:
    coded = timed(0.95, 1000.0, alpha=23)
    for rows in ([coded], [CONVENTIONAL], [CONVENTIONAL, timed(0.9, 1000.0, alpha=23)]):
        assert headline_speedup(rows, "mnist", EXPERIMENTS["mnist"]).verdict == "not judged"
    two = [timed(0.95, [1000.0] * 2, alpha=23), timed(0.95, [6600.0] * 2)]
    claim = headline_speedup(two, "mnist", EXPERIMENTS["mnist"])
    assert (claim.verdict, claim.evidence.count("6.60 times faster")) == ("not judged", 1)


@pytest.mark.parametrize("change", [{"step": "literal"}, {"solver": "cg"}, {"dataset": "fashion-mnist"}])
def test_only_entries_run_as_the_paper_ran_them_count(change: dict[str, Any]) -> None:
    wrong = timed(0.95, 1200.0, alpha=23, **change)
    claim = headline_speedup([wrong, CONVENTIONAL], "mnist", EXPERIMENTS["mnist"])
    assert claim.verdict == "not judged"
    assert claim.evidence == "missing: coded-padded, α = 23 and conventional FL (step paper, solver gd)"


def test_two_conventions_are_never_mixed() -> None:
    mixed = [CONVENTIONAL, timed(0.95, 1000.0, alpha=23, sharing="multicast")]
    with pytest.raises(InvalidInput, match=r"^schemes must be of one sharing convention, got several$"):
        headline_speedup(mixed, "mnist", EXPERIMENTS["mnist"])


def test_conventional_wins_below_looks_at_every_lower_target_and_no_other() -> None:
    schemes = [timed(0.8, 100.0), timed(0.8, 200.0, alpha=6), timed(0.8, 300.0, alpha=23)]
    at_limit = [timed(0.9, 500.0), timed(0.9, 400.0, alpha=23)]
    assert conventional_wins_below(schemes + at_limit, "mnist", 0.9).verdict == "holds"
    assert conventional_wins_below(at_limit, "mnist", 0.9).verdict == "not judged"
    lost = [timed(0.85, 250.0), timed(0.85, 240.0, alpha=6)]
    claim = conventional_wins_below(schemes + lost, "mnist", 0.9)
    assert claim.verdict == "fails"
    assert "conventional FL in 250\u202fs, coded-padded, α = 6 in 240\u202fs" in claim.evidence


def test_a_target_nobody_reaches_says_nothing() -> None:
    assert conventional_wins_below([timed(0.8, None), timed(0.8, None, alpha=6)], "mnist", 0.9).verdict == "not judged"


def test_never_is_later_than_any_time() -> None:
    schemes = [timed(0.8, 100.0), timed(0.8, None, alpha=6)]
    claim = conventional_wins_below(schemes, "mnist", 0.9)
    assert claim.verdict == "holds"
    assert "coded-padded, α = 6 never" in claim.evidence


def test_alpha_wins_or_beats_conventional() -> None:
    schemes = [timed(0.9, 100.0), timed(0.9, 90.0, alpha=6), timed(0.9, 50.0, alpha=23)]
    assert alpha_is_never_fastest(schemes, "mnist", 6).verdict == "holds"
    assert alpha_never_beats_conventional(schemes, "mnist", 6).verdict == "fails"
    assert alpha_is_never_fastest(schemes, "mnist", 23).verdict == "fails"
    assert alpha_is_never_fastest(schemes, "mnist", 16).verdict == "not judged"
    assert alpha_never_beats_conventional(schemes[1:], "mnist", 6).verdict == "not judged"


@pytest.mark.parametrize(
    ("delta_seconds", "verdict"),
    [(900.0, "holds"), (1300.0, "fails"), (700.0, "fails"), (1200.0, "tie"), (None, "fails")],
)
def test_slightly_slower_is_neither_faster_nor_much_slower(delta_seconds: float | None, verdict: str) -> None:
    schemes = [timed(0.95, 1200.0, alpha=23), timed(0.95, delta_seconds, delta=0.8)]
    assert slightly_slower_than_coded_fedl(schemes, "mnist", 0.95, 23, 0.8).verdict == verdict


def test_beats_coded_fedl() -> None:
    schemes = [timed(0.95, 1200.0, alpha=23), timed(0.95, 4800.0, delta=0.1)]
    claim = beats_coded_fedl(schemes, "mnist", 0.95, 23, 0.1)
    assert claim.verdict == "holds"
    assert "4.00 (4.00 to 4.00) times faster" in claim.evidence
    assert beats_coded_fedl(schemes, "mnist", 0.95, 25, 0.1).verdict == "not judged"
    assert slightly_slower_than_coded_fedl(schemes, "mnist", 0.95, 23, 0.8).verdict == "not judged"


def test_smaller_alpha_wins_between() -> None:
    def at(target: float, conventional: float, smaller: float, whole: float) -> list[SchemeResult]:
        return [timed(target, conventional), timed(target, smaller, alpha=16), timed(target, whole, alpha=25)]

    held = at(0.8, 900, 600, 800) + at(0.85, 9000, 2700, 1800)  # at 85 % replication may win
    assert smaller_alpha_wins_between(held, "mnist", 0.8, 0.85, 25).verdict == "holds"
    assert smaller_alpha_wins_between(held + at(0.84, 9000, 900, 800), "mnist", 0.8, 0.85, 25).verdict == "fails"
    assert smaller_alpha_wins_between(held + at(0.82, 500, 600, 800), "mnist", 0.8, 0.85, 25).verdict == "fails"
    assert smaller_alpha_wins_between(held[3:], "mnist", 0.8, 0.85, 25).verdict == "not judged"


def test_best_alpha_changes() -> None:
    low = [timed(0.8, 300.0, alpha=6), timed(0.8, 500.0, alpha=23)]
    high = [timed(0.95, 7000.0, alpha=6), timed(0.95, 1200.0, alpha=23)]
    claim = best_alpha_changes(low + high, "mnist")
    assert (claim.verdict, claim.evidence) == (
        "holds",
        "80\u202f%: α = 6 in 300\u202fs; 95\u202f%: α = 23 in 1200\u202fs",
    )
    assert best_alpha_changes([low[1], *high], "mnist").verdict == "not judged"
    same = [timed(0.9, 400.0, alpha=6), timed(0.9, 500.0, alpha=23)]
    assert best_alpha_changes(low + same, "mnist").verdict == "fails"


@pytest.mark.parametrize(("final", "lost"), [(0.87, "holds"), (0.946, "fails")])
def test_dropping_and_accuracy(final: float, lost: str) -> None:
    def on(dataset: str) -> list[SchemeResult]:
        return [
            timed(0.95, 8000.0, dataset=dataset),
            timed(0.95, None, dataset=dataset, dropped=5, final=final),
        ]

    assert dropping_loses_accuracy_on_sorted(on("mnist"), "mnist", 5).verdict == lost
    assert dropping_keeps_accuracy_on_shuffled(on("mnist (shuffled)"), "mnist", 5).verdict != lost
    assert dropping_loses_accuracy_on_sorted(on("mnist"), "mnist", 3).verdict == "not judged"
    assert dropping_keeps_accuracy_on_shuffled(on("mnist"), "mnist", 5).verdict == "not judged"


def test_coding_is_set_against_dropping_at_the_highest_target_both_reach() -> None:
    low = [timed(0.8, 700.0, alpha=23), timed(0.8, 500.0, dropped=5, final=0.87)]
    middle = [timed(0.85, 710.0, alpha=23), timed(0.85, 1900.0, dropped=5, final=0.87)]
    high = [timed(0.95, 1200.0, alpha=23), timed(0.95, None, dropped=5, final=0.87)]
    claim = coding_gains_over_dropping(low + middle + high, "mnist", 5)
    assert (claim.verdict, claim.target_accuracy) == ("holds", 0.85)
    assert coding_gains_over_dropping(low + high, "mnist", 5).verdict == "fails"
    never = coding_gains_over_dropping(high, "mnist", 5)
    assert (never.verdict, never.target_accuracy) == ("holds", 0.95)
    worse = [timed(0.8, 400.0, alpha=23, final=0.86), low[1]]
    assert coding_gains_over_dropping(worse, "mnist", 5).verdict == "fails"


@pytest.mark.parametrize("dataset", EXPERIMENTS)
def test_without_results_every_claim_is_listed_as_not_judged(dataset: str) -> None:
    claims = [*paper_claims(dataset, []), *accuracy_claims(dataset, [])]
    assert len(claims) >= 9
    assert {claim.verdict for claim in claims} == {"not judged"}
    assert all(claim.evidence.startswith("missing: ") for claim in claims)


def test_other_data_sets_have_no_claims() -> None:
    with pytest.raises(
        InvalidInput, match=r"^dataset must be one of mnist, fashion-mnist \(the paper's\), got 'digits'$"
    ):
        paper_claims("digits", [])


@pytest.fixture(scope="module")
def sorted_and_shuffled() -> tuple[Sequence[SchemeResult], Sequence[SchemeResult]]:
    """Small and real: digits with 100 features on the paper's fleet."""
    data = datasets.load("digits")
    settings = Settings(Conditions(Fleet.load("paper")), (0.8, 0.9), draws=10, max_epochs=120)
    schemes = (Conventional(), CodedPadded(6), CodedPadded(23), CodedPadded(25), DropSlowest(5))
    entries = [as_the_paper(one) for one in schemes]
    outcomes = []
    for name, way in (("mnist", "sorted"), ("mnist (shuffled)", "random")):
        problems = [
            (seed, make_problem(data, n_devices=25, partition_name=way, n_features=100, seed=seed)) for seed in range(3)
        ]
        trained = Trained.joined([train_one(seed, problem, entries, settings) for seed, problem in problems])
        outcomes.append(draw_latencies(name, trained, entries, settings)[0])
    return outcomes[0], outcomes[1]


def test_a_real_comparison_can_be_judged(
    sorted_and_shuffled: tuple[Sequence[SchemeResult], Sequence[SchemeResult]],
) -> None:
    """Digits under the name of MNIST: what is judged depends on the entries alone, and dropping drifts here as well."""
    plain, shuffled = sorted_and_shuffled
    claims = [*paper_claims("mnist", plain, shuffled), *accuracy_claims("mnist", plain, shuffled)]
    assert [claim.verdict for claim in claims[-2:]] == ["holds", "holds"]
    unjudged = [claim.statement for claim in claims if claim.verdict == "not judged"]
    assert all("CodedFedL" in statement or "6.6 times" in statement for statement in unjudged)
    assert json.loads(json.dumps([asdict(claim) for claim in claims], allow_nan=False))
