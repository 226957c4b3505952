"""The wrap-around experiment at a size where wraps are frequent, with Python integers as the oracle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments.paper_arithmetic import PaperFixedPoint
from experiments.wraparound import images as images_module
from experiments.wraparound.__main__ import main
from experiments.wraparound.answers import PaperAnswer, Triangle
from experiments.wraparound.cases import Report, run
from experiments.wraparound.images import load_images, synthetic_images
from experiments.wraparound.sharing import Setting, draw_key, gram_matrices

from codedfl.exact.fixed_point import Bounds, FixedPoint

# A range of +-512 instead of +-2^23, so that 60 x 60 Gram matrices wrap under many pads.
NARROW = PaperFixedPoint(k=26, f=16)
SMALL = Setting(devices=5, alpha=3, n_features=60, epochs=20, n_pads=60, answers=5, seed=3, datatype=NARROW)


def small_run(setting: Setting) -> Report:
    images, labels = synthetic_images(500, np.random.default_rng(setting.seed))
    return run("synthetic", images, labels, setting)


@pytest.fixture(scope="module")
def report() -> Report:
    return small_run(SMALL)


def test_one_wrap_is_off_by_the_update_times_the_range() -> None:
    """The defect in one number: x + r = 2^(k-1) leaves Z_<k>, and c x comes back with -c 2^(k-f) in it."""
    q = PaperFixedPoint()
    secret = 3 << 23  # 1.5
    key = (1 << 47) - secret
    update = 5033165  # about 0.3
    padded = q.add(np.array([secret]), np.array([key]))
    assert padded.tolist() == [-(1 << 47)]
    retrieved = q.add(q.multiply(padded, np.array([update])), -q.multiply(np.array([key]), np.array([update])))

    wanted = secret * update >> 24
    error = (int(retrieved[0]) - wanted + update * 2**24) % 2**48
    assert min(error, 2**48 - error) <= 1, "off by more or less than -c 2^(k-f)"
    assert abs(int(retrieved[0]) - wanted) > 2**46, "the gradient is lost"


def test_the_paper_spoils_rows_of_every_kind_of_answer(report: Report) -> None:
    paper = [outcome for outcome in report.outcomes if outcome.arithmetic == "paper"]
    assert [outcome.case for outcome in paper] == [
        "device 0",
        *(f"coded by device {i}" for i in range(5)),
        "decoded total",
    ]
    for outcome in paper:
        assert outcome.largest_error_elsewhere <= outcome.tolerance
        # A wrong entry stands in one row; its error may vanish there only if e is a whole number.
        assert len(outcome.spoilt_rows) <= outcome.wrong_entries
    assert paper[0].spoilt_rows and paper[-1].spoilt_rows
    assert any(outcome.spoilt_rows for outcome in paper[1:-1])
    assert paper[-1].largest_error > 1000 * paper[-1].tolerance
    assert 0 < report.spoilt_sets <= report.survivor_sets == 10
    assert np.flatnonzero(report.row_errors > paper[-1].tolerance).tolist() == list(paper[-1].spoilt_rows)


def test_the_exact_ring_spoils_none(report: Report) -> None:
    ring = [outcome for outcome in report.outcomes if outcome.arithmetic == "exact ring"]
    assert [outcome.case for outcome in ring] == ["device 0", "decoded total"]
    for outcome in ring:
        assert (outcome.wrong_entries, outcome.spoilt_rows, outcome.largest_error) == (0, (), 0.0)


def test_pads_wrap_as_often_as_predicted(report: Report) -> None:
    counts = report.wrong_entries_per_pad
    expected = report.expected_per_pad * len(counts)
    assert expected > 20
    # Entries off the diagonal come in pairs, so the variance is at most twice the mean.
    assert abs(sum(counts) - expected) < 5 * np.sqrt(2 * expected)


def test_without_wraps_the_paper_is_right_up_to_truncation() -> None:
    """The tolerance is no excuse: a range that nothing leaves has no spoilt row, in any of the cases."""
    wide = Setting(**{**vars(SMALL), "datatype": PaperFixedPoint(k=62, f=16)})
    report = small_run(wide)
    assert sum(report.wrong_entries_per_pad) == 0
    assert report.spoilt_sets == 0
    for outcome in report.outcomes:
        assert (outcome.wrong_entries, outcome.spoilt_rows) == (0, ())


def test_keys_in_another_order_retrieve_nothing() -> None:
    """b (Xi e) for (b Xi) e, step (b) of IV-C: fails in nearly every row although no secret is involved at all."""
    q, rng = PaperFixedPoint(), np.random.default_rng(0)
    keys = [draw_key(q, 60 * 60, 7, i).reshape(60, 60) for i in range(3)]
    weights = [q.from_reals(np.array(b)) for b in (1.0, -1.7, 0.6)]
    update = q.from_reals(rng.normal(0.0, 0.3, size=(60, 1)))
    coded, reordered = np.zeros((60, 60), dtype=np.int64), np.zeros((60, 1), dtype=np.int64)
    for weight, key in zip(weights, keys, strict=True):
        coded = q.add(coded, q.multiply(key, weight))
        reordered = q.add(reordered, q.multiply(q.matmul(key, update), weight))
    difference = q.to_reals(q.add(q.matmul(coded, update), -reordered))
    assert np.count_nonzero(np.abs(difference) > 1000) > 55


def test_gram_matrices_are_those_of_python_integers() -> None:
    rng, triangle = np.random.default_rng(5), Triangle(4)
    X = rng.uniform(-0.7, 0.7, size=(6, 4))
    fixed_point = FixedPoint.derive(Bounds(0.71, 1.0, 30, 6), 4, 5)
    made = gram_matrices(X, fixed_point, triangle, NARROW)
    grid = [[round(x * 2**fixed_point.feature_bits) for x in row] for row in X.tolist()]
    pairs = [(i, j) for i in range(4) for j in range(i, 4)]
    exact = [sum(row[i] * row[j] for row in grid) for i, j in pairs]
    for matrix, bits in ((made.paper, 16), (made.ring, fixed_point.gram_bits)):
        unit = 2 ** (2 * fixed_point.feature_bits - bits)
        assert all(abs(value * unit - wanted) * 2 <= unit for value, wanted in zip(matrix.tolist(), exact, strict=True))


def test_a_triangle_counts_what_lies_off_the_diagonal_twice() -> None:
    triangle = Triangle(3)
    square = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    assert len(triangle) == 6
    assert triangle.of(square).tolist() == [1, 2, 3, 4, 5, 6]
    assert np.array_equal(triangle.square(triangle.of(square)), square)
    assert triangle.total(triangle.of(square)) == square.sum()


def test_an_answer_finds_the_wrap_that_was_made() -> None:
    triangle = Triangle(2)
    secret = NARROW.from_reals(np.array([1.0, 2.0, 3.0]))
    key = np.array([0, (1 << 25) - 1, 0])  # 2 more than the greatest number, in the entry off the diagonal
    answer = PaperAnswer(NARROW, triangle)
    answer.add(1.0, NARROW.add(secret, key), key, secret)
    assert answer.is_wrong().tolist() == [False, True, False]
    assert answer.wrong_entries() == 2
    assert answer.expected_wrong() == (1 + 2 * 2 + 3) / 1024


def test_synthetic_images_have_the_ink_of_mnist() -> None:
    images, labels = synthetic_images(1000, np.random.default_rng(0))
    assert images.shape == (1000, 784) and images.dtype == np.float32
    assert images.min() == 0.0 and images.max() == 1.0
    assert 0.10 < images.mean() < 0.17  # MNIST: 0.13
    assert set(labels.tolist()) == set(range(10))


def test_synthetic_images_stand_in_for_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEDFL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(images_module, "IMAGES", 20)
    name, images, labels = load_images(None, 0)
    assert name == "synthetic" and len(images) == len(labels) == 20


def test_the_command_writes_table_figure_and_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(images_module, "IMAGES", 250)
    main(["--dataset", "synthetic", "--d", "30", "--out", str(tmp_path)])
    record = json.loads((tmp_path / "wraparound.json").read_text())
    assert record["setting"]["n_features"] == 30
    assert record["setting"]["datatype"] == {"k": 48, "f": 24}
    assert [one["spoilt_rows"] for one in record["outcomes"] if one["arithmetic"] == "exact ring"] == [[], []]
    assert (tmp_path / "wraparound.png").read_bytes().startswith(b"\x89PNG")
    out = capsys.readouterr().out
    assert "X'X e retrieved from padded data (synthetic images)" in out
    assert "d = 30, D = 25, alpha = 23, k = 48, f = 24" in out
