"""Combinations of a model's columns: how many the study allows, and which each row has."""

from __future__ import annotations

import numpy as np

from codedfl.contract.models import StudyModel
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import GAP, CategoryColumn, Column
from codedfl.typing import Integers

FEW_CELLS = 1 << 12
"""More combinations than these are not counted."""


def cell_columns(study: Study, model: StudyModel) -> list[int]:
    """Places of the study's columns that tell all that a model has of a row: derived ones follow from theirs."""
    wanted = {*model.columns, *model.uses}
    made = {factor.column for one in study.columns if one.name in wanted for factor in factors_of(one)}
    columns = enumerate(study.columns)
    return [place for place, one in columns if one.name in wanted | made and not factors_of(one)]


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
    """Codes of the study for some combinations, as ``cell_places`` counts them; 0 in columns that are not counted."""
    codes = np.zeros((len(cells), len(study.columns)), dtype=np.int64)
    for place in reversed(cell_columns(study, model)):
        one = study.columns[place]
        values = cells % _size(one)
        gap = one.range is not None and one.missing is not None
        codes[:, place] = np.where(values == _size(one) - 1, GAP, values) if gap else values
        cells = cells // _size(one)
    return codes


def _size(one: Column) -> int:
    if isinstance(one, CategoryColumn):
        return len(one.levels)
    return one.grid.n_steps + 1 + (one.missing is not None)
