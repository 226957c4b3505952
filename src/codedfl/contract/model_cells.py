"""Cells of single models, for studies that have such: times until an event, combinations of columns, clusters."""

from __future__ import annotations

import numpy as np

from codedfl.contract.cell_families import NOWHERE, CellFamily, timed_models
from codedfl.contract.combinations import FEW_CELLS, cell_places, count_cells
from codedfl.contract.models import StudyModel, TimedModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.contract.timing import begins_of, ends_of, groups_of, n_groups
from codedfl.typing import Integers


def model_families(study: Study) -> list[CellFamily]:
    """The cells of all models, in the order of ``StudyCells``.

    Examples
    --------
    See ``codedfl.contract.cells``, which counts them.
    """
    found = []
    for model in timed_models(study):
        cells = n_groups(study, model) * (len(model.times) + 1)
        found.append(CellFamily("time", model.name, 2 * cells))
        if model.begin:
            found.append(CellFamily("begin", model.name, cells))
    for one in study.models:
        # Invariant: more combinations than these are refused by the statistic itself, so none is reported uncounted.
        if "combinations" in one.counted and (count := count_cells(study, one)) <= FEW_CELLS:
            found.append(CellFamily("table", one.name, count))
    clustered = (one for one in study.models if "clusters" in one.counted and getattr(one, "cluster", None))
    return [*found, *(CellFamily("cluster", one.name, 1) for one in clustered)]


def model_places(study: Study, family: CellFamily, rows: Snapshot) -> Integers:
    """Which cell of a model's family each row is in.

    Examples
    --------
    See ``codedfl.contract.cells``, which counts them.
    """
    model = next(one for one in study.models if one.name == family.of)
    if family.kind == "table":
        return cell_places(study, model, rows.codes)
    if family.kind == "cluster":
        return _of_clusters(study, model, rows)
    assert isinstance(model, TimedModel)
    return _of_times(study, family, model, rows)


def _of_times(study: Study, family: CellFamily, model: TimedModel, rows: Snapshot) -> Integers:
    times, width = np.array(model.times), len(model.times) + 1
    groups = groups_of(study, model, rows)
    if family.kind == "begin":
        begins = begins_of(study, model, rows, times)
        return np.where(begins > 0, groups * width + begins - 1, NOWHERE)
    ends = ends_of(study, rows, times)
    events = rows.codes[:, study.table_columns.names.index(model.event)]
    events = np.where(ends == width - 1, 0, events)  # one beyond the last time is none
    return (events * n_groups(study, model) + groups) * width + ends


def _of_clusters(study: Study, model: StudyModel, rows: Snapshot) -> Integers:
    """Rows of clusters that have several: errors by clusters and by rows differ by these, or by several targets."""
    codes = rows.codes[:, study.table_columns.names.index(getattr(model, "cluster", ""))]
    _, places, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    if model.discordant:
        sizes = np.bincount(np.unique(np.stack((places, rows.target)), axis=1)[0], minlength=len(sizes))
    return np.where(sizes[places] > 1, 0, NOWHERE)
