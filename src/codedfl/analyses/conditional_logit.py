"""A conditional logistic model of matched sets, by Newton's iteration over secure totals."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Spread, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.inference import Inference
from codedfl.analyses.maximum import NewtonSums, maximise
from codedfl.analyses.robust import InferenceFinding
from codedfl.contract.models.conditional_logit import ConditionalLogitModel
from codedfl.data.columns import ClassTarget, Units
from codedfl.errors import InvalidInput
from codedfl.statistics.conditional import Conditional
from codedfl.statistics.newton import columns_of, predictor_range
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject


@dataclass(frozen=True)
class ConditionalFit:
    """A conditional logistic model as a whole; ``sets`` are those with rows of both classes.

    Examples
    --------
    >>> from codedfl.analyses.conditional_logit import ConditionalFit
    >>> ConditionalFit("ill", "yes", "set", 248, 83, 2, 5, -53.0).aic
    110.0
    """

    target: str
    modelled: str
    strata: str
    rows: int
    sets: int
    coefficients: int
    iterations: int
    log_likelihood: float

    title: ClassVar[str] = "Conditional logistic regression"
    ratio: ClassVar[str] = "odds ratio"
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def method(self) -> str:
        """What is conditioned on."""
        return (
            f"The odds of {self.target} = {self.modelled} were modelled by conditional logistic regression within the"
            f" matched sets of {self.strata}."
        )

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2 * self.coefficients - 2 * self.log_likelihood

    def facts(self) -> list[tuple[str, str]]:
        """As statistics programs list them."""
        return [
            ("Target", self.target),
            ("Class modelled", self.modelled),
            ("Rows", str(self.rows)),
            ("Sets of both classes", str(self.sets)),
            ("Log-likelihood", f"{self.log_likelihood:.6g}"),
            ("Iterations", str(self.iterations)),
            ("AIC", f"{self.aic:.6g}"),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self), "aic": self.aic}


@register_analysis(ConditionalLogitModel.kind)
def conditional_logit(totals: Totals, model: ConditionalLogitModel) -> Generator[Ask, Any, Finding]:
    """From coefficients of 0. Fewer sets than twice the coefficients, or than the smallest cell, are refused.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.conditional_logit import conditional_logit
    >>> ANALYSES["conditional-logit"] is conditional_logit
    True
    """
    if clipped := totals.counts.clipped.objection(totals.study, (*model.columns, *model.uses)):
        raise InvalidInput(clipped)
    check_columns(totals, model)
    problem = ConditionalProblem(totals, model)
    found = yield from maximise(totals, problem, np.zeros(problem.spread.width))
    sums, covariance, target = found.sums, found.covariance, totals.study.target
    likelihood = sums.likelihood + float(sums.gradient @ covariance @ sums.gradient) / 2
    change = Units.of(*columns_of(totals.final, model)).unscaling()[1:, 1:]
    part, _ = totals.present(model.columns)
    assert isinstance(target, ClassTarget)
    of_fit = (totals.counts.rows.rows, round(sums.weight), len(problem.spread.place), found.iterations, likelihood)
    made = Inference(
        part.study.design_names,
        problem.spread.only(change @ found.beta),
        problem.spread.only(change @ covariance @ change.T),
        math.inf,
        ConditionalFit(target.name, target.modelled, model.strata, *of_fit),
        part.references,
        spreads=part.spreads[1:],
    )
    return InferenceFinding(model.name, model.kind, made)


class ConditionalProblem:
    """The conditional likelihood.

    Examples
    --------
    See ``conditional_logit``, which maximises it.
    """

    def __init__(self, totals: Totals, model: ConditionalLogitModel) -> None:
        self.model, self._totals, self._final = model, totals, totals.final_of(model)
        _, spread = totals.present(model.columns)
        self.spread = Spread(spread.place[1:] - 1, spread.width - 1)

    def ask(self, beta: Floats) -> Ask:
        """One total."""
        return self._totals.ask(Conditional.name, self.model, beta)

    def read(self, integers: list[int], beta: Floats) -> NewtonSums:
        """In reals."""
        sums = NewtonSums.of(integers, Conditional(self._totals.final, beta, self._final).bits)
        least = max(2 * len(self.spread.place), self._totals.study.smallest_cell)
        if sums.weight < least:
            raise InvalidInput(
                f"sets of the model {self.model.name!r} with rows of both classes must be at least {least}"
            )
        return sums

    def penalty(self, sums: NewtonSums) -> Floats:
        """None."""
        return np.zeros(len(sums.gradient))

    def reach(self, beta: Floats) -> float:
        """Of the linear predictor over the ranges."""
        ends = predictor_range(self._totals.final, self._final, np.append(0.0, beta))
        return max(map(abs, ends)) / self.model.bound

    def beyond(self, beta: Floats) -> str:
        """Separation."""
        return (
            f"the linear predictor of the model {self.model.name!r} must stay within {self.model.bound:g}, got a"
            f" likelihood that grows towards {self.reach(beta) * self.model.bound:.3g}: columns that tell the classes"
            " within sets without error (separation), or ranges far wider than the values; leave columns out, or give"
            " it a larger bound"
        )
