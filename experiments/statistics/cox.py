"""Cox's model beside statsmodels' PHReg on the times as they were joined, and beside it on the exact times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from codedfl.analyses.cox import CoxFinding
from codedfl.contract.models.cox import CoxModel
from codedfl.data.tables import as_raw_table
from codedfl.typing import Floats
from experiments.statistics.cases import Case, Line, found

GRIDDED, ERRORS, TESTS = 1e-8, 1e-8, 1e-6
COLUMNS = ("age", "ward")
TIMES = tuple(map(float, range(10, 201, 10)))


def made_up(n: int = 900, seed: int = 0) -> Case:
    """Times of two centres; some are cut short, some begin late. The effect of a ward fades."""
    rng = np.random.default_rng(seed)
    age, ward, centre = np.round(rng.uniform(20, 90, n), 1), rng.choice(["a", "b", "c"], n), rng.choice(["x", "y"], n)
    log_hazard = 0.02 * (age - 50) + 0.7 * (ward == "b") + 0.5 * (centre == "y")
    time, end = np.ceil(rng.weibull(1.3, n) * 100 * np.exp(-log_hazard)), np.ceil(rng.uniform(20, 300, n))
    values = {"age": age, "ward": ward, "centre": centre, "died": (time <= end) * 1.0}
    values["days"] = np.minimum(np.minimum(time, end), 300.0)
    values["from"] = np.where(rng.random(n) < 0.5, 0.0, np.floor(values["days"] * rng.random(n)))
    steps = {"age": 0.1, "died": 1.0, "from": 1.0, "days": 1.0}
    return Case(values, "days", steps, beside=("died", "from", "centre"))


class OnGrid(NamedTuple):
    """Rows as the totals see them; those that are never at risk are left out."""

    time: Floats
    event: Floats
    entry: Floats
    X: Floats
    strata: np.ndarray[Any, Any]


def on_grid(model: CoxModel, values: Mapping[str, Any], times: Floats) -> OnGrid:
    """A time counts as the next one, and a beginning as just after the next one."""
    place = np.searchsorted(times, values["days"])
    time = np.append(times, times[-1] + 1)[place]
    event = np.where(place == len(times), 0.0, values["died"])
    entry = np.zeros(len(time))
    if model.entry:
        late = values[model.entry] > 0
        entry[late] = np.append(times, times[-1] + 1)[np.searchsorted(times, values[model.entry][late])] + 0.25
    age, ward = values["age"], np.asarray(values["ward"])
    X = np.column_stack((age, ward == "b", ward == "c")).astype(np.float64)
    kept = entry < time
    strata = np.asarray(values[model.strata]) if model.strata else np.zeros(len(time))
    return OnGrid(*(one[kept] for one in (time, event, entry, X, strata)))


def oracle(rows: OnGrid, X: Floats | None = None) -> Any:
    """statsmodels' model of rows on a grid."""
    from statsmodels.duration.hazard_regression import PHReg

    given = rows.X if X is None else X
    return PHReg(rows.time, given, status=rows.event, entry=rows.entry, strata=rows.strata, ties="efron")


def rank_test(rows: OnGrid, beta: Floats, chosen: list[int]) -> float:
    """Chi^2 of the score test for products with the ranks of the events: rows are cut at every time, and PHReg told."""
    times = np.unique(rows.time[rows.event == 1])
    counts = np.array([((rows.time == time) & (rows.event == 1)).sum() for time in times])
    ranks = np.cumsum(counts) - (counts - 1) / 2
    parts = []
    for time, rank, before in zip(times, ranks, np.append(0.0, times[:-1]), strict=True):
        here = (rows.entry < time) & (rows.time >= time)
        event = ((rows.time == time) & (rows.event == 1))[here].astype(np.float64)
        n = int(here.sum())
        X = np.hstack((rows.X[here], rank * rows.X[here][:, chosen]))
        parts.append((np.full(n, time), event, np.full(n, (before + time) / 2), X, rows.strata[here]))
    cut = OnGrid(*(np.concatenate(one) for one in zip(*parts, strict=True)))
    model = oracle(cut)
    point = np.append(beta, np.zeros(len(chosen)))
    score = model.score(point)
    return float(score @ np.linalg.solve(-model.hessian(point), score))


def baseline_of(rows: OnGrid, beta: Floats, at: Floats, stratum: Any, times: Floats) -> Floats:
    """Efron's baseline by its definition, row by row."""
    share, cumulative = [], 0.0
    mine = rows.strata == stratum
    weight = np.exp((rows.X - at) @ beta)
    for time in times:
        risk = weight[mine & (rows.entry < time) & (rows.time >= time)].sum()
        tied = weight[mine & (rows.time == time) & (rows.event == 1)]
        cumulative += sum(1.0 / (risk - k / len(tied) * tied.sum()) for k in range(len(tied)))
        share.append(np.exp(-cumulative))
    return np.array(share)


def fitted(case: Case, model: CoxModel, **changes: Any) -> tuple[CoxFinding, Mapping[str, Any]]:
    """What a federation finds, and the rows as totals see them."""
    study = case.study(model, **changes)
    (fit,) = found(case, study).models
    assert isinstance(fit, CoxFinding), fit.lines()
    return fit, case.gridded(study)


def compared(what: str, model: CoxModel) -> Iterator[Line]:
    """One model on the grid, and how far the grid is from exact times."""
    case = made_up()
    fit, values = fitted(case, model, smallest_cell=1)
    times = next(iter(fit.baseline.values()))[0]
    rows = on_grid(model, values, times)
    truth = oracle(rows).fit(disp=0)
    assert fit.inference is not None
    off = np.abs(fit.inference.coefficients - truth.params) / truth.bse
    yield Line(f"Cox, {what}: coefficients in standard errors", float(off.max()), GRIDDED)
    relative = np.abs(fit.inference.standard_errors / truth.bse - 1)
    yield Line(f"Cox, {what}: standard errors, relative", float(relative.max()), ERRORS)
    yield Line(f"Cox, {what}: log-likelihood, relative", abs(fit.fit.log_likelihood / truth.llf - 1), ERRORS)
    mean = np.column_stack((values["age"], values["ward"] == "b", values["ward"] == "c")).mean(axis=0)
    for stratum, (_, share, _) in fit.baseline.items():
        expected = baseline_of(rows, truth.params, mean, stratum or 0.0, times)
        yield Line(f"Cox, {what}: baseline {stratum}".rstrip(), float(np.abs(share - expected).max()), ERRORS)
    for (name, chi_squared, _, _), chosen in zip(fit.proportional, ([0], [1, 2], [0, 1, 2]), strict=True):
        expected_test = rank_test(rows, truth.params, chosen)
        yield Line(f"Cox, {what}: proportionality of {name}, chi^2", abs(chi_squared - expected_test), TESTS)


def exact_times() -> Iterator[Line]:
    """A grid of single days is that of exact times; one of two days costs a hundredth of a standard error."""
    case = made_up()
    for days, bound in ((1, GRIDDED), (2, 0.02)):
        model = CoxModel("m", COLUMNS, "died", tuple(map(float, range(days, 301, days))))
        fit, values = fitted(case, model, smallest_cell=1)
        truth = oracle(on_grid(model, values, np.arange(1.0, 301.0))).fit(disp=0)
        off = float((np.abs(fit.coefficients - truth.params) / truth.bse).max())
        yield Line(f"Cox, a grid of {days} days beside exact times: coefficients in standard errors", off, bound)


def baseline_errors() -> Iterator[Line]:
    """Without ties the baseline is that of a Poisson model with a constant for each time, whose errors follow from it.

    Every row is cut at every event; the hazard of an interval is exp of its constant, and the delta method does the
    rest. Predictions are by definition.
    """
    import statsmodels.api as sm

    n = 90
    whole = made_up(n)
    case = Case(
        {**whole.values, "days": np.random.default_rng(1).permutation(n) + 1.0}, "days", whole.steps, whole.beside
    )
    model = CoxModel("m", COLUMNS, "died", tuple(map(float, range(1, n + 1))))
    fit, values = fitted(case, model, smallest_cell=1)
    rows = on_grid(model, values, np.arange(1.0, n + 1.0))
    mean = rows.X.mean(axis=0)
    at = np.unique(rows.time[rows.event == 1])
    risk = rows.time[:, None] >= at
    row, place = np.nonzero(risk)
    y = (rows.event[row] == 1) & (rows.time[row] == at[place])
    design = np.column_stack((np.eye(len(at))[place], rows.X[row] - mean))
    truth = sm.GLM(y.astype(np.float64), design, family=sm.families.Poisson()).fit(tol=1e-13)
    steps = np.append(np.exp(truth.params[: len(at)]), np.zeros(3))
    upto = np.tri(len(at), len(steps)) * steps
    share = np.exp(-upto.sum(axis=1))
    error = share * np.sqrt(np.einsum("ti,ij,tj->t", upto, truth.cov_params(), upto))
    (baseline,) = fit.baseline.values()
    assert baseline.standard_errors is not None
    found = np.column_stack((baseline.share, baseline.standard_errors))[np.searchsorted(baseline.times, at)]
    yield Line("Cox, baseline without ties: shares", float(np.abs(found[:, 0] - share).max()), ERRORS)
    yield Line("Cox, baseline without ties: standard errors", float(np.abs(found[:, 1] - error).max()), ERRORS)
    beside = np.exp((rows.X - mean) @ fit.coefficients)
    predicted = fit.model.predict(as_raw_table({name: values[name] for name in COLUMNS}, "rows"))
    yield Line("Cox, predicted hazards, relative", float(np.abs(predicted / beside - 1).max()), ERRORS)


def penalised() -> Iterator[Line]:
    """A ridge: the penalised gradient of statsmodels' likelihood is 0 there."""
    case, strength = made_up(), 0.02
    model = CoxModel("m", COLUMNS, "died", TIMES, regularisation=strength)
    fit, values = fitted(case, model, smallest_cell=1)
    rows = on_grid(model, values, fit.baseline[""][0])
    penalty = len(values["age"]) * strength * np.array([np.var(values["age"]), 1.0, 1.0])
    model_, beta = oracle(rows), fit.coefficients
    step = np.linalg.solve(-model_.hessian(beta) + np.diag(penalty), model_.score(beta) - penalty * beta)
    yield Line("Cox, ridge: Newton's next step, relative", float(np.abs(step / beta).max()), GRIDDED)


def lines() -> Iterator[Line]:
    """All of them."""
    plain = CoxModel("m", COLUMNS, "died", TIMES)
    yield from compared("plain", plain)
    yield from compared("strata", CoxModel("m", COLUMNS, "died", TIMES, strata="centre"))
    yield from compared("rows that begin late", CoxModel("m", COLUMNS, "died", TIMES, entry="from"))
    both = CoxModel("m", COLUMNS, "died", TIMES, entry="from", strata="centre")
    yield from compared("strata and rows that begin late", both)
    yield from exact_times()
    yield from baseline_errors()
    yield from penalised()
