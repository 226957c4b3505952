"""What of one table a study would clip, fill, or refuse: looked at by its owner alone, before anything leaves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codedfl.data.columns import ColumnReport, NumberColumn, as_texts
from codedfl.data.studies.study import ClassTarget, NumberTarget, Study, StudyColumn
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput

_MOST_SEEN = 10  # levels that are named


@dataclass(frozen=True)
class ColumnCheck:
    """One column of the table, or the target (``kind`` = "target"); ``objection`` says why it cannot be used."""

    name: str
    kind: str
    n_clipped: int = 0
    n_missing: int = 0
    n_unknown: int = 0
    seen: str = ""
    objection: str | None = None


@dataclass(frozen=True)
class TableCheck:
    """All columns of the study, and what speaks against the table as a whole."""

    table: str
    rows: int
    columns: tuple[ColumnCheck, ...]
    objections: tuple[str, ...]

    @property
    def usable(self) -> bool:
        return not self.objections and all(one.objection is None for one in self.columns)


def check_table(study: Study, table: RawTable) -> TableCheck:
    """What of a table would be clipped, missing or unknown in the study, counted on the device alone.

    Also whether this machine has what the features need: a device must not find out in the middle of a run.
    """
    objections = []
    if not 1 <= len(table) <= study.max_rows_per_device:
        objections.append(f"{table.name} must have between 1 and {study.max_rows_per_device} rows, got {len(table)}")
    try:
        study.load_features()
    except InvalidInput as error:
        objections.append(str(error))
    checks = [_checked(one, table) for one in study.columns]
    return TableCheck(table.name, len(table), (*checks, _target(study, table)), tuple(objections))


def _checked(column: StudyColumn, table: RawTable) -> ColumnCheck:
    name = column.column.name
    kind = "number" if isinstance(column.column, NumberColumn) else "category"
    try:
        values = table.column(name)
        _, report = column.column.encode(values, table.name)
    except InvalidInput as error:
        return ColumnCheck(name, kind, objection=str(error))
    return _column_check(column, values, report, kind, table.name)


def _column_check(column: StudyColumn, values: np.ndarray, report: ColumnReport, kind: str, table: str) -> ColumnCheck:
    clipped, seen = 0, ", ".join(report.unknown[:_MOST_SEEN])
    if kind == "category" and not seen:
        seen = ", ".join(sorted(set(as_texts(values).tolist()) - {""})[:_MOST_SEEN])
    if kind == "number" and values.dtype.kind == "f":
        present = values[np.isfinite(values)]
        if len(present):
            seen = f"{present.min():g} to {present.max():g}"
        if column.range is not None:
            clipped = int(((present < column.range[0]) | (present > column.range[1])).sum())
    return ColumnCheck(report.name, kind, clipped, report.n_missing, report.n_unknown, seen, report.objection(table))


def _target(study: Study, table: RawTable) -> ColumnCheck:
    name = study.target.name
    try:
        values = study.target_values(table)
        if isinstance(study.target, NumberTarget) and values.dtype.kind == "U":
            first = repr(str(values[0])) if len(values) else "no rows"
            raise InvalidInput(f"the target {name!r} of {table.name} must hold numbers, got {first}")
        if isinstance(study.target, ClassTarget):
            study.target.labels().encode(values)
            return ColumnCheck(name, "target", seen=", ".join(map(str, np.unique(values).tolist()[:_MOST_SEEN])))
    except InvalidInput as error:
        return ColumnCheck(name, "target", objection=str(error))
    clipped = study.target.labels().count_clipped(values)
    seen = f"{values.min():g} to {values.max():g}" if len(values) else ""
    return ColumnCheck(name, "target", clipped, seen=seen)
