"""What comes before every other sum: of each cell whether a device has anybody in it, and whether it has enough."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.cells import StudyCells
from codedfl.contract.census import bit_marks, census_length, census_numbers
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.sum.layout import Layout
from codedfl.typing import Wholes

_MOST_OWNERS = 1 << 16


@register_statistic
class CensusBits(Statistic):
    """Three bits for each cell of the merged study, and how many rows there are at least, in powers of two.

    It is summed over one disclosure group at a time, and certified where there are more groups than owners that may
    invent: devices act upon it.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import CategoryColumn, NumberTarget
    >>> from codedfl.statistics.census import CensusBits
    >>> ward = CategoryColumn("ward", ("a", "b"))
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> CensusBits(Study("stays", (ward,), days, 5000, 1000, 3, held_out=0.0)).length
    22
    """

    name: ClassVar[str] = "census"
    tells: ClassVar[frozenset[str] | None] = frozenset()
    shows: ClassVar[str] = (
        "All devices see how many owners of some groups said each of these; where all said the same, who said what."
    )
    certified: ClassVar[bool] = True

    @classmethod
    def leaves(cls, study: Study) -> str:
        """Before all else."""
        marks = bit_marks(study.smallest_cell)
        return (
            f"of each of {StudyCells(study).count} levels, missing values, classes and intervals whether at least"
            f" {', '.join(map(str, marks[:-1]))} or {marks[-1]} people here have it; a rough number of rows"
        )

    @property
    def length(self) -> int:
        """Three bits a cell, and the sizes."""
        return census_length(self.study)

    @property
    def limit(self) -> int:
        """An owner counts once."""
        return _MOST_OWNERS

    def layout(self, n_owners: int) -> Layout:
        """Certified."""
        del n_owners
        return Layout.of_vector(self.length, self.limit, certified=True)

    def vector(self, rows: Snapshot) -> Wholes:
        """What this device says."""
        people = StudyCells(self.study).people(rows)
        held_out = int(rows.held_out.sum())
        return np.asarray(census_numbers(self.study, people, (len(rows) - held_out, held_out)))
