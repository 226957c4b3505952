"""Standard errors of a generalised linear model: by its family, by a dispersion, or whatever the variance is."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from codedfl.analyses.analysis import Spread, Totals
from codedfl.analyses.maximum import Fitted, information_inverse
from codedfl.contract.models.glm import GlmModel
from codedfl.errors import InvalidInput
from codedfl.statistics.sandwich import Sandwich
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats


class Errors(NamedTuple):
    """What errors are made of.

    covariance: of the coefficients of the scaled columns.
    freedom: of Student's distribution; infinite is the normal one.
    dispersion: Pearson's sum per degree of freedom; None where nobody asked for it.
    words: what kind of errors they are.

    Examples
    --------
    See ``errors_of``, which makes them.
    """

    covariance: Floats
    freedom: float = math.inf
    dispersion: float | None = None
    words: str = "model"


def errors_of(
    totals: Totals, model: GlmModel, spread: Spread, found: Fitted, reach: float
) -> Generator[Ask, Any, Errors]:
    """By one more total at the coefficients where any is needed; ``reach`` is theirs, as a share of the bound.

    Of counts the dispersion is asked for anyhow: where it is far from 1, errors of a Poisson model are far too small.

    Examples
    --------
    See ``codedfl.analyses.glm.glm``, which ends with it.
    """
    final = totals.final_of(model)
    if Sandwich.name not in model.statistics or model.regularisation:
        return Errors(found.covariance)
    if reach > 1 or len(totals.asked) >= totals.study.most_points:
        if model.errors == "model" and not model.dispersed:
            return Errors(found.covariance)
        what = "bound must be larger" if reach > 1 else f"points must be more than {totals.study.most_points}"
        raise InvalidInput(f"{what} for the errors of the model {model.name!r}: its coefficients were found without")
    integers: list[int] = yield totals.ask(Sandwich.name, model, found.beta)
    statistic = Sandwich(totals.final, found.beta, final)
    clusters, cut, pearson, *rest = statistic.reals(integers)
    if cut:
        raise InvalidInput(
            f"rows must lie near what the model {model.name!r} predicts for its errors, got some beyond four times the"
            " target's range, or a thousand standard deviations: look for wrong values, or take another family"
        )
    matrix = spread.only(triangle(rest, spread.width)) if rest else np.zeros((0, 0))
    inverse, rows, width = spread.only(found.covariance), found.sums.weight, len(spread.place)
    dispersion = pearson / (rows - width)
    if statistic.robust:
        covariance = correction(model, rows, width, clusters) * (inverse @ matrix @ inverse)
        words = f"cluster, {clusters:.0f} clusters" if model.cluster else model.errors
        return Errors(spread(covariance), math.inf, dispersion, words)
    if statistic.expected:
        inverse = information_inverse(matrix, model)
    factor, freedom = (dispersion, rows - width) if model.dispersed else (1.0, math.inf)
    return Errors(spread(factor * inverse), freedom, dispersion, "by the dispersion" if model.dispersed else "model")


def triangle(upper: Sequence[float] | Floats, width: int) -> Floats:
    """The symmetric matrix with this upper triangle.

    Examples
    --------
    >>> from codedfl.analyses.glm_errors import triangle
    >>> triangle([1.0, 2.0, 3.0], 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    found = np.zeros((width, width))
    found[np.triu_indices(width)] = upper
    return found + np.triu(found, 1).T


def correction(model: GlmModel, rows: float, width: int, clusters: float) -> float:
    """For few rows or clusters, as statsmodels has it; fewer clusters than twice the coefficients are refused.

    Examples
    --------
    >>> from codedfl.analyses.glm_errors import correction
    >>> from codedfl.contract.models.poisson import PoissonModel
    >>> correction(PoissonModel("m", ("age",), errors="HC1"), 12.0, 2, 0.0)
    1.2
    """
    if model.errors != "cluster":
        return rows / (rows - width) if model.errors == "HC1" else 1.0
    if clusters < 2 * width:
        raise InvalidInput(
            f"clusters of the model {model.name!r} must be at least {2 * width}, twice its coefficients, got fewer"
        )
    return clusters / (clusters - 1) * (rows - 1) / (rows - width)
