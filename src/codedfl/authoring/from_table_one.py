"""A draft of a study from Table 1 over all devices (``analyses.table_one``), which holds everybody's values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from codedfl.authoring.draft import HELD_OUT, MOST_LEFT_OUT, Draft, DraftColumn, filled, no_further_model
from codedfl.contract.models import TableOne
from codedfl.data.task import Task
from codedfl.errors import InvalidInput
from codedfl.typing import Floats

_OF_ALL = "holds the values of all devices (Table 1) with room; beyond is clipped and counted"


def draft_from_table_one(
    result: Any,
    target: str,
    name: str,
    drop: tuple[str, ...] = (),
    task: Task | None = None,
    keep: tuple[str, ...] | None = None,
    kind: Callable[[int], str] = no_further_model,
) -> Draft:
    """What Table 1 over all devices suggests: ranges that hold everybody's values, ``missing`` where anybody lacks one.

    result: the content of result.json of a study that described. target, drop, task, keep, kind: as in
        ``draft_of_table``; "" is the target of that study.

    >>> draft_from_table_one({"models": []}, "days", "stay")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the result must have a table that describes (codedfl study describe), got none
    """
    try:
        tables = [one for one in result["models"] if one.get("kind") == TableOne.kind and "columns" in one]
        if not tables:
            raise InvalidInput("the result must have a table that describes (codedfl study describe), got none")
        of_all, said = tables[0], tables[0]["protection"]
        found = {one.name: one for one in map(_described, of_all["columns"])}
        gaps_of = {str(one["name"]): count for one in of_all["columns"] if (count := _counted_gaps(one))}
        id_column = None if said["id"] is None else str(said["id"])
        bounds = (int(said["max_rows_per_device"]), id_column, (), int(said["least_participants"]))
        complete_cases = bool(said["complete_cases"])
        rows, devices = int(of_all["rows"]), max(map(len, result.get("owners", {}).values()), default=0)
        target = target or str(of_all["target"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"the result must be one that codedfl wrote, got {error!r:.80}") from None
    for column in (target, *(keep or ()), *drop):
        if column not in found:
            raise InvalidInput(f"a column must be one that is described ({', '.join(found)}), got {column!r}")
    goal, chosen = found.pop(target), keep or tuple(one for one in found if one not in drop)
    if (goal.grid is None) != (task == "classification") and task is not None:
        raise InvalidInput(f"--task must be as {target!r} was described, got {task}: describe it otherwise first")
    columns = tuple(found[one] for one in chosen)
    if sum(gaps_of.get(one.name, 0) for one in columns) <= MOST_LEFT_OUT * rows:
        columns = tuple(one.complete() if gaps_of.get(one.name) else one for one in columns)
    # Of a device's rows that are held out at least twice as many as columns are scored; fewer would only be lost.
    design = sum(1 if one.levels is None else len(one.levels) - 1 for one in columns)
    held_out = HELD_OUT if HELD_OUT * rows >= 2 * (design + 1) * devices else 0.0
    counts = {} if goal.levels is None else next(one["counts"] for one in of_all["columns"] if one["name"] == target)
    goal = goal.predicted(unknown=bool(counts.get(goal.other)))
    further = kind(len(goal.levels or ()))
    drafted = Draft(name, columns, goal.ordered(further), *bounds, complete_cases=complete_cases)
    return replace(drafted, held_out=held_out, kind=further)


def described_quantiles(result: Any) -> dict[str, Floats]:
    """Those of each number that Table 1 tells; none of a result that ``draft_from_table_one`` refuses.

    >>> described_quantiles({"models": [{"columns": [{"name": "age", "quantiles": {"0.5": 57, "0.95": None}}]}]})
    {'age': array([57.])}
    """
    try:
        columns = [one for model in result["models"] for one in model.get("columns", ()) if "quantiles" in one]
        known = {str(one["name"]): [*filter(None, one["quantiles"].values())] for one in columns}
        return {name: np.array(values, dtype=np.float64) for name, values in known.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _counted_gaps(one: Any) -> int:
    """As Table 1 counts missing values; 0 where it has none, or only few."""
    count = one["missing"] if one["kind"] == "number" else one["counts"].get(one["missing"])
    return int(count or 0) if isinstance(count, int | float | None) else 0


def _described(one: Any) -> DraftColumn:
    """A column of Table 1 as JSON has it; raises ValueError, TypeError or KeyError for anything else."""
    name, codes = str(one["name"]), tuple(one["missing_codes"])
    if not all(isinstance(code, str | int | float) for code in codes):
        raise ValueError(name)
    if one["kind"] == "number":
        low, high = map(float, one["range"])
        grid = (low, high, float(one["step"]))
        noticed = (
            "values beyond the range of Table 1 itself: describe it again with a wider one." if one["clipped"] else ""
        )
        known = DraftColumn(name, None, grid, noticed=noticed, why=_OF_ALL, missing_codes=codes, of_all=True)
        if one["missing"] == 0 or one["fill"] is None:
            return known
        mean = None if one["mean"] is None else float(one["mean"])
        filling, fill = filled(mean, grid, "all devices", float(one["fill"]))
        return replace(known, missing=filling, fill=fill)
    # The level of unknown names stays, though nobody is counted there: rare levels are merged into it.
    missing, other = None if one["counts"].get(one["missing"]) == 0 else one["missing"], one["other"]
    levels = tuple(level for level in one["levels"] if level != one["missing"] or missing is not None)
    if other is not None:  # a spelling that a site has mended since is no reference
        had = tuple(one_of for one_of in levels if one_of in (missing, other) or one["counts"].get(str(one_of)) != 0)
        levels = had if len(had) > 1 else levels
    if not all(isinstance(level, str | int) for level in levels) or not {missing, other} <= {None, *levels}:
        raise ValueError(name)
    return DraftColumn(name, levels, missing=missing, other=other, missing_codes=codes, of_all=True)
