"""When times end, by group: first only how many in each interval, then events and times cut short in intervals."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel, TimedModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import NumberTarget, Study
from codedfl.contract.study_columns import Grid
from codedfl.data.columns import CategoryColumn
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Floats, Integers, Wholes


class _Times(Statistic):
    """What both statistics have in common: groups, and the interval in which each time ends."""

    of_model: ClassVar[bool] = True

    def _begin(self) -> None:
        assert isinstance(self.model, TimedModel) and isinstance(self.study.target, NumberTarget)
        self._survival, self._grid = self.model, self.study.target.grid
        self.n_groups = n_groups(self.study, self.model)

    def _placed(self, rows: Snapshot, times: Floats) -> tuple[Integers, Integers]:
        """Of each row the group, and the number of the interval in which its time ends: len(times) is beyond all."""
        return groups_of(self.study, self._survival, rows), ends_of(self.study, rows, times)


@register_statistic
class Ends(_Times):
    """How many training rows of each group have a time that ends in each interval; behind them, that begins in it.

    Beginnings are counted only where a column says them; rows that begin at the start are not.

    Examples
    --------
    >>> from codedfl.contract.models.survival import SurvivalModel
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
        return (2 if self._survival.begin else 1) * self.n_groups * self._width

    @property
    def _width(self) -> int:
        return len(self._survival.times) + 1

    def vector(self, rows: Snapshot) -> Wholes:
        """Counts of each group, one group after the other."""
        rows, times = rows.part(held_out=False), np.array(self._survival.times)
        groups, places = self._placed(rows, times)
        counts = [np.bincount(groups * self._width + places, minlength=self.n_groups * self._width)]
        if self._survival.begin:
            begins = begins_of(self.study, self._survival, rows, times)
            late = (groups * self._width + begins - 1)[begins > 0]
            counts.append(np.bincount(late, minlength=self.n_groups * self._width))
        return np.concatenate(counts).astype(np.int64)


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
        assert isinstance(model, TimedModel)
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


def n_groups(study: Study, model: TimedModel) -> int:
    """How many levels the model's category has.

    Examples
    --------
    See ``Ends``, which counts by group.
    """
    if not model.groups:
        return 1
    (column,) = (one.column for one in study.columns if one.column.name == model.groups)
    assert isinstance(column, CategoryColumn)
    return len(column.levels)


def groups_of(study: Study, model: TimedModel, rows: Snapshot) -> Integers:
    """The group of each row.

    Examples
    --------
    See ``Ends``, which counts by group.
    """
    if not model.groups:
        return np.zeros(len(rows), dtype=np.int64)
    return rows.codes[:, study.table_columns.names.index(model.groups)]


def ends_of(study: Study, rows: Snapshot, times: Floats) -> Integers:
    """The number of the interval in which each time ends: a time counts as the next of these; the last is beyond all.

    Examples
    --------
    See ``Ends``, which counts them.
    """
    assert isinstance(study.target, NumberTarget)
    return _interval(study.target.grid, rows.target, times)


def begins_of(study: Study, model: TimedModel, rows: Snapshot, times: Floats) -> Integers:
    """The first of the times at which each row is at risk: a beginning counts as the next of these, but at the start.

    Examples
    --------
    See ``Ends``, which counts them.
    """
    if not model.begin:
        return np.zeros(len(rows), dtype=np.int64)
    place = study.table_columns.names.index(model.begin)
    grid = study.columns[place].grid
    return _interval(grid, rows.codes[:, place], np.append(grid.range[0], times))


def _interval(grid: Grid, codes: Integers, times: Floats) -> Integers:
    # A grid's value may be off by rounding from a time that is meant to be the same.
    return np.searchsorted(times + 1e-6 * grid.step, grid.values(codes)).astype(np.int64)


def _named(study: Study) -> str:
    models = (one for one in study.models if isinstance(one, TimedModel))
    return "; ".join(f"{one.name}: {len(one.times)} times" for one in models)
