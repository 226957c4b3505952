"""Proportional odds of ordered classes, by Newton's iteration over secure totals."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Spread, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.inference import Inference
from codedfl.analyses.maximum import NewtonSums, maximise
from codedfl.analyses.robust import InferenceFinding
from codedfl.contract.models.ordinal import ProportionalOddsModel
from codedfl.data.columns import ClassTarget, Units
from codedfl.errors import InvalidInput
from codedfl.statistics.newton import columns_of, predictor_range
from codedfl.statistics.ordinal import Ordinal, thresholds_fit
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject


@dataclass(frozen=True)
class OrdinalFit:
    """Proportional odds as a whole; ``order`` has the classes from the lowest to the highest.

    Examples
    --------
    >>> from codedfl.analyses.ordinal import OrdinalFit
    >>> OrdinalFit("stage", ("I", "II", "III"), 90, 4, 5, -80.0).aic
    168.0
    """

    target: str
    order: tuple[str, ...]
    rows: int
    coefficients: int
    iterations: int
    log_likelihood: float

    title: ClassVar[str] = "Proportional odds"
    ratio: ClassVar[str] = "odds ratio"

    @property
    def thresholds(self) -> tuple[str, ...]:
        """Between each two classes."""
        return tuple(f"{low} | {high}" for low, high in pairwise(self.order))

    @property
    def method(self) -> str:
        """The order, and what an odds ratio is of."""
        order = " < ".join(self.order)
        return f"The odds of a higher class of {self.target} ({order}) were modelled by proportional odds regression."

    @property
    def aic(self) -> float:
        """Akaike's criterion; thresholds count."""
        return 2 * self.coefficients - 2 * self.log_likelihood

    def facts(self) -> list[tuple[str, str]]:
        """As statistics programs list them."""
        return [
            ("Target", self.target),
            ("Classes", " < ".join(self.order)),
            ("Rows", str(self.rows)),
            ("Log-likelihood", f"{self.log_likelihood:.6g}"),
            ("Iterations", str(self.iterations)),
            ("AIC", f"{self.aic:.6g}"),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self), "order": list(self.order), "aic": self.aic}


@register_analysis(ProportionalOddsModel.kind)
def proportional_odds(totals: Totals, model: ProportionalOddsModel) -> Generator[Ask, Any, Finding]:
    """From the shares of the classes. Coefficients are log odds of a higher class; thresholds come behind them.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.ordinal import proportional_odds
    >>> ANALYSES["proportional-odds"] is proportional_odds
    True
    """
    if clipped := totals.counts.clipped.objection(totals.study, model.columns):
        raise InvalidInput(clipped)
    check_columns(totals, model)
    problem, target = OrdinalProblem(totals, model), totals.study.target
    shares = np.cumsum([one.rows for one in totals.counts.classes]) / totals.counts.rows.rows
    first = np.zeros(problem.spread.width)
    first[: problem.count] = np.log(shares[:-1] / (1.0 - shares[:-1]))
    found = yield from maximise(totals, problem, first)
    likelihood = found.sums.likelihood + float(found.sums.gradient @ found.covariance @ found.sums.gradient) / 2
    change = Units.of(*columns_of(totals.final, model)).unscaling()
    whole = np.eye(problem.spread.width)
    whole[problem.count :, problem.count :] = change[1:, 1:]
    whole[: problem.count, problem.count :] = -change[0, 1:]
    order = np.append(problem.spread.place[problem.count :], np.arange(problem.count))
    part, _ = totals.present(model.columns)
    assert isinstance(target, ClassTarget)
    names = tuple(map(str, target.classes))
    rows = totals.counts.rows.rows
    fit = OrdinalFit(target.name, names, rows, len(order), found.iterations, likelihood)
    spreads = (*part.spreads[1:], *[1.0] * problem.count)
    made = Inference(
        (*part.study.design_names, *fit.thresholds),
        (whole @ found.beta)[order],
        (whole @ found.covariance @ whole.T)[np.ix_(order, order)],
        math.inf,
        fit,
        part.references,
        spreads=spreads,
    )
    return InferenceFinding(model.name, model.kind, made)


class OrdinalProblem:
    """The likelihood, by thresholds and coefficients; ``count`` is how many of the former there are.

    Examples
    --------
    See ``proportional_odds``, which maximises it.
    """

    def __init__(self, totals: Totals, model: ProportionalOddsModel) -> None:
        self.model, self._totals = model, totals
        self._final = totals.final_of(model)
        self.count, (_, spread) = len(totals.counts.classes) - 1, totals.present(model.columns)
        places = np.append(np.arange(self.count), spread.place[1:] - 1 + self.count)
        self.spread = Spread(places, spread.width - 1 + self.count)

    def ask(self, beta: Floats) -> Ask:
        """One total."""
        return self._totals.ask(Ordinal.name, self.model, beta)

    def read(self, integers: list[int], beta: Floats) -> NewtonSums:
        """In reals."""
        return NewtonSums.of(integers, Ordinal(self._totals.final, beta, self._final).bits)

    def penalty(self, sums: NewtonSums) -> Floats:
        """None."""
        return np.zeros(len(sums.gradient))

    def reach(self, beta: Floats) -> float:
        """Of the linear predictor over the ranges; beyond all where thresholds are not accepted."""
        if not thresholds_fit(beta[: self.count], self.model.bound):
            return math.inf
        ends = predictor_range(self._totals.final, self._final, np.append(0.0, beta[self.count :]))
        return max(map(abs, ends)) / self.model.bound

    def beyond(self, beta: Floats) -> str:
        """Separation."""
        del beta
        return (
            f"thresholds and linear predictor of the model {self.model.name!r} must stay within {self.model.bound:g},"
            " got a likelihood that grows beyond: columns that tell the classes without error (separation), classes"
            " that hardly differ, or ranges far wider than the values; leave columns out, or give it a larger bound"
        )
