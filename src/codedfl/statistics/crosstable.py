"""How many rows each combination of a model's columns has: counted before anything that would tell it anyway."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.combinations import FEW_CELLS, cell_places, count_cells
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Wholes


@register_statistic
class Crosstable(Statistic):
    """Training rows of each combination, and on how many devices each combination occurs.

    Examples
    --------
    >>> from codedfl.contract.models.logistic import LogisticModel
    >>> from codedfl.contract.study import ClassTarget, Study, StudyColumn
    >>> from codedfl.data.columns import CategoryColumn
    >>> from codedfl.statistics.crosstable import Crosstable
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

    def _begin(self) -> None:
        """Only for models with few combinations."""
        self._n_cells = count_cells(self.study, self.model)
        if self._n_cells > FEW_CELLS:
            raise InvalidInput(
                f"columns of the model {self.model.name!r} must have at most {FEW_CELLS} combinations to be counted,"
                f" got {self._n_cells}"
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

    def vector(self, rows: Snapshot) -> Wholes:
        """Counts, and ones where they are not zero."""
        cells = cell_places(self.study, self.model, rows.part(held_out=False).codes)
        counts = np.bincount(cells, minlength=self._n_cells)
        return np.concatenate((counts, counts > 0)).astype(np.int64)
