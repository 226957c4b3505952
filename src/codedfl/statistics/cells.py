"""Exact counts after the census: rows, rows of every level and class, clipped values, rows left out."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.cells import StudyCells
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Integers, Wholes


@register_statistic
class Cells(Statistic):
    """Rows to train on, of every level and class; held-out rows; values that were clipped, and rows left out.

    Levels and classes are counted among training rows alone. Missing values are not counted: where the census lets them
    pass, X'X has their mark, and where it does not nobody reads how many there are.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import CategoryColumn, NumberTarget
    >>> from codedfl.statistics.cells import Cells
    >>> ward = CategoryColumn("ward", ("a", "b", "c"))
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> Cells(Study("stays", (ward,), days, 5000, 1000, 3)).length
    8
    """

    name: ClassVar[str] = "cells"
    tells: ClassVar[frozenset[str] | None] = frozenset({"rows", "columns", "classes"})
    shows: ClassVar[str] = "Rows of what the census let pass; clipped and left out, exactly."
    version: ClassVar[int] = 2

    @classmethod
    def leaves(cls, study: Study) -> str:
        """After the census."""
        # Rare classes keep a model from being made, and a description counts them together when it is printed.
        made = study.feature_count or any(one.needs_gram for one in study.models)
        described = isinstance(study.target, ClassTarget) and not made
        classes = (
            " as the census leaves them, and by class, few or many"
            if described
            else " and class as the census leaves them"
        )
        return (
            f"counts of rows, by level{classes}; of values clipped and rows left out, few or many"
            f" ({cls(study).length} numbers, once)"
        )

    @property
    def length(self) -> int:
        """Training rows by cell, held-out rows, clipped values of each column and of the target, rows left out."""
        return sum(cell_sizes(self.study)) + len(self.study.columns) + 3

    def vector(self, rows: Snapshot) -> Wholes:
        """Counts."""
        clipped = np.zeros(len(self.study.columns), dtype=np.int64)
        clipped[: len(rows.clipped.columns)] = rows.clipped.columns[: len(clipped)]
        held_out = int(rows.held_out.sum())
        ends = (rows.clipped.targets, rows.left_out)
        return np.concatenate([self._counts(rows.part(held_out=False)), [held_out], clipped, ends]).astype(np.int64)

    def _counts(self, rows: Snapshot) -> Integers:
        found = [np.array([len(rows)])]
        counted = StudyCells(self.study).counted
        for one, values in zip(self.study.columns, rows.codes.T, strict=True):
            # Invariant: what nothing else is summed of, no census has counted.
            if isinstance(one, CategoryColumn):
                seen = values if one.name in counted else values[:0]
                found.append(np.bincount(seen, minlength=len(one.levels)))
        if isinstance(self.study.target, ClassTarget):
            found.append(np.bincount(rows.target, minlength=len(self.study.target.classes)))
        return np.concatenate(found)


def cell_sizes(study: Study) -> tuple[int, ...]:
    """How many counts of training rows there are: one of all, then of each column its levels, then the classes.

    A number has none.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> from codedfl.statistics.cells import cell_sizes
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> cell_sizes(Study("stays", (age,), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3))
    (1, 0, 2)
    """
    columns = [len(one.levels) if isinstance(one, CategoryColumn) else 0 for one in study.columns]
    classes = (len(study.target.classes),) if isinstance(study.target, ClassTarget) else ()
    return (1, *columns, *classes)
