"""How many rows each combination of a model's columns has: counted before anything that would tell it anyway."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import StudyModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study, StudyColumn, factors_of
from codedfl.contract.study_columns import GAP
from codedfl.data.columns import CategoryColumn
from codedfl.errors import InvalidInput
from codedfl.exact.ring import Ring
from codedfl.statistics.statistic import NOTHING, Statistic, register_statistic
from codedfl.typing import Floats, Integers, Planes

FEW_CELLS = 1 << 12
"""Columns with at most this number of combinations are taken to be told by any iteration over them."""


@register_statistic
class Crosstable(Statistic):
    """Training rows of each combination, and on how many devices each combination occurs.

    Examples
    --------
    >>> from codedfl.contract.models import LogisticModel
    >>> from codedfl.contract.study import ClassTarget, Study, StudyColumn
    >>> from codedfl.data.columns import CategoryColumn
    >>> from codedfl.statistics import Crosstable
    >>> ward, sex = (StudyColumn(CategoryColumn(name, ("a", "b", "c"))) for name in ("ward", "sex"))
    >>> model = LogisticModel("ill", ("ward", "sex"))
    >>> study = Study("stays", (ward, sex), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3, models=(model,))
    >>> Crosstable(study, model=model).length
    18
    """

    name: ClassVar[str] = "crosstable"
    of_model: ClassVar[bool] = True
    shows: ClassVar[str] = (
        "That a combination of columns occurs in few rows, or on few devices, but neither whose nor on which."
    )
    no_noise: ClassVar[str] = "counts are exact"

    def __init__(self, study: Study, point: Floats = NOTHING, model: StudyModel | None = None) -> None:
        """Only for models with few combinations."""
        super().__init__(study, point, model)
        assert model is not None
        self._columns = cell_columns(study, model)
        self._n_cells = count_cells(study, model)
        if self._n_cells > FEW_CELLS:
            raise InvalidInput(
                f"columns of the model {model.name!r} must have at most {FEW_CELLS} combinations to be counted, got"
                f" {self._n_cells}"
            )

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For the models with few combinations."""
        few = [one for one in study.models if cls.name in one.totals and count_cells(study, one) <= FEW_CELLS]
        numbers = sum(2 * count_cells(study, one) for one in few)
        named = f" ({', '.join(one.name for one in few)}: {numbers} numbers, once)" if few else ""
        return (
            "how many rows there are of each combination of the columns of a model, and on how many devices, if there"
            f" are at most {FEW_CELLS} combinations{named or ', of which this study has no model'}"
        )

    @property
    def length(self) -> int:
        """Two counts per combination."""
        return 2 * self._n_cells

    @property
    def limit(self) -> int:
        """Every row counts once, and so does every device."""
        return self.study.max_rows

    def planes(self, ring: Ring, rows: Snapshot) -> Planes:
        """Counts, and ones where they are not zero."""
        assert self.model is not None
        cells = cell_places(self.study, self.model, rows.part(held_out=False).codes)
        counts = np.bincount(cells, minlength=self._n_cells)
        return ring.from_integers(np.concatenate((counts, counts > 0)).astype(np.int64))


def cell_columns(study: Study, model: StudyModel) -> list[int]:
    """Places of the study's columns that tell all that a model has of a row: derived ones follow from theirs.

    Examples
    --------
    See ``Crosstable``, which counts their combinations.
    """
    wanted = {*model.columns, *model.uses}
    made = {factor.column for one in study.columns if one.column.name in wanted for factor in factors_of(one)}
    columns = enumerate(study.columns)
    return [place for place, one in columns if one.column.name in wanted | made and not factors_of(one)]


def count_cells(study: Study, model: StudyModel) -> int:
    """How many combinations of a model's columns there may be.

    Examples
    --------
    See ``Crosstable``, which counts the rows of each.
    """
    found = 1
    for place in cell_columns(study, model):
        found *= _size(study.columns[place])
    return found


def cell_places(study: Study, model: StudyModel, codes: Integers) -> Integers:
    """Which combination each row has.

    Examples
    --------
    See ``Crosstable``, which counts them.
    """
    places = np.zeros(len(codes), dtype=np.int64)
    for place in cell_columns(study, model):
        one, values = study.columns[place], codes[:, place]
        places = places * _size(one) + np.where(values == GAP, _size(one) - 1, values)
    return places


def cell_codes(study: Study, model: StudyModel, cells: Integers) -> Integers:
    """Codes of the study for some combinations, as ``cell_places`` counts them; 0 in columns that are not told.

    Examples
    --------
    See ``cell_places``, which it undoes.
    """
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
