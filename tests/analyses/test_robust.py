"""Robust standard errors beside statsmodels, and rows that count the same wherever they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.statistics.robust import lines, made_up

from codedfl.contract.models.robust import RobustModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from totals import conducted, dealt, total_of
from wording import exactly

COLUMNS = ("age", "ward")


def test_errors_are_those_of_statsmodels():
    found = list(lines())
    assert len(found) == 15
    assert all(line.difference <= line.bound for line in found)


def moved(rows: list[Snapshot], by: np.ndarray) -> list[Snapshot]:
    together = {name: np.concatenate([getattr(one, name) for one in rows]) for name in ("codes", "target", "held_out")}
    order = np.random.default_rng(0).permutation(len(by))
    return [
        replace(rows[0], **{name: values[order][by[order] == place] for name, values in together.items()})
        for place in range(by.max() + 1)
    ]


@pytest.mark.parametrize("errors", ["HC0", "HC3", "cluster"])
def test_who_holds_which_row_changes_no_bit(errors: str):
    """Rows of a cluster stay together, in any order."""
    case = made_up(300)
    study = case.study(RobustModel("m", COLUMNS, errors, "clinic" if errors == "cluster" else ""))
    d = 4
    inverse = (0.2 * np.eye(d) + 0.05)[np.triu_indices(d)] if errors == "HC3" else np.zeros(0)
    point = np.append(np.random.default_rng(1).normal(0, 0.2, d), inverse)
    rows = dealt(study, case.table, 1)
    ask = Ask("robust", (), point, "m")
    clusters = rows[0].codes[:, 2]
    expected = total_of(study, ask, rows)
    for by in (clusters % 3, clusters // 9):
        assert total_of(study, ask, moved(rows, by)) == expected


def study_of(**keys: Any) -> Study:
    return made_up(300).study(RobustModel("m", COLUMNS, **keys))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"errors": "HC4"}, "errors of the model 'm' must be HC0, HC1, HC2, HC3 or cluster, got 'HC4'"),
        ({"errors": "cluster"}, "cluster of the model 'm' must be said with errors = 'cluster', and only then"),
        ({"cluster": "clinic"}, "cluster of the model 'm' must be said with errors = 'cluster', and only then"),
    ],
)
def test_keys_that_do_not_fit(keys: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        study_of(**keys)


def test_few_clusters():
    case = made_up(300)
    case = replace(case, values={**case.values, "clinic": np.arange(300) % 7.0})
    study = case.study(RobustModel("m", COLUMNS, "cluster", "clinic"))
    rows = dealt(study, case.table, 1)
    (found,) = conducted(study, moved(rows, rows[0].codes[:, 2])).models
    assert found.lines() == ["none: clusters of the model 'm' must be at least 8, twice its coefficients, got fewer"]
