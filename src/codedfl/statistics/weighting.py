"""The chance of a treatment, and sums weighted by its inverse."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.weighting import IptwModel
from codedfl.contract.study import Study
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.families import Binomial, Family
from codedfl.statistics.newton import Newton, n_coefficients, scaled_design
from codedfl.statistics.rounded import products
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Integers


class Treated(Newton):
    """A model of the treatment, which is a column of the table.

    Examples
    --------
    See ``Propensity``, which is one.
    """

    def treated(self, codes: Integers) -> Floats:
        """1 of those who were, else 0."""
        assert isinstance(self.model, IptwModel)
        return self._values(self.model.treatment, codes)

    def odds(self, codes: Integers) -> tuple[Floats, Floats, Floats]:
        """Of each row the treatment, what the model leaves of it, and the odds that it had not what it had."""
        treated, chance = self.treated(codes), Binomial().mean(self.predictor(codes))
        return treated, treated - chance, np.where(treated == 1.0, (1.0 - chance) / chance, chance / (1.0 - chance))


@register_statistic
class Propensity(Treated):
    """As ``newton`` for a logistic model of the treatment.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.weighting import IptwModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.weighting import Propensity
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> drug = NumberColumn("drug", (0.0, 1.0), 1.0, in_model=False)
    >>> model = IptwModel("effect", ("age",), treatment="drug")
    >>> study = Study("s", (age, drug), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> Propensity(study, np.zeros(2), model).length
    8
    """

    name: ClassVar[str] = "propensity"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points"})
    summed: ClassVar[str] = (
        "sums of the columns and of their products, weighted by the chance of the treatment that a model predicts"
    )
    points: ClassVar[str] = "points"

    @property
    def family(self) -> Family:
        """Whatever the study's target is."""
        return Binomial()

    def outcome(self, codes: Integers, target: Integers) -> Floats:
        """The treatment."""
        del target
        return self.treated(codes)


@register_statistic
class Weighted(Treated):
    """Sums with weights w that are the inverse of the chance of the treatment that a row had.

    For the rows without and with the treatment: of w x, w (y - mean), w^2 and the slope of w (y - mean) by the
    coefficients; then the upper triangle of the products of all scores: of the coefficients and of both means. The
    point is the coefficients and both means, of a target that is 0 or 1 or lies between -1 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.weighting import IptwModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.weighting import Weighted
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> drug = NumberColumn("drug", (0.0, 1.0), 1.0, in_model=False)
    >>> model = IptwModel("effect", ("age",), treatment="drug")
    >>> study = Study("s", (age, drug), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> Weighted(study, np.zeros(4), model).length
    22
    """

    name: ClassVar[str] = "weighted"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points"})
    shows: ClassVar[str] = (
        "Sums of columns, target and their products by treatment, weighted by the inverse of chances that the server"
        " chooses within the bound, so that rows with the largest weights count most."
    )

    def _begin(self) -> None:
        """As for ``newton``; means lie where targets do."""
        super()._begin()
        if np.abs(self.point[-2:]).max() > 1.0:
            raise InvalidInput(f"both means of {self.model.name!r} must lie between -1 and 1")

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        return (
            "sums of the columns and of the target, and products, by treatment, weighted by the inverse of its chance"
            f" ({cls.named(study)})"
        )

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """Two more than for ``newton``."""
        return n_coefficients(study, model) + 2

    @property
    def length(self) -> int:
        """Four sums by treatment, and a triangle."""
        d = len(self.point) - 2
        return 2 * (2 * d + 2) + (d + 2) * (d + 3) // 2

    @cached_property
    def largest(self) -> int:
        """From the largest weight."""
        weight = 1.0 + np.exp(self._glm.bound)
        return int(np.ceil(self.study.max_rows * 4.0 * weight * weight))

    def terms(self, codes: Integers, target: Integers) -> Floats:
        """What each row adds."""
        X, y = scaled_design(self.study, self._glm, codes), self._scaled(target)
        treated, left, odds_of_all = self.odds(codes)
        parts, scores = [], [left[:, None] * X]
        for arm, mean in enumerate(self.point[-2:]):
            here = treated == arm
            odds, weight = np.where(here, odds_of_all, 0.0), np.where(here, 1.0 + odds_of_all, 0.0)
            score = weight * (y - mean)
            slope = (odds * (y - mean) * (1.0 if arm else -1.0))[:, None] * X
            parts += [weight[:, None] * X, score[:, None], (weight * weight)[:, None], slope]
            scores.append(score[:, None])
        return np.hstack((*parts, products(np.hstack(scores), np.ones(len(X)))))

    def _scaled(self, target: Integers) -> Floats:
        if isinstance(self.study.target, ClassTarget):
            return target.astype(np.float64)
        return self.study.target.design(target)[:, 0] / float(self.study.target_units.limit[0])
