"""A draft of a study from a sample, which is somebody's own table.

Ranges have room on either side (``ranges``), and rare texts count as "other": others have other values, and the file,
which everybody sees, does not hold a person's value. Whoever publishes the file reads it first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from codedfl.authoring.draft import MOST_LEFT_OUT, ROWS, Draft, DraftColumn, filled, no_further_model
from codedfl.authoring.guessed_columns import Guess, codes_of_gaps, guess_columns, numbers_the_rows
from codedfl.authoring.ranges import WIDE, anchor, far_grid, ranged
from codedfl.authoring.study_text import SMALLEST_CELL, listed
from codedfl.data.columns import OTHER, CategoryColumn, as_levels, as_numbers, as_texts, gaps, without_codes
from codedfl.data.tables import RawTable
from codedfl.data.tables.table import FALSE, TRUE
from codedfl.data.task import Task, as_labels
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows

_MANY = 30  # rows from which on different whole numbers are no chance
_MOST_NAMED = 4
_MOST_CLASSES = 20  # with more different whole numbers nobody means classes


def draft_of_table(
    table: RawTable,
    target: str,
    name: str,
    drop: tuple[str, ...] = (),
    task: Task | None = None,
    keep: tuple[str, ...] | None = None,
    beside: Collection[str] = (),
    kind: Callable[[int], str] = no_further_model,
) -> Draft:
    """What a sample suggests for tables like it.

    task: what the target is for; None guesses: text, and two different numbers, are classes.
    keep: columns to learn from, exactly these; None takes all but the target and ``drop``.
    beside: those of them that say who a row is of, and are in no model.
    kind: of the further model, for a target of that number of classes; "" is none.

    >>> from codedfl.data.tables import as_raw_table
    >>> draft_of_table(as_raw_table({"age": [61, 58, 70.0], "days": [7.5, 3, 4.0]}), "days", "stay").columns[0].grid
    (0.0, 120.0, 1.0)
    """
    ids = [one for one in table.names if one != target and numbers_the_rows(one, table.column(one))]
    table, codes = _without_codes(table, {*ids, *beside})
    guess = guess_columns(table.without([target]), keep=keep, drop=drop)
    used = [one.name for one in guess.columns.columns]
    absent = {one: gaps(as_numbers(values) if _is_number(guess, one) else values) for one, values in _of(table, used)}
    absent[target] = gaps(table.column(target, "the target"))
    left_out = np.any([*absent.values()], axis=0)
    complete = bool(left_out.mean() <= MOST_LEFT_OUT)
    further = kind(len(_target(table, target, task).levels or ()))
    columns = []
    for one in guess.columns.columns:
        values = table.column(one.name)
        if isinstance(one, CategoryColumn):
            columns.append(_category(one, values, table.name))
            continue
        finite, noticed = _finite(values), ""
        found = ranged(one.name, finite, iterates=bool(further))
        if one.name in beside or _like_ids(values):
            found = found._replace(grid=far_grid(finite), why=WIDE, unit="")
        mean = float(finite.mean()) if len(finite) >= SMALLEST_CELL else None  # never that of a few: the file is public
        missing, fill = filled(mean, found.grid, "the sample", anchor(*found.grid))
        if not np.ptp(finite):
            noticed = "the same number in all rows of the sample. Drop it unless it differs elsewhere."
        words, odd = _words(values)
        if odd:
            noticed = _odd_cells(words, odd)
        if _like_ids(values) and one.name not in beside:
            noticed = "another whole number in every row, as ids have: drop it, or say id = above."
        guessed, filling = codes.get(one.name, ()), None if one.missing is None else missing
        known = DraftColumn(one.name, grid=found.grid, missing=filling, noticed=noticed, why=found.why, fill=fill)
        columns.append(replace(known, unit=found.unit, missing_codes=(*words, *guessed), guessed=guessed))
    if complete:
        columns = [one.complete() for one in columns]
    goal = _target(table, target, task, iterates=bool(further))
    goal = replace(goal.ordered(further), missing_codes=codes.get(target, ()), guessed=codes.get(target, ()))
    rows, row_id = max(ROWS, _power_above(len(table))), ids[0] if ids else None
    complete = bool(left_out.any() if complete else absent[target].any())
    said = (_left_out(absent, left_out),) if complete else ()
    return Draft(
        name, tuple(columns), goal, rows, row_id, guess.left_out, complete_cases=complete, said=said, kind=further
    )


def pooled(tables: Sequence[RawTable], name: str) -> RawTable:
    """The rows of all tables together, of the columns that all of them have; text where one has text.

    >>> from codedfl.data.tables import as_raw_table
    >>> pooled([as_raw_table({"a": [1, 2]}), as_raw_table({"a": ["<5"], "b": [3]})], "both").column("a").tolist()
    ['1', '2', '<5']
    """
    columns = {}
    for column in (one for one in tables[0].names if all(one in part.columns for part in tables)):
        values = [part.column(column) for part in tables if len(part)]
        if all(numbers_the_rows(column, one) for one in values):  # the same number in two tables is another row
            values = [np.char.add(f"{place} ", as_texts(one)) for place, one in enumerate(values)]
        texts = any(one.dtype.kind == "U" for one in values)
        columns[column] = np.concatenate([as_texts(one) if texts else one for one in values] or [np.zeros(0)])
    return RawTable(name, columns, tables[0].positional)


def _of(table: RawTable, names: Sequence[str]) -> list[tuple[str, Rows]]:
    return [(one, table.column(one)) for one in names]


def _is_number(guess: Guess, name: str) -> bool:
    return not isinstance(next(one for one in guess.columns.columns if one.name == name), CategoryColumn)


def _without_codes(table: RawTable, but: Collection[str]) -> tuple[RawTable, dict[str, tuple[float, ...]]]:
    """The table without the codes that numbers have in place of missing values, and these codes by column."""
    numbers = {name: table.column(name) for name in table.names if table.column(name).dtype.kind != "U"}
    codes = {name: found for name, one in numbers.items() if name not in but and (found := codes_of_gaps(one))}
    columns = {**table.columns, **{name: without_codes(numbers[name], codes[name]) for name in codes}}
    return replace(table, columns=columns), codes


def _left_out(absent: Mapping[str, Rows], left_out: Rows) -> str:
    """For whoever has the table: the file does not say how many of its rows miss something."""
    counts = {name: int(one.sum()) for name, one in absent.items() if one.any()}
    most = ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda one: -one[1])[:_MOST_NAMED])
    more = ", ..." if len(counts) > _MOST_NAMED else ""
    return (
        f"complete_cases leaves out {int(left_out.sum())} of {len(left_out)} rows of the sample, for missing values"
        f" ({most}{more}); instead drop such a column, or give it missing = a value, which fills and marks them"
    )


def _words(values: Rows) -> tuple[tuple[str, ...], int]:
    """Texts that enough rows have in a column of numbers, most frequent first, and how many cells are no numbers."""
    texts = as_texts(values)
    different, counts = np.unique(texts[np.isnan(as_numbers(values)) & (texts != "")], return_counts=True)
    # Invariant: everybody sees the file, so it holds no text that few rows have.
    words = [str(different[place]) for place in np.argsort(-counts, kind="stable") if counts[place] >= SMALLEST_CELL]
    return tuple(words), int(counts.sum())


def _odd_cells(words: tuple[str, ...], odd: int) -> str:
    if not words:
        return f"{odd} cell(s) of the sample are no numbers: study check names the first; see missing_codes."
    bounds = [word for word in words if word[0] in "<>"]
    advice = f" {bounds[0]!r} is a number's bound: better a number in every table, and no code." if bounds else ""
    return f"{odd} cells of the sample are no numbers: missing_codes takes {listed(words)} as missing.{advice}"


def _like_ids(values: Rows) -> bool:
    numbers = as_numbers(values)
    whole = len(numbers) >= _MANY and bool((numbers == np.round(numbers)).all())
    return whole and len(np.unique(numbers)) == len(numbers)


def _category(column: CategoryColumn, values: Rows, table: str) -> DraftColumn:
    """Without the texts that few rows of the sample have: a file that everybody sees does not tell one person's."""
    own = [one for one in column.levels if one not in (column.missing, OTHER)]
    texts = as_levels(values, own)
    rare = [one for one in own if one not in (FALSE, TRUE) and (texts == one).sum() < SMALLEST_CELL]
    if len(rare) == len(own):
        raise InvalidInput(
            f"column {column.name!r} of {table} must have a text that at least {SMALLEST_CELL} rows have, got none:"
            " drop the column, or take a larger sample"
        )
    other, noticed = OTHER if rare else column.other, ""
    spelt = [one.strip().casefold() for one in own]
    if alike := [repr(one) for one, plain in zip(own, spelt, strict=True) if spelt.count(plain) > 1]:
        noticed = f"{', '.join(alike)} differ by case or spaces alone: one spelling in all tables, or each is a level."
    levels = (*(one for one in own if one not in rare), *filter(None, (other, column.missing)))
    return DraftColumn(column.name, levels, missing=column.missing, other=other, rare=len(rare), noticed=noticed)


def _target(table: RawTable, target: str, task: Task | None, *, iterates: bool = False) -> DraftColumn:
    values = table.column(target, "the target")
    present = values[values != ""] if values.dtype.kind == "U" else _finite(values)
    if not len(present):
        raise InvalidInput(f"the target {target!r} of {table.name} must hold values, got missing values only")
    different = np.unique(present)
    whole = present.dtype.kind == "U" or bool((present == np.round(present)).all())
    if task is None:
        guessed: Task = (
            "classification" if present.dtype.kind == "U" or (len(different) == 2 and whole) else "regression"
        )
    else:
        guessed = as_labels(present, task)[1]
    noticed = ""
    if guessed == "classification":
        if task is None and present.dtype.kind != "U":
            noticed = "Guessed from two whole numbers. If it is a quantity: codedfl study new --task regression"
        classes = different if different.dtype.kind == "U" else different.astype(np.int64)
        return DraftColumn(target, tuple(classes.tolist()), noticed=noticed)
    if task is None and whole and len(different) <= _MOST_CLASSES:
        noticed = "Taken for a quantity, such as a count. If it is classes: codedfl study new --task classification"
    found = ranged(target, _finite(values), iterates=iterates)
    return DraftColumn(target, grid=found.grid, why=found.why, noticed=noticed, unit=found.unit)


def _finite(values: Rows) -> Floats:
    numbers = as_numbers(values)
    return numbers[np.isfinite(numbers)]


def _power_above(count: int) -> int:
    return 1 << max(count - 1, 1).bit_length()
