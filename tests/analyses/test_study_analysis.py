"""A study from its first question to its findings, with totals added up in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.linear_model import Ridge
from sklearn.metrics import confusion_matrix, r2_score, roc_auc_score

from codedfl.analyses.driving import read_total, total_json
from codedfl.analyses.scoring import ClassScore, NumberScore
from codedfl.analyses.study_analysis import conduct, refit
from codedfl.contract.census import Decision
from codedfl.contract.merging import merged_study, recoded
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study, SubModel
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.features.pca_rbf import PrincipalFourierFeatures
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.statistics.products import Products
from codedfl.statistics.statistic import Ask
from totals import conducted, dealt, pooled
from wording import exactly

TOO_FEW_HELD_OUT = "too few people are among the held-out rows: these are in no sum"


def stays(n: int = 900, seed: int = 0) -> RawTable:
    """Stays in hospital: missing values, rare wards, and a number that is nearly always 0."""
    rng = np.random.default_rng(seed)
    age = np.round(rng.uniform(20, 90, n))
    crp = np.round(rng.gamma(2.0, 20.0, n), 1)
    ward = rng.choice(["surgery", "medicine", "eye", "burns"], n, p=[0.5, 0.4, 0.097, 0.003])
    days = np.clip(np.round(2 + 0.1 * age + 0.02 * crp + 4 * (ward == "eye") + rng.normal(0, 2, n)), 0, 60)
    rare = np.zeros(n)
    rare[:3] = 1.0
    some, few = crp.copy(), age.copy()
    some[rng.random(n) < 0.2] = np.nan
    few[:2] = np.nan
    return as_raw_table({"age": few, "crp": some, "ward": ward, "rare": rare, "days": days}, "stays.csv")


def study(**changes: Any) -> Study:
    columns = (
        NumberColumn("age", (0.0, 120.0), 1.0, missing=50.0),
        NumberColumn("crp", (0.0, 500.0), 0.1, missing=20.0),
        CategoryColumn("ward", ("surgery", "medicine", "eye", "burns")),
        NumberColumn("rare", (0.0, 1.0), 1.0),
    )
    made = Study("stays", columns, NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, inference=True)
    models = (SubModel("age", ("age",), inference=True), SubModel("rare too", ("rare", "ward"), 1e-3))
    return replace(made, models=models, **changes)


def test_rare_levels_are_merged_and_the_model_takes_raw_tables():
    raw = stays()
    rows = dealt(study(), raw)
    found = conducted(study(), rows)
    # The mark of two missing values, burns with the next rarest ward, and the number of three rows.
    assert found.merged == ((0,), (), (2, 3), (1,), (), ())
    merged = merged_study(study(), found.merged)
    assert merged.design_names == ("age", "crp", "crp missing", "ward = medicine", "ward = other")
    codes, target = pooled(rows)
    codes = recoded(study(), codes, found.merged)
    X = merged.matrix(codes)
    X[:, :2] /= X[:, :2].std(axis=0)
    oracle = Ridge(alpha=len(X) * study().regularisation, solver="svd").fit(X, target)
    assert np.abs(found.model.predict(merged.matrix(codes)) / oracle.predict(X) - 1).max() < 1e-9
    predicted = found.model.predict(raw)  # burns and eye are names that the model maps to other
    assert np.isfinite(predicted).all()
    assert found.rows == len(X)
    assert isinstance(found.score, NumberScore)
    held, truth = pooled(rows, held_out=True)
    held_predicted = found.model.predict(merged.matrix(recoded(study(), held, found.merged)))
    assert found.score.r_squared == pytest.approx(r2_score(truth, held_predicted), rel=1e-9)
    assert found.inference.names[1:] == merged.design_names and found.no_inference == ""
    age, rare_too = found.models
    assert (age.name, age.columns, age.inference.names) == ("age", ("age",), ("constant", "age"))
    assert (rare_too.columns, rare_too.inference) == (("ward",), None)
    assert isinstance(age.score, NumberScore)
    kept = json.loads(json.dumps(found.to_dict()))
    total = read_total(study(), total_json(study(), found, ["a", "b", "c"]))
    again = refit(study(), total.total, total.merged).unless_clipped(study(), total.clipped)
    assert again.model.theta.tobytes() == found.model.theta.tobytes()
    assert again.inference.to_dicts() == kept["inference"]["coefficients"]
    assert kept["score"]["rows"] == found.score.rows


def test_who_holds_which_row_changes_no_bit():
    """But held-out rows are drawn by a device's own key: they are moved as they are."""
    rows = dealt(study(), stays())
    together = {name: np.concatenate([getattr(one, name) for one in rows]) for name in ("codes", "target", "held_out")}
    order = np.random.default_rng(3).permutation(900)
    moved = [
        Snapshot(rows[0].study, together["codes"][part], together["target"][part], together["held_out"][part])
        for part in np.array_split(order, 7)
    ]
    first, second = conducted(study(), rows), conducted(study(), moved)
    assert first.total == second.total
    assert first.model.theta.tobytes() == second.model.theta.tobytes()
    assert first.inference.p.tobytes() == second.inference.p.tobytes()
    assert first.score == second.score


def test_columns_that_depend_on_each_other_cost_only_the_inference():
    raw = stays()
    columns = {**raw.columns, "again": raw.columns["crp"]}
    made = study()
    made = replace(made, columns=(*made.columns, NumberColumn("again", (0.0, 500.0), 0.1, missing=20.0)))
    found = conducted(made, dealt(made, as_raw_table(columns, "stays.csv")))
    assert found.inference is None
    assert found.no_inference.startswith("columns must be independent for inference")
    assert found.score.value > 0.3


# -- refusals


def refused(raw: RawTable, made: Study, message: str, n_devices: int = 4) -> None:
    with pytest.raises(InvalidInput, match=exactly(message)):
        conducted(made, dealt(made, raw, n_devices))


def test_too_few_rows():
    made = study(least_rows=1000)
    refused(
        stays(),
        made,
        "training rows must be at least 1000 in this study (least_rows), got fewer: ask more devices to join",
    )


def test_held_out_rows_of_one_device_are_in_no_sum():
    """They would be this device's own; the others train as they did."""
    rows = dealt(study(), stays())
    kept = [one.part(held_out=False) for one in rows[:3]]
    found = conducted(study(), [*kept, rows[3]])
    assert (found.score, found.no_score) == (None, TOO_FEW_HELD_OUT) and found.merged[-1] == (2,)
    assert found.rows == sum(len(one.part(held_out=False)) for one in rows)


def test_a_column_that_names_devices():
    raw, made = stays(), study()
    advice = (
        " must vary on at least 3 devices, got fewer, so it tells devices apart: leave it out, or for effects of sites"
        " say site_effects = true, and each device subtracts its means"
    )
    for column, values in (
        (CategoryColumn("site", ("a", "b")), ["a", "a", "b", "b"]),
        (NumberColumn("site", (0.0, 10.0), 1.0), [1.0, 2.0, 3.0, 4.0]),
    ):
        with_site = replace(made, columns=(*made.columns, column))
        parts = np.array_split(np.arange(900), 4)
        rows = []
        for place, (part, value) in enumerate(zip(parts, values, strict=True)):
            table = as_raw_table({**raw.rows(part).columns, "site": np.full(len(part), value)}, "t.csv")
            rows += dealt(with_site, table, 1, seed=place)
        with pytest.raises(InvalidInput, match=exactly(f"column 'site'{advice}")):
            conducted(with_site, rows)


def test_levels_that_each_are_one_device_are_merged_away():
    raw, column = stays(), CategoryColumn("site", ("a", "b", "c", "d"))
    made = study()
    made = replace(made, columns=(*made.columns, column))
    rows = []
    for place, part in enumerate(np.array_split(np.arange(900), 4)):
        table = as_raw_table({**raw.rows(part).columns, "site": ["abcd"[place]] * len(part)}, "t.csv")
        rows += dealt(made, table, 1, seed=place)
    found = conducted(made, rows)
    assert found.merged[len(made.columns) - 1] == (0, 1, 2, 3)
    assert not any("site" in name for name in found.inference.names)


def test_a_rare_class():
    raw = stays()
    table = as_raw_table({"age": raw.columns["crp"], "ward": raw.columns["ward"]}, "wards.csv")
    column = NumberColumn("age", (0.0, 500.0), 0.1, missing=1.0)
    made = Study("w", (column,), ClassTarget("ward", ("burns", "eye", "medicine", "surgery")), 5000, 1000, 3)
    message = (
        "class 'burns' must have at least 5 people, whatever 1 owners invent, got fewer: leave it out of the classes,"
        " or join it with another"
    )
    refused(table, made, message)


# -- classes


def classes(data: Any, target: ClassTarget) -> tuple[Study, RawTable]:
    names = [f"x{j}" for j in range(data.data.shape[1])]
    low, high = np.floor(data.data.min(axis=0)), np.ceil(data.data.max(axis=0))
    high[high == low] += 1  # pixels that never have ink
    columns = tuple(
        NumberColumn(name, (float(low[j]), float(high[j])), float(high[j] - low[j]) / 2**16)
        for j, name in enumerate(names)
    )
    raw = as_raw_table({**{name: data.data[:, j] for j, name in enumerate(names)}, target.name: data.target}, "t.csv")
    return Study("c", columns, target, 5000, 2000, 3, smallest_cell=5, held_out=0.4), raw


def test_two_classes_are_scored_by_counts():
    made, raw = classes(load_breast_cancer(), ClassTarget("kind", (0, 1)))
    rows = dealt(made, raw, 3)
    found = conducted(made, rows)
    assert isinstance(found.score, ClassScore) and found.no_score == ""
    codes, truth = pooled(rows, held_out=True)
    X = made.matrix(codes)
    predicted, scores = found.model.predict(X), found.model.scores(X)
    assert found.score.rows == len(X) > 200
    assert np.array_equal(found.score.confusion, confusion_matrix(truth, predicted))
    assert found.score.accuracy == np.mean(predicted == truth)
    tenths = np.clip(np.floor(10 * (scores[:, 1] - scores[:, 0] + 1) / 2), 0, 9)
    bands = np.searchsorted([10 * one.high for one in found.score.calibration], tenths, side="right")
    assert found.score.auc == pytest.approx(roc_auc_score(truth, bands), rel=1e-12)
    assert sum(one.rows for one in found.score.calibration) == len(X)
    assert [one.high for one in found.score.calibration][:-1] == [one.low for one in found.score.calibration][1:]
    for one in found.score.calibration:
        within = (tenths >= round(10 * one.low)) & (tenths < round(10 * one.high))
        assert (one.rows, one.second) == (within.sum(), truth[within].sum())
        assert not {1, 2, 3, 4} & {one.second, one.rows - one.second}
    told = found.score.to_dict()
    assert told["confusion"] == [list(map(str, row)) for row in found.score.confusion.tolist()]
    assert found.score.shown_calibration()[-1] == ("0.5 to 1.0", "144", "93 %") and told["withheld"] == ""
    few = conducted(replace(made, smallest_cell=13), rows).score
    assert (
        isinstance(few, ClassScore)
        and few.shown_confusion() is None
        and 0 < found.score.accuracy - few.accuracy < 13 / len(X)
    )


def test_more_classes_and_too_few_held_out():
    made, raw = classes(load_iris(), ClassTarget("kind", (0, 1, 2)))
    rows = dealt(made, raw, 3)
    found = conducted(made, rows)
    assert isinstance(found.score, ClassScore)
    codes, truth = pooled(rows, held_out=True)
    assert np.array_equal(found.score.confusion, confusion_matrix(truth, found.model.predict(made.matrix(codes))))
    assert (found.score.auc, found.score.shown_calibration()) == (None, None)
    kept = [one.part(held_out=False) for one in rows[:2]]
    found = conducted(made, [*kept, *rows[2:]])
    assert (found.score, found.no_score) == (None, TOO_FEW_HELD_OUT)


def test_wrong_totals_are_refused():
    with pytest.raises(InvalidInput, match=exactly("a total of score must be 24 counts, got 3")):
        ClassScore.of([1, 2, 3], 2)
    run = conduct(study())
    next(run)
    run.send(Decision())
    with pytest.raises(InvalidInput, match=r"^a total of cells must be 12 counts, got 2$"):
        run.send([1, 2])


# -- random features


def solved(made: Study, rows: list[Snapshot]) -> Callable[[Ask], np.ndarray]:
    """In place of a run: the ridge of all rows' features."""

    def products(ask: Ask) -> np.ndarray:
        statistic = Products(merged_study(made, ask.merged), ask.point)
        codes, target = pooled(rows)
        X, _ = statistic.recipe.features(statistic.study.matrix(recoded(made, codes, ask.merged)))
        Y = statistic.recipe.labels.encode(made.target.values(target))
        X = X.astype(np.float64)
        return np.linalg.solve(X.T @ X / len(X) + float(made.regularisation) * np.eye(X.shape[1]), X.T @ Y / len(X))

    return products


@pytest.mark.parametrize("features", ["rbf", "pca-rbf"])
def test_random_features_of_classes(features: str):
    made, raw = classes(load_digits(), ClassTarget("digit", tuple(range(10))))
    components = 12 if features == "pca-rbf" else None
    made = replace(made, features=features, n_features=200, components=components)
    rows = dealt(made, raw, 3)
    found = conducted(made, rows, solved(made, rows))
    assert isinstance(found.score, ClassScore)
    assert found.score.accuracy > 0.9
    codes, truth = pooled(rows, held_out=True)
    merged = merged_study(made, found.merged)
    predicted = found.model.predict(merged.matrix(recoded(made, codes, found.merged)))
    assert np.array_equal(found.score.confusion, confusion_matrix(truth, predicted))
    assert bool(found.total) == (features == "pca-rbf")
    if features == "pca-rbf":
        kind = found.model.recipe.feature_map
        assert isinstance(kind, PrincipalFourierFeatures)
        scaling = merged.preprocessing()
        X = scaling.apply(merged.matrix(recoded(made, pooled(rows)[0], found.merged)))[0]
        values = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1][:12]
        along = np.var((X - kind.principal.centre) @ kind.principal.components, axis=0)
        assert np.abs(along / values - 1).max() < 1e-9


def test_random_features_of_a_number():
    made = replace(study(), features="rbf", n_features=60, inference=False, models=())
    rows = dealt(made, stays())
    found = conducted(made, rows, solved(made, rows))
    held, truth = pooled(rows, held_out=True)
    predicted = found.model.predict(merged_study(made, found.merged).matrix(recoded(made, held, found.merged)))
    assert isinstance(found.score, NumberScore)
    assert found.score.rows == len(truth)
    assert found.score.r_squared == pytest.approx(r2_score(truth, np.round(predicted)), rel=1e-9)
