"""When times end, by group: first only how many in each interval, then events and times cut short in intervals."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel, SurvivalModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import NumberTarget, Study
from codedfl.data.columns import CategoryColumn
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Floats, Integers, Wholes


class _Times(Statistic):
    """What both statistics have in common: groups, and the interval in which each time ends."""

    of_model: ClassVar[bool] = True

    def _begin(self) -> None:
        assert isinstance(self.model, SurvivalModel) and isinstance(self.study.target, NumberTarget)
        self._survival, self._grid = self.model, self.study.target.grid
        self._group = self.study.table_columns.names.index(self.model.columns[0])
        self.n_groups = n_groups(self.study, self.model)

    def _placed(self, rows: Snapshot, times: Floats) -> tuple[Integers, Integers]:
        """Of each row the group, and the number of the interval in which its time ends: len(times) is beyond all."""
        # A grid's value may be off by rounding from a time that is meant to be the same.
        places = np.searchsorted(times + 1e-6 * self._grid.step, self._grid.values(rows.target))
        return rows.codes[:, self._group], places.astype(np.int64)


@register_statistic
class Ends(_Times):
    """How many training rows of each group have a time that ends in each interval.

    Examples
    --------
    >>> from codedfl.contract.models import SurvivalModel
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import CategoryColumn, NumberColumn
    >>> from codedfl.statistics.survival import Ends
    >>> ward = StudyColumn(CategoryColumn("ward", ("a", "b")))
    >>> died = StudyColumn(NumberColumn("died", in_model=False), (0.0, 1.0), 1.0)
    >>> model = SurvivalModel("m", ("ward",), "died", (30.0, 60.0))
    >>> days = NumberTarget("days", (0.0, 90.0), 1.0)
    >>> Ends(Study("stays", (ward, died), days, 5000, 1000, 3, models=(model,)), model=model).length
    6
    """

    name: ClassVar[str] = "ends"
    shows: ClassVar[str] = "That few times of a group end in an interval, but not whose."

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        return f"how many times of each group end in each interval of a public grid ({_named(study)})"

    @property
    def length(self) -> int:
        """A count per group and interval; the last interval is beyond the grid."""
        return self.n_groups * (len(self._survival.times) + 1)

    def vector(self, rows: Snapshot) -> Wholes:
        """Counts of each group, one group after the other."""
        groups, places = self._placed(rows.part(held_out=False), np.array(self._survival.times))
        counts = np.bincount(groups * (len(self._survival.times) + 1) + places, minlength=self.length)
        return counts.astype(np.int64)


@register_statistic
class Survival(_Times):
    """Events and times cut short of each group in each interval. The point says which times of the grid end one.

    Examples
    --------
    See ``Ends``, which is asked for first; the point is 1 for each time that is kept, else 0.
    """

    name: ClassVar[str] = "survival"
    shows: ClassVar[str] = (
        "How many people of a group are at risk before and after an interval, and so how many events it has. An honest"
        " server joins intervals in which few times end; one that lies joins none."
    )

    def _begin(self) -> None:
        """The point is zeros and ones."""
        super()._begin()
        if set(self.point.tolist()) - {0.0, 1.0} or not self.point.any():
            raise InvalidInput("the point of survival must be 0 or 1 for each time, and 1 for some")
        self._kept = np.array(self._survival.times)[self.point == 1.0]

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        return f"how many times of each group end with the event and without it, in joined intervals ({_named(study)})"

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """One for each time."""
        del study
        assert isinstance(model, SurvivalModel)
        return len(model.times)

    @property
    def length(self) -> int:
        """Events and others, per group and interval; beyond the grid there are others alone."""
        return 2 * self.n_groups * (len(self._kept) + 1)

    def vector(self, rows: Snapshot) -> Wholes:
        """Others first; an event beyond the last time is none."""
        rows, width = rows.part(held_out=False), len(self._kept) + 1
        groups, places = self._placed(rows, self._kept)
        events = rows.codes[:, self.study.table_columns.names.index(self._survival.event)]
        events = np.where(places == width - 1, 0, events)
        counts = np.bincount((events * self.n_groups + groups) * width + places, minlength=self.length)
        return counts.astype(np.int64)


def n_groups(study: Study, model: SurvivalModel) -> int:
    """How many levels the model's category has.

    Examples
    --------
    See ``Ends``, which counts by group.
    """
    (column,) = (one.column for one in study.columns if one.column.name == model.columns[0])
    assert isinstance(column, CategoryColumn)
    return len(column.levels)


def _named(study: Study) -> str:
    models = (one for one in study.models if isinstance(one, SurvivalModel))
    return "; ".join(f"{one.name}: {len(one.times)} times" for one in models)
