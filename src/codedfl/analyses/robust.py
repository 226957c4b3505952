"""Ordinary least squares with robust standard errors: HC0 to HC3, or by clusters. One more total is asked for."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.glm_errors import triangle
from codedfl.analyses.inference import Inference
from codedfl.analyses.least_squares import LeastSquaresFit
from codedfl.analyses.linear import LinearTotal, by_level_of
from codedfl.contract.models.robust import RobustModel
from codedfl.errors import InvalidInput
from codedfl.statistics.robust import Robust
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject


@dataclass(frozen=True)
class RobustFit:
    """Least squares as a whole, with the name of its errors.

    Examples
    --------
    >>> from codedfl.analyses.least_squares import LeastSquaresFit
    >>> from codedfl.analyses.robust import RobustFit
    >>> RobustFit(LeastSquaresFit("days", 100, 1, 0.4, 2.0), "HC3").facts()[-1]
    ('Standard errors', 'HC3')
    """

    least_squares: LeastSquaresFit
    errors: str

    title: ClassVar[str] = "Ordinary least squares, robust errors"
    ratio: ClassVar[str] = ""
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def method(self) -> str:
        """With its errors."""
        model = self.least_squares.method.partition(";")[0]
        return f"{model}; standard errors are robust ({self.errors})."

    @property
    def rows(self) -> int:
        """Rows that the model was made of."""
        return self.least_squares.rows

    def facts(self) -> list[tuple[str, str]]:
        """Without the tests that rest on equal variances."""
        plain = ("F", "P(F)", "Log-likelihood", "AIC, BIC")
        return [*(one for one in self.least_squares.facts() if one[0] not in plain), ("Standard errors", self.errors)]

    def to_dict(self) -> JsonObject:
        """For JSON."""
        plain = {key: value for key, value in self.least_squares.to_dict().items() if key not in ("f", "f_p")}
        return {**plain, "model": self.title, "errors": self.errors}


@dataclass(frozen=True, eq=False)
class InferenceFinding:
    """A model that is all in its coefficients and their errors.

    Examples
    --------
    See ``robust``, which ends in it.
    """

    name: str
    kind: str
    inference: Inference

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return {"name": self.name, "kind": self.kind, "inference": self.inference.to_dict()}

    def lines(self) -> list[str]:
        """The table."""
        return self.inference.summary().splitlines()


@register_analysis(RobustModel.kind)
def robust(totals: Totals, model: RobustModel) -> Generator[Ask, Any, Finding]:
    """Coefficients from the total that is there, the middle of the sandwich from one more.

    Examples
    --------
    See ``codedfl.analyses.study_analysis.conduct``, which makes the totals it starts from.
    """
    totals.refuse_clipped(model.columns)
    linear, spread = totals.present(model.columns)
    plain = linear.ols()
    assert isinstance(plain.fit, LeastSquaresFit)
    change, scale = units(linear)
    back = np.linalg.inv(change)
    inverse = back @ (plain.covariance / plain.fit.residual_deviation**2) @ back.T
    point = spread(scaled_coefficients(linear, plain.coefficients))
    if model.errors in ("HC2", "HC3"):
        point = np.append(point, spread(inverse)[np.triu_indices(spread.width)])
    numbers: list[int] = yield totals.ask("robust", model, point)
    final = totals.final_of(model)
    count, *upper = Robust(totals.final, point, final).reals(numbers)
    middle = spread.only(triangle(upper, spread.width))
    rows, width = linear.rows, len(inverse)
    if model.cluster and count < 2 * width:
        raise InvalidInput(
            f"clusters of the model {model.name!r} must be at least {2 * width}, twice its coefficients, got fewer"
        )
    factor = {"HC1": rows / (rows - width), "cluster": count / max(1, count - 1) * (rows - 1) / (rows - width)}
    covariance = factor.get(model.errors, 1.0) * scale**2 * (change @ (inverse @ middle @ inverse) @ change.T)
    errors = f"{model.errors}, {count:.0f} clusters" if model.cluster else model.errors
    made = replace(plain, covariance=covariance, freedom=math.inf, fit=RobustFit(plain.fit, errors))
    return InferenceFinding(model.name, model.kind, by_level_of(totals.final, made))


def units(linear: LinearTotal) -> tuple[Floats, float]:
    """The matrix that takes coefficients of scaled columns to those of the columns, and half the target's range.

    Examples
    --------
    See ``robust``, which uses both.
    """
    target = linear.study.target_units
    return linear.study.units.unscaling(), float(target.step[0] * target.limit[0])


def scaled_coefficients(linear: LinearTotal, coefficients: Floats) -> Floats:
    """Coefficients of scaled columns that predict the target in half ranges from the middle of its range.

    Examples
    --------
    See ``robust``, whose point they are.
    """
    change, scale = units(linear)
    found = np.linalg.solve(change, coefficients)
    found[0] -= linear.study.target_units.zero[0]
    return np.asarray(found / scale)
