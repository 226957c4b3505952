"""When times end, by group: events and censored times in each interval that the census leaves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import TimedModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.contract.timing import ends_of, groups_of, n_groups
from codedfl.data.columns import NumberTarget
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Wholes


@register_statistic
class Survival(Statistic):
    """Events and censored times of each group in each interval.

    Examples
    --------
    >>> from codedfl.contract.models.survival import SurvivalModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import CategoryColumn, NumberColumn, NumberTarget
    >>> from codedfl.statistics.survival import Survival
    >>> ward = CategoryColumn("ward", ("a", "b"))
    >>> died = NumberColumn("died", (0.0, 1.0), 1.0, in_model=False)
    >>> model = SurvivalModel("m", ("ward",), "died", (30.0, 60.0))
    >>> days = NumberTarget("days", (0.0, 90.0), 1.0)
    >>> Survival(Study("stays", (ward, died), days, 5000, 1000, 3, models=(model,)), model=model).length
    12
    """

    name: ClassVar[str] = "survival"
    tells: ClassVar[frozenset[str] | None] = frozenset({"times"})
    of_model: ClassVar[bool] = True
    shows: ClassVar[str] = (
        "How many people of a group are at risk before and after an interval, and so how many events it has: of each"
        " enough people, or none, by the census."
    )

    def _begin(self) -> None:
        assert isinstance(self.model, TimedModel) and isinstance(self.study.target, NumberTarget)
        self._survival, self._times = self.model, np.array(self.model.times)
        self.n_groups = n_groups(self.study, self.model)

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = "; ".join(f"{one.name}: {len(one.times)} times" for one in study.models if isinstance(one, TimedModel))
        return f"how many times of each group end with the event and without it, in each interval ({models})"

    @property
    def length(self) -> int:
        """Events and others, per group and interval; beyond the grid there are others alone."""
        return 2 * self.n_groups * (len(self._times) + 1)

    def vector(self, rows: Snapshot) -> Wholes:
        """Others first; an event beyond the last time is none."""
        rows, width = rows.part(held_out=False), len(self._times) + 1
        groups, places = groups_of(self.study, self._survival, rows), ends_of(self.study, rows, self._times)
        events = rows.codes[:, self.study.table_columns.names.index(self._survival.event)]
        events = np.where(places == width - 1, 0, events)
        counts = np.bincount((events * self.n_groups + groups) * width + places, minlength=self.length)
        return counts.astype(np.int64)
