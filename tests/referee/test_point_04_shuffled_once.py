"""Point 4: no claim stands twice in the same words, and what is counted without pads has no time with pads in it."""

from __future__ import annotations

from collections import Counter

import pytest

from codedfl_lab.comparing.paper import EXPERIMENTS, Experiment
from codedfl_lab.comparing.results import Results
from codedfl_lab.reproduce.claims import SHUFFLED
from codedfl_lab.reproduce.reproduce import reproduce
from codedfl_lab.reproduce.scope import ClaimScope


@pytest.fixture(scope="module")
def small() -> Results:
    """The whole pipeline on the embedded digits, at the paper's 25 devices."""
    digits = Experiment("digits", "Digits, small", (0.7, 0.9), 23, 6.6, max_epochs=100, gamma=0.245)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "mnist", digits)
        return reproduce("mnist", ClaimScope(seeds=range(3), draws=10, n_features=100))


def test_every_claim_stands_once_under_every_convention(small: Results) -> None:
    found = Counter((one.statement, one.dataset, one.sharing, one.charged) for one in small.claims)
    assert max(found.values()) == 1
    assert len({(one.statement, one.sharing, one.charged) for one in small.claims}) == len(small.claims)


def test_claims_about_accuracy_have_no_convention_of_time(small: Results) -> None:
    about_accuracy = [one for one in small.claims if "loses" in one.statement]
    assert len(about_accuracy) == 2
    assert {(one.sharing, one.charged) for one in about_accuracy} == {(None, None)}


def test_shuffled_claims_are_judged_on_three_seeds_at_both_prices(small: Results) -> None:
    shuffled = [one for one in small.claims if one.dataset.endswith(SHUFFLED) and one.sharing == "authors"]
    free, charged = sorted(shuffled, key=lambda one: one.charged is True)
    assert (free.charged, charged.charged) == (False, True)
    assert free.verdict != "not judged"
    assert free.evidence != charged.evidence, "the times with pads are others"
    assert {row.seeds for row in small.shuffled} == {3}
