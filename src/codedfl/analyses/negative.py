"""Negative binomial models: Newton's iteration by the coefficients and the logarithm of alpha together."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Finding, Spread, Totals, register_analysis
from codedfl.analyses.glm import GlmProblem, in_units, start
from codedfl.analyses.maximum import Fitted, NewtonSums, maximise
from codedfl.contract.models.negative import NegativeBinomialModel
from codedfl.statistics.negative import MOST_LOG_ALPHA, Negative
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats

_FIRST_ALPHA, _FLAT = 0.5, 1e-3


@register_analysis(NegativeBinomialModel.kind)
def negative_binomial(totals: Totals, model: NegativeBinomialModel) -> Generator[Ask, Any, Finding]:
    """As a Poisson model, with one more parameter.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.negative import negative_binomial
    >>> ANALYSES["negative-binomial"] is negative_binomial
    True
    """
    totals.refuse_clipped((*model.columns, *model.uses))
    problem = NegativeProblem(totals, model)
    found = yield from maximise(totals, problem, np.append(start(totals, model), math.log(_FIRST_ALPHA)))
    alpha = math.exp(found.beta[-1])
    sums = replace(found.sums, likelihood=found.likelihood, gradient=np.zeros(len(found.beta) - 1))
    alone = Fitted(found.beta[:-1], found.covariance[:-1, :-1], sums, found.iterations)
    rows, penalised = totals.counts.rows.rows, model.regularisation > 0
    made = in_units(totals, model, alone, rows=rows, penalised=penalised)
    error = None if penalised else alpha * math.sqrt(found.covariance[-1, -1])
    fit = replace(made.fit, alpha=alpha, alpha_error=error)
    inference = None if made.inference is None else replace(made.inference, fit=fit)
    return replace(made, fit=fit, inference=inference)


class NegativeProblem(GlmProblem):
    """The likelihood by coefficients and the logarithm of alpha.

    Examples
    --------
    See ``negative_binomial``, which maximises it.
    """

    statistic = Negative

    def __init__(self, totals: Totals, model: NegativeBinomialModel) -> None:
        super().__init__(totals, model)
        self.spread = Spread(np.append(self.spread.place, self.spread.width), self.spread.width + 1)

    def read(self, integers: list[int], beta: Floats) -> NewtonSums:
        """In reals; where the curvature is not that of a maximum, alpha takes a step of its own."""
        sums = super().read(integers, beta)
        matrix = self.spread.only(sums.information)
        size = np.sqrt(np.abs(np.diag(matrix)))
        if size.all() and np.linalg.eigvalsh(matrix / np.outer(size, size))[0] > _FLAT * matrix[-1, -1] / size[-1] ** 2:
            return sums
        mended = sums.information.copy()
        mended[-1, :-1] = mended[:-1, -1] = 0.0
        mended[-1, -1] = max(abs(mended[-1, -1]), abs(sums.gradient[-1]), _FLAT * sums.weight)
        return replace(sums, information=mended)

    def penalty(self, sums: NewtonSums) -> Floats:
        """The ridge's; alpha has none."""
        return np.append(super().penalty(sums), 0.0)

    def reach(self, beta: Floats) -> float:
        """Of the linear predictor over the ranges, and of alpha."""
        return max(super().reach(beta[:-1]), abs(float(beta[-1])) / MOST_LOG_ALPHA)

    def beyond(self, beta: Floats) -> str:
        """Counts that vary no more than their means have an alpha of 0."""
        if super().reach(beta[:-1]) <= 1:
            return (
                f"counts of the model {self.model.name!r} must vary more than their means, got an alpha that goes"
                f" {'to 0' if beta[-1] < 0 else 'beyond all bounds'}: take kind = 'poisson'"
            )
        return super().beyond(beta[:-1])
