"""Newton's iteration over secure totals towards the greatest likelihood, for any model that has one."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from codedfl.analyses.analysis import Spread, Totals
from codedfl.contract.models import StudyModel
from codedfl.errors import InvalidInput
from codedfl.statistics.newton import Bounded, predictor_range
from codedfl.statistics.rounded import Rounded
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats

_CLOSE = 1e-5
_WITHIN = 0.98  # of the bound, where a step that would go beyond ends
_PERFECT = 1e-4  # of a row's likelihood, within which of the best there could be nothing is left to chance
_DEPENDENT = 1e-11  # of the largest eigenvalue of the scaled X'WX


@dataclass(frozen=True, eq=False)
class NewtonSums:
    """What a total of ``newton`` or its like says: weights, likelihood, the best there could be, gradient, X'WX.

    Examples
    --------
    >>> from codedfl.analyses.maximum import NewtonSums
    >>> NewtonSums.of([4, -2, 0, 1, 0, 2, 0, 8], bits=1).information.tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """

    weight: float
    likelihood: float
    best: float
    gradient: Floats
    information: Floats

    @classmethod
    def of(cls, integers: Sequence[int], bits: int) -> NewtonSums:
        """From the integers of the total, whose unit is 2^-bits."""
        numbers = np.array([one / 2**bits for one in integers])
        d = round((math.sqrt(8 * (len(numbers) - 3) + 9) - 3) / 2)
        triangle = np.zeros((d, d))
        triangle[np.triu_indices(d)] = numbers[3 + d :]
        information = triangle + np.triu(triangle, 1).T
        return cls(float(numbers[0]), float(numbers[1]), float(numbers[2]), numbers[3 : 3 + d], information)


class Fitted(NamedTuple):
    """Coefficients of scaled columns with their covariance, the last sums, and how many totals it took.

    The last step is so short that the likelihood is a parabola on it.

    Examples
    --------
    See ``maximise``, which makes one.
    """

    beta: Floats
    covariance: Floats
    sums: NewtonSums
    iterations: int

    @property
    def likelihood(self) -> float:
        """Its logarithm, behind the last step."""
        return self.sums.likelihood + float(self.sums.gradient @ self.covariance @ self.sums.gradient) / 2


class Likelihood:
    """A likelihood that can be asked for at coefficients.

    model: whose it is. spread: which coefficients are estimated; the others stay 0.
    statistic: its sums, laid out as those of ``newton``.

    Examples
    --------
    See ``codedfl.analyses.glm``, which has one.
    """

    statistic: ClassVar[type[Rounded]]

    model: StudyModel
    _final: StudyModel

    def __init__(self, totals: Totals, model: StudyModel, spread: Spread) -> None:
        assert isinstance(model, Bounded)
        self.model, self.spread, self.bound = model, spread, model.bound
        self._totals, self._final = totals, totals.final_of(model)

    def ask(self, beta: Floats) -> Ask:
        """For the sums at these coefficients."""
        return self._totals.ask(self.statistic.name, self.model, beta)

    def read(self, integers: list[int], beta: Floats) -> NewtonSums:
        """What the total says."""
        return NewtonSums.of(integers, self.statistic(self._totals.final, beta, self._final).bits)

    def penalty(self, sums: NewtonSums) -> Floats:
        """Of half the square of each coefficient; none."""
        return np.zeros(len(sums.gradient))

    def on_columns(self, beta: Floats) -> Floats:
        """The coefficients of a constant and of the scaled columns."""
        return beta

    def reach(self, beta: Floats) -> float:
        """The largest that the linear predictor can be over the ranges, as a share of what a device accepts."""
        ends = predictor_range(self._totals.final, self._final, self.on_columns(beta))
        return max(map(abs, ends)) / self.bound

    def beyond(self, beta: Floats) -> str:
        """Why there is no maximum, where the likelihood grows towards coefficients that no device accepts."""
        raise NotImplementedError


def maximise(totals: Totals, problem: Likelihood, beta: Floats, close: float = _CLOSE) -> Generator[Ask, Any, Fitted]:
    """Newton with a penalty; a step that makes the likelihood worse is halved, one beyond the bound is cut.

    close: the last step in standard errors: what is left then is about its square.

    Examples
    --------
    See ``codedfl.analyses.glm.glm``, which does it from what the Gram matrix says.
    """
    penalty: Floats | None = None
    model, spread = problem.model, problem.spread
    best, step, at_bound, most = -math.inf, np.zeros_like(beta), 0, totals.study.most_points
    for count in range(1, most + 1):
        if len(totals.asked) >= most:
            break
        sums = problem.read((yield problem.ask(beta)), beta)
        if penalty is None:
            penalty = problem.penalty(sums)
        value = sums.likelihood - float(penalty @ beta**2) / 2
        if value < best - 1e-9 * abs(best):
            step = step / 2
            beta = beta - step
            continue
        gradient, information = sums.gradient - penalty * beta, sums.information + np.diag(penalty)
        covariance = spread(information_inverse(spread.only(information), model))
        ahead = covariance @ gradient
        if np.abs(spread.only(ahead) / np.sqrt(spread.only(np.diag(covariance)))).max() < close:
            return Fitted(beta + ahead, covariance, sums, count)
        following = towards(beta, beta + ahead, problem.reach)
        at_bound = at_bound + 1 if (following != beta + ahead).any() else 0
        if at_bound > 2:
            raise InvalidInput(problem.beyond(beta + ahead))
        best, step, beta = value, following - beta, following
    if best > -math.inf and sums.best - sums.likelihood < _PERFECT * sums.weight:
        raise InvalidInput(problem.beyond(beta))
    raise InvalidInput(
        f"points must be more than {most} for the model {model.name!r} to be fitted, got no convergence: give"
        f" {'it a ridge penalty (regularisation), or ' * hasattr(model, 'regularisation')}the study more points"
    )


def towards(old: Floats, new: Floats, reach: Callable[[Floats], float]) -> Floats:
    """``new``, or as far towards it from ``old`` as what a device accepts allows.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.maximum import towards
    >>> towards(np.zeros(1), np.ones(1), lambda point: 2.0 * float(point[0])).round(3)
    array([0.478])
    """
    share = 1.0
    for _ in range(60):
        point = old + share * (new - old)
        if reach(point) <= _WITHIN:
            return np.asarray(point)
        share *= 0.9
    return old


def information_inverse(information: Floats, model: StudyModel) -> Floats:
    """Of a matrix that is scaled first; one without an inverse comes of fitted means that are all 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.maximum import information_inverse
    >>> from codedfl.contract.models.logistic import LogisticModel
    >>> information_inverse(np.diag([2.0, 4.0]), LogisticModel("m", ("age",)))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    size = np.sqrt(np.diag(information))
    if not size.all():
        raise InvalidInput(_flat(model))
    scaled = information / np.outer(size, size)
    values, vectors = np.linalg.eigh(scaled)
    if values[0] <= _DEPENDENT * values[-1]:
        raise InvalidInput(_flat(model))
    return np.asarray((vectors / values) @ vectors.T / np.outer(size, size))


def _flat(model: StudyModel) -> str:
    return (
        f"columns of the model {model.name!r} must leave its means uncertain, got some that tell the target without"
        " error (separation): give it a ridge penalty (regularisation), or leave columns out"
    )
