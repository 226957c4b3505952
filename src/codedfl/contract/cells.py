"""The cells of a study: sets of rows that its sums tell apart, and of how many people this device has any in each.

Levels of a category, missing values, rows that differ from what all others have, classes, intervals of times, cells of
a table, held-out rows. A sum over a cell of few people is about these people. Whether a cell has few is asked of all
devices by the *census* (``contract.census``), before anything else.

A person is an id; where the study names no id column, every row is taken for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.cell_families import NOWHERE, CellFamily, timed_models
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import GAP, CategoryColumn, ClassTarget, Column
from codedfl.typing import Integers

_MOST = np.iinfo(np.int64).max


class StudyCells:
    """All cells of a study, in one order that every party derives alike.

    study: with the mergings so far (``merging.merged_study``).

    >>> from codedfl.data.columns import NumberTarget
    >>> ward = CategoryColumn("ward", ("a", "b", "c"))
    >>> cells = StudyCells(Study("stay", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4, held_out=0.0))
    >>> [(one.kind, one.of, one.count) for one in cells.families][:3]
    [('rows', 'stay', 1), ('level', 'ward', 3), ('target', 'days', 1)]
    """

    def __init__(self, study: Study) -> None:
        self.study = study

    @cached_property
    def families(self) -> tuple[CellFamily, ...]:
        study = self.study
        found = [CellFamily("rows", study.name, 1)]
        found += [CellFamily("level", name, len(column.levels)) for name, column in self._categories]
        found += [CellFamily("interval", name, len(marks) + 1) for name, marks in self._marks.items()]
        for name, one in self._numbers:
            found.append(CellFamily("missing", name, 2))
            found.append(CellFamily("number", name, 2 if _two_valued(one) else 1))
            found.append(CellFamily("common", name, 1))
        if isinstance(study.target, ClassTarget):
            found.append(CellFamily("class", study.target.name, len(study.target.classes)))
        else:
            found.append(CellFamily("target", study.target.name, 2 if study.target.grid.n_steps == 1 else 1))
        if study.encoder is not None:  # whatever it was trained to tell apart, an output is judged as it is summed
            found.append(CellFamily("feature", study.name, study.feature_count))
        if "gram" in study.statistics:
            found += [CellFamily("varies", name, 1) for name, _ in (*self._categories, *self._numbers)]
            found.append(CellFamily("varies", study.target.name, 1))
        if any(one.counted for one in study.models):
            from codedfl.contract.model_cells import model_families

            found += model_families(study)
        if study.held_out:
            found.append(CellFamily("rows", study.name, 1, held_out=True))
            if study.holds_out_gram:
                found += [
                    CellFamily("level", name, len(column.levels), held_out=True) for name, column in self._categories
                ]
                found += [
                    CellFamily("interval", name, len(marks) + 1, held_out=True) for name, marks in self._marks.items()
                ]
                for name, one in self._numbers:
                    found.append(CellFamily("missing", name, 2, held_out=True))
                    found.append(CellFamily("number", name, 2 if _two_valued(one) else 1, held_out=True))
                    found.append(CellFamily("common", name, 1, held_out=True))
        return tuple(found)

    @property
    def count(self) -> int:
        """How many cells there are."""
        return sum(one.count for one in self.families)

    def people(self, rows: Snapshot) -> Integers:
        """How many different people each cell has among these rows; ``rows`` has the codes of the merged study."""
        parts = {held: rows.part(held_out=held) for held in (False, True)}
        found = []
        for one in self.families:
            part = parts[one.held_out]
            if one.kind == "feature":
                found.append(self._differing(one, part))
                continue
            if one.kind == "varies":
                found.append(np.array([self.study.smallest_cell if self._varies(one.of, part) else 0]))
                continue
            places = self._places(one, part)
            if not part.one_row_each:  # Invariant: a person counts once in a cell, however many rows of it are there.
                places = np.unique(np.stack([places, part.persons]), axis=1)[0]
            found.append(np.bincount(places[places != NOWHERE], minlength=one.count))
        return np.concatenate(found).astype(np.int64)

    def split(self, values: NDArray[Any]) -> Iterator[tuple[CellFamily, NDArray[Any]]]:
        """What is known of all cells, family by family."""
        start = 0
        for one in self.families:
            yield one, values[start : start + one.count]
            start += one.count

    # -- which columns and models have cells

    @cached_property
    def counted(self) -> frozenset[str]:
        """Columns of which something is summed level by level, or value by value."""
        clusters = {getattr(one, "cluster", "") for one in self.study.models}
        used = {name for one in self.study.models for name in (*one.columns, *one.uses)} - clusters
        # Random features are sums over whole rows, in which no column stands by itself.
        summed = {one.name for one in self.study.columns if one.width and "gram" in self.study.statistics}
        return frozenset(used | summed)

    @cached_property
    def _categories(self) -> tuple[tuple[str, CategoryColumn], ...]:
        columns = (one for one in self.study.columns if isinstance(one, CategoryColumn))
        return tuple((one.name, one) for one in columns if one.name in self.counted)

    @cached_property
    def _numbers(self) -> tuple[tuple[str, Column], ...]:
        columns = ((one.name, one) for one in self.study.columns if one.range is not None)
        return tuple((name, one) for name, one in columns if name in self.counted)

    @cached_property
    def _marks(self) -> dict[str, tuple[tuple[float, bool], ...]]:
        """Numbers at which derived columns divide the values of a column, if anything is summed of them.

        Of each whether itself is above: the people of exactly 70 years are on one side or on the other.
        """
        found: dict[str, set[tuple[float, bool]]] = {}
        for one in self.study.columns:
            for factor in factors_of(one) if one.name in self.counted else ():
                if marks := factor.divides:
                    found.setdefault(factor.column, set()).update((mark, mark in factor.begins) for mark in marks)
        # Invariant: a beginning is divided by the grid of times, too; the two grids have cells in common.
        for model in timed_models(self.study):
            if model.begin in found:
                found[model.begin].update((time, False) for time in model.times)
        return {name: tuple(sorted(marks)) for name, marks in found.items()}

    def _differing(self, family: CellFamily, rows: Snapshot) -> Integers:
        """How many rows of each output of the encoder are not what most of this device's rows are, in sixteenths."""
        if not len(rows):
            return np.zeros(family.count, dtype=np.int64)
        recipe = self.study.recipe()
        outputs, _ = recipe.features(self.study.matrix(rows.codes))
        parts = np.floor(8.0 * outputs / recipe.feature_map.bound).astype(np.int64)
        return np.array([len(rows) - int(np.bincount(one - one.min()).max()) for one in parts.T], dtype=np.int64)

    def _varies(self, name: str, rows: Snapshot) -> bool:
        """Whether a column, or the target, has two values among these rows; a missing one is no value."""
        if name == self.study.target.name:
            values = rows.target
        else:
            values = rows.codes[:, self.study.table_columns.names.index(name)]
        # Not np.unique, which loads numpy.ma: 5 MB on every device.
        return int(values.min(where=values >= 0, initial=_MOST)) < int(values.max(initial=-1))

    # -- which cell each row is in

    def _places(self, family: CellFamily, rows: Snapshot) -> Integers:
        if family.kind == "rows":
            return np.zeros(len(rows), dtype=np.int64)
        if family.kind == "class":
            return rows.target
        if family.kind == "target":
            return np.where(rows.target == 0, 1 if family.count == 2 else NOWHERE, 0)
        if family.kind in ("level", "missing", "number", "common"):
            place = self.study.table_columns.names.index(family.of)
            return self._of_column(family, self.study.columns[place], rows.codes[:, place])
        if family.kind == "interval":
            place = self.study.table_columns.names.index(family.of)
            codes, values = rows.codes[:, place], self.study.columns[place].grid.values(rows.codes[:, place])
            above = [values >= mark if itself else values > mark for mark, itself in self._marks[family.of]]
            return np.where(codes == GAP, NOWHERE, np.sum(above, axis=0))
        from codedfl.contract.model_cells import model_places

        return model_places(self.study, family, rows)

    def _of_column(self, family: CellFamily, one: Column, codes: Integers) -> Integers:
        if family.kind == "level":
            return codes
        if family.kind == "common":  # a flag need not be 0 or 1, nor stand at an end of its range
            return np.where((codes == _commonest(codes[codes != GAP])) | (codes == GAP), NOWHERE, 0)
        if family.kind == "missing":  # those that have the number are cells as well: few of them stand out, too
            return np.where(codes == GAP, 0, 1)
        differs = np.where(codes == one.base, 1 if family.count == 2 else NOWHERE, 0)
        return np.where(codes == GAP, NOWHERE, differs)


def _commonest(codes: Integers) -> int:
    """The code that most rows have, the lowest of several."""
    ordered = np.sort(codes)
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    lengths = np.diff(begins, append=len(ordered))
    return int(ordered[begins[lengths.argmax()]]) if len(ordered) else GAP


def _two_valued(one: Column) -> bool:
    return one.grid.n_steps == 1


def size_marks(study: Study) -> tuple[int, ...]:
    """Numbers of rows of which a device says whether it has as many: each is twice the last.

    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> size_marks(Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4, least_rows=30))
    (1, 2, 4, 8, 16, 30)
    """
    found, least = [1], study.least_pod_rows
    while found[-1] < least:
        found.append(min(2 * found[-1], least))
    return tuple(found)
