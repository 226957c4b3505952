"""Noise for users: estimators, studies and the sentence; what is one more sum over rows is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codedfl.contract.policy import Policy
from codedfl.contract.toml_file import parse_study
from codedfl.contract.words import explain
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from codedfl.estimators.ridge import CodedRidge, CodedRidgeClassifier
from codedfl.privacy.budget import Budget, spent_sentence
from codedfl.run.rehearsal import Rehearsed, dealt_out, made_up_roster, rehearse
from wording import exactly

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (4000, 3))
Y = X @ [2.0, -1.0, 0.5]
CLASSES = (Y.mean() < Y).astype(int)
DEVICE = np.arange(4000) % 6
NOISY: dict[str, Any] = {"epsilon": 8.0, "honest": 4, "ranges": (0, 1)}

STUDY = """
format = "codedfl-study-2"
name = "stay"
[[column]]
name = "a"
kind = "number"
range = [0, 1]
step = 0.0000152587890625
[[column]]
name = "b"
kind = "number"
range = [0, 1]
step = 0.0000152587890625
[target]
name = "y"
range = [-2, 3]
step = 0.0000762939453125
[protection]
least_participants = 5
max_rows = 6000
max_rows_per_device = 1000
[noise]
epsilon = 8
honest = 4
[result]
held_out = 0
"""


def test_estimators_learn_through_noise():
    model = CodedRidge(**NOISY, target_range=(-2, 3)).fit(X, Y, device=DEVICE)
    exact = CodedRidge().fit(X, Y, device=DEVICE)
    assert 0.6 < model.score(X, Y) < exact.score(X, Y)
    assert model.n_shortened_ > 0 and exact.n_shortened_ == 0
    classifier = CodedRidgeClassifier(**NOISY).fit(X, CLASSES, device=DEVICE)
    assert classifier.score(X, CLASSES) > 0.75


@pytest.mark.parametrize(
    ("options", "fit", "message"),
    [
        (
            {"ranges": None},
            {},
            "ranges must be given with epsilon, since means and deviations are sums over rows, got None",
        ),
        (
            {},
            {"device": None},
            "device must be given with epsilon, or one row more would deal out the others again, got None",
        ),
        (
            {},
            {"sample_weight": np.ones(4000)},
            "sample_weight must be left out with epsilon, which hides rows that count once",
        ),
        ({"target_range": None}, {}, "target_range must be given with epsilon: a mean is a sum over rows, got None"),
        ({"honest": None}, {}, "honest must be said with epsilon: how many devices add their noise for sure, got none"),
        ({"epsilon": None}, {}, "honest must be left out without epsilon, got 4"),
        ({"honest": 6}, {}, "honest must be at most the number of devices less the colluders (5), got 6"),
        ({"delta": 2.0}, {}, "delta must be between 0 and 1, got 2.0"),
    ],
)
def test_what_noise_cannot_go_with_is_refused(options: dict[str, Any], fit: dict[str, Any], message: str):
    model = CodedRidge(**{**NOISY, "target_range": (-2, 3), **options})
    with pytest.raises(InvalidInput, match=exactly(message)):
        model.fit(X, Y, **{"device": DEVICE, **fit})


def test_a_study_with_noise_trains_and_says_so():
    study = parse_study(STUDY)
    assert study.noise == Budget(8.0, 4) and not study.needs_moments
    assert study.digest() != replace(study, noise=None).digest()
    table = as_raw_table({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] - X[:, 1]}, "t.csv")
    parts = dealt_out(table, 6, np.random.default_rng(0))
    rehearsed = Rehearsed(study, made_up_roster(study, parts))
    assert rehearsed.approve(parts, Policy()) == {}
    findings = rehearse(rehearsed, np.random.default_rng(0)).findings
    predicted = findings.model.predict(X[:, :2])
    assert np.corrcoef(predicted, X[:, 0] - X[:, 1])[0, 1] > 0.8
    said = [line for section in explain(study) for line in section.answers]
    assert any("Whether any one row was there" in line for line in said)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"features": "pca-rbf", "components": 1},
            "features must not be pca-rbf with noise: a covariance is a sum over rows",
        ),
        ({"held_out": 0.2}, "held_out must be 0 with noise: a score is an exact sum over rows, got 0.2"),
        ({"inference": True}, "inference must be false with noise: standard errors would be those of exact sums"),
        ({"noise": Budget(1.0, 9)}, "honest must be at most least_participants (5), got 9"),
    ],
)
def test_other_sums_over_rows_are_refused_in_a_study(change: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        replace(parse_study(STUDY), **change)


def test_the_guarantee_in_one_sentence():
    assert Budget(1.0, 20).sentence() == (
        "Whether any one row was there or not changes the probability of whatever is made of this run by at most a"
        " factor of 2.72 (epsilon = 1), but for 1e-05 (delta), as long as 20 owners add their noise."
    )
    assert spent_sentence(0.0305, 1, 1e-5).startswith("Whether any one row")
    assert "of all 2 approval(s) of the ledger together by" in spent_sentence(0.061, 2, 1e-5)
    assert spent_sentence(None, 3, 1e-5) == (
        "No bound holds over the 3 approval(s) of the ledger: at least one is of exact totals, without noise."
    )
    assert spent_sentence(0.0, 0, 1e-5) == "The ledger holds no approval: nothing can be spent."
    for fields, message in (
        ((1.0, 0), "honest must be at least 1, got 0"),
        ((1.0, 2, 1e-5, -1.0), "clip_norm must be a positive finite number, got -1.0"),
    ):
        with pytest.raises(InvalidInput, match=exactly(message)):
            Budget(*fields)
