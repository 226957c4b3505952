"""Times on a public grid: the interval in which each row ends or begins, and the group that it is counted with."""

from __future__ import annotations

import numpy as np

from codedfl.contract.models import TimedModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, Grid, NumberTarget
from codedfl.typing import Floats, Integers


def n_groups(study: Study, model: TimedModel) -> int:
    """How many levels the model's category has.

    Examples
    --------
    See ``codedfl.contract.cells``, which counts by group.
    """
    if not model.groups:
        return 1
    (column,) = (one for one in study.columns if one.name == model.groups)
    assert isinstance(column, CategoryColumn)
    return len(column.levels)


def groups_of(study: Study, model: TimedModel, rows: Snapshot) -> Integers:
    """The group of each row.

    Examples
    --------
    See ``codedfl.contract.cells``, which counts by group.
    """
    if not model.groups:
        return np.zeros(len(rows), dtype=np.int64)
    return rows.codes[:, study.table_columns.names.index(model.groups)]


def ends_of(study: Study, rows: Snapshot, times: Floats) -> Integers:
    """The number of the interval in which each time ends: a time counts as the next of these; the last is beyond all.

    Examples
    --------
    See ``codedfl.contract.cells``, which counts them.
    """
    assert isinstance(study.target, NumberTarget)
    return _interval(study.target.grid, rows.target, times)


def begins_of(study: Study, model: TimedModel, rows: Snapshot, times: Floats) -> Integers:
    """The first of the times at which each row is at risk: a beginning counts as the next of these, but at the start.

    Examples
    --------
    See ``codedfl.contract.cells``, which counts them.
    """
    if not model.begin:
        return np.zeros(len(rows), dtype=np.int64)
    place = study.table_columns.names.index(model.begin)
    grid = study.columns[place].grid
    return _interval(grid, rows.codes[:, place], np.append(grid.range[0], times))


def _interval(grid: Grid, codes: Integers, times: Floats) -> Integers:
    # A grid's value may be off by rounding from a time that is meant to be the same.
    return np.searchsorted(times + 1e-6 * grid.step, grid.values(codes)).astype(np.int64)
