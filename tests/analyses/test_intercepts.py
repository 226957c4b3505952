"""Random intercepts beside statsmodels' MixedLM; and what as many ratios as sites give back, why it is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.statistics.cases import found_by
from experiments.statistics.intercepts import COLUMNS, lines, made_up

from codedfl.contract.models.intercepts import RandomInterceptModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.errors import MessageRefused
from codedfl.statistics.intercepts import Intercepts
from codedfl.statistics.statistic import Ask
from totals import dealt, total_of
from wording import exactly

MODEL = RandomInterceptModel("m", COLUMNS, "clinic")


def parts_of(rows: Snapshot, by: np.ndarray) -> list[Snapshot]:
    names = ("codes", "target", "held_out")
    return [replace(rows, **{name: getattr(rows, name)[by == one] for name in names}) for one in np.unique(by)]


def objection_of(study: Study, rows: Snapshot) -> str:
    named = dict(zip(study.table_columns.names, rows.codes.T, strict=True))
    return study.models[0].objection(named, study.most_points, study.smallest_cell)


def test_variances_and_coefficients_are_those_of_statsmodels():
    found = list(lines())
    assert len(found) == 15
    assert [line for line in found if not line.difference <= line.bound] == []


def test_who_holds_which_clusters_changes_no_bit():
    case = made_up()
    study = case.study(MODEL)
    (rows,) = dealt(study, case.table, 1)
    ask = Ask("intercepts", (), np.array([-0.5]), "m")
    by = rows.codes[:, 2] % 5
    assert total_of(study, ask, parts_of(rows, by)) == total_of(study, ask, [rows])


def test_as_many_ratios_as_sites_give_back_what_every_site_sums_up_to():
    """The leak: each site is its own cluster. So a site refuses, whatever the server promises."""
    case = made_up()
    site = np.searchsorted([100, 300, 700, 1500], np.arange(len(case.table)), side="right").astype(np.float64)
    case = replace(case, values={**case.values, "clinic": site})
    study = case.study(MODEL)
    (rows,) = dealt(study, case.table, 1)
    sites = parts_of(rows, rows.codes[:, 2])
    logs = np.linspace(-6.0, 2.0, len(sites))
    d, totals = 5, []
    for log in logs:
        statistic = Intercepts(study, np.array([log]), study.models[0])
        integers = total_of(study, Ask("intercepts", (), np.array([log]), "m"), sites)
        totals.append([one / 2**statistic.bits for one in integers[2:]])
    sizes = np.array([len(one) for one in sites])
    weights = np.exp(logs)[:, None] / (1 + np.exp(logs)[:, None] * sizes)
    of_sites = np.linalg.solve(weights, np.array(totals))
    places = np.flatnonzero(np.triu_indices(d)[0] == 0)  # n times the sums of a constant, the columns and the target
    for one, products in zip(sites, of_sites, strict=True):
        age = study.columns[0].design(one.codes[:, 0])[:, 0].sum() / study.units.limit[0]
        told = products[places] / np.sqrt(products[places[0]])
        assert told[:2] == pytest.approx([len(one), age], abs=0.01)  # a site's rows, and its mean age
    for one in sites:
        objection = objection_of(study, one)
        assert objection == (
            "clusters 'clinic' of the model 'm' must have each size at least 5 times in this table, or at least 16"
            " sizes, twice the points of the study, got 1 sizes, one of 1 clusters: as many totals as sizes give back"
            " what these clusters sum up to; for a constant of each site take site_effects"
        )


def test_clusters_of_many_sizes_or_of_common_ones_are_taken():
    study = made_up().study(MODEL)
    (rows,) = dealt(study, made_up().table, 1)
    clinic = rows.codes[:, 2]
    assert objection_of(study, rows) == ""  # forty sizes
    of_four = np.arange(len(rows)) // 4
    alike = replace(rows, codes=np.column_stack((rows.codes[:, :2], of_four)))
    assert objection_of(study, alike) == ""  # all of one size
    few = parts_of(rows, clinic < 8)[1]
    assert "got 8 sizes, one of 1 clusters" in objection_of(study, few)


def test_clusters_that_do_not_differ():
    case = made_up()
    turns = np.where(np.arange(len(case.table)) % 2 == 0, 3.0, -3.0)  # sums of a clinic are nearer to 0 than chance
    case = replace(case, values={**case.values, "days": np.round(10 + 0.1 * case.values["age"] + turns, 1)})
    parts = {f"d-{k}": case.table.rows(np.flatnonzero(case.values["clinic"] // 40 == k)) for k in range(4)}
    (none,) = found_by(case.study(MODEL), parts).models
    assert none.lines() == [
        "none: intercepts of the model 'm' must vary, got a variance that is no more than chance: take a linear model"
    ]


def test_few_clusters():
    case = made_up()
    case = replace(case, values={**case.values, "clinic": np.arange(len(case.table)) % 4.0})
    parts = {f"d-{k}": case.table.rows(np.flatnonzero(case.values["clinic"] == k)) for k in range(4)}
    (none,) = found_by(case.study(MODEL), parts).models
    assert none.lines() == [
        "none: clusters of the model 'm' must be at least 16, twice the points of the study, got fewer"
    ]


def test_a_ratio_within_reason():
    study = made_up().study(MODEL)
    message = "an ask must fit the study: the logarithm of the ratio of 'm' must be at most 10 in size, got 11"
    with pytest.raises(MessageRefused, match=exactly(message)):
        Ask.decode(Ask("intercepts", (), np.array([11.0]), "m").encode(), study)
