"""What a step of Newton's iteration for proportional odds needs, at thresholds and coefficients."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.ordinal import ProportionalOddsModel
from codedfl.contract.study import Study
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput
from codedfl.exact.portable import portable_log
from codedfl.statistics.families import Binomial
from codedfl.statistics.newton import Iterated, linear_predictor, n_coefficients, scaled_design
from codedfl.statistics.rounded import SumOfRows, products
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Integers

LEAST_GAP = 0.02  # between two thresholds


@register_statistic
class Ordinal(Iterated, SumOfRows):
    """Log-likelihood, gradient and curvature over the training rows, laid out as those of ``newton``.

    The point is the thresholds between the classes, ascending, then a coefficient per design column of the model, each
    column divided by its largest size.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.ordinal import ProportionalOddsModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> from codedfl.statistics.ordinal import Ordinal
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> model = ProportionalOddsModel("stage", ("age",))
    >>> study = Study("s", (age,), ClassTarget("stage", ("I", "II", "III")), 5000, 1000, 3, models=(model,))
    >>> Ordinal(study, np.array([-1.0, 1.0, 0.0]), model).length
    12
    """

    name: ClassVar[str] = "ordinal"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points", "classes"})
    shows: ClassVar[str] = (
        "Sums weighted by what the coefficients predict for each row. A malicious server chooses these and the"
        " thresholds, within the bound and the number of points that the study states."
    )
    summed: ClassVar[str] = "sums of the columns and of their products by class, weighted by what the model predicts"

    def _begin(self) -> None:
        """Thresholds ascend, and all are within the bound."""
        assert isinstance(self.model, ProportionalOddsModel)
        self._ordinal, columns = self.model, n_coefficients(self.study, self.model) - 1
        self._thresholds, self._beta = np.split(self.point, [len(self.point) - columns])
        if not thresholds_fit(self._thresholds, self._ordinal.bound):
            raise InvalidInput(f"thresholds of {self._ordinal.name!r} must ascend by {LEAST_GAP:g} within the bound")
        super()._begin()

    @property
    def beta(self) -> Floats:
        """Thresholds stand for the constant."""
        return np.append(0.0, self._beta)

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """Thresholds and coefficients."""
        assert isinstance(study.target, ClassTarget)
        return len(study.target.classes) - 1 + n_coefficients(study, model) - 1

    @cached_property
    def largest(self) -> int:
        """A slope by a threshold is at most about one by the distance to the next."""
        return int(np.ceil(self.study.max_rows * max(4.0 / LEAST_GAP**2, 2.0 * self._ordinal.bound + 9.0)))

    def terms(self, codes: Integers, target: Integers) -> Floats:
        """What each row adds: its chance is F(upper) - F(lower), each a threshold less the predictor."""
        X = scaled_design(self.study, self._ordinal, codes)[:, 1:]
        predictor, count = linear_predictor(X, self._beta), len(self._thresholds)
        ends = []
        for place in (target, target - 1):  # the threshold above, and the one below
            there = (place >= 0) & (place < count)
            chance = Binomial().mean(self._thresholds[np.clip(place, 0, count - 1)] - predictor)
            chance = np.where(there, chance, (place >= count) * 1.0)
            z = np.hstack((np.equal(place[:, None], np.arange(count)) * 1.0, -X))
            ends.append((chance, chance * (1.0 - chance), z))
        (above, up, z_up), (below, down, z_down) = ends
        own = above - below
        first, second = up / own, -down / own
        gradient = first[:, None] * z_up + second[:, None] * z_down
        bend = products(z_up, up * (1.0 - 2.0 * above) / own) - products(z_down, down * (1.0 - 2.0 * below) / own)
        curvature = products(gradient, np.ones(len(X))) - bend
        ones = np.ones(len(X))
        return np.hstack((np.stack((ones, portable_log(own), 0.0 * ones), axis=1), gradient, curvature))


def thresholds_fit(thresholds: Floats, bound: float) -> bool:
    """Whether a device accepts them.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.ordinal import thresholds_fit
    >>> thresholds_fit(np.array([-1.0, 1.0]), 10.0), thresholds_fit(np.array([1.0, 0.0]), 10.0)
    (True, False)
    """
    return bool(np.abs(thresholds).max() <= bound and (np.diff(thresholds) >= LEAST_GAP).all())
