"""The target summed over each combination of a model's columns: every logistic or Poisson model of them follows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.combinations import FEW_CELLS, cell_places, count_cells
from codedfl.contract.models.table import TableModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import NumberTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.families import family_of, target_values
from codedfl.statistics.rounded import row_sums
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Wholes

BITS = 30  # of the two sums of logarithms


@register_statistic
class Contingency(Statistic):
    """Training rows of each combination, and the sum of their targets: of counts, or of 1 for the second class.

    Behind them are two sums over all rows that tell a likelihood's constant: at a linear predictor of 0, and the
    largest there could be.

    Examples
    --------
    >>> from codedfl.contract.models.table import TableModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import CategoryColumn, ClassTarget
    >>> from codedfl.statistics.contingency import Contingency
    >>> ward = CategoryColumn("ward", ("a", "b", "c"))
    >>> model = TableModel("ill", ("ward",))
    >>> study = Study("stays", (ward,), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3, models=(model,))
    >>> Contingency(study, model=model).length
    8
    """

    name: ClassVar[str] = "contingency"
    tells: ClassVar[frozenset[str] | None] = frozenset({"combinations"})
    of_model: ClassVar[bool] = True
    shows: ClassVar[str] = (
        "The sum of the target over each combination of columns, each of which has enough people by the census."
    )

    def _begin(self) -> None:
        """Only for few combinations: those the census has counted."""
        found = count_cells(self.study, self.model)
        if found > FEW_CELLS:
            raise InvalidInput(
                f"columns of the model {self.model.name!r} must have at most {FEW_CELLS} combinations to be counted,"
                f" got {found}"
            )

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = [f"{one.name}: {count_cells(study, one)}" for one in study.models if isinstance(one, TableModel)]
        return f"rows and the sum of the target, for each combination of the columns of a model ({', '.join(models)})"

    @property
    def length(self) -> int:
        """Two numbers per combination, and two."""
        return 2 * count_cells(self.study, self.model) + 2

    @property
    def limit(self) -> int:
        """Logarithms of counts are larger than the counts."""
        most = self.study.target.range[1] if isinstance(self.study.target, NumberTarget) else 1.0
        return self.study.max_rows * int(np.ceil((most + 1) * (np.log(most + 1) + 2))) << BITS

    def vector(self, rows: Snapshot) -> Wholes:
        """Whole numbers, and two sums of rounded terms."""
        rows, target = rows.part(held_out=False), self.study.target
        cells = cell_places(self.study, self.model, rows.codes)
        y = target.grid.values(rows.target).astype(np.int64) if isinstance(target, NumberTarget) else rows.target
        sums = np.zeros((2, count_cells(self.study, self.model)), dtype=np.int64)
        np.add.at(sums[0], cells, 1)
        np.add.at(sums[1], cells, y)
        family, values = family_of(self.study, self.model), target_values(self.study, rows.target)
        likelihood, best, _, _ = family.terms(values, np.zeros(len(rows)))
        logs = row_sums(np.stack((likelihood, best), axis=1), BITS)
        return np.concatenate((sums.ravel().astype(object), logs))
