"""Combinations of a model's columns: how many the study allows, which each row has, how many a table has.

Iterations over columns with few combinations tell how many rows each has. Where the study allows few, a server counts
them first (``crosstable``); where it allows many, a device takes part only if its own rows do differ.
"""

from __future__ import annotations

import numpy as np

from codedfl.contract.models import StudyModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study, StudyColumn, factors_of
from codedfl.contract.study_columns import GAP
from codedfl.data.columns import CategoryColumn
from codedfl.typing import Integers

FEW_CELLS = 1 << 12
"""Columns with at most this number of combinations are taken to be told by any iteration over them."""


def iteration_objection(study: Study, rows: Snapshot) -> str:
    """Which model would iterate over columns that are nearly a cross-table in this table, uncounted; empty if none.

    A kind of model may have objections of its own.

    Ranges far wider than the values make combinations look many that are few.

    >>> from codedfl.contract.study_columns import ClassTarget
    >>> from codedfl.contract.models.logistic import LogisticModel
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 9999.0), 1.0)
    >>> model = LogisticModel("m", ("age",))
    >>> study = Study("s", (age,), ClassTarget("ill", ("no", "yes")), 1000, 300, 4, models=(model,))
    >>> rows = Snapshot(bytes(32), np.arange(60)[:, None] % 4, np.zeros(60), np.zeros(60, dtype=bool))
    >>> iteration_objection(study, rows)[:76]
    "columns of the model 'm' must have a combination of their own in most rows o"
    """
    codes = rows.part(held_out=False).codes
    named = dict(zip(study.table_columns.names, codes.T, strict=True))
    for model in study.models:
        if own := model.objection(named, study.most_points, study.smallest_cell):
            return own
        if model.iterates and count_cells(study, model) > FEW_CELLS:
            found = len(np.unique(codes[:, cell_columns(study, model)], axis=0))
            if not mostly_own(found, len(codes)):
                return (
                    f"columns of the model {model.name!r} must have a combination of their own in most rows of this"
                    f" table, got {found} in {len(codes)} rows: iterations would tell how many rows each has; ask for"
                    f" ranges and steps that allow at most {FEW_CELLS} combinations, which are counted first"
                )
    return ""


def mostly_own(found: int, rows: int) -> bool:
    """Whether most rows have a combination of their own: iterations over such tell no cross-table.

    >>> mostly_own(30, 60), mostly_own(29, 60)
    (True, False)
    """
    return 2 * found >= rows


def cell_columns(study: Study, model: StudyModel) -> list[int]:
    """Places of the study's columns that tell all that a model has of a row: derived ones follow from theirs."""
    wanted = {*model.columns, *model.uses}
    made = {factor.column for one in study.columns if one.column.name in wanted for factor in factors_of(one)}
    columns = enumerate(study.columns)
    return [place for place, one in columns if one.column.name in wanted | made and not factors_of(one)]


def count_cells(study: Study, model: StudyModel) -> int:
    """How many combinations of a model's columns there may be."""
    found = 1
    for place in cell_columns(study, model):
        found *= _size(study.columns[place])
    return found


def cell_places(study: Study, model: StudyModel, codes: Integers) -> Integers:
    """Which combination each row has."""
    places = np.zeros(len(codes), dtype=np.int64)
    for place in cell_columns(study, model):
        one, values = study.columns[place], codes[:, place]
        places = places * _size(one) + np.where(values == GAP, _size(one) - 1, values)
    return places


def cell_codes(study: Study, model: StudyModel, cells: Integers) -> Integers:
    """Codes of the study for some combinations, as ``cell_places`` counts them; 0 in columns that are not told."""
    codes = np.zeros((len(cells), len(study.columns)), dtype=np.int64)
    for place in reversed(cell_columns(study, model)):
        one = study.columns[place]
        values = cells % _size(one)
        gap = one.range is not None and one.column.missing is not None
        codes[:, place] = np.where(values == _size(one) - 1, GAP, values) if gap else values
        cells = cells // _size(one)
    return codes


def _size(one: StudyColumn) -> int:
    if isinstance(one.column, CategoryColumn):
        return len(one.column.levels)
    return one.grid.n_steps + 1 + (one.column.missing is not None)
