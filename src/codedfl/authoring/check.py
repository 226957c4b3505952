"""What a study would clip, fill or refuse in one table: looked at by its owner alone, before anything leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from codedfl.authoring.guessed_columns import codes_of_gaps
from codedfl.contract.design_columns import DesignCheck, check_design, copied_columns
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import (
    GAP,
    ClassTarget,
    Column,
    Grid,
    NumberColumn,
    NumberTarget,
    as_numbers,
    as_texts,
    without_codes,
)
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput
from codedfl.typing import Integers, Rows

_ANY_KEY = bytes(16)
_MOST_SEEN = 10  # levels that are named
_OFF_GRID = 1e-6  # in steps


@dataclass(frozen=True)
class ColumnCheck:
    """One column of the table, or the target (``kind`` = "target"); ``objection`` says why it cannot be used.

    n_rounded: numbers that lie between the steps of the grid.
    """

    name: str
    kind: str
    n_clipped: int = 0
    n_rounded: int = 0
    n_missing: int = 0
    n_unknown: int = 0
    seen: str = ""
    objection: str | None = None


@dataclass(frozen=True)
class TableCheck:
    """All columns of the study, and what speaks against the table as a whole.

    left_out: rows with missing values, in a study that takes complete cases only; ``rows`` are the others.
    least_pod: how many owners the device's group must have, so that its sums have enough rows; 0 if any group will do.
    design: what the design columns do on the training rows, if the table can be used at all.
    copies: columns that are the same but for their unit here.
    remarks: values that look like codes of missing values, and ids of several rows.
    """

    table: str
    rows: int
    left_out: int
    columns: tuple[ColumnCheck, ...]
    least_pod: int
    objections: tuple[str, ...]
    design: tuple[DesignCheck, ...] = ()
    copies: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        return not self.objections and all(one.objection is None for one in self.columns)


def check_table(study: Study, table: RawTable) -> TableCheck:
    """What of a table would be clipped, rounded, missing or unknown in the study, counted on the device alone.

    Also whether this machine has what the features need: a device must not find out in the middle of a run.

    >>> from codedfl.data.columns import NumberTarget
    >>> from codedfl.data.tables import as_raw_table
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> found = check_table(study, as_raw_table({"age": [200], "days": [7.5]}))
    >>> [(one.n_clipped, one.n_rounded) for one in found.columns]
    [(1, 0), (0, 1)]
    """
    objections = []
    given, table = len(table), _complete(study, table)
    if counted := study.count_objection(table):
        objections.append(counted)
    try:
        study.load_features()
        study.check_embedded(table)
        if study.id is not None:
            table.column(study.id, "id")
    except InvalidInput as error:
        objections.append(str(error))
    listed = (one for one in study.columns if not factors_of(one))
    columns = (*(_checked(one, table, study.complete_cases) for one in listed), _target(study, table))
    honest = -(
        -study.least_pod_rows // max(1, len(table))
    )  # owners of a disclosure group that have this number of rows each
    least_pod = study.colluders + honest if honest > study.honest else 0
    counts = (table.name, len(table), given - len(table), columns, least_pod)
    if objections or any(one.objection is not None for one in columns):
        return TableCheck(*counts, tuple(objections), remarks=tuple(_remarks(study, table)))
    # Which rows are held out is the device's secret; any key shows how many there would be, about.
    rows = take_snapshot(study, table, _ANY_KEY)
    copies = tuple(copied_columns(study, rows))
    return TableCheck(*counts, (), check_design(study, rows), copies, tuple(_remarks(study, table)))


def _remarks(study: Study, table: RawTable) -> Iterator[str]:
    """What is no reason to refuse the table, and hardly meant."""
    numbers = [(one.name, one.missing_codes) for one in study.columns if one.range and not factors_of(one)]
    if isinstance(study.target, NumberTarget):
        numbers.append((study.target.name, study.target.missing_codes))
    for name, known in numbers:
        values = as_numbers(without_codes(table.columns.get(name, np.zeros(0)), known))
        if codes := codes_of_gaps(values):
            said = ", ".join(f"{one:g}" for one in codes)
            yield (
                f"{name}: {said} far from all others, as codes of missing values are: list such in missing_codes of"
                " the study"
            )
    if study.id is not None and study.id in table.columns:
        ids = as_texts(table.columns[study.id])
        different, rows = np.unique(ids, return_counts=True)
        if several := int(((rows > 1) & (different != "")).sum()):
            yield f"id {study.id!r}: {several} stand in several rows, and each counts as one person (smallest_cell)"
        if without := int((ids == "").sum()):
            yield f"id {study.id!r}: {without} row(s) have none"


def _complete(study: Study, table: RawTable) -> RawTable:
    """The rows that the study takes; all of a table that lacks a column, whose check says so."""
    names = {one.name for one in study.columns if not factors_of(one)} | {study.target.name}
    return study.complete(table) if names <= set(table.names) else table


def _checked(one: Column, table: RawTable, complete: bool) -> ColumnCheck:
    name = one.name
    kind = "number" if isinstance(one, NumberColumn) else "category"
    try:
        values = table.column(name)
        codes, report = one.codes(values, table.name)
    except InvalidInput as error:
        return ColumnCheck(name, kind, objection=str(error))
    rounded, seen = 0, ", ".join(report.unknown[:_MOST_SEEN])
    if kind == "category" and not seen:
        seen = ", ".join(sorted(set(as_texts(values).tolist()) - {""})[:_MOST_SEEN])
    if kind == "number":
        report = replace(report, refused=report.refused and not complete)
        seen, rounded = _numbers(one.grid, values, codes)
    counts = (report.n_clipped, rounded, report.n_missing, report.n_unknown)
    return ColumnCheck(name, kind, *counts, seen, report.objection(table.name))


def _target(study: Study, table: RawTable) -> ColumnCheck:
    target = study.target
    try:
        values = table.column(target.name, "the target")
        codes, report = target.codes(values, table.name)
    except InvalidInput as error:
        return ColumnCheck(target.name, "target", objection=str(error))
    if isinstance(target, ClassTarget):
        seen = ", ".join(map(str, np.unique(target.values(codes)).tolist()[:_MOST_SEEN]))
        return ColumnCheck(target.name, "target", seen=seen)
    seen, rounded = _numbers(target.grid, values, codes)
    return ColumnCheck(target.name, "target", report.n_clipped, rounded, seen=seen)


def _numbers(grid: Grid, values: Rows, codes: Integers) -> tuple[str, int]:
    """From where to where they go, and how many within the range are rounded."""
    values = as_numbers(values)  # words stand among numbers
    if not np.isfinite(values).any():
        return "", 0
    low, high = grid.range
    inside = (values >= low) & (values <= high) & (codes != GAP)
    rounded = np.abs(values - grid.values(codes))[inside] > _OFF_GRID * grid.step
    return f"{np.nanmin(values):g} to {np.nanmax(values):g}", int(rounded.sum())
