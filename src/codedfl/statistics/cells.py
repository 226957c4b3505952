"""Exact counts after the census: rows, rows of every level, missing value and class, clipped values, rows left out."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.cells import StudyCells
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Integers, Wholes


@register_statistic
class Cells(Statistic):
    """Rows, rows of every level or class, missing values; clipped values and rows that were left out.

    The vector has three parts: the counts of the training rows, those of the held-out rows; and of all rows how many
    values of each column and of the target were clipped, and how many rows were left out for missing values.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import CategoryColumn, NumberTarget
    >>> from codedfl.statistics.cells import Cells
    >>> ward = CategoryColumn("ward", ("a", "b", "c"))
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> Cells(Study("stays", (ward,), days, 5000, 1000, 3)).length
    11
    """

    name: ClassVar[str] = "cells"
    tells: ClassVar[frozenset[str] | None] = frozenset({"rows", "columns", "classes"})
    shows: ClassVar[str] = "How many rows have what the census let pass, and how many values were clipped."

    @classmethod
    def leaves(cls, study: Study) -> str:
        """After the census."""
        return (
            "counts of rows, by level, missing value and class as the census leaves them; of values clipped and rows"
            f" left out ({cls(study).length} numbers, once)"
        )

    @property
    def length(self) -> int:
        """Two vectors of counts, a number per column and for the target, and one."""
        return 2 * sum(cell_sizes(self.study)) + len(self.study.columns) + 2

    def vector(self, rows: Snapshot) -> Wholes:
        """Counts."""
        parts = [self._counts(rows, chosen) for chosen in (~rows.held_out, rows.held_out)]
        clipped = np.zeros(len(self.study.columns), dtype=np.int64)
        clipped[: len(rows.clipped.columns)] = rows.clipped.columns[: len(clipped)]
        return np.concatenate([*parts, clipped, np.array([rows.clipped.targets, rows.left_out])])

    def _counts(self, rows: Snapshot, chosen: NDArray[np.bool_]) -> Integers:
        codes, target = rows.codes[chosen], rows.target[chosen]
        found = [np.array([len(codes)])]
        counted = StudyCells(self.study).counted
        for one, values in zip(self.study.columns, codes.T, strict=True):
            if one.name not in counted:  # nothing is summed of it, and no census has counted it
                found.append(np.zeros(len(one.levels) if isinstance(one, CategoryColumn) else 2))
            elif isinstance(one, CategoryColumn):
                found.append(np.bincount(values, minlength=len(one.levels)))
            else:
                found.append(np.array([(values < 0).sum(), ((values != one.base) & (values >= 0)).sum()]))
        if isinstance(self.study.target, ClassTarget):
            found.append(np.bincount(target, minlength=len(self.study.target.classes)))
        return np.concatenate(found).astype(np.int64)


def cell_sizes(study: Study) -> tuple[int, ...]:
    """How many counts there are: one of rows, then for each column, then the classes.

    A category has its levels; a number its missing values and the rows beside the value that most may have in common
    (the lowest of its range, or 0 of a derived column), which tell whether a number that is nearly always 0 picks out
    people.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> from codedfl.statistics.cells import cell_sizes
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> cell_sizes(Study("stays", (age,), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3))
    (1, 2, 2)
    """
    columns = [len(one.levels) if isinstance(one, CategoryColumn) else 2 for one in study.columns]
    classes = (len(study.target.classes),) if isinstance(study.target, ClassTarget) else ()
    return (1, *columns, *classes)
