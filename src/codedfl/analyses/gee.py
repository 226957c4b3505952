"""Generalised estimating equations of rows that correlate alike within clusters, by secure totals."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.glm import GlmProblem, in_units, start
from codedfl.analyses.glm_errors import Errors, triangle
from codedfl.analyses.maximum import Fitted, NewtonSums, information_inverse, towards
from codedfl.analyses.robust import InferenceFinding
from codedfl.contract.models.gee import GeeModel
from codedfl.errors import InvalidInput
from codedfl.statistics.gee import COUNTS, MOST_ALPHA, Gee, moments
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject

_CLOSE = 1e-7


@dataclass(frozen=True)
class GeeFit:
    """Estimating equations as a whole.

    modelled: the class whose odds it tells; "" of a count. correlation: of two rows of one cluster.
    dispersion: Pearson's sum per degree of freedom.

    Examples
    --------
    >>> from codedfl.analyses.gee import GeeFit
    >>> GeeFit("attacks", "", "person", 236, 59, 3, 7, 0.4, 5.1).ratio
    'rate ratio'
    """

    target: str
    modelled: str
    cluster: str
    rows: int
    clusters: int
    coefficients: int
    iterations: int
    correlation: float
    dispersion: float

    title: ClassVar[str] = "Generalised estimating equations"
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def ratio(self) -> str:
        """By the target."""
        return "odds ratio" if self.modelled else "rate ratio"

    @property
    def method(self) -> str:
        """The family, the correlation, and the errors."""
        what = f"The odds of {self.target} = {self.modelled} were" if self.modelled else f"The count {self.target} was"
        return (
            f"{what} modelled by generalised estimating equations with an exchangeable working correlation within"
            f" {self.cluster}; standard errors are robust."
        )

    def facts(self) -> list[tuple[str, str]]:
        """As statistics programs list them."""
        return [
            ("Target", self.target),
            *([("Class modelled", self.modelled)] if self.modelled else []),
            ("Rows, clusters", f"{self.rows}, {self.clusters}"),
            ("Working correlation", f"exchangeable, {self.correlation:.4g}"),
            ("Dispersion", f"{self.dispersion:.4g}"),
            ("Iterations", str(self.iterations)),
            ("Standard errors", "robust"),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self)}


@register_analysis(GeeModel.kind)
def gee(totals: Totals, model: GeeModel) -> Generator[Ask, Any, Finding]:
    """Coefficients and correlation by turns, from those of independent rows.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.gee import gee
    >>> ANALYSES["gee"] is gee
    True
    """
    totals.refuse_clipped((*model.columns, *model.uses))
    found, of_clusters = yield from _solved(totals, model, GlmProblem(totals, model))
    rows = totals.counts.rows.rows
    made = in_units(totals, model, found, rows=rows, penalised=False, errors=Errors(found.covariance, words="robust"))
    of_fit = (made.fit.target, made.fit.modelled, model.cluster, rows)
    fit = GeeFit(*of_fit, of_clusters[0], made.fit.coefficients, found.iterations, *of_clusters[1:])
    assert made.inference is not None
    return InferenceFinding(model.name, model.kind, replace(made.inference, fit=fit))


def _solved(
    totals: Totals, model: GeeModel, problem: GlmProblem
) -> Generator[Ask, Any, tuple[Fitted, tuple[int, float, float]]]:
    """Beside what was fitted: clusters, their correlation, and the dispersion."""
    beta, alpha, spread = start(totals, model), 0.0, problem.spread
    width = len(spread.place)
    for count in range(1, model.most_points + 1):
        point = np.append(beta, alpha)
        integers: list[int] = yield totals.ask(Gee.name, model, point)
        numbers = Gee(totals.final, point, totals.final_of(model)).reals(integers)
        _check(totals, model, numbers, width)
        dispersion, now = moments(numbers, width, totals.counts.rows.rows)
        # Rows that are less alike than those of different clusters: as if independent, and errors are robust anyway.
        now = float(np.clip(now, 0.0, MOST_ALPHA))
        score, bread, meat = _parts(problem, numbers)
        inverse = information_inverse(bread, model)
        covariance, step = inverse @ meat @ inverse, inverse @ score
        if max(np.abs(step / np.sqrt(np.diag(covariance))).max(), abs(now - alpha)) < _CLOSE:
            sums = NewtonSums(totals.counts.rows.rows, 0.0, 0.0, np.zeros(spread.width), spread(bread))
            found = Fitted(beta + spread(step), spread(covariance), sums, count)
            return found, (round(numbers[0]), now, dispersion)
        beta, alpha = towards(beta, beta + spread(step), problem.reach), now
    raise InvalidInput(
        f"the equations of the model {model.name!r} must have a solution within {model.most_points} points, got none:"
        " columns that tell the target without error (separation)"
    )


def _check(totals: Totals, model: GeeModel, numbers: Floats, width: int) -> None:
    clusters, cut, pairs = numbers[:3]
    if clusters < (least := max(2 * width, totals.study.smallest_cell)):
        raise InvalidInput(f"clusters of the model {model.name!r} must be at least {least}, got fewer")
    if pairs <= width:
        raise InvalidInput(f"clusters of the model {model.name!r} must have several rows, got one in most")
    if cut:
        raise InvalidInput(
            f"rows must lie near what the model {model.name!r} predicts, got clusters far beyond the target's range:"
            " look for wrong values"
        )


def _parts(problem: GlmProblem, numbers: Floats) -> tuple[Floats, Floats, Floats]:
    """Score, D'V^-1 D and products of scores, of the columns that are present."""
    width, only = problem.spread.width, problem.spread.only
    score, triangles = numbers[COUNTS : COUNTS + width], numbers[COUNTS + width :].reshape(2, -1)
    bread, meat = (only(triangle(one, width)) for one in triangles)
    return only(score), bread, meat
