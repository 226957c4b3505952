"""Robust standard errors beside statsmodels' OLS with cov_type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from codedfl.analyses.robust import InferenceFinding
from codedfl.contract.models.robust import HC, RobustModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.run.rehearsal import Rehearsed, made_up_roster, rehearsal_key, rehearse
from experiments.statistics.cases import Case, Line

COEFFICIENTS, ERRORS = 1e-6, 1e-5


def made_up(n: int = 800, seed: int = 0) -> Case:
    """Residuals that grow with a column, clinics of about twenty people each."""
    rng = np.random.default_rng(seed)
    age, ward = np.round(rng.uniform(20, 90, n), 1), rng.choice(["a", "b", "c"], n)
    clinic = np.sort(rng.integers(0, 40, n)).astype(np.float64)
    shared = rng.normal(0, 2, 40)[clinic.astype(int)]
    days = np.round(2 + 0.1 * age + 2.0 * (ward == "b") + shared + rng.normal(0, 0.05 * age, n), 1)
    values = {"age": age, "ward": ward, "clinic": clinic, "days": days}
    return Case(values, "days", {"age": 0.1, "clinic": 1.0, "days": 0.1}, beside=("clinic",))


def lines() -> Iterator[Line]:
    """HC0 to HC3 and clusters."""
    import statsmodels.api as sm

    case = made_up()
    columns = ("age", "ward")
    models = [RobustModel(errors, columns, errors) for errors in HC]
    study = case.study(*models, RobustModel("cluster", columns, "cluster", "clinic"))
    # Clusters are inside devices: ten clinics each.
    parts = {
        f"device-{place}": case.table.rows(np.flatnonzero(case.values["clinic"] // 10 == place)) for place in range(4)
    }
    rows = {name: take_snapshot(study, table, rehearsal_key(name)) for name, table in parts.items()}
    found = rehearse(Rehearsed(study, made_up_roster(study, parts), rows), np.random.default_rng(0)).findings
    values = case.gridded(study)
    X = np.column_stack((np.ones(800), values["age"], values["ward"] == "b", values["ward"] == "c"))
    for fit in found.models:
        assert isinstance(fit, InferenceFinding), fit.lines()
        options: dict[str, Any] = {"cov_kwds": {"groups": values["clinic"]}} if fit.name == "cluster" else {}
        truth = sm.OLS(values["days"], X).fit(cov_type=fit.name, **options)
        off = np.abs(fit.inference.coefficients - truth.params) / truth.bse
        yield Line(f"least squares, {fit.name}: coefficients in standard errors", float(off.max()), COEFFICIENTS)
        relative = np.abs(fit.inference.standard_errors / truth.bse - 1)
        yield Line(f"least squares, {fit.name}: standard errors, relative", float(relative.max()), ERRORS)
        p = float(np.abs(fit.inference.p - truth.pvalues).max())
        yield Line(f"least squares, {fit.name}: p values", p, ERRORS)
