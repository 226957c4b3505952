"""How many rows have their target in each part of its range."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Wholes


@register_statistic
class Parts(Statistic):
    """Counts of training rows."""

    name: ClassVar[str] = "parts"
    of_model: ClassVar[bool] = True
    tells: ClassVar[frozenset[str] | None] = frozenset({"rows", "classes"})
    shows: ClassVar[str] = "How many rows have their target in each part of its range, over all devices."

    @classmethod
    def leaves(cls, study: Study) -> str:
        del study
        return "counts of the target by parts of its range (once)"

    @property
    def length(self) -> int:
        return int(self.model.parts)

    def vector(self, rows: Snapshot) -> Wholes:
        codes = rows.part(held_out=False).target
        steps = self.study.target.grid.n_steps + 1  # type: ignore[union-attr]
        return np.bincount(codes * self.length // steps, minlength=self.length)
