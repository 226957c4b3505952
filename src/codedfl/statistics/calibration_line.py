"""How chances of held-out rows are to be moved and stretched: a logistic model of two numbers on the predictor."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.statistics.families import Binomial
from codedfl.statistics.newton import Newton, n_coefficients
from codedfl.statistics.rounded import products
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Integers

MOST_SLOPE = 3.0  # in size, and as much of the bound for the intercept


@register_statistic
class CalibrationLine(Newton):
    """Gradient and curvature of a logistic model on the linear predictor, over held-out rows, laid out as ``newton``.

    The point is that of ``newton``, whose predictor it is, then an intercept by the model's bound, and a slope.

    Examples
    --------
    >>> from codedfl.statistics.calibration_line import CalibrationLine
    >>> CalibrationLine.held_out
    True
    """

    name: ClassVar[str] = "calibration-line"
    tells: ClassVar[frozenset[str] | None] = frozenset({"points", "classes"})
    held_out: ClassVar[bool] = True
    shows: ClassVar[str] = (
        "Sums of what two numbers predict for held-out rows. A malicious server names other coefficients, within the"
        " bound and the number of points that the study states."
    )

    def _begin(self) -> None:
        """As for ``newton``; the line stays near the one that is hoped for."""
        super()._begin()
        if np.abs(self.line).max() > MOST_SLOPE:
            raise InvalidInput(f"the calibration of {self.model.name!r} must be within {MOST_SLOPE:g} of its bound")

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = ", ".join(one.name for one in study.models if isinstance(one, LogisticModel))
        return f"two sums of what is left of the chances of held-out rows, and three weights ({models})"

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """Two more than for ``newton``."""
        return n_coefficients(study, model) + 2

    @property
    def line(self) -> Floats:
        """The intercept by the bound, and the slope."""
        return self.point[-2:]

    @property
    def length(self) -> int:
        """As ``newton`` of two coefficients."""
        return 8

    @cached_property
    def largest(self) -> int:
        """A row's likelihood, at twice as far as the line may go."""
        return int(np.ceil(self.study.max_rows * Binomial().most(2.0 * MOST_SLOPE * self._glm.bound)))

    def terms(self, codes: Integers, target: Integers) -> Floats:
        """The predictor lies between -1 and 1 of the bound."""
        bound = self._glm.bound
        X = np.column_stack((np.ones(len(codes)), self.predictor(codes) / bound))
        at = bound * (self.line[0] * X[:, 0] + self.line[1] * X[:, 1])
        likelihood, best, slope, curvature = Binomial().terms(self.outcome(codes, target), at)
        sums = np.stack((np.ones(len(X)), likelihood, best), axis=1)
        return np.hstack((sums, slope[:, None] * X, products(X, curvature)))
