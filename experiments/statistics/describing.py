"""Before modelling and beside it: Table 1, ranges drafted from one site's table, and site effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from codedfl.analyses.table_one import QUANTILES, DescribedNumber, TableOneFinding
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.from_table_one import draft_from_table_one
from codedfl.authoring.study_text import study_text
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.typing import Floats
from experiments.statistics.cases import Line, found_by

SITES = 5


def public(name: str) -> tuple[pd.DataFrame, str]:
    """A table of statsmodels, and its target."""
    import statsmodels.api as sm

    frame = getattr(sm.datasets, name).load_pandas().data.astype(float)
    if name == "cancer":
        return frame, "cancer"
    return frame[["LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "AVYRSEXP", "PERSPENK", "PTRATIO", "NABOVE"]], "NABOVE"


def lines() -> Iterator[Line]:
    """For both tables: Table 1, the slopes of a study drafted from it and from each site's table; then site effects."""
    for name in ("cancer", "star98"):
        frame, target = public(name)
        order = np.array_split(np.random.default_rng(0).permutation(len(frame)), SITES)
        parts = {f"part-{place}": as_raw_table(frame.iloc[part], "part") for place, part in enumerate(order)}
        yield from _described(name, frame, target, parts)
        yield from _drafted(name, frame, target, parts)
    yield from _site_effects()


def _described(name: str, frame: pd.DataFrame, target: str, parts: dict[str, RawTable]) -> Iterator[Line]:
    study = parse_study(study_text(draft_of_table(parts["part-0"], target, name, task="regression").describing()))
    findings = found_by(study, parts)
    (table,) = findings.models
    assert isinstance(table, TableOneFinding)
    worst = bins = 0.0
    for one in table.columns:
        assert isinstance(one, DescribedNumber)
        values = np.round(frame[one.name].to_numpy() / one.step) * one.step
        moments = np.array([values.mean(), values.std(ddof=1)])
        worst = max(worst, float(np.abs(np.array([one.mean, one.deviation]) / moments - 1).max()))
        truth = np.quantile(values, QUANTILES, method="inverted_cdf")
        bins = max(bins, float(np.abs(np.array(one.quantiles) - truth).max() / np.abs(truth).max()))
    yield Line(f"describe: {name}, means and deviations, of which four digits are told", worst, 5e-4)
    yield Line(f"describe: {name}, quantiles, which are known to a bin", bins, 1 / 64)
    result = {"models": [table.to_dict()]}
    drafted = parse_study(study_text(draft_from_table_one(result, "", name)))
    yield Line(f"describe: {name}, slopes of the study drafted from it", _moved(drafted, frame, target, parts), 1e-2)


def _drafted(name: str, frame: pd.DataFrame, target: str, parts: dict[str, RawTable]) -> Iterator[Line]:
    """The largest over the studies that each part would draft."""
    studies = (
        parse_study(study_text(draft_of_table(part, target, name, task="regression"))) for part in parts.values()
    )
    moved = max(_moved(study, frame, target, parts) for study in studies)
    yield Line(f"draft: {name}, slopes of studies drafted from one part of the table", moved, 1e-2)


def _moved(study: Study, frame: pd.DataFrame, target: str, parts: dict[str, RawTable]) -> float:
    import statsmodels.api as sm

    truth = sm.OLS(frame[target], sm.add_constant(frame.drop(columns=target))).fit()
    found = found_by(replace(study, inference=True, held_out=0.0), parts).inference
    if found is None:
        return np.inf
    return _furthest(found.coefficients, truth.params.to_numpy(), truth.bse.to_numpy())


def _furthest(mine: Floats, theirs: Floats, errors: Floats) -> float:
    return float(np.abs((mine - theirs) / errors).max())


def _site_effects() -> Iterator[Line]:
    """Sites that differ: against a dummy for each."""
    import statsmodels.api as sm

    rng = np.random.default_rng(1)
    site = rng.integers(0, SITES, 2000)
    age = (40 + 5 * site + rng.normal(0, 10, 2000)).round()
    crp = rng.gamma(2, 10, 2000).round(1)
    days = (20 - 3 * site + 0.15 * age + 0.05 * crp + rng.normal(0, 2, 2000)).round(1)
    frame = pd.DataFrame({"age": age, "crp": crp, "days": days})
    parts = {f"site-{one}": as_raw_table(frame[site == one], "site") for one in range(SITES)}
    study = parse_study(study_text(draft_of_table(parts["site-0"], "days", "sites", task="regression")))
    found = found_by(replace(study, inference=True, held_out=0.0, site_effects=True), parts).inference
    assert found is not None
    truth = sm.OLS(days, np.column_stack((age, crp, site[:, None] == np.arange(SITES))).astype(float)).fit()
    slopes = _furthest(found.coefficients[1:], truth.params[:2], truth.bse[:2])
    yield Line("site effects: slopes in standard errors, against a dummy per site", slopes, 1e-5)
    errors = float(np.abs(found.standard_errors[1:] / truth.bse[:2] - 1).max())
    yield Line("site effects: standard errors", errors, 1e-6)
