"""Times until an event, weighted by the inverse of the chance of the treatment: tables by arm, scores for errors."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.weighting import IptwCoxModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.contract.timing import ends_of
from codedfl.errors import InvalidInput
from codedfl.statistics.newton import n_coefficients, scaled_design
from codedfl.statistics.rounded import products, row_sums
from codedfl.statistics.statistic import register_statistic
from codedfl.statistics.weighting import Treated
from codedfl.typing import Floats, Integers, Wholes

MOST_SCORE = 16.0  # of a row, without its weight


class _Timed(Treated):
    """What both have in common: coefficients of the propensity, and times."""

    def _begin(self) -> None:
        """As for ``newton``."""
        assert isinstance(self.model, IptwCoxModel)
        self._d, self._timed = n_coefficients(self.study, self.model), self.model
        self._times = np.array(self._timed.times)
        super()._begin()

    def _ends(self, rows: Snapshot) -> tuple[Integers, Floats]:
        """The interval in which each row ends, and 1 if it does with the event."""
        ends = ends_of(self.study, rows, self._times)
        event = rows.codes[:, self.study.table_columns.names.index(self._timed.event)] == 1
        return ends, (event & (ends < len(self._times))).astype(np.float64)


@register_statistic
class WeightedTimes(_Timed):
    """The weights of those who leave in each interval, and of those who do so with the event, by treatment.

    The point is the coefficients of the propensity.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.weighting import IptwCoxModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.weighted_times import WeightedTimes
    >>> names = ("drug", "died")
    >>> beside = tuple(NumberColumn(one, (0.0, 1.0), 1.0, in_model=False) for one in names)
    >>> columns = (NumberColumn("age", (0.0, 120.0), 1.0), *beside)
    >>> model = IptwCoxModel("effect", ("age",), "died", (30.0, 60.0), treatment="drug")
    >>> study = Study("s", columns, NumberTarget("days", (0.0, 90.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> WeightedTimes(study, np.array([0.0, 0.0]), model).length
    12
    """

    name: ClassVar[str] = "weighted-times"
    tells: ClassVar[frozenset[str] | None] = frozenset({"times", "columns", "points"})
    shows: ClassVar[str] = (
        "How many leave in an interval, enough people by the census, weighted by the inverse of chances that the server"
        " chooses within the bound."
    )

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        return f"the weights of those who leave in each interval, by treatment and event ({cls.named(study)})"

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """Coefficients."""
        assert isinstance(model, IptwCoxModel)
        return n_coefficients(study, model)

    @property
    def length(self) -> int:
        """All and events, by arm and interval; the last is beyond the grid."""
        return 4 * (len(self._times) + 1)

    @cached_property
    def largest(self) -> int:
        """From the largest weight."""
        return int(np.ceil(self.study.max_rows * (1.0 + np.exp(self._glm.bound))))

    def vector(self, rows: Snapshot) -> Wholes:
        """Rounded row by row."""
        rows = rows.part(held_out=False)
        treated, _, odds = self.odds(rows.codes)
        ends, event = self._ends(rows)
        width = len(self._times) + 1
        sums = []
        for weight in (1.0 + odds, (1.0 + odds) * event):
            place = treated.astype(np.int64) * width + ends
            parts = [row_sums(weight[place == one][:, None], self.bits)[0] for one in range(2 * width)]
            sums.append(np.array(parts, dtype=object))
        return np.concatenate(sums)


@register_statistic
class WeightedScores(_Timed):
    """Products of the scores of the propensity and of the hazard ratio, and how the second moves with the first.

    A row's score of the hazard ratio is its weight times a sum of numbers that the point has for each interval and arm:
    of those in which it is at risk, and of the one in which it has the event. The vector is the slope of these scores
    by the coefficients, and the upper triangle of the products of all scores. The point is that of ``weighted-times``,
    then numbers at risk, and numbers with the event, by arm and time.

    Examples
    --------
    See ``codedfl.analyses.weighted_times``, which makes the point.
    """

    name: ClassVar[str] = "weighted-scores"
    tells: ClassVar[frozenset[str] | None] = frozenset({"times", "columns", "points"})
    shows: ClassVar[str] = (
        "Products of columns weighted by what rows say of a hazard ratio, by numbers for each time that the server"
        " chooses within a bound, so that rows of one interval may count most."
    )

    def _begin(self) -> None:
        """No row's score is beyond the bound."""
        super()._begin()
        numbers = self.point[self._d :].reshape(4, -1)
        self._at_risk, self._with_event = numbers[:2], numbers[2:]
        most = np.abs(self._at_risk).sum(axis=1).max() + np.abs(self._with_event).max()
        if most > MOST_SCORE:
            raise InvalidInput(f"scores of {self._timed.name!r} must be at most {MOST_SCORE:g} in size, got {most:g}")

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        return f"products of the columns weighted by what each row says of the hazard ratio ({cls.named(study)})"

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """Four numbers for each time behind that of ``weighted-times``."""
        assert isinstance(model, IptwCoxModel)
        return n_coefficients(study, model) + 4 * len(model.times)

    @property
    def length(self) -> int:
        """A slope and a triangle."""
        return self._d + (self._d + 1) * (self._d + 2) // 2

    @cached_property
    def largest(self) -> int:
        """From the largest weight and score."""
        return int(np.ceil(self.study.max_rows * ((1.0 + np.exp(self._glm.bound)) * MOST_SCORE) ** 2))

    def vector(self, rows: Snapshot) -> Wholes:
        """Rounded row by row."""
        rows = rows.part(held_out=False)
        X = scaled_design(self.study, self._glm, rows.codes)
        treated, left, odds = self.odds(rows.codes)
        ends, event = self._ends(rows)
        arm = treated.astype(np.int64)
        until = np.minimum(ends, len(self._times) - 1)
        score = np.cumsum(self._at_risk, axis=1)[arm, until] + event * self._with_event[arm, until]
        slope = (odds * score * np.where(arm == 1, 1.0, -1.0))[:, None] * X
        scores = np.hstack((left[:, None] * X, ((1.0 + odds) * score)[:, None]))
        return row_sums(np.hstack((slope, products(scores, np.ones(len(X))))), self.bits)
