"""Cox's model by Newton's iteration over secure totals: hazard ratios, the baseline, a check of proportionality."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.cells import FEW
from codedfl.analyses.distributions import distributions
from codedfl.analyses.glm import model_of, penalties
from codedfl.analyses.glm_errors import triangle
from codedfl.analyses.inference import CONSTANT, Inference
from codedfl.analyses.maximum import Fitted, NewtonSums, maximise
from codedfl.analyses.survival import times_of
from codedfl.analyses.without_constant import WithoutConstant
from codedfl.contract.models.cox import CoxModel
from codedfl.data.columns import CategoryColumn
from codedfl.data.model import TrainedModel
from codedfl.data.saved_labels import MeanLabels
from codedfl.errors import InvalidInput
from codedfl.statistics.cox import Cox
from codedfl.statistics.newton import columns_of
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, Integers, JsonObject

_HAZARD = "hazard beside that where every column is at its mean"
_CLOSE = 1e-7  # the baseline is that of the last coefficients that were asked for


@dataclass(frozen=True, eq=False)
class RiskSums:
    """What a total of ``cox`` says, a row for each stratum and time, and Efron's sums of it.

    events, of_events: how many have the event, and their columns.
    sums, tied: exp(predictor) times 1, x and the triangle of x x', over those at risk and those with the event.

    Examples
    --------
    Two at risk, one of whom has the event.

    >>> import numpy as np
    >>> from codedfl.analyses.cox import RiskSums
    >>> one = RiskSums(np.array([1]), np.array([[1.0]]), np.array([[2.0, 1.0, 1.0]]), np.array([[1.0, 1.0, 1.0]]))
    >>> one.each(np.zeros(1))[1:]
    (array([[0.5]]), array([[[0.25]]]))
    """

    events: Integers
    of_events: Floats
    sums: Floats
    tied: Floats

    @classmethod
    def of(cls, integers: Sequence[int], d: int, bits: int) -> tuple[RiskSums, int]:
        """From the integers of a total; beside it events of rows that were never at risk."""
        *numbers, lost = (one / 2**bits for one in integers)
        each = 1 + d + d * (d + 1) // 2
        table = np.array(numbers).reshape(-1, 1 + d + 2 * each)
        events, of_events, sums, tied = np.split(table, np.cumsum([1, d, each]), axis=1)
        return cls(np.rint(events[:, 0]).astype(np.int64), of_events, sums, tied), round(lost)

    def each(self, beta: Floats) -> tuple[Floats, Floats, Floats]:
        """Of each stratum and time what it adds to the partial likelihood, its gradient and its information."""
        d = len(beta)
        likelihood, gradient = self.of_events @ beta, self.of_events.copy()
        information = np.zeros((len(self.events), d, d))
        for place in np.flatnonzero(self.events).tolist():
            for left in self._left(place):
                mean = left[1 : 1 + d] / left[0]
                likelihood[place] -= math.log(left[0])
                gradient[place] -= mean
                information[place] += triangle(left[1 + d :] / left[0], d) - np.outer(mean, mean)
        return likelihood, gradient, information

    def _left(self, place: int) -> Floats:
        """Sums over those at risk as Efron has tied events leave them: each of d in turn by a d-th."""
        count = int(self.events[place])
        share = np.arange(count)[:, None] / count
        return np.asarray(self.sums[place] - share * self.tied[place])

    def hazard(self, middle: Floats) -> tuple[Floats, Floats, Floats]:
        """Of each stratum and time the step of the cumulative hazard where the predictor is 0, and its errors' parts.

        These are the variance at known coefficients, and the slope by the coefficients less ``middle`` times the step.
        """
        d = len(middle)
        steps, variances, slopes = (
            np.zeros(len(self.events)),
            np.zeros(len(self.events)),
            np.zeros((len(self.events), d)),
        )
        for place in np.flatnonzero(self.events).tolist():
            left = self._left(place)
            each = 1.0 / left[:, 0]
            steps[place], variances[place] = each.sum(), np.square(each).sum()
            slopes[place] = each @ (left[:, 1 : 1 + d] * each[:, None] - middle)
        return steps, variances, slopes


class Baseline(NamedTuple):
    """The share that is still without the event at each time, where every column is at its mean over training rows.

    standard_errors: those of the coefficients are in them; None with a penalty.

    Examples
    --------
    See ``cox``, whose finding has one for each stratum.
    """

    times: Floats
    share: Floats
    standard_errors: Floats | None


@dataclass(frozen=True)
class CoxFit:
    """Cox's model as a whole.

    target: the time. rows, events: training rows, and those that end with the event within the grid.
    lost: further events of rows that begin and end in one interval of the grid, and so are in no risk set.
    times, strata: how many times of the grid end an interval, and how many baselines there are.
    log_likelihood, at_zero: the partial one at its maximum, and without any effect.

    Examples
    --------
    >>> from codedfl.analyses.cox import CoxFit
    >>> CoxFit("days", 50, 20, 0, 12, 1, 2, 5, log_likelihood=-60.0, at_zero=-64.0).likelihood_ratio
    8.0
    """

    target: str
    rows: int
    events: int
    lost: int | str
    times: int
    strata: int
    coefficients: int
    iterations: int
    log_likelihood: float
    at_zero: float

    title: ClassVar[str] = "Cox's proportional hazards"
    ratio: ClassVar[str] = "hazard ratio"
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def method(self) -> str:
        """Ties, grid and strata."""
        strata = f", with a baseline hazard for each of {self.strata} strata" if self.strata > 1 else ""
        grid = f"with Efron's rule for ties on a public grid of which {self.times} times were left"
        return f"The hazard over {self.target} was modelled by Cox regression {grid}{strata} ({self.events} events)."

    @property
    def likelihood_ratio(self) -> float:
        """Chi^2 of all columns together."""
        return 2.0 * (self.log_likelihood - self.at_zero)

    @property
    def p(self) -> float:
        """Of the likelihood ratio."""
        return float(distributions().chi2.sf(self.likelihood_ratio, self.coefficients))

    def facts(self) -> list[tuple[str, str]]:
        """As statistics programs list them."""
        return [
            ("Target", self.target),
            ("Rows, events", f"{self.rows}, {self.events}"),
            ("Ties", f"Efron, {self.times} times"),
            ("Partial log-likelihood", f"{self.log_likelihood:.6g}"),
            ("Likelihood ratio", f"{self.likelihood_ratio:.4g} on {self.coefficients}"),
            ("P(ratio)", f"{self.p:.3g}"),
            *([("Strata", str(self.strata))] if self.strata > 1 else []),
            *([("Events never at risk", str(self.lost))] if self.lost else []),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self), "likelihood_ratio": self.likelihood_ratio, "p": self.p}


@dataclass(frozen=True, eq=False)
class CoxFinding:
    """Log hazard ratios in the units of the columns, the baseline, and the check of proportionality.

    inference: with standard errors; None with a penalty, which has none.
    baseline: of each stratum; "" where there are none.
    model: predicts from raw tables how many times the hazard is that of a row with every column at its mean; the
        baseline's share to the power of it is the share of such rows that is still without the event.
    proportional: for each column chi^2, degrees of freedom and p of the hypothesis that its hazard ratio does not
        change with time (the score test on the ranks of the events); the last is of all columns together. None with a
        penalty, whose estimates have no such score.

    Examples
    --------
    See ``cox``, which ends in it.
    """

    name: str
    names: tuple[str, ...]
    coefficients: Floats
    fit: CoxFit
    inference: Inference | None
    baseline: dict[str, Baseline]
    proportional: tuple[tuple[str, float, int, float], ...]
    model: TrainedModel

    def to_dict(self) -> JsonObject:
        """For JSON."""
        rows = [{"name": n, "coefficient": b} for n, b in zip(self.names, self.coefficients.tolist(), strict=True)]
        of_model: JsonObject = {"coefficients": rows}
        if self.inference is not None:
            of_model = {"inference": self.inference.to_dict()}
        keys = ("column", "chi_squared", "freedom", "p")
        return {
            "name": self.name,
            "kind": CoxModel.kind,
            **self.fit.to_dict(),
            **of_model,
            "baseline": [
                {
                    "stratum": one,
                    "times": of.times.tolist(),
                    "share": of.share.tolist(),
                    "standard_error": None if of.standard_errors is None else of.standard_errors.tolist(),
                }
                for one, of in self.baseline.items()
            ],
            "proportional": [dict(zip(keys, one, strict=True)) for one in self.proportional],
        }

    def lines(self) -> list[str]:
        """A table as statistics programs print it, and the check."""
        if self.inference is not None:
            table = self.inference.summary().splitlines()
        else:
            table = [f"{name}: {value}" for name, value in self.fit.facts()]
            table.append("coefficients, without standard errors since there is a penalty:")
            table += [f"{name}  {b:.4g}" for name, b in zip(self.names, self.coefficients.tolist(), strict=True)]
        if not self.proportional:
            return table
        checks = [
            f"  {column}: chi^2 {found:.4g} on {freedom}, p {p:.3g}" for column, found, freedom, p in self.proportional
        ]
        return [*table, "whether hazard ratios stay the same over time (a small p says they do not):", *checks]


@register_analysis(CoxModel.kind)
def cox(totals: Totals, model: CoxModel) -> Generator[Ask, Any, Finding]:
    """Join intervals in which few leave, then iterate over sums at each time that is left.

    Examples
    --------
    See ``codedfl.analyses.study_analysis.conduct``, which makes the totals it starts from.
    """
    totals.refuse_clipped((*model.columns, *model.uses))
    check_columns(totals, model)
    times, counts = yield from times_of(totals, model)
    if not counts[1, :, :-1].any():
        raise InvalidInput(
            f"{model.event!r} must be 1 in some row within the times of the model {model.name!r}, got none"
        )
    problem = CoxProblem(totals, model, times)
    found = yield from maximise(totals, problem, np.zeros(problem.spread.width), _CLOSE)
    return _finding(totals, model, problem, found)


class CoxProblem(WithoutConstant):
    """The partial likelihood, whose sums are those of ``cox``.

    last: the sums at the coefficients that were asked for last; at_zero: the likelihood at the first, which are 0.
    lost: events of rows that were never at risk.

    Examples
    --------
    See ``cox``, which maximises it.
    """

    statistic = Cox
    model: CoxModel

    def __init__(self, totals: Totals, model: CoxModel, times: Floats) -> None:
        super().__init__(totals, model)
        self.times, self.at_zero, self.lost = times, -math.inf, 0

    def read(self, integers: list[int], beta: Floats) -> NewtonSums:
        """Sums over all strata and times."""
        bits = Cox(self._totals.final, beta, self._final).bits
        self.last, self.lost = RiskSums.of(integers, len(beta), bits)
        likelihood, gradient, information = (one.sum(axis=0) for one in self.last.each(beta))
        if not beta.any():
            self.at_zero = float(likelihood)
        return NewtonSums(self._totals.counts.rows.rows, float(likelihood), 0.0, gradient, information)

    def penalty(self, sums: NewtonSums) -> Floats:
        """The ridge's."""
        return sums.weight * self.model.regularisation * penalties(self._totals, self.model)[1:]

    def beyond(self, beta: Floats) -> str:
        """A likelihood without a maximum."""
        return (
            f"the linear predictor of the model {self.model.name!r} must stay within {self.bound:g} over the"
            f" ranges, got a likelihood that grows towards {self.reach(beta) * self.bound:.3g}: a column of which"
            " some values never have the event, or ranges far wider than the values; give it a ridge penalty"
            " (regularisation), narrower ranges or a larger bound"
        )


def _finding(totals: Totals, model: CoxModel, problem: CoxProblem, found: Fitted) -> CoxFinding:
    """In the units of the columns."""
    study, n_coefficients = totals.final, len(problem.spread.place)
    columns = columns_of(study, model)
    sums, smallest = problem.last, totals.study.smallest_cell
    lost = problem.lost if not 0 < problem.lost < smallest else FEW
    strata, rows = _strata(totals, model), totals.counts.rows.rows
    of_fit = (lost, len(problem.times), len(strata), n_coefficients, found.iterations, found.likelihood)
    fit = CoxFit(study.target.name, rows, int(sums.events.sum()), *of_fit, problem.at_zero)
    coefficients = problem.in_units(found.beta)
    inference = None if model.regularisation else problem.inference(found, fit)
    names = tuple(name for one in columns for name in one.design_names)
    linear = totals.linear(model.columns)
    units, mean = linear.study.units, linear.moments().mean
    middle, penalised = (mean - units.zero) / (units.step * units.limit), model.regularisation > 0
    baseline = _baseline(problem, found, strata, middle, penalised=penalised)
    known = {**dict(zip(names, coefficients.tolist(), strict=True)), CONSTANT: -float(mean @ coefficients)}
    predicting = model_of(totals, model, known, MeanLabels("log", _HAZARD))
    return CoxFinding(
        model.name,
        names,
        coefficients,
        fit,
        inference,
        baseline,
        () if penalised else _proportional(totals, model, problem, found),
        predicting,
    )


def _strata(totals: Totals, model: CoxModel) -> tuple[str, ...]:
    columns = (one for one in totals.final.columns if one.name == model.strata)
    return next((one.levels for one in columns if isinstance(one, CategoryColumn)), ("",))


def _baseline(
    problem: CoxProblem, found: Fitted, strata: tuple[str, ...], middle: Floats, *, penalised: bool
) -> dict[str, Baseline]:
    """At the mean of every scaled column: Efron's steps, errors as R's survfit and SAS have them."""
    made, level = {}, math.exp(float(middle @ found.beta))
    parts = (
        np.split(level**power * one, len(strata))
        for power, one in zip((1, 2, 1), problem.last.hazard(middle), strict=True)
    )
    for stratum, steps, variances, slopes in zip(strata, *parts, strict=True):
        share, slope = np.exp(-np.cumsum(steps)), np.cumsum(slopes, axis=0)
        variance = np.cumsum(variances) + np.einsum("ti,ij,tj->t", slope, found.covariance, slope)
        made[stratum] = Baseline(problem.times, share, None if penalised else share * np.sqrt(variance))
    return made


def _proportional(
    totals: Totals, model: CoxModel, problem: CoxProblem, found: Fitted
) -> tuple[tuple[str, float, int, float], ...]:
    """The score test that products of columns with the ranks of events add nothing, column by column and together."""
    spread, laws = problem.spread, distributions()
    _, gradient, information = problem.last.each(found.beta)
    events = problem.last.events.reshape(-1, len(problem.times)).sum(axis=0)
    ranks = np.cumsum(events) - (events - 1) / 2
    ranks = np.tile(ranks - np.average(ranks, weights=events), len(gradient) // len(events))
    slope = spread.only((ranks[:, None] * gradient).sum(axis=0))
    at, along, across = (
        spread.only((np.power(ranks, power)[:, None, None] * information).sum(axis=0)) for power in range(3)
    )
    variance = across - along @ np.linalg.lstsq(at, along, rcond=None)[0]
    part, _ = totals.present(model.columns)
    terms, begin = list[tuple[str, Integers]](), 0
    for one in part.study.columns:
        terms.append((one.name, np.arange(begin, begin + one.width)))
        begin += one.width
    checks = []
    for name, places in [*terms, ("all", np.arange(begin))]:
        # With few intervals left the test has no direction of its own: then it is not made, and the model stands.
        if len(places) and np.linalg.matrix_rank(variance[np.ix_(places, places)], hermitian=True) == len(places):
            chi_squared = float(slope[places] @ np.linalg.solve(variance[np.ix_(places, places)], slope[places]))
            checks.append((name, chi_squared, len(places), float(laws.chi2.sf(chi_squared, len(places)))))
    return tuple(checks)
