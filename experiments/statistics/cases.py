"""Studies of plain tables, run by the real protocol in virtual time, and the rows as a device grids them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.models import StudyModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget, Column, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.run.rehearsal import Rehearsed, dealt_out, made_up_roster, rehearsal_key, rehearse
from codedfl.typing import Floats


class Line(NamedTuple):
    """A result of an analysis, its largest difference from the oracle's, and what that may be."""

    what: str
    difference: float
    bound: float


@dataclass(frozen=True)
class Case:
    """A table with a study of it: ``steps`` has the unit of record of each number, the target's included."""

    values: Mapping[str, np.ndarray[Any, Any]]
    target: str
    steps: Mapping[str, float]
    beside: tuple[str, ...] = ()  # columns that no linear model has: weights, offsets

    @property
    def table(self) -> RawTable:
        return as_raw_table(dict(self.values), "rows")

    def study(self, *models: StudyModel, **changes: Any) -> Study:
        """With a model or more; no rows are held out."""
        columns = tuple(self._column(name) for name in self.values if name != self.target)
        n = len(self.table)
        made = Study("case", columns, self._target(), 2 * n, n, 3, held_out=0.0)
        return replace(made, models=models, **changes)

    def _column(self, name: str) -> Column:
        values, inside = self.values[name], name not in self.beside
        if values.dtype.kind == "U":
            return CategoryColumn(name, tuple(np.unique(values).tolist()), in_model=inside)
        return NumberColumn(name, self._range(name), self.steps[name], in_model=inside)

    def _target(self) -> NumberTarget | ClassTarget:
        values = self.values[self.target]
        if self.target in self.steps:
            return NumberTarget(self.target, self._range(self.target), self.steps[self.target])
        return ClassTarget(self.target, tuple(np.unique(values).tolist()))

    def _range(self, name: str) -> tuple[float, float]:
        """In whole steps; nothing is clipped, not by rounding either."""
        values, step = self.values[name], self.steps[name]
        low, high = np.floor(values.min() / step + 1e-9), np.ceil(values.max() / step - 1e-9)
        low, high = low - (low * step > values.min()), high + (high * step < values.max())
        return float(low * step), float(high * step)

    def gridded(self, study: Study) -> dict[str, Floats]:
        """The numbers as totals see them, by name; texts as they are."""
        rows = take_snapshot(study, self.table, bytes(32))
        found = {one.name: np.asarray(one.values(rows.codes[:, place])) for place, one in enumerate(study.columns)}
        return {**found, self.target: np.asarray(study.target.values(rows.target))}


def found(case: Case, study: Study, n_devices: int = 9) -> StudyFindings:
    """What a federation finds, with the rows dealt out at random."""
    return found_by(study, dealt_out(case.table, n_devices, np.random.default_rng(0)))


def found_by(study: Study, parts: Mapping[str, RawTable]) -> StudyFindings:
    """What devices with these tables find: the real protocol, in virtual time."""
    rows = {name: take_snapshot(study, table, rehearsal_key(name)) for name, table in parts.items()}
    return rehearse(Rehearsed(study, made_up_roster(study, parts), rows), np.random.default_rng(0)).findings
