"""Proportional odds of ordered classes, by Newton's iteration over secure totals."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.maximum import maximise
from codedfl.analyses.robust import InferenceFinding
from codedfl.analyses.without_constant import WithoutConstant
from codedfl.contract.models.ordinal import ProportionalOddsModel
from codedfl.data.columns import ClassTarget
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
    totals.refuse_clipped(model.columns)
    check_columns(totals, model)
    problem = OrdinalProblem(totals, model, len(totals.counts.classes) - 1)
    target = totals.study.target
    shares = np.cumsum(totals.counts.classes) / totals.counts.rows.rows
    first = np.zeros(problem.spread.width)
    first[: problem.thresholds] = np.log(shares[:-1] / (1.0 - shares[:-1]))
    found = yield from maximise(totals, problem, first)
    assert isinstance(target, ClassTarget)
    of_fit = (totals.counts.rows.rows, len(problem.spread.place), found.iterations, found.likelihood)
    fit = OrdinalFit(target.name, tuple(map(str, target.classes)), *of_fit)
    return InferenceFinding(model.name, model.kind, problem.inference(found, fit))


class OrdinalProblem(WithoutConstant):
    """The likelihood, by thresholds and coefficients.

    Examples
    --------
    See ``proportional_odds``, which maximises it.
    """

    statistic = Ordinal

    def reach(self, beta: Floats) -> float:
        """Beyond all where thresholds are not accepted."""
        return super().reach(beta) if thresholds_fit(beta[: self.thresholds], self.bound) else math.inf

    def beyond(self, beta: Floats) -> str:
        """Separation."""
        del beta
        return (
            f"thresholds and linear predictor of the model {self.model.name!r} must stay within {self.bound:g},"
            " got a likelihood that grows beyond: columns that tell the classes without error (separation), classes"
            " that hardly differ, or ranges far wider than the values; leave columns out, or give it a larger bound"
        )
