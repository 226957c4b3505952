"""A conditional logistic model of matched sets, by Newton's iteration over secure totals."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.maximum import NewtonSums, maximise
from codedfl.analyses.robust import InferenceFinding
from codedfl.analyses.without_constant import WithoutConstant
from codedfl.contract.models.conditional_logit import ConditionalLogitModel
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.conditional import Conditional
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
    totals.refuse_clipped((*model.columns, *model.uses))
    check_columns(totals, model)
    problem, target = ConditionalProblem(totals, model), totals.study.target
    found = yield from maximise(totals, problem, np.zeros(problem.spread.width))
    assert isinstance(target, ClassTarget)
    of_fit = (totals.counts.rows.rows, round(found.sums.weight), len(problem.spread.place), found.iterations)
    fit = ConditionalFit(target.name, target.modelled, model.strata, *of_fit, found.likelihood)
    return InferenceFinding(model.name, model.kind, problem.inference(found, fit))


class ConditionalProblem(WithoutConstant):
    """The conditional likelihood.

    Examples
    --------
    See ``conditional_logit``, which maximises it.
    """

    statistic = Conditional

    def read(self, integers: list[int], beta: Floats) -> NewtonSums:
        """In reals."""
        sums = super().read(integers, beta)
        least = max(2 * len(self.spread.place), self._totals.study.smallest_cell)
        if sums.weight < least:
            raise InvalidInput(
                f"sets of the model {self.model.name!r} with rows of both classes must be at least {least}"
            )
        return sums

    def beyond(self, beta: Floats) -> str:
        """Separation."""
        return (
            f"the linear predictor of the model {self.model.name!r} must stay within {self.bound:g}, got a"
            f" likelihood that grows towards {self.reach(beta) * self.bound:.3g}: columns that tell the classes"
            " within sets without error (separation), or ranges far wider than the values; leave columns out, or give"
            " it a larger bound"
        )
