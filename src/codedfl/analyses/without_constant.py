"""Likelihoods in which a constant cancels, or has others in its place: risk sets, matched sets, thresholds."""

from __future__ import annotations

import math

import numpy as np

from codedfl.analyses.analysis import Spread, Totals
from codedfl.analyses.inference import Fit, Inference
from codedfl.analyses.maximum import Fitted, Likelihood
from codedfl.contract.models import StudyModel
from codedfl.data.columns import Units
from codedfl.statistics.newton import columns_of
from codedfl.typing import Floats


class WithoutConstant(Likelihood):
    """A likelihood by thresholds, as many as there are, then the coefficients of columns; findings have them behind.

    Examples
    --------
    >>> from codedfl.analyses.cox import CoxProblem
    >>> from codedfl.analyses.without_constant import WithoutConstant
    >>> issubclass(CoxProblem, WithoutConstant)
    True
    """

    def __init__(self, totals: Totals, model: StudyModel, thresholds: int = 0) -> None:
        _, spread = totals.present(model.columns)
        places = np.append(np.arange(thresholds), spread.place[1:] - 1 + thresholds)
        super().__init__(totals, model, Spread(places, spread.width - 1 + thresholds))
        self.thresholds = thresholds

    def on_columns(self, beta: Floats) -> Floats:
        """With a constant of 0."""
        return np.append(0.0, beta[self.thresholds :])

    def in_units(self, beta: Floats) -> Floats:
        """Of the columns, of coefficients of the scaled ones."""
        return np.asarray(self._change() @ beta)

    def inference(self, found: Fitted, fit: Fit) -> Inference:
        """In the units of the columns."""
        totals, change, first = self._totals, self._change(), self.thresholds
        order = np.append(self.spread.place[first:], np.arange(first))
        part, _ = totals.present(self.model.columns)
        return Inference(
            (*part.study.design_names, *fit.thresholds),
            (change @ found.beta)[order],
            (change @ found.covariance @ change.T)[np.ix_(order, order)],
            math.inf,
            fit,
            part.references,
            spreads=(*part.spreads[1:], *[1.0] * first),
        )

    def _change(self) -> Floats:
        change, first = Units.of(*columns_of(self._totals.final, self.model)).unscaling(), self.thresholds
        whole = np.eye(self.spread.width)
        whole[first:, first:] = change[1:, 1:]
        whole[:first, first:] = -change[0, 1:]
        return whole
