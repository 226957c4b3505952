"""Counts that come before everything else: which levels, gaps and classes have too few rows, or too few devices."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import ClassTarget, Study
from codedfl.data.columns import CategoryColumn
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Integers, Wholes

_MOST_DEVICES = 2**16


@register_statistic
class Cells(Statistic):
    """Rows, rows of every level or class, gaps, and on how many devices each of them is; where columns vary.

    The vector has six parts: the counts of the training rows, on how many devices each is not zero, the same two of
    the held-out rows, on how many devices each column, and the target, has two values among its training rows; and of
    all rows how many values of each column and of the target were clipped, and how many rows were left out for gaps.

    Examples
    --------
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import CategoryColumn
    >>> from codedfl.statistics.cells import Cells
    >>> ward = StudyColumn(CategoryColumn("ward", ("a", "b", "c")))
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> Cells(Study("stays", (ward,), days, 5000, 1000, 3)).length
    21
    """

    name: ClassVar[str] = "cells"
    shows: ClassVar[str] = (
        "That a level, a class or a gap occurs in few rows, or on few devices, but neither whose nor on which."
    )

    @classmethod
    def leaves(cls, study: Study) -> str:
        """The first total."""
        return (
            "counts: rows, rows of every level, gap and class and above the lowest value, on how many devices there are"
            " any, on how many each column varies, values that were clipped, rows that were left out"
            f" ({cls(study).length} numbers, once)"
        )

    @property
    def length(self) -> int:
        """Four vectors of counts, two numbers per column and for the target, and one."""
        return 4 * sum(cell_sizes(self.study)) + 2 * len(self.study.columns) + 3

    @property
    def limit(self) -> int:
        """Every row counts once, and so does every device."""
        return max(self.study.max_rows, _MOST_DEVICES)

    def vector(self, rows: Snapshot) -> Wholes:
        """Counts, and ones where they are not zero."""
        parts = [self._counts(rows, chosen) for chosen in (~rows.held_out, rows.held_out)]
        there = [one for counts in parts for one in (counts, (counts > 0).astype(np.int64))]
        clipped = np.zeros(len(self.study.columns), dtype=np.int64)
        clipped[: len(rows.clipped.columns)] = rows.clipped.columns
        odd = (clipped, np.array([rows.clipped.targets, rows.left_out]))
        return np.concatenate([*there, self._varies(rows), *odd])

    def _counts(self, rows: Snapshot, chosen: NDArray[np.bool_]) -> Integers:
        codes, target = rows.codes[chosen], rows.target[chosen]
        found = [np.array([len(codes)])]
        for one, values in zip(self.study.columns, codes.T, strict=True):
            if isinstance(one.column, CategoryColumn):
                found.append(np.bincount(values, minlength=len(one.column.levels)))
            else:
                found.append(np.array([(values < 0).sum(), ((values != one.base) & (values >= 0)).sum()]))
        if isinstance(self.study.target, ClassTarget):
            found.append(np.bincount(target, minlength=len(self.study.target.classes)))
        return np.concatenate(found).astype(np.int64)

    def _varies(self, rows: Snapshot) -> Integers:
        """A gap is no value: a number and gaps do not vary."""
        # Not np.unique, which loads numpy.ma: 5 MB on every device.
        codes = np.column_stack((rows.codes, rows.target))[~rows.held_out]
        lowest = codes.min(axis=0, where=codes >= 0, initial=np.iinfo(np.int64).max)
        varies: Integers = (lowest < codes.max(axis=0, initial=-1)).astype(np.int64)
        return varies


def cell_sizes(study: Study) -> tuple[int, ...]:
    """How many counts there are: one of rows, then for each column, then the classes.

    A category has its levels; a number its gaps and the rows beside the value that most may have in common (the lowest
    of its range, or 0 of a derived column), which tell whether a number that is nearly always 0 picks out people.

    Examples
    --------
    >>> from codedfl.contract.study import ClassTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.statistics.cells import cell_sizes
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> cell_sizes(Study("stays", (age,), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3))
    (1, 2, 2)
    """
    columns = [len(one.column.levels) if isinstance(one.column, CategoryColumn) else 2 for one in study.columns]
    classes = (len(study.target.classes),) if isinstance(study.target, ClassTarget) else ()
    return (1, *columns, *classes)
