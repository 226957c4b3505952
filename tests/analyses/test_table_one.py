"""Table 1 over all devices against the pooled rows, what it does not tell, and the study that is drafted from it."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.analyses.described import DescribedLevels, DescribedNumber, drafted_range, quantile
from codedfl.analyses.driving import findings_json
from codedfl.analyses.table_one import TableOneFinding
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.from_table_one import draft_from_table_one
from codedfl.authoring.study_text import study_text
from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.data.columns import CategoryColumn, Grid, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.statistics.histogram import Histogram, anchor_code, bin_starts
from codedfl.statistics.statistic import Ask
from codedfl_lab.primes.ring import Ring
from totals import conducted, dealt, total_of
from wording import exactly

pytestmark = pytest.mark.hospitals


def stays(seed: int = 0, n: int = 240, oldest: int = 70) -> RawTable:
    rng = np.random.default_rng(seed)
    crp = rng.gamma(2.0, 20.0, n).round(1)
    crp[rng.random(n) < 0.2] = np.nan
    age = rng.integers(18, oldest, n).astype(float)
    columns = {
        "patient_id": np.arange(n) + 1000 * seed,
        "age": age,
        "crp": crp,
        "cost": rng.lognormal(7, 1.2, n).round(2),
        "change": rng.normal(0, 3, n).round(1),
        "ward": rng.choice(["eye", "surgery"], n),
        "days": (2 + age / 10 + rng.normal(size=n)).round(),
    }
    return as_raw_table(columns, f"clinic-{seed}.csv")


def pooled(tables: list[RawTable]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([one.column(name) for one in tables]) for name in tables[0].names}


def describing(table: RawTable) -> Study:
    return parse_study(study_text(replace(draft_of_table(table, "days", "stay").describing(), participants=3)))


def described(study: Study, table: RawTable) -> tuple[TableOneFinding, dict[str, object]]:
    found = conducted(study, dealt(study, table))
    (one,) = found.models
    assert isinstance(one, TableOneFinding)
    return one, json.loads(json.dumps(findings_json(study, found)))


def test_table_one_is_that_of_the_pooled_rows():
    tables = [stays(seed, oldest=60 + 10 * seed) for seed in range(4)]
    study, values = describing(tables[0]), pooled(tables)
    assert study.statistics == ("census", "cells", "histogram") and study.least_alike == study.smallest_cell
    found, _ = described(study, as_raw_table(values))
    numbers = {one.name: one for one in found.columns if isinstance(one, DescribedNumber)}
    assert list(numbers) == ["age", "crp", "cost", "change", "days"] and found.rows == 960
    for name, one in numbers.items():
        present = values[name][np.isfinite(values[name])]
        assert (one.rows, one.missing) == (len(present), 960 - len(present))
        assert one.mean == pytest.approx(present.mean(), rel=1e-3, abs=1e-3)
        assert one.deviation == pytest.approx(present.std(ddof=1), rel=1e-3)
        steps = (
            np.round(np.quantile(present, (0.05, 0.25, 0.5, 0.75, 0.95), method="inverted_cdf") / one.step) * one.step
        )
        within = 0 if name in ("age", "days") else 1 / 64  # bins of single steps are exact
        assert np.abs(np.array(one.quantiles) - steps).max() <= within * np.abs(steps).max() + 1e-9
        assert one.range[0] <= present.min() and present.max() < one.range[1]
    assert numbers["age"].range == (0.0, 100.0) and numbers["change"].range == (-10.0, 10.0)
    (ward,) = (one for one in found.columns if isinstance(one, DescribedLevels))
    assert dict(ward.counts) == {"eye": (values["ward"] == "eye").sum(), "surgery": (values["ward"] == "surgery").sum(),
                                 "other": 0, "missing": 0}  # fmt: skip
    assert max(map(len, found.lines())) <= 79
    assert found.csv().splitlines()[0] == "column,level,n,missing,mean,sd,q0.05,q0.25,q0.5,q0.75,q0.95"
    assert len(found.csv().splitlines()) == 1 + 5 + 4


def test_counts_below_the_smallest_cell_are_not_told():
    values = {name: column.copy() for name, column in stays().columns.items()}
    values["cost"][:3] = np.nan
    values["ward"] = np.where(np.arange(240) < 2, "burns", values["ward"])
    values["rare"] = np.where(np.arange(240) < 4, 7.0, 0.0)
    values["ill"] = np.where(np.arange(240) < 3, "x", np.where(np.arange(240) < 120, "no", "yes"))
    study = describing(as_raw_table(values))
    found, result = described(study, as_raw_table(values))
    cost = next(one for one in found.columns if one.name == "cost")
    assert isinstance(cost, DescribedNumber) and (cost.rows, cost.missing) == (None, "few")
    assert all(one.name != "rare" for one in found.columns), "four rows differ"
    counts = dict(next(one for one in found.columns if one.name == "ward").counts)  # type: ignore[union-attr]
    assert "burns" not in counts and all(rows is None or rows == 0 or rows >= 5 for rows in counts.values())
    of_classes = parse_study(
        study_text(replace(draft_of_table(as_raw_table(values), "ill", "ill").describing(), participants=3))
    )
    target = described(of_classes, as_raw_table(values))[0].columns[-1]
    assert isinstance(target, DescribedLevels) and [name for name, _ in target.counts] == ["yes", "no, x"]
    assert '"few"' in json.dumps(result)
    few = {name: column[:30] for name, column in stays().columns.items()}
    quantiles = described(study, as_raw_table(few | {"rare": np.zeros(30), "ill": few["ward"]}))[0].columns[0].quantiles  # type: ignore[union-attr]
    assert [one is None for one in quantiles] == [True, False, False, False, True], "1.5 rows lie below the first"


def test_the_real_study_clips_nobody_and_is_approved_after_the_description(tmp_path: Path):
    tables = [stays(seed, oldest=60 + 10 * seed) for seed in range(3)]
    keys = {f"clinic-{i}": bytes([i + 1] * 32) for i in range(3)}
    roster = Roster.draft(keys, colluders=1)
    digest, key = roster.digest().hex(), "ab" * 32
    first = replace(describing(tables[0]), roster=digest, server_key=key)
    _, result = described(first, as_raw_table(pooled(tables)))
    study, models = (
        parse_study(study_text(draft_from_table_one(result, "", "stay", drop=("change",)))),
        result["models"],
    )
    study = replace(study, roster=digest, server_key=key)
    assert study.target == NumberTarget("days", (0.0, 15.0), 1.0) and study.id == "patient_id"
    assert study.complete_cases and all(one.missing is None for one in study.columns)
    assert draft_from_table_one(result, "", "stay").complete_cases
    few = {
        **result,
        "models": [{**one, "columns": [*map(_few_missing, one["columns"])]} for one in models],
    }
    text = study_text(draft_from_table_one(few, "", "stay", drop=("change",)))
    fills = {one.name: one.missing for one in parse_study(text).columns}
    crp = np.concatenate([one.column("crp") for one in tables])
    assert [name for name, fill in fills.items() if fill is not None] == ["crp"], "few rows: both studies have them"
    (said,) = (line for line in text.splitlines() if line.startswith("# Noticed: it has missing values"))
    assert f"missing fills with {fills['crp']}, the mean of all devices, and marks: " in said
    step = study.columns[1].grid.step
    assert abs(float(fills["crp"] or 0.0) - np.nanmean(crp)) <= step, "filled with the mean of all, not with 0"
    folder = DeviceFolder(tmp_path / "clinic-0")
    party = ("clinic-0", keys["clinic-0"], tables[0], folder)
    for one in (first, replace(study, held_out=0.0)):
        approve(one, roster, *party, Deciding("Ada", "now"))
    assert all(not folder.frozen(one.digest()).clipped for one in (first, replace(study, held_out=0.0)))


def _few_missing(column: dict[str, Any]) -> dict[str, Any]:
    return {**column, "missing": "few"} if column["name"] == "crp" else column


def test_who_could_be_described_can_take_part():
    table = stays()
    study = describing(table)
    codes: dict[str, tuple[Any, ...]] = {"age": (-9.0, "?"), "ward": ("unknown",)}
    columns = (replace(one, missing_codes=codes.get(one.name, ())) for one in study.columns)
    _, result = described(replace(study, columns=tuple(columns)), table)
    found = {one.name: one for one in parse_study(study_text(draft_from_table_one(result, "", "t"))).columns}
    assert {name: found[name].missing_codes for name in codes} == codes
    ward = found["ward"]
    assert isinstance(ward, CategoryColumn) and (ward.levels, ward.other) == (("eye", "surgery", "other"), "other")


@pytest.mark.parametrize(("devices", "share"), [(3, 0.2), (9, 0.0)])
def test_rows_too_few_for_a_score_are_not_held_out(devices: int, share: float):
    """They would be neither trained on nor scored, and no later study could train on them."""
    _, result = described(describing(stays()), stays())
    result["owners"] = {"cells": [f"clinic-{i}" for i in range(devices)]}
    assert draft_from_table_one(result, "", "t").held_out == share


def test_a_result_that_is_none_is_refused():
    _, result = described(describing(stays()), stays())
    message = "a column must be one that is described (age, crp, cost, change, ward, days), got 'size'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        draft_from_table_one(result, "size", "t")
    message = "--task must be as 'days' was described, got classification: describe it otherwise first"
    with pytest.raises(InvalidInput, match=exactly(message)):
        draft_from_table_one(result, "", "t", task="classification")
    rng = random.Random(0)
    for _ in range(200):
        damaged = json.loads(json.dumps(result))
        one = rng.choice((damaged, damaged["models"][0], rng.choice(damaged["models"][0]["columns"])))
        one[rng.choice(list(one))] = rng.choice((None, 3, "x", [], {}, [1], {"a": 1}))
        try:
            study_text(draft_from_table_one(damaged, "", "t"))
        except InvalidInput:
            continue


@pytest.mark.parametrize("ends", [(0.0, 120.0), (-1000.0, 5000.0), (1650.0, 2350.0), (-50.0, 0.0), (0.0, 16e6)])
def test_bins_cover_every_code_once_and_grow_from_the_anchor(ends: tuple[float, float]):
    grid = Grid("range", ends, 1.0)
    starts, anchor = bin_starts(grid), anchor_code(grid)
    widths = np.diff(np.append(starts, grid.n_steps + 1))
    assert starts[0] == 0 and (widths > 0).all() and len(starts) < 5000
    nearest = np.where(starts <= anchor, np.maximum(anchor - starts - widths + 1, 0), starts - anchor)
    assert (widths <= np.maximum(1, nearest / 64)).all()


def test_quantiles_and_ranges_of_awkward_histograms():
    grid = Grid("range", (0.0, 1000.0), 0.5)
    bins = np.zeros(len(bin_starts(grid)), dtype=np.int64)
    bins[0] = 10
    assert (quantile(grid, bins, 0.5), drafted_range(grid, bins)) == (0.0, (0.0, 0.5))
    bins[-1] = 1
    assert drafted_range(grid, bins) == (0.0, 1500.0)
    marks, counts = Grid("range", (0.0, 9.0), 1.0), np.array([6, 7, 0, 0, 0, 0, 0, 0, 0, 0])
    assert drafted_range(marks, counts) == (0.0, 1.0), "0 and 1 are marks, which a survival model wants as they are"


def test_columns_of_large_numbers_do_not_touch():
    grid = (0.0, 20000.0), 1.0, None
    one = DescribedNumber("tax", 32, 0, 16720.0, 2143.0, (15000.0, 15420.0, 16850.0, 17920.0, 18000.0), *grid)
    line = TableOneFinding("t", 32, 0, (one,), "y", "", {}).lines()[-1]
    assert line.split() == ["tax", "32", "0", "16720", "2143", "15420", "16850", "17920"]


def test_who_holds_which_row_changes_no_bit_of_the_histogram():
    table = stays()
    study = describing(table)
    ask = Ask("histogram", model="table 1")
    few, many = (total_of(study, ask, dealt(study, table, n)) for n in (2, 9))
    assert few == many and len(few) == Histogram(study, model=study.models[0]).length
    assert 8 * Histogram(study, model=study.models[0]).limit <= Ring.for_group_sizes([1], 3).modulus


def test_a_description_makes_no_model_and_takes_nothing_else():
    study = describing(stays())
    assert conducted(study, dealt(study, stays())).model is None
    with pytest.raises(
        InvalidInput, match=exactly("held_out must be 0 without features: there is nothing to score, got 0.2")
    ):
        replace(study, held_out=0.2)
    text = 'kind = "describe"', 'kind = "linear"'
    with pytest.raises(
        InvalidInput, match=r"^the study: models must go with linear features without noise, got 'table 1'"
    ):
        parse_study(study_text(draft_of_table(stays(), "days", "t").describing()).replace(*text))
