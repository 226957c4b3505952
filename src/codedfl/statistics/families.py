"""Families of generalised linear models: what a row adds to likelihood, gradient and curvature at a linear predictor.

All by arithmetic that is the same on all machines. The link is the logarithm, of classes that of the odds.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from codedfl.contract.models import StudyModel
from codedfl.contract.study import Study
from codedfl.data.columns import NumberTarget
from codedfl.exact.portable import portable_exp, portable_log
from codedfl.typing import Floats, Integers


class FamilyTerms(NamedTuple):
    """Of each row: log-likelihood, the largest there could be, and its slope and (negative) curvature by the predictor.

    Examples
    --------
    See ``Binomial``, which makes them.
    """

    likelihood: Floats
    best: Floats
    slope: Floats
    curvature: Floats


class Family(Protocol):
    """One family.

    Examples
    --------
    See ``Binomial``, which is one.
    """

    def terms(self, y: Floats, predictor: Floats) -> FamilyTerms:
        """Of rows with these targets."""

    def mean(self, predictor: Floats) -> Floats:
        """The expected target."""

    def variance(self, mean: Floats) -> Floats:
        """Of the target, but for the dispersion."""

    def most(self, bound: float) -> float:
        """No term of a row is larger where the predictor is at most ``bound`` in size."""


class Binomial:
    """Of two classes the second, by its log odds.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.families import Binomial
    >>> found = Binomial().terms(np.array([1.0]), np.zeros(1))
    >>> float(found.slope[0]), float(found.curvature[0])
    (0.5, 0.25)
    """

    def terms(self, y: Floats, predictor: Floats) -> FamilyTerms:
        """Nothing is better than a chance of 1."""
        small = portable_exp(-np.abs(predictor))
        rest = 1.0 + small
        chance = np.where(predictor >= 0, 1.0, small) / rest
        likelihood = y * predictor - np.maximum(predictor, 0.0) - portable_log(rest)
        return FamilyTerms(likelihood, np.zeros_like(y), y - chance, small / (rest * rest))

    def mean(self, predictor: Floats) -> Floats:
        """The chance."""
        return np.asarray(1.0 / (1.0 + portable_exp(-predictor)))

    def variance(self, mean: Floats) -> Floats:
        """Of one draw."""
        return mean * (1.0 - mean)

    def most(self, bound: float) -> float:
        """A row's log-likelihood, of which the gradient and the weights are less."""
        return bound + 1.0


class Poisson:
    """Counts of at most ``top``, by the logarithm of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.families import Poisson
    >>> float(Poisson(9.0).terms(np.array([3.0]), np.zeros(1)).slope[0])
    2.0
    """

    def __init__(self, top: float) -> None:
        self.top = top

    def terms(self, y: Floats, predictor: Floats) -> FamilyTerms:
        """log y! by a table: whole numbers up to the end of the range."""
        mean = portable_exp(predictor)
        logs = portable_log(np.arange(1.0, self.top + 2))
        factorial = np.concatenate(([0.0], np.cumsum(logs)))[y.astype(np.int64)]
        log_y = np.concatenate(([0.0], logs))[y.astype(np.int64)]
        return FamilyTerms(y * predictor - mean - factorial, y * log_y - y - factorial, y - mean, mean)

    def mean(self, predictor: Floats) -> Floats:
        """The expected count."""
        return portable_exp(predictor)

    def variance(self, mean: Floats) -> Floats:
        """The mean."""
        return mean

    def most(self, bound: float) -> float:
        """The likelihood of the least likely count."""
        count = max(1.0, self.top)
        return float(np.exp(bound) + count * (bound + 2.0 * np.log(count) + 2.0))


class Gamma:
    """Numbers above 0 and of at most ``top``, whose deviation grows with their mean, by the logarithm of the mean.

    The predictor is that of the target as a share of ``top``, so that neither its bound nor the room for sums depends
    on the target's unit. The likelihood is that of a dispersion of 1, without what only the target says; its curvature
    is the observed one.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.families import Gamma
    >>> float(Gamma(0.5, 9.0).terms(np.array([27.0]), np.zeros(1)).slope[0])
    2.0
    """

    def __init__(self, least: float, top: float) -> None:
        self.least, self.top = least, top

    def terms(self, y: Floats, predictor: Floats) -> FamilyTerms:
        """Best where the mean is the target itself."""
        share = y / self.top
        ratio = share * portable_exp(-predictor)
        return FamilyTerms(-ratio - predictor, -1.0 - portable_log(share), ratio - 1.0, ratio)

    def mean(self, predictor: Floats) -> Floats:
        """The expected number."""
        return self.top * portable_exp(predictor)

    def variance(self, mean: Floats) -> Floats:
        """The square of the mean."""
        return mean * mean

    def most(self, bound: float) -> float:
        """The largest target where the smallest is expected, and its logarithm."""
        return float(np.exp(bound) + bound + 2.0 + abs(np.log(self.least / self.top)))


def family_of(study: Study, model: StudyModel) -> Family:
    """What the target follows in a model: as its kind says, else by the target.

    Examples
    --------
    >>> from codedfl.contract.models.logistic import LogisticModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> from codedfl.statistics.families import family_of
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> model = LogisticModel("ill", ("age",))
    >>> type(family_of(Study("s", (age,), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3), model)).__name__
    'Binomial'
    """
    if not isinstance(study.target, NumberTarget):
        return Binomial()
    low, high = study.target.range
    return Gamma(low, high) if getattr(model, "family", "") == "gamma" else Poisson(high)


def target_values(study: Study, codes: Integers) -> Floats:
    """Targets as numbers; of classes 0, 1 and so on.

    Examples
    --------
    See ``codedfl.statistics.newton.Newton``, whose targets they are.
    """
    return study.target.grid.values(codes) if isinstance(study.target, NumberTarget) else codes.astype(np.float64)
