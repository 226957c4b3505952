"""Site effects by demeaning on the device, against least squares with a dummy for every site."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from codedfl.analyses.study_analysis import refit
from codedfl.contract.models import SubModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from totals import conducted
from wording import exactly

SITES = 6


def table(seed: int = 0) -> RawTable:
    """Sites that differ in age, in sex and in their stays: without their effects the slopes are wrong."""
    rng = np.random.default_rng(seed)
    site = rng.integers(0, SITES, 900)
    age = np.clip((35 + 6 * site + rng.normal(0, 10, 900)).round(), 0, 110)
    sex = np.where(rng.random(900) < 0.2 + 0.1 * site, "m", "f")
    crp = rng.gamma(2, 10, 900).round(1)
    days = (20 - 3 * site + 0.15 * age + 0.05 * crp + 2 * (sex == "m") + rng.normal(0, 2, 900)).round(1)
    return as_raw_table({"site": site.astype(float), "age": age, "sex": sex, "crp": crp, "days": days})


def study(crp: tuple[float, float] = (0.0, 300.0)) -> Study:
    columns = (
        NumberColumn("age", (0.0, 110.0), 1.0),
        CategoryColumn("sex", ("f", "m")),
        NumberColumn("crp", crp, 0.1),
    )
    models = (SubModel("age", ("age",), inference=True),)
    target = NumberTarget("days", (-50.0, 100.0), 0.1)
    made = Study("s", columns, target, 5000, 1000, 3, inference=True, held_out=0.0, models=models)
    return replace(made, site_effects=True)


def snapshots(made: Study, rows: RawTable, sites: int = SITES) -> list[Snapshot]:
    return [take_snapshot(made, rows.rows(rows.column("site") == one), bytes([one] * 16)) for one in range(sites)]


def design(rows: RawTable, *names: str) -> np.ndarray:
    columns = {"age": rows.column("age"), "sex": rows.column("sex") == "m", "crp": rows.column("crp")}
    dummies = rows.column("site")[:, None] == np.arange(SITES)
    return np.column_stack([*(columns[name] for name in names), dummies]).astype(float)


@pytest.mark.parametrize(("crp", "most"), [((0.0, 300.0), 1e-6), ((0.0, 1000000.0), 1e-4)])
def test_slopes_and_errors_are_those_with_a_dummy_per_site(crp: tuple[float, float], most: float):
    """Also where a range leaves no room for parts of a step."""
    rows, made = table(), study(crp)
    found = conducted(made, snapshots(made, rows)).inference
    assert found is not None
    oracle = sm.OLS(rows.column("days"), design(rows, "age", "sex", "crp")).fit()
    moved = (found.coefficients[1:] - oracle.params[:3]) / oracle.bse[:3]
    assert np.abs(moved).max() < most
    assert np.abs(found.standard_errors[1:] / oracle.bse[:3] - 1).max() < 1e-6
    assert found.freedom == oracle.df_resid == 900 - 3 - SITES
    assert found.fit.constants == SITES and "Site effects" in found.summary()
    shares = np.bincount(rows.column("site").astype(int)) / 900
    assert found.coefficients[0] == pytest.approx(shares @ oracle.params[3:], abs=1e-5), "the mean of the effects"
    pooled = sm.OLS(rows.column("days"), sm.add_constant(design(rows, "age", "sex", "crp")[:, :3])).fit()
    assert abs(pooled.params[1] - oracle.params[0]) > 5 * oracle.bse[0], "without them the slope is another"


def test_sub_models_and_refits_of_the_total_have_them_too():
    rows, made = table(), study()
    found = conducted(made, snapshots(made, rows))
    oracle = sm.OLS(rows.column("days"), design(rows, "age")).fit()
    again = refit(made, found.total, found.merged, SubModel("again", ("age",), inference=True))
    for one in (found.models[0].inference, again.inference):
        assert one.coefficients[1] == pytest.approx(oracle.params[0], abs=1e-5 * oracle.bse[0])
        assert one.standard_errors[1] == pytest.approx(oracle.bse[0], rel=1e-6)
    predicted = found.model.predict(rows)
    assert predicted.mean() == pytest.approx(rows.column("days").mean(), abs=1e-3)


def test_order_changes_nothing_and_a_site_of_one_row_adds_nothing():
    rows, made = table(), study()
    parts = snapshots(made, rows)
    ask_total = conducted(made, parts).total
    order = np.random.default_rng(1).permutation(len(rows))
    assert conducted(made, snapshots(made, rows.rows(order))).total == ask_total
    lone = take_snapshot(made, rows.rows(np.array([0])), bytes(16))
    more = conducted(made, [*parts, lone]).total
    width = 1 + made.width + 1
    assert more[0] == ask_total[0] + 1 and more[-1] == SITES + 1
    assert more[width:-width] == ask_total[width:-width], "its row less its mean is 0"


def test_moving_rows_between_sites_changes_the_total():
    rows, made = table(), study()
    columns = dict(rows.columns)
    columns["site"] = np.roll(columns["site"], 1)
    moved = as_raw_table(columns)
    assert conducted(made, snapshots(made, moved)).total != conducted(made, snapshots(made, rows)).total


def test_what_site_effects_do_not_go_with():
    made = study()
    for changes, message in (
        ({"held_out": 0.2}, "held_out must be 0 with site_effects: rows of an unknown site have no score, got 0.2"),
        ({"features": "rbf", "models": (), "inference": False},
         "site_effects must go with linear features and a number to predict, without noise"),
        ({"target": ClassTarget("ill", ("no", "yes")), "models": (LogisticModel("ill", ("age",)),), "inference": False},
         "site_effects must go with linear features and a number to predict, without noise"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=exactly(message)):
            replace(made, **changes)


def test_a_column_that_names_sites_is_refused_with_the_advice():
    rows, plain = table(), replace(study(), site_effects=False)
    named = replace(plain, columns=(*plain.columns, NumberColumn("site", (0.0, 9.0), 1.0)), models=())
    message = (
        "column 'site' must vary on at least 3 devices, got fewer, so it tells devices apart: leave it out, or for"
        " effects of sites say site_effects = true, and each device subtracts its means"
    )
    with pytest.raises(InvalidInput, match=exactly(message)):
        conducted(named, snapshots(named, rows))


def test_the_study_file_says_it():
    text = """
format = "codedfl-study-2"
name = "s"
site_effects = true
[[column]]
name = "age"
kind = "number"
range = [0, 110]
step = 1
[target]
name = "days"
range = [0, 60]
step = 1
[protection]
max_rows = 1000
max_rows_per_device = 300
least_participants = 3
[result]
held_out = 0
"""
    made = parse_study(text)
    assert made.site_effects and made.gram_scales.tolist() == [4096, 4096]
