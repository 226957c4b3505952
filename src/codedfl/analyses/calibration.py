"""Intercept and slope of calibration on held-out rows: how a logistic model's chances are to be moved and stretched."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Totals
from codedfl.analyses.maximum import NewtonSums, information_inverse
from codedfl.contract.models.logistic import LogisticModel
from codedfl.errors import InvalidInput
from codedfl.statistics.calibration_line import MOST_SLOPE, CalibrationLine
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject

_CLOSE, _NORMAL = 1e-5, 1.959963984540054


@dataclass(frozen=True)
class Line:
    """A logistic model of the linear predictor: 0 and 1 are perfect; a slope below 1 says that the fit was too steep.

    Examples
    --------
    >>> from codedfl.analyses.calibration import Line
    >>> Line(0.1, 0.2, 0.9, 0.1).text()
    'calibration slope 0.900 [0.704, 1.096], intercept 0.100 [-0.292, 0.492]'
    """

    intercept: float
    intercept_error: float
    slope: float
    slope_error: float

    def text(self) -> str:
        """With intervals of 95 %."""
        return (
            f"calibration slope {_with_interval(self.slope, self.slope_error)},"
            f" intercept {_with_interval(self.intercept, self.intercept_error)}"
        )

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return asdict(self)


def _with_interval(value: float, error: float) -> str:
    return f"{value:.3f} [{value - _NORMAL * error:.3f}, {value + _NORMAL * error:.3f}]"


def calibration_line(
    totals: Totals, model: LogisticModel, beta: Floats, points: int
) -> Generator[Ask, Any, Line | None]:
    """By Newton's iteration over at most ``points`` totals; None where it needs more, or goes far from 0 and 1.

    beta: the coefficients of the scaled columns, within the model's bound.

    Examples
    --------
    See ``codedfl.analyses.glm.glm``, which ends with it where rows are held out.
    """
    line, bound = np.array([0.0, 1.0]), model.bound
    for _ in range(min(points, totals.study.most_points - len(totals.asked))):
        point = np.append(beta, line)
        integers: list[int] = yield totals.ask(CalibrationLine.name, model, point)
        sums = NewtonSums.of(integers, CalibrationLine(totals.final, point, totals.final_of(model)).bits)
        try:
            covariance = information_inverse(sums.information, model)
        except InvalidInput:
            return None
        step, errors = covariance @ sums.gradient, np.sqrt(np.diag(covariance))
        line = line + step / bound
        if np.abs(step / errors).max() < _CLOSE:
            return Line(float(bound * line[0]), float(errors[0]), float(line[1]), float(errors[1] / bound))
        if np.abs(line).max() > MOST_SLOPE:
            return None
    return None
