"""Table 1 by arm beside numpy on the pooled rows; small cells are not told by arm."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from experiments.statistics.cases import Case, found, found_by
from scipy import stats

from codedfl.analyses.described import DescribedLevels, DescribedNumber
from codedfl.analyses.table_one import TableOneFinding
from codedfl.contract.models import TableOne
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from codedfl.report.result_tables import table_one
from codedfl.statistics.statistic import Ask
from totals import dealt, total_of
from wording import exactly

TABLE = TableOne("t", ("age", "sex"), by="arm")


def made_up(n: int = 600, rare: int = 0) -> Case:
    rng = np.random.default_rng(0)
    arm = rng.choice(["none", "low", "high"], n)
    age = np.round(50 + 6 * (arm == "high") + rng.normal(0, 12, n))
    sex = np.where(rng.random(n) < 0.4 + 0.2 * (arm == "low"), "f", "m")
    if rare:
        sex[arm == "high"] = "m"
        sex[np.flatnonzero(arm == "high")[:rare]] = "f"
    return Case(
        {"arm": arm, "age": age, "sex": sex, "days": rng.integers(0, 30, n) * 1.0}, "days", {"age": 1.0, "days": 1.0}
    )


def described(case: Case) -> TableOneFinding:
    (finding,) = found(case, case.study(TABLE, features="none")).models
    assert isinstance(finding, TableOneFinding)
    return finding


def test_rows_means_and_differences_are_those_of_the_pooled_rows() -> None:
    case = made_up()
    values, finding = case.values, described(case)
    result: Any = finding.to_dict()
    ages, shares = {}, {}
    for arm in finding.arms:
        mine = values["arm"] == arm.level
        assert arm.rows == mine.sum()
        age, sex, days = arm.columns
        assert isinstance(age, DescribedNumber) and isinstance(sex, DescribedLevels) and days.name == "days"
        ages[arm.level] = values["age"][mine]
        assert age.mean == pytest.approx(ages[arm.level].mean(), rel=1e-3)
        assert age.deviation == pytest.approx(ages[arm.level].std(ddof=1), rel=1e-3)
        assert age.quantiles[2] == np.sort(ages[arm.level])[-(-arm.rows // 2) - 1]
        counts = {level: int((values["sex"][mine] == level).sum()) for level in ("f", "m")}
        assert dict(sex.counts) == counts
        shares[arm.level] = counts["f"] / arm.rows
    pairs = list(combinations(ages, 2))
    of_age = max(
        abs(ages[a].mean() - ages[b].mean()) / np.sqrt((ages[a].var(ddof=1) + ages[b].var(ddof=1)) / 2)
        for a, b in pairs
    )
    assert result["differences"]["age"] == pytest.approx(of_age, rel=1e-2)
    spread = {a: shares[a] * (1 - shares[a]) for a in shares}
    of_sex = max(abs(shares[a] - shares[b]) / np.sqrt((spread[a] + spread[b]) / 2) for a, b in pairs)
    assert result["differences"]["sex"] == pytest.approx(of_sex)
    sexes = [[int((values["sex"][values["arm"] == arm] == sex).sum()) for sex in ("f", "m")] for arm in ages]
    assert result["tests"]["age"] == pytest.approx(stats.f_oneway(*ages.values()).pvalue, rel=5e-3)
    assert result["tests"]["sex"] == pytest.approx(stats.chi2_contingency(sexes, correction=False).pvalue, rel=5e-3)


def test_who_holds_which_row_changes_no_bit() -> None:
    case = made_up(300)
    study = case.study(TABLE, features="none")
    first, second = (total_of(study, Ask("arms", (), model="t"), dealt(study, case.table, n, seed=n)) for n in (1, 6))
    assert first == second


def test_a_category_with_a_small_cell_in_an_arm_is_not_told_by_arm() -> None:
    finding = described(made_up(rare=3))
    assert finding.arms
    for arm in finding.arms:
        (sex,) = (one for one in arm.columns if one.name == "sex")
        assert isinstance(sex, DescribedLevels) and [count for _, count in sex.counts] == [None, None]
    result: Any = finding.to_dict()
    assert "sex" not in result["differences"] and "sex" not in result["tests"]
    table = table_one(result)
    (female,) = (row for row in table.rows if row.cells[0] == "f")
    assert female.cells[2:5] == ("few", "few", "few")


def test_the_table_of_a_paper_has_a_column_for_each_arm() -> None:
    finding = described(made_up())
    result: Any = finding.to_dict()
    table = table_one(result)
    assert [one.partition(",")[0] for one in table.head] == ["", "All", "high", "low", "none", "SMD", "p"]
    (female,) = (row for row in table.rows if row.cells[0] == "f")
    whole, *arms = (int(cell.split()[0]) for cell in female.cells[1:5])
    assert whole == sum(arms)


def test_arms_must_be_a_category() -> None:
    with pytest.raises(InvalidInput, match=exactly("by of the model 't' must be a category, got 'age'")):
        made_up().study(TableOne("t", ("sex",), by="age"), features="none")


def test_arms_are_told_of_people_with_several_rows() -> None:
    case = made_up()
    table = as_raw_table({**case.values, "person": [f"p{row // 2}" for row in range(len(case.table))]}, "rows")
    once, twice = (case.study(TABLE, features="none", id=id_column) for id_column in (None, "person"))
    parts = {f"site-{number}": table.rows(np.arange(number, len(table), 9)) for number in range(9)}
    by_row, by_person = (dict(found_by(study, parts).models[0].to_dict()) for study in (once, twice))
    assert by_row.pop("arms") == by_person.pop("arms")
    assert by_row.pop("columns") == by_person.pop("columns")
