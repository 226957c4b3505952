"""What a step of Newton's iteration for a negative binomial model needs, at coefficients and a logarithm of alpha."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.exact.portable import portable_exp, portable_log
from codedfl.statistics.families import target_values
from codedfl.statistics.newton import Newton, n_coefficients, scaled_design
from codedfl.statistics.rounded import products
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Integers

MOST_LOG_ALPHA = 7.0


@register_statistic
class Negative(Newton):
    """Gradient, curvature and log-likelihood over the training rows, by the coefficients and the logarithm of alpha.

    The vector is that of ``newton`` with one more parameter, the last; the curvature is the observed one. The point is
    that of ``newton`` and the logarithm of alpha.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.negative import NegativeBinomialModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.negative import Negative
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> model = NegativeBinomialModel("visits", ("age",))
    >>> study = Study("s", (age,), NumberTarget("visits", (0.0, 60.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> Negative(study, np.zeros(3), model).length
    12
    """

    name: ClassVar[str] = "negative"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points"})
    summed: ClassVar[str] = (
        "sums of the columns and of their products, weighted by what a negative binomial model predicts, and its"
        " likelihood"
    )
    points: ClassVar[str] = "points"

    def _begin(self) -> None:
        """As for ``newton``, and alpha within limits."""
        super()._begin()
        if abs(self.point[-1]) > MOST_LOG_ALPHA:
            raise InvalidInput(
                f"the logarithm of alpha of {self.model.name!r} must be at most {MOST_LOG_ALPHA:g} in size, got"
                f" {self.point[-1]:g}"
            )

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """One more than for ``newton``."""
        return n_coefficients(study, model) + 1

    @cached_property
    def largest(self) -> int:
        """The mean, and the logarithms of gamma functions, bound every term."""
        top, bound = max(1.0, self._top), self._glm.bound
        most = 2.0 * (np.exp(bound) + top * (2.0 * bound + 2.0 * np.log(top) + 20.0))
        return int(np.ceil(self.study.max_rows * most * max(self.most_weight, 1.0)))

    @property
    def _top(self) -> float:
        target = self.study.target
        return float(getattr(target, "range", (0.0, 1.0))[1])

    def terms(self, codes: Integers, target: Integers) -> Floats:
        """What each row adds; sums over j below a count are tables up to the end of the range."""
        X, weight, y = (
            scaled_design(self.study, self._glm, codes),
            self.weight(codes),
            target_values(self.study, target),
        )
        alpha = float(portable_exp(self.point[-1:])[0])
        mean = portable_exp(self.predictor(codes))
        likelihood, best = (self._likelihood(y, one, alpha) for one in (mean, y))
        ratio, spread = 1.0 + alpha * mean, 1.0 + alpha * y
        first, second = self._sums_below(y, alpha)
        log = portable_log(ratio) / alpha
        slope = (y - mean) / ratio
        of_alpha = first + log - spread * mean / ratio
        curvature = mean * spread / (ratio * ratio)
        across = slope * alpha * mean / ratio
        along = -second + log - mean / ratio + alpha * y * mean / ratio - spread * alpha * mean * mean / (ratio * ratio)
        # The triangle, row by row, of all parameters: each row of x x' is followed by its entry with alpha.
        d = X.shape[1]
        whole = np.empty((len(X), (d + 1) * (d + 2) // 2))
        rows, columns = np.triu_indices(d + 1)
        whole[:, columns < d] = products(X, weight * curvature)
        whole[:, (columns == d) & (rows < d)] = (weight * across)[:, None] * X
        whole[:, -1] = weight * along
        sums = np.stack((weight, weight * likelihood, weight * best), axis=1)
        gradient = np.hstack(((weight * slope)[:, None] * X, (weight * of_alpha)[:, None]))
        return np.hstack((sums, gradient, whole))

    def _likelihood(self, y: Floats, mean: Floats, alpha: float) -> Floats:
        below = np.arange(self._top)
        table = np.concatenate(([0.0], np.cumsum(portable_log(1.0 + alpha * below) - portable_log(below + 1.0))))
        log_mean = portable_log(np.where(mean > 0, mean, 1.0))
        return table[y.astype(np.int64)] + y * log_mean - (y + 1.0 / alpha) * portable_log(1.0 + alpha * mean)

    def _sums_below(self, y: Floats, alpha: float) -> tuple[Floats, Floats]:
        """Of j alpha / (1 + j alpha), and of its slope by the logarithm of alpha."""
        part = alpha * np.arange(self._top)
        one, two = (np.concatenate(([0.0], np.cumsum(each))) for each in (part / (1 + part), part / (1 + part) ** 2))
        return one[y.astype(np.int64)], two[y.astype(np.int64)]
