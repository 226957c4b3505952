"""Heads from one sum, each beside its oracle on the rows themselves; and the best of them in a study."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid

from codedfl.analyses.analysis import Totals
from codedfl.analyses.head_choice import HeadsFinding
from codedfl.analyses.heads import ClassSums, Head, all_heads
from codedfl.authoring.check import check_table
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.contract.words import explain
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import words_of
from rehearsals import parts_of, rehearsed, snapshots_of

STEP = 2.0**-5
RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.normal(size=(3, 6)) * 0.5
PLACES = RANDOM.choice(3, size=900, p=[0.45, 0.3, 0.25])
ROWS = np.clip(np.rint((CENTRES[PLACES] + RANDOM.normal(size=(900, 6))) / STEP) * STEP, -6, 6)
SUMS = ClassSums.of(ROWS, PLACES, 3)
STUDY = """
format = "codedfl-study-2"
name = "heads"
[matrix]
columns = 6
range = [-6, 6]
step = 0.03125
[target]
name = "y"
classes = ["a", "b", "c"]
[protection]
least_participants = 3
max_rows = 2000
max_rows_per_device = 500
[training]
regularisation = "gcv"
[[model]]
name = "best"
kind = "heads"
"""


def of_kind(name: str) -> list[Head]:
    found = [head for head in all_heads(SUMS) if head.name == name]
    assert found
    return found


def ridge(X: Any, places: Any, weight: float, of_rows: Any = None) -> Any:
    size = len(X) if of_rows is None else of_rows.sum()
    return Ridge(alpha=size * weight, solver="cholesky").fit(X, np.eye(3)[places], sample_weight=of_rows)


def test_ridge_is_that_of_scikit_learn():
    for head in of_kind("ridge"):
        oracle = ridge(ROWS, PLACES, head.weight)
        np.testing.assert_allclose(head.slopes, oracle.coef_.T, atol=1e-10)
        np.testing.assert_allclose(head.constants, oracle.intercept_, atol=1e-10)


def test_balanced_ridge_is_the_weighted_ridge_where_classes_have_one_covariance():
    spread = np.random.default_rng(1).normal(size=(40, 6))
    spread -= spread.mean(axis=0)
    times = (6, 3, 1)  # the same spread in each class, so often
    X = np.concatenate([CENTRES[place] + spread for place in range(3) for _ in range(times[place])])
    places = np.repeat(np.arange(3), [40 * one for one in times])
    weights = 1.0 / np.bincount(places)[places]
    for head in all_heads(ClassSums.of(X, places, 3)):
        if head.name == "balanced-ridge":
            oracle = ridge(X, places, head.weight, weights)
            np.testing.assert_allclose(head.slopes, oracle.coef_.T, atol=1e-10)
            np.testing.assert_allclose(head.constants, oracle.intercept_, atol=1e-10)


class Widened:
    """A covariance of scikit-learn's face: the empirical one and a multiple of the identity."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def fit(self, X: Any) -> None:
        self.covariance_ = np.cov(X.T, bias=True) + self.weight * np.eye(X.shape[1])


def test_discriminant_analysis_is_that_of_scikit_learn():
    for head in of_kind("lda"):
        oracle = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=Widened(head.weight)).fit(ROWS, PLACES)
        np.testing.assert_allclose(
            np.diff(ROWS @ head.slopes + head.constants), np.diff(oracle.decision_function(ROWS)), atol=1e-8
        )


def test_nearest_mean_is_that_of_scikit_learn():
    (head,) = of_kind("nearest-mean")
    scaled = ROWS / np.sqrt(np.diag(SUMS.within))
    found = (ROWS @ head.slopes + head.constants).argmax(axis=1)
    assert np.array_equal(found, NearestCentroid().fit(scaled, PLACES).predict(scaled))


def test_a_class_without_rows_is_refused():
    with pytest.raises(InvalidInput, match=r"^every class must have a row to train on, got one without$"):
        ClassSums.of(ROWS, PLACES, 4)


# -- in a study


def study() -> Study:
    return parse_study(STUDY)


def table(rows: Any = ROWS, places: Any = PLACES, **said: str) -> RawTable:
    columns = {f"x{place}": one for place, one in enumerate(rows.T)}
    made = as_raw_table({**columns, "y": np.array(["a", "b", "c"])[places]}, "t.npz")
    return RawTable(made.name, made.columns, positional=True, **said)


def found(parts: dict[str, RawTable]) -> HeadsFinding:
    (finding,) = rehearsed(study(), parts).findings.models
    assert isinstance(finding, HeadsFinding)
    return finding


def test_a_study_finds_the_heads_of_pooled_rows_and_chooses_by_held_out_rows():
    parts = parts_of(table(), 3)
    finding = found(parts)
    snapshots = snapshots_of(study(), parts).values()
    codes, target, out = (
        np.concatenate([getattr(one, name) for one in snapshots]) for name in ("codes", "target", "held_out")
    )
    rows = -6 + STEP * codes
    pooled = all_heads(ClassSums.of(rows[~out], target[~out], 3))
    assert [head.name for head in finding.heads] == [head.name for head in pooled]
    rights = []
    for head, oracle, score in zip(finding.heads, pooled, finding.scores, strict=True):
        np.testing.assert_allclose(head.slopes, oracle.slopes, atol=1e-9)
        np.testing.assert_allclose(head.constants, oracle.constants, atol=1e-9)
        rights.append(int(((rows[out] @ oracle.slopes + oracle.constants).argmax(axis=1) == target[out]).sum()))
        assert int(np.trace(score.confusion)) == rights[-1] and score.rows == out.sum() and not score.withheld
    assert finding.best == int(np.argmax(rights))
    chosen = np.array(["a", "b", "c"])[
        (rows @ pooled[finding.best].slopes + pooled[finding.best].constants).argmax(axis=1)
    ]
    assert np.array_equal(finding.model.predict(rows), chosen)


def test_it_does_not_matter_which_device_holds_which_class():
    """Most devices hold one class. No rows are held out: devices' own keys choose these."""
    order = np.append(np.argsort(PLACES[:600], kind="stable"), np.arange(600, 900))  # on three devices classes vary
    one, other = table(), table(ROWS[order], PLACES[order])
    whole = parse_study(STUDY.split("[[model]]")[0] + "[result]\nheld_out = 0\n")
    found = [rehearsed(whole, parts).findings for parts in (parts_of(one, 3), in_order(other, 12))]
    assert found[0].total == found[1].total
    assert np.array_equal(found[0].model.theta, found[1].model.theta)
    heads = [Totals(whole, (), (), one.total).linear().class_sums() for one in found]
    assert np.array_equal(all_heads(heads[0])[0].slopes, all_heads(heads[1])[0].slopes)


def in_order(whole: RawTable, n_devices: int) -> dict[str, RawTable]:
    parts = np.array_split(np.arange(len(whole)), n_devices)
    return {f"device-{place}": whole.rows(rows) for place, rows in enumerate(parts)}


def test_what_is_shown_says_that_nothing_is_uploaded_again():
    words = explain(study(), words=words_of(study()))
    said = [answer for one in words for answer in one.answers]
    assert "one more model, 'best' (heads), of all columns" in said
    assert any("for at most 8 model(s) of the server's choice" in one for one in said)


def test_embeddings_of_another_encoder_are_refused():
    named = parse_study(STUDY.replace("step = 0.03125", f'step = 0.03125\nencoder = "{"0a" * 32}"'))
    assert named.digest() != study().digest()
    assert check_table(named, table(ROWS[:300], PLACES[:300], encoder="0a" * 32)).usable
    for other, what in (("0b" * 32, "0b" * 32), ("", "a table of none")):
        objection = f"t.npz must be embeddings by the encoder {'0a' * 32}, got {what}: make it by codedfl site encode"
        assert check_table(named, table(ROWS[:300], PLACES[:300], encoder=other)).objections == (objection,)
        with pytest.raises(InvalidInput, match=f"^{re.escape(objection)}$"):
            named.codes(table(encoder=other))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "heads"', 'kind = "heads"\ncandidates = 9',
         "candidates of the model 'best' must be between 1 and 7, got 9"),
        ('classes = ["a", "b", "c"]', "range = [0, 1]\nstep = 1",
         "the target 'y' must have classes for the model 'best'"),
    ],
)  # fmt: skip
def test_a_study_that_cannot_have_heads(old: str, new: str, message: str):
    with pytest.raises(InvalidInput, match=f"^s: {re.escape(message)}$"):
        parse_study(STUDY.replace(old, new), "s")
