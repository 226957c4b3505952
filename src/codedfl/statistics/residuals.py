"""How many residuals of a linear model lie in each part of a grid: of residual deviations, which the server names."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.residuals import ResidualsModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.statistics.newton import MOST_PREDICTION, linear_predictor, n_coefficients, refuse_beyond, scaled_design
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Wholes

EDGES = np.arange(-16, 17) / 4
"""In residual deviations: from -4 to 4 by quarters; what lies beyond has a part at either end."""


@register_statistic
class Residuals(Statistic):
    """Training rows whose residual lies below -4 deviations, in each quarter up to 4, and above.

    The point is the coefficients of a constant and the scaled columns, which predict the target in half ranges, and the
    deviation in half ranges.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.residuals import ResidualsModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.residuals import Residuals
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> model = ResidualsModel("stay", ("age",))
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> Residuals(study, np.array([0.0, 0.0, 0.1]), model).length
    34
    """

    name: ClassVar[str] = "residuals"
    tells: ClassVar[frozenset[str] | None] = frozenset({"points"})
    of_model: ClassVar[bool] = True
    shows: ClassVar[str] = (
        "A malicious server names other coefficients, chosen so that the counts divide the rows where it likes, in"
        f" {len(EDGES) + 1} parts of any linear combination of the columns and the target."
    )

    def _begin(self) -> None:
        """A deviation is positive."""
        if not self.point[-1] > 0:
            raise InvalidInput(f"the deviation in a point of residuals must be above 0, got {self.point[-1]:g}")
        refuse_beyond(self.study, self.model, self.point[:-1], MOST_PREDICTION)

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = ", ".join(one.name for one in study.models if isinstance(one, ResidualsModel))
        return f"how many residuals of a model that the server names lie in each of {len(EDGES) + 1} parts ({models})"

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """The coefficients, and the deviation."""
        return n_coefficients(study, model) + 1

    @property
    def length(self) -> int:
        """One count per part."""
        return len(EDGES) + 1

    def vector(self, rows: Snapshot) -> Wholes:
        """Each row by itself."""
        rows = rows.part(held_out=False)
        predicted = linear_predictor(scaled_design(self.study, self.model, rows.codes), self.point[:-1])
        truth = self.study.target.design(rows.target)[:, 0] / float(self.study.target_units.limit[0])
        places = np.searchsorted(EDGES, (truth - predicted) / self.point[-1])
        return np.bincount(places, minlength=self.length).astype(np.int64)
