"""Linear mixed models with a random intercept: few ratios of variances are asked for, and what lies between follows.

At a ratio the fixed effects are a linear model of X'X less what the intercepts take. That is a smooth function of the
logarithm of the ratio, so the polynomial through the ratios asked for so far says where to ask next.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.glm_errors import triangle
from codedfl.analyses.linear import LinearTotal
from codedfl.analyses.robust import InferenceFinding, units
from codedfl.contract.models.intercepts import RandomInterceptModel
from codedfl.errors import InvalidInput
from codedfl.statistics.intercepts import Intercepts
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject

_FIRST, _NEXT = 0.1, (0.35, 0.85)  # a ratio, then places
_LEAST, _MOST = 1e-4, 1e4  # ratios
_LAST, _CLOSE = 0.9999, 1e-4  # the last place, and how near to one that was asked for is near


@dataclass(frozen=True)
class MixedFit:
    """A linear mixed model as a whole.

    residual_variance, intercept_variance: of rows within a cluster, and of the clusters' constants.
    log_likelihood: the restricted one.

    Examples
    --------
    >>> from codedfl.analyses.intercepts import MixedFit
    >>> MixedFit("days", 50, 9, 2, 5, 3.0, 1.0, log_likelihood=-60.0).intraclass
    0.25
    """

    target: str
    rows: int
    clusters: int
    coefficients: int
    iterations: int
    residual_variance: float
    intercept_variance: float
    log_likelihood: float

    title: ClassVar[str] = "Linear mixed model, random intercept"
    ratio: ClassVar[str] = ""
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def method(self) -> str:
        """Clusters, and the likelihood."""
        return (
            f"The outcome {self.target} was modelled by a linear mixed model with a random intercept for each of"
            f" {self.clusters} clusters, fitted by restricted maximum likelihood."
        )

    @property
    def intraclass(self) -> float:
        """The share of the variance that is the clusters'."""
        return self.intercept_variance / (self.intercept_variance + self.residual_variance)

    def facts(self) -> list[tuple[str, str]]:
        """As statistics programs list them."""
        return [
            ("Target", self.target),
            ("Rows, clusters", f"{self.rows}, {self.clusters}"),
            ("Residual variance", f"{self.residual_variance:.5g}"),
            ("Intercepts' variance", f"{self.intercept_variance:.5g}"),
            ("Intraclass correlation", f"{self.intraclass:.4f}"),
            ("REML log-likelihood", f"{self.log_likelihood:.6g}"),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self), "intraclass": self.intraclass}


class _At(NamedTuple):
    """The model at a ratio, in scaled units."""

    likelihood: float
    beta: Floats
    inverse: Floats
    variance: float


@register_analysis(RandomInterceptModel.kind)
def random_intercept(totals: Totals, model: RandomInterceptModel) -> Generator[Ask, Any, Finding]:
    """Ask for a few ratios, the next one where the likelihood that follows from them is greatest.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.intercepts import random_intercept
    >>> ANALYSES["random-intercept"] is random_intercept
    True
    """
    totals.refuse_clipped((*model.columns, *model.uses))
    linear, spread = totals.present(model.columns)
    plain, final = linear.ols(), totals.final_of(model)
    place = np.append(spread.place, spread.width)
    curve, clusters, ahead = _Curve(linear), 0, [_FIRST]
    while ahead:
        point = np.log([ahead.pop(0)])
        numbers: list[int] = yield totals.ask(Intercepts.name, model, point)
        count, logs, *upper = Intercepts(totals.final, point, final).reals(numbers)
        matrix = triangle(upper, spread.width + 1)[np.ix_(place, place)]
        clusters = round(count)
        _check_clusters(totals, model, clusters)
        curve.add(math.exp(point[0]), clusters, np.append(logs, matrix.ravel()))
        if curve.asked == 1:
            ahead += [curve.ratio(one) for one in _NEXT]
        if not ahead and not curve.is_near(best := curve.best()):
            if not _LEAST < best < _MOST:
                what = "no more than chance: take a linear model" if best <= _LEAST else "beyond all bounds"
                raise InvalidInput(f"intercepts of the model {model.name!r} must vary, got a variance that is {what}")
            ahead.append(best)
    at = curve.at(best)
    change, scale = units(linear)
    coefficients = change @ at.beta * scale
    coefficients[0] += linear.study.target_units.zero[0]
    rows, d = linear.rows, len(spread.place)
    variance = at.variance * scale**2
    likelihood = at.likelihood - (rows - d) * math.log(scale) + math.log(abs(np.linalg.det(change)))
    of_fit = (rows, clusters, d, curve.asked, variance, best * variance, likelihood)
    fit = MixedFit(totals.study.target.name, *of_fit)
    covariance = variance * change @ at.inverse @ change.T
    made = replace(plain, coefficients=coefficients, covariance=covariance, freedom=math.inf, fit=fit)
    return InferenceFinding(model.name, model.kind, made)


def _check_clusters(totals: Totals, model: RandomInterceptModel, clusters: int) -> None:
    least = 2 * totals.study.most_points
    if clusters < least:
        raise InvalidInput(
            f"clusters of the model {model.name!r} must be at least {least}, twice the points of the study, got fewer"
        )


class _Curve:
    """What intercepts take at any ratio: the polynomial through those asked for, and through 0, where it is nothing.

    It is one of v = ratio m / (1 + ratio m), where m is the mean size of a cluster: what a cluster of n rows takes is
    then nearly straight from 0 to 1, and so is the logarithm of its (1 + ratio n) less that of 1 + ratio m.
    """

    def __init__(self, linear: LinearTotal) -> None:
        self._linear, self._nodes, self._seen = linear, list[float](), list[Floats]()
        self._clusters = 0

    @property
    def asked(self) -> int:
        """How many ratios there are beside 0."""
        return len(self._nodes) - 1

    def ratio(self, place: float) -> float:
        """Of a place between 0 and 1."""
        return place / (1 - place) * self._clusters / self._linear.rows

    def _place(self, ratio: float) -> float:
        return ratio / (ratio + self._clusters / self._linear.rows)

    def add(self, ratio: float, clusters: int, seen: Floats) -> None:
        """One more ratio."""
        self._clusters = clusters
        self._nodes = [*(self._nodes or [0.0]), self._place(ratio)]
        seen[0] += clusters * math.log(1.0 - self._nodes[-1])
        self._seen = [*(self._seen or [np.zeros_like(seen)]), seen]

    def at(self, ratio: float) -> _At:
        """The model at a ratio."""
        return self._at(self._place(ratio))

    def _at(self, place: float) -> _At:
        nodes, found = np.array(self._nodes), np.zeros_like(self._seen[0])
        for number, values in enumerate(self._seen):
            others = np.delete(nodes, number)
            found = found + values * np.prod((place - others) / (nodes[number] - others))
        found[0] -= self._clusters * math.log(1.0 - place)
        return _at(self._linear, found)

    def is_near(self, ratio: float) -> bool:
        """Whether a ratio was as good as asked for."""
        return min(abs(self._place(ratio) - one) for one in self._nodes[1:]) <= _CLOSE

    def best(self) -> float:
        """The ratio with the greatest likelihood."""
        low, high = 0.0, _LAST
        for _ in range(9):
            grid = np.linspace(low, high, 41)
            best = int(np.argmax([self._at(one).likelihood for one in grid.tolist()]))
            low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 40)])
        return self.ratio(float(grid[best]))


def _at(linear: LinearTotal, seen: Floats) -> _At:
    """Restricted likelihood, coefficients and variance; no likelihood where a polynomial is no matrix of products."""
    gram, rows = linear.scaled_gram, linear.rows
    left = gram - seen[1:].reshape(gram.shape)
    d = len(left) - 1
    values, vectors = np.linalg.eigh(left[:d, :d])
    if values[0] <= 0:
        return _At(-math.inf, np.zeros(d), np.zeros((d, d)), 0.0)
    inverse = vectors / values @ vectors.T
    beta = inverse @ left[:d, d]
    squares = float(left[d, d] - left[:d, d] @ beta)
    if squares <= 0:
        return _At(-math.inf, beta, inverse, 0.0)
    variance = squares / (rows - d)
    logs = seen[0] + np.log(values).sum() + (rows - d) * (math.log(2 * math.pi * variance) + 1)
    return _At(-float(logs) / 2, beta, inverse, variance)
