"""Ranges that one site's table suggested: everybody's coefficients are right, or there are none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from codedfl.analyses.cells import Clipping
from codedfl.analyses.driving import findings_json, read_total, total_json
from codedfl.analyses.study_analysis import refit
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.study_text import study_text
from codedfl.contract.models import SubModel
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.data.columns import NumberColumn, NumberTarget
from codedfl.data.tables import as_raw_table
from totals import conducted, dealt
from wording import exactly

pytestmark = pytest.mark.hospitals

MOST = 1e-2  # standard errors


def public(name: str) -> tuple[pd.DataFrame, str]:
    frame = getattr(sm.datasets, name).load_pandas().data.astype(float)
    if name == "cancer":
        return frame, "cancer"
    return frame[["LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "AVYRSEXP", "PERSPENK", "PTRATIO", "NABOVE"]], "NABOVE"


@pytest.mark.parametrize("name", ["cancer", "star98"])
@pytest.mark.parametrize("dealt_by", ["chance", "size"])
def test_a_draft_of_one_part_of_a_table_moves_no_slope_or_stops(name: str, dealt_by: str):
    frame, target = public(name)
    if dealt_by == "size":
        frame = frame.sort_values(target)
    order = np.arange(len(frame)) if dealt_by == "size" else np.random.default_rng(0).permutation(len(frame))
    oracle = sm.OLS(frame[target], sm.add_constant(frame.drop(columns=target))).fit()
    stopped = 0
    for part in np.array_split(order, 5):
        study = parse_study(
            study_text(draft_of_table(as_raw_table(frame.iloc[part], "part"), target, name, task="regression"))
        )
        study = replace(study, inference=True, held_out=0.0)
        found = conducted(study, dealt(study, as_raw_table(frame, "all"), 5))
        if found.inference is None:
            assert found.no_inference.startswith("clipped values of ")
            stopped += 1
            continue
        moved = (found.inference.coefficients - oracle.params.to_numpy()) / oracle.bse.to_numpy()
        assert np.abs(moved).max() < MOST
    assert stopped == 0 if dealt_by == "chance" else stopped < 5


def clipping_study(most_clipped: float = 0.0) -> tuple[Study, dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    values = {"age": rng.integers(20, 90, 400), "cost": rng.integers(0, 200, 400), "days": rng.integers(0, 30, 400)}
    columns = tuple(NumberColumn(one, (0.0, 199.0), 1.0) for one in ("age", "cost"))
    study = Study("s", columns, NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, inference=True, held_out=0.0)
    models = (SubModel("age", ("age",), inference=True), SubModel("cost", ("cost",), inference=True))
    return replace(study, most_clipped=most_clipped, models=models), values


def test_more_clipped_values_than_allowed_stop_inference_and_are_told_with_every_table():
    study, values = clipping_study()
    values["cost"][:8] = 900
    found = conducted(study, dealt(study, as_raw_table(values)))
    message = (
        "clipped values of 'cost' must be at most 0 of its rows (most_clipped), got cost 8 of 400 rows: a clipped tail"
        " moves coefficients; give it a wider range, or allow it by most_clipped"
    )
    assert (found.inference, found.no_inference) == (None, message)
    age, cost = found.models
    assert age.inference is not None and (cost.inference, cost.no_inference) == (None, message)
    assert findings_json(study, found)["clipped"] == {"rows": 400, "values": {"cost": 8}}
    kept = read_total(study, total_json(study, found, ["a", "b", "c"]))
    assert refit(study, kept.total, kept.merged).unless_clipped(study, kept.clipped).no_inference == message
    allowed = replace(study, most_clipped=0.02)
    found = conducted(allowed, dealt(allowed, as_raw_table(values)))
    assert found.inference is not None and found.clipped == Clipping(400, {"cost": 8})
    assert found.models[1].lines()[-1].endswith("can hide that columns depend on each other: cost 8 of 400 rows")


def test_few_clipped_values_are_not_counted_out():
    study, values = clipping_study(most_clipped=0.5)
    values["cost"][0], values["days"][:6] = 900, 61
    found = conducted(study, dealt(study, as_raw_table(values)))
    assert found.clipped.words(study.smallest_cell) == "cost <5, days 6 of 400 rows"


def test_one_clipped_value_hides_that_columns_depend_on_each_other():
    study, values = clipping_study()
    values["cost"] = 2 * values["age"]
    seen = conducted(study, dealt(study, as_raw_table(values)))
    assert seen.no_inference.startswith("columns must be independent for inference, got some that depend on each other")
    assert "one clipped value would hide it" in seen.no_inference
    values["age"], values["cost"] = values["age"] + 0, values["cost"] + 0
    values["age"][0], values["cost"][0] = 150, 300
    hidden = conducted(study, dealt(study, as_raw_table(values)))
    assert hidden.no_inference.startswith("clipped values of 'cost' must be at most 0 of its rows")


def test_most_clipped_is_a_share():
    with pytest.raises(ValueError, match=exactly("most_clipped must be between 0 and 1, got 2")):
        replace(clipping_study()[0], most_clipped=2)
