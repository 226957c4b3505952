"""The benchmark of frozen features on made-up embeddings: sums, heads, rivals, times and pages."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from codedfl.analyses.heads import ClassSums
from codedfl.data.tables import as_raw_table
from codedfl_lab.baselines.gradient_heads import GradientHead, softmax_gradient, trained
from codedfl_lab.report.frozen_page import frozen_cells, verdicts, write_frozen_report
from codedfl_lab.reproduce import frozen_data
from codedfl_lab.reproduce.frozen import (
    SPLITS,
    Embedded,
    FrozenResults,
    Sizes,
    class_sums,
    closed_forms,
    held_out_rows,
    integer_sum,
    reproduce_frozen,
    same_sum,
    split_rows,
)
from codedfl_lab.reproduce.scope import Scope
from made_up_encoders import PIECES, text_encoder

STEP = 1 / 32
RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.uniform(1, 5, size=(3, 8))
Y = RANDOM.integers(0, 3, size=1500)
X = np.clip(np.rint((CENTRES[Y] + RANDOM.normal(size=(1500, 8))) / STEP) * STEP, 0, 6).astype(np.float32)
DATA = Embedded("made up", ("a", "b", "c"), X[:1200], Y[:1200], X[1200:], Y[1200:], 0.0, 6.0, STEP)
TINY = Sizes(seeds=2, rounds=3, tuning_rounds=1, devices=(5, 25), rates=(0.01, 0.1), pulls=(0.1,), draws=5)


@pytest.fixture(scope="module")
def results() -> FrozenResults:
    return reproduce_frozen(DATA, TINY, command="codedfl reproduce frozen")


def test_a_sum_is_that_of_plain_integers():
    rows = np.arange(1200)
    codes = np.rint(DATA.X / STEP).astype(object) - 96
    Z = np.hstack([np.ones((1200, 1), dtype=object), codes, np.eye(3, dtype=int)[DATA.y].astype(object)])
    assert np.array_equal(integer_sum(DATA.codes(rows), DATA.y, 3), (Z.T @ Z).astype(np.int64))


def test_heads_are_made_of_what_the_rows_say():
    found = class_sums(integer_sum(DATA.codes(np.arange(1200)), DATA.y, 3), DATA)
    oracle = ClassSums.of(DATA.X.astype(np.float64), DATA.y, 3)
    for name in ("counts", "mean", "covariance", "means"):
        np.testing.assert_allclose(getattr(found, name), getattr(oracle, name), atol=1e-10)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("devices", [5, 100])
def test_a_split_has_every_row_once_and_the_same_sum(split: str, devices: int):
    parts = split_rows(DATA.y, split, devices, 3)
    assert len(parts) <= devices
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(1200))
    total = integer_sum(DATA.codes(np.arange(1200)), DATA.y, 3)
    assert same_sum(DATA, total, parts, whole=True) and same_sum(DATA, total, parts, whole=False)
    lost = [parts[0][1:], *parts[1:]]
    assert not same_sum(DATA, total, lost, whole=True) and not same_sum(DATA, total, lost, whole=False)


def test_held_out_rows_choose_the_head_and_test_rows_do_not():
    closed = closed_forms(DATA, 0)
    judged = [one[2] for one in closed.heads]
    assert closed.best == closed.heads[int(np.argmax(judged))][0]
    assert closed.by_method["ours"] == closed.heads[int(np.argmax(judged))][3]
    other = Embedded("", DATA.classes, DATA.X, DATA.y, DATA.X_test, (DATA.y_test + 1) % 3, 0.0, 6.0, STEP)
    assert closed_forms(other, 0).best == closed.best
    assert sum(map(sum, closed.confusion)) == 300
    train, out = held_out_rows(1200, 0)
    assert len(out) == 120 and np.array_equal(np.sort(np.append(train, out)), np.arange(1200))


# -- rivals


def models(head: GradientHead, parts: list[np.ndarray], rounds: int) -> list[np.ndarray]:
    hot = np.eye(3, dtype=np.float32)[DATA.y]
    return list(islice(trained(head, DATA.X, hot, parts, 0), rounds))


def test_one_batch_of_one_device_is_a_step_of_descent():
    part = np.arange(40)
    hot = np.eye(3, dtype=np.float32)[DATA.y[part]]
    theta = np.zeros((8, 3))
    for found in models(GradientHead("FedAvg", 0.05), [part], 4):
        scores = np.exp(DATA.X[part].astype(np.float64) @ theta)
        theta -= 0.05 * DATA.X[part].T @ (scores / scores.sum(axis=1, keepdims=True) - hot) / 40
        np.testing.assert_allclose(found, theta, atol=1e-5)


def test_the_gradient_is_that_of_finite_differences():
    rows, hot = X[:20], np.eye(3, dtype=np.float32)[Y[:20]]
    theta = RANDOM.normal(size=(8, 3)) / 10

    def loss(at: np.ndarray) -> float:
        scores = rows.astype(np.float64) @ at
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - (scores * hot).sum(axis=1)))

    found = softmax_gradient(rows, hot, theta.astype(np.float32))
    for place in ((0, 0), (3, 2), (7, 1)):
        step = np.zeros_like(theta)
        step[place] = 1e-4
        assert found[place] == pytest.approx((loss(theta + step) - loss(theta - step)) / 2e-4, abs=1e-4)


def test_the_server_takes_the_mean_weighted_by_rows():
    parts = [np.arange(30), np.arange(30, 40)]
    head = GradientHead("FedAvg", 0.05)
    alone = [models(head, [part], 1)[0] for part in parts]
    np.testing.assert_allclose(models(head, parts, 1)[0], 0.75 * alone[0] + 0.25 * alone[1], atol=1e-6)


def test_variates_and_pulls_change_nothing_where_there_is_one_device_with_one_batch():
    part, plain = [np.arange(40)], GradientHead("FedAvg", 0.05)
    expected = models(plain, part, 3)
    for other in (GradientHead("Scaffold", 0.05, control=True), GradientHead("FedProx", 0.05, pull=0.5)):
        np.testing.assert_allclose(models(other, part, 3), expected, atol=1e-5)


def test_scaffold_corrects_the_drift_of_sorted_rows():
    parts = [np.flatnonzero(DATA.y == one) for one in range(3)]
    optimum = models(GradientHead("FedAvg", 0.05), [np.arange(1200)], 40)[-1]
    away = {
        control: float(np.abs(models(GradientHead("", 0.02, control=control), parts, 40)[-1] - optimum).mean())
        for control in (False, True)
    }
    assert away[True] < away[False]


# -- the whole


def test_every_split_and_size_has_every_method_and_the_same_heads(results: FrozenResults):
    assert results.exact == (2 * 4 * 2,) * 2
    methods = {row.method for row in results.rows}
    assert methods == {
        *("ours", "AFL, in the clear", "FedAvg", "FedProx", "Scaffold"),
        *(f"ours, epsilon {epsilon}" for epsilon in (1, 3, 8)),
    }
    assert len(results.rows) == len(methods) * len(SPLITS) * 2
    assert len({row.accuracies for row in results.rows if row.method == "ours"}) == 1


def test_bytes_are_those_of_what_is_sent(results: FrozenResults):
    numbers = 12 * 13 // 2
    ours = next(row for row in results.rows if (row.method, row.devices) == ("ours", 5))
    assert ours.up == pytest.approx(4 * numbers * (1 + 2 / 5)) and ours.most == 8 * numbers
    assert ours.down == 8 * 9 * 3 * len(results.heads)
    fedavg, scaffold = (next(row for row in results.rows if row.method == name) for name in ("FedAvg", "Scaffold"))
    assert (fedavg.up, scaffold.up) == (3 * 4 * 27, 2 * 3 * 4 * 27)


def test_equal_bytes_are_as_many_rounds_as_fit(results: FrozenResults):
    for row in results.rows:
        if row.curve:
            ours = next(one for one in results.rows if (one.split, one.devices) == (row.split, row.devices))
            fit = min(3, int((ours.up + ours.down) / ((row.up + row.down) / 3)))
            assert row.at_equal_bytes == (row.curve[fit - 1] if fit else 1 / 3)


def test_the_report_has_every_row_and_says_what_held(results: FrozenResults, tmp_path: Path):
    files = write_frozen_report(tmp_path, results)
    assert {"results.json", "report.html", "crossing.png", "confusion.svg"} <= set(files)
    page = files["report.html"].read_text()
    assert all(cells[3] in page for cells in frozen_cells(results.rows))
    said = verdicts(results)
    assert said[0] == "The sum over devices was that of pooled rows, number for number, in 16 of 16 splits."
    ours = {(row.split, row.devices): row.accuracy for row in results.rows if row.method == "ours"}
    rivals = [row for row in results.rows if row.curve]
    ahead = sum(ours[row.split, row.devices] > row.accuracy for row in rivals)
    assert said[-1] == f"Ours is ahead of {ahead} of 24 gradient rows after all rounds."


def test_an_encoder_of_texts_takes_mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = RANDOM.integers(0, 3, size=400)
    table = {"text": [f"p{one} p{one + 1}" for one in words], "group": np.where(words < 1, "ham", "spam")}
    monkeypatch.setattr(frozen_data, "load_mails", lambda _: as_raw_table(table, "mails"))
    found = frozen_data.mails(text_encoder(tmp_path), Scope(), 2, lambda *_: None)
    assert (len(found.X), len(found.X_test), found.classes) == (160, 40, ("ham", "spam"))
    order = np.random.default_rng(0).permutation(400)[::2]
    test = np.arange(200) % 5 == 0
    expected = PIECES[words[order]] / 2 + PIECES[words[order] + 1] / 2
    np.testing.assert_allclose(found.X, expected[~test], atol=2.0**-11 + 1e-6)
    assert np.array_equal(found.y_test, (words[order][test] >= 1).astype(int))
