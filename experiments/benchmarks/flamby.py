"""FLamby's Fed-TCGA-BRCA (Cox) and Fed-Heart (logistic) beside its own published results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from codedfl.analyses.cox import CoxFinding
from codedfl.analyses.glm import GlmFinding
from codedfl.contract.merging import merged_study
from codedfl.contract.models import StudyModel
from codedfl.contract.models.cox import CoxModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.policy import Policy
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget, Column, NumberColumn, NumberTarget
from codedfl.data.model import TrainedModel
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.run.rehearsal import Rehearsed, made_up_roster, rehearse
from experiments.benchmarks.data import HEART_COLUMNS, heart, published, tcga
from experiments.benchmarks.measures import Score, concordance, over_seeds, resampled

METHODS = ("FedAvg100", "Scaffold100", "FedProx100", "FedYogi100", "FedAdam100", "Pooled Training")
_NUMBERS = {
    "age": ((28.0, 77.0), 1.0),
    "trestbps": ((0.0, 200.0), 1.0),
    "chol": ((0.0, 603.0), 1.0),
    "thalach": ((60.0, 202.0), 1.0),
    "oldpeak": ((-2.6, 6.2), 0.1),
}
_RIDGE, _BOUND = 0.011, 16.0  # per row, as little as keeps columns of which no row has the event within the bound


class Rows(NamedTuple):
    """Who scored what on the pooled test rows."""

    measure: str
    lines: list[tuple[str, Score]]
    notes: list[str]


def _parts(frame: pd.DataFrame, columns: tuple[str, ...]) -> dict[str, RawTable]:
    return {
        str(site): as_raw_table({one: part[one].to_numpy() for one in columns}, str(site))
        for site, part in frame.groupby("site")
    }


class Fitted(NamedTuple):
    """What the only model of a study ends in; what the census left of the study; what operators are asked about."""

    found: Any
    final: Study
    findings: int


def fitted(study: Study, tables: Mapping[str, RawTable]) -> Fitted:
    """By devices of the default policy but for the smallest cell, whose operators accept what they are asked about."""
    rehearsed = Rehearsed(study, made_up_roster(study, tables))
    if refused := rehearsed.approve(tables, Policy(smallest_cell=study.smallest_cell)):
        raise RuntimeError(f"sites must approve the study, got {refused}")
    run = rehearse(rehearsed, np.random.default_rng(0)).findings
    (found,) = run.models
    return Fitted(found, merged_study(study, run.merged), sum(map(len, rehearsed.findings.values())))


def _tcga_study(names: tuple[str, ...]) -> Study:
    marks = [NumberColumn(one, (0.0, 1.0), 1.0) for one in names if one != "age_at_index"]
    age = NumberColumn("age_at_index", (26.0, 90.0), 1.0)
    event = NumberColumn("E", (0.0, 1.0), 1.0, in_model=False)
    times = tuple(map(float, range(30, 8641, 30)))
    model = CoxModel("survival", names, "E", times, regularisation=_RIDGE, bound=_BOUND)
    target = NumberTarget("T", (0.0, 8700.0), 1.0)
    return Study("brca", (age, *marks, event), target, 2048, 512, 3, held_out=0.0, models=(model,))


def survival(data_dir: Path | None = None) -> Rows:
    """Concordance on the pooled test rows."""
    table = tcga(data_dir)
    names = tuple(one for one in table.columns if one not in ("E", "T", "fold", "site"))
    table = table.astype(dict.fromkeys(names, np.float64))
    train, test = table[table["fold"] == "train"], table[table["fold"] == "test"]
    tables = _parts(train, (*names, "E", "T"))
    whole = _tcga_study(names)
    lines, left = [], whole
    for what, study in (
        ("codedfl, exact Cox on all 39 columns, counts of single people allowed", replace(whole, smallest_cell=1)),
        ("codedfl, exact Cox by the default policy and its census", whole),
    ):
        found, left, _ = fitted(study, tables)
        assert isinstance(found, CoxFinding), found.lines()
        lines.append((what, _concordance(found.model, left.models[0], test)))
    gone = [one for one in names if one not in left.models[0].columns]
    notes = [
        f"{len(train)} training and {len(test)} test rows of six regions. A grid of 30 days; ridge {_RIDGE:g} per row,"
        f" about the least with which both stay within the bound of {_BOUND:g}, not chosen by score.",
        "The census wants five people of each value, and of those who die or are censored in each interval, whatever"
        f" one region invents. Here it costs {len(gone)} of {len(names)} columns ({', '.join(gone)}), and joins"
        f" {len(whole.time_grid)} intervals to {len(left.time_grid)}: that is the difference between the first two"
        " rows. No region leaves.",
    ]
    return Rows("concordance", [*lines, *_theirs("fed_tcga_brca", data_dir)], notes)


def _concordance(model: TrainedModel, of: StudyModel, test: pd.DataFrame) -> Score:
    risk = np.asarray(model.predict(as_raw_table({one: test[one].to_numpy() for one in of.columns}, "test"))).ravel()
    time, event = test["T"].to_numpy(), test["E"].to_numpy()
    return resampled(len(test), lambda rows: concordance(time[rows], event[rows], risk[rows]))


def _theirs(name: str, data_dir: Path | None) -> Iterator[tuple[str, Score]]:
    found = published(name, data_dir)
    for method in METHODS:
        words = method.replace("100", ", 100 updates a round") if method.endswith("100") else "its pooled training"
        yield f"FLamby, {words}", over_seeds(found, method)


def _heart_column(name: str, table: pd.DataFrame) -> Column:
    if name in _NUMBERS:
        return NumberColumn(name, *_NUMBERS[name])
    return CategoryColumn(name, tuple(sorted(set(table[name]))))


def heart_rows(data_dir: Path | None = None) -> tuple[Study, dict[str, RawTable], pd.DataFrame]:
    """The study, the training rows of each centre, the test rows."""
    table = heart(data_dir)
    categories = [one for one in HEART_COLUMNS if one not in _NUMBERS]
    table = table.assign(**{one: table[one].astype(int).astype(str) for one in categories})
    columns = tuple(_heart_column(one, table) for one in HEART_COLUMNS)
    model = LogisticModel("disease", HEART_COLUMNS)
    study = Study("heart", columns, ClassTarget("ill", ("no", "yes")), 1024, 256, 3, held_out=0.0, models=(model,))
    train = table[table["fold"] == "train"]
    return study, _parts(train, (*HEART_COLUMNS, "ill")), table[table["fold"] == "test"]


def _levels(study: Study) -> int:
    return sum(len(one.levels) for one in study.columns if isinstance(one, CategoryColumn))


def accuracy(data_dir: Path | None = None) -> Rows:
    """Accuracy on the pooled test rows."""
    study, tables, test = heart_rows(data_dir)
    found, left, findings = fitted(study, tables)
    assert isinstance(found, GlmFinding) and found.model is not None, found.lines()
    raw = as_raw_table({one: test[one].to_numpy() for one in left.models[0].columns}, "test")
    right = (np.asarray(found.model.predict(raw)).ravel() > 0.5) == (test["ill"] == "yes").to_numpy()
    line = (
        "codedfl, exact logistic model, default policy",
        resampled(len(test), lambda rows: float(right[rows].mean())),
    )
    notes = [
        f"{sum(map(len, tables.values()))} training and {len(test)} test rows of four centres, all of which take part;"
        f" the census leaves {len(left.models[0].columns)} of {len(study.models[0].columns)} columns, with"
        f" {_levels(left)} of {_levels(study)} levels; operators are asked about {findings} findings;"
        f" {found.fit.iterations} iterations. FLamby scales the columns of each centre by itself, which our study does"
        " not.",
    ]
    return Rows("accuracy", [line, *_theirs("fed_heart_disease", data_dir)], notes)
