"""The benchmark of frozen features on made-up embeddings: sums, heads, rivals, times and pages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from codedfl.analyses.heads import ClassSums
from codedfl.data.tables import as_raw_table
from codedfl_lab.baselines.gradient_heads import GradientHead, softmax_gradient, trained
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.report.frozen_page import at_equal_cells, frozen_cells, kernel_cells, verdicts, write_frozen_report
from codedfl_lab.reproduce import frozen_data, frozen_rivals
from codedfl_lab.reproduce.frozen import reproduce_frozen
from codedfl_lab.reproduce.frozen_kernels import EDGES, LOW, PAPERS, kernel_rows
from codedfl_lab.reproduce.frozen_results import FrozenResults, FrozenSizes, Lead
from codedfl_lab.reproduce.frozen_rivals import Standardised
from codedfl_lab.reproduce.frozen_rows import SPLITS, Embedded, held_out_rows, split_rows
from codedfl_lab.reproduce.frozen_sums import class_sums, closed_forms, integer_sum, same_sum
from codedfl_lab.reproduce.parts import Parts
from codedfl_lab.reproduce.scope import ClaimScope
from made_up_encoders import PIECES, text_encoder

STEP = 1 / 32
RANDOM = np.random.default_rng(0)
CENTRES = RANDOM.uniform(1, 5, size=(3, 8))
Y = RANDOM.integers(0, 3, size=1500)
X = np.clip(np.rint((CENTRES[Y] + RANDOM.normal(size=(1500, 8))) / STEP) * STEP, 0, 6).astype(np.float32)
DATA = Embedded("made up", ("a", "b", "c"), X[:1200], Y[:1200], X[1200:], Y[1200:], 0.0, 6.0, STEP)
TINY = FrozenSizes(seeds=2, rounds=3, devices=(5, 25), rates=(0.01, 0.1), pulls=(0.1,), draws=5)


FEWER = Embedded("made up", DATA.classes, X[:1200, :4], Y[:1200], X[1200:, :4], Y[1200:], 0.0, 6.0, STEP)


@pytest.fixture(scope="module")
def results() -> FrozenResults:
    return reproduce_frozen(DATA, TINY, command="codedfl lab reproduce frozen", narrower=[FEWER])


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
    return [found[0] for found in islice(trained([head], DATA.X, hot, parts, 0), rounds)]


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


def test_devices_of_one_batch_step_together_as_they_do_one_by_one():
    parts, hot, rate = [np.arange(30), np.arange(30, 80), np.arange(80, 90)], np.eye(3)[DATA.y], 0.1
    theta, mean, variates = np.zeros((8, 3)), np.zeros((8, 3)), np.zeros((3, 8, 3))
    for found in models(GradientHead("Scaffold", rate, control=True), parts, 4):
        total, changed = np.zeros_like(theta), np.zeros_like(mean)
        for place, part in enumerate(parts):
            gradient = softmax_gradient(DATA.X[part], hot[part].astype(np.float32), theta.astype(np.float32))
            local = theta - rate * (gradient + mean - variates[place])
            after = variates[place] - mean + (theta - local) / rate
            total += len(part) / 90 * local
            changed += len(part) / 90 * (after - variates[place])
            variates[place] = after
        theta, mean = total, mean + changed
        np.testing.assert_allclose(found, theta, atol=1e-5)


def test_heads_that_are_trained_together_are_those_that_are_trained_alone():
    parts, hot = [np.arange(30), np.arange(30, 130)], np.eye(3, dtype=np.float32)[DATA.y]
    heads = [
        GradientHead("FedAvg", 0.05),
        GradientHead("Scaffold", 0.03, control=True),
        GradientHead("FedProx", 0.1, pull=0.5),
        GradientHead("Scaffold", 0.1, control=True),
    ]
    together = list(islice(trained(heads, DATA.X, hot, parts, 0), 4))
    for place, head in enumerate(heads):
        np.testing.assert_allclose([one[place] for one in together], models(head, parts, 4), atol=1e-5)


def test_rates_are_tried_until_the_best_is_not_at_an_edge(monkeypatch: pytest.MonkeyPatch):
    asked: list[list[float]] = []

    def never(heads: list[GradientHead], *_: object) -> Iterator[list[GradientHead]]:
        asked.append(sorted(one.rate for one in heads if one.name == "Scaffold"))
        while True:
            yield heads

    def nearest_to_two(_X: object, _y: object, heads: list[GradientHead]) -> list[float]:
        return [1 / (1 + abs(np.log(one.rate / 2))) for one in heads]

    monkeypatch.setattr(frozen_rivals, "trained", never)
    monkeypatch.setattr(frozen_rivals, "accuracy", nearest_to_two)
    found = frozen_rivals.tuned(DATA, Standardised.of(DATA), "sorted", 5, TINY)
    assert asked == [
        [0.01, 0.1],
        [pytest.approx(0.3)],
        [pytest.approx(0.9)],
        [pytest.approx(2.7)],
        [pytest.approx(8.1)],
    ]
    assert [one["rate"] for one in found] == [pytest.approx(2.7)] * 3


# -- the whole


def test_every_split_and_size_has_every_method_and_the_same_heads(results: FrozenResults):
    assert results.exact == (2 * 4 * 2,) * 2
    methods = {row.method for row in results.rows}
    assert methods == {
        *("ours", "ours, 4 numbers", "AFL, in the clear", "FedAvg", "FedProx", "Scaffold"),
        *(f"ours, epsilon {epsilon}" for epsilon in (1, 3, 8)),
    }
    assert len(results.rows) == len(methods) * len(SPLITS) * 2
    assert len({row.accuracies for row in results.rows if row.method == "ours"}) == 1


def test_bytes_are_those_of_what_is_sent(results: FrozenResults):
    numbers = 12 * 13 // 2
    ours = next(row for row in results.rows if (row.method, row.devices) == ("ours", 5))
    assert ours.up == pytest.approx(4 * numbers * (1 + 2 / 5))
    assert ours.down == 8 * 9 * 3 * len(results.heads)
    assert ours.most == 8 * numbers + ours.down
    fedavg, scaffold = (next(row for row in results.rows if row.method == name) for name in ("FedAvg", "Scaffold"))
    assert (fedavg.up, scaffold.up) == (3 * 4 * 27, 2 * 3 * 4 * 27)


def test_equal_bytes_are_as_many_rounds_as_fit(results: FrozenResults):
    for row in results.rows:
        if row.at_equal and row.at_end is not None:
            ours = next(one for one in results.rows if (one.split, one.devices) == (row.split, row.devices))
            fit = min(3, int(ours.most / (row.most / 3)))
            assert row.at_equal[0].bytes.rounds == fit
            assert row.at_equal[0].bytes.accuracy == pytest.approx(row.curve[fit - 1] if fit else 1 / 3)
            assert row.at_end.lead == pytest.approx(ours.accuracy - row.accuracy)


def test_fewer_numbers_are_fewer_bytes_and_rounds_of_others(results: FrozenResults):
    for row in results.rows:
        here = {one.method: one for one in results.rows if (one.split, one.devices) == (row.split, row.devices)}
        whole, fewer = here["ours"], here["ours, 4 numbers"]
        assert fewer.most == 8 * 8 * 9 // 2 + 8 * 5 * 3 * len(results.heads) < whole.most
        assert fewer.accuracies == tuple(closed_forms(FEWER, seed, alone=True).by_method["ours"] for seed in (0, 1))
        if row.curve:
            wide, narrow = row.at_equal
            assert (wide.ours, narrow.ours) == ("ours", "ours, 4 numbers")
            assert narrow.bytes.rounds == min(3, int(fewer.most / (row.most / 3))) <= wide.bytes.rounds
            assert narrow.bytes.lead == pytest.approx(fewer.accuracy - narrow.bytes.accuracy)


def test_a_lead_is_paired_by_seed():
    found = Lead.of((0.9, 0.8, 0.7), ((0.1, 0.88), (0.1, 0.78)), 9, 0.1)
    assert (found.rounds, found.verdict) == (2, "ahead") and found.accuracy == pytest.approx(0.83)
    assert found.lead == pytest.approx(0.02) and found.half_width == pytest.approx(0.0, abs=1e-12)
    assert Lead.of((0.9, 0.8), ((0.91,), (0.78,)), 1, 0.1).verdict == "level"
    guessed = Lead.of((0.9,), ((0.95,),), 0, 0.1)
    assert (guessed.accuracy, guessed.half_width) == (0.1, None) and guessed.lead == pytest.approx(0.8)


def test_a_crossing_is_the_first_round_above_ours(results: FrozenResults):
    for row in results.rows:
        if row.curve:
            ours = next(one for one in results.rows if (one.split, one.devices) == (row.split, row.devices))
            above = [place for place, one in enumerate(row.curve, 1) if one > ours.accuracy]
            assert row.crossing == (above[0] if above else None)


def test_a_run_that_was_stopped_goes_on_where_it_stopped(tmp_path: Path, results: FrozenResults):
    class Stopped(Exception):
        pass

    def stop(what: str, part: float) -> None:
        if what == "Dirichlet 0.05, 5 devices, seed 1":
            raise Stopped

    with pytest.raises(Stopped):
        reproduce_frozen(DATA, TINY, stop, parts=Parts(tmp_path, DATA.digest), narrower=[FEWER])
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert "curves-sorted-5-devices-seed-1.json" in before
    (tmp_path / "curves-sorted-25-devices-seed-0.json").write_text("{half")
    found = reproduce_frozen(DATA, TINY, parts=Parts(tmp_path, DATA.digest), narrower=[FEWER])
    again = {path.name for path in tmp_path.iterdir() if before.get(path.name) != path.stat().st_mtime_ns}
    assert again == {
        "curves-sorted-25-devices-seed-0.json",
        *(f"curves-dirichlet-{one}-{devices}-devices-seed-1.json" for one in ("0.05", "0.01") for devices in (5, 25)),
    }
    assert found.rows == results.rows and found.heads == results.heads and found.confusion == results.confusion


def test_parts_of_other_rows_are_made_again(tmp_path: Path):
    assert Parts(tmp_path, "these").get("Sums, 1", lambda: 1) == 1
    assert Parts(tmp_path, "these").get("Sums, 1", lambda: 2) == 1
    assert Parts(tmp_path, "these").get("Sums, 1", lambda: 3, of="other sizes") == 3
    assert Parts(tmp_path, "others").get("Sums, 1", lambda: 4) == 4
    other = Embedded(DATA.name, DATA.classes, DATA.X, (DATA.y + 1) % 3, DATA.X_test, DATA.y_test, 0.0, 6.0, STEP)
    assert other.digest != DATA.digest


def test_the_report_has_every_row_and_says_what_held(results: FrozenResults, tmp_path: Path):
    files = write_frozen_report(tmp_path, results)
    assert {"results.json", "report.html", "crossing.png", "confusion.svg"} <= set(files)
    page = files["report.html"].read_text()
    assert all(cells[3] in page for cells in frozen_cells(results.rows))
    assert all(cells[4] in page for cells in at_equal_cells(results.rows))
    said = verdicts(results)
    assert said[0] == "The sum over devices was that of pooled rows, number for number, in 16 of 16 splits."
    ends = [row.at_end for row in results.rows if row.at_end is not None]
    ahead = sum(one.lead > (one.half_width or 0) for one in ends)
    behind = sum(-one.lead > (one.half_width or 0) for one in ends)
    counted = f"{ahead} ahead, {24 - ahead - behind} level, {behind} behind"
    assert said[-1] == f"Ours against 24 gradient rows after all rounds: {counted}."


# -- the paper's data sets


def squares(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A bright square in one of ten places."""
    rng = np.random.default_rng(seed)
    y, X = rng.integers(0, 10, size=n), rng.uniform(0, 0.1, size=(n, 28, 28))
    for row, place in enumerate(y):
        X[row, 5 * (place // 2) : 5 * (place // 2) + 6, 14 * (place % 2) : 14 * (place % 2) + 9] += 0.8
    return X.reshape(n, -1).astype(np.float32), y


def test_of_each_kind_the_fewest_features_that_reach_the_target_come_last(monkeypatch: pytest.MonkeyPatch):
    made_up = Dataset("squares", *squares(1500, 0), *squares(300, 1), "classification", public_range=(0.0, 1.0))
    monkeypatch.setattr(ClaimScope, "data", lambda *_: made_up)
    asked: list[str] = []
    widths = {PAPERS: (1, 400, 500), LOW: (1,), EDGES: (1, 120)}
    rows = kernel_rows(ClaimScope(seeds=range(2)), 5, Parts(), lambda what, _: asked.append(what), widths)
    here = [(row.kind, row.width, row.reaches) for row in rows[: len(rows) // 2]]
    assert here == [(PAPERS, 1, False), (PAPERS, 400, True), (LOW, 1, False), (EDGES, 1, False), (EDGES, 120, True)]
    assert len(asked) == len(rows) and not any("500" in one for one in asked)
    last = rows[-1]
    assert last.accuracy > 0.9 and len(last.accuracies) == 2 and last.up == 4 * 131 * 132 / 2
    assert 0 < rows[-2].seconds < last.seconds < last.charged
    assert kernel_cells(rows)[-1][:5:2] == ("squares", "120", "85 reached")


def test_an_encoder_of_texts_takes_mails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = RANDOM.integers(0, 3, size=400)
    table = {"text": [f"p{one} p{one + 1}" for one in words], "group": np.where(words < 1, "ham", "spam")}
    monkeypatch.setattr(frozen_data, "load_mails", lambda _: as_raw_table(table, "mails"))
    found = frozen_data.mails(text_encoder(tmp_path), ClaimScope(), 2, lambda *_: None)
    assert (len(found.X), len(found.X_test), found.classes) == (160, 40, ("ham", "spam"))
    order = np.random.default_rng(0).permutation(400)[::2]
    test = np.arange(200) % 5 == 0
    expected = PIECES[words[order]] / 2 + PIECES[words[order] + 1] / 2
    np.testing.assert_allclose(found.X, expected[~test], atol=2.0**-11 + 1e-6)
    assert np.array_equal(found.y_test, (words[order][test] >= 1).astype(int))
