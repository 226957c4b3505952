"""A first study from what is known of the columns: every choice is made, and says in a comment why.

What is known comes from Table 1 over all devices (``analyses.table_one``), or from a sample, which is somebody's own
table. A sample's ranges have room on either side (``ranges``), and its rare texts count as "other": others have other
values, and the file, which everybody sees, does not hold a person's value. Whoever publishes the file reads it first.

Rows with missing values are left out and counted (complete cases), since a mean with a mark beside it biases the
coefficients of the other columns unless values are missing at random. Two cases keep the mean and the mark: where more
than half of the rows would be left out, and where Table 1 counted few missing values: it had these rows too, so the
difference of both sums would be about few people, which every device's operator is asked about at approval.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tomli_w

from codedfl.authoring.drafted_model import drafted_model, model_text
from codedfl.authoring.guessed_columns import Guess, codes_of_gaps, guess_columns, numbers_the_rows
from codedfl.authoring.ranges import OF_SAMPLE, WIDE, anchor, far_grid, ranged
from codedfl.contract.models import TableOne
from codedfl.contract.names import plain_name
from codedfl.contract.study import NO_FEATURES
from codedfl.contract.toml_file import FORMAT
from codedfl.data.columns import OTHER, CategoryColumn, as_levels, as_numbers, as_texts, gaps, without_codes
from codedfl.data.tables import RawTable
from codedfl.data.tables.table import FALSE, TRUE
from codedfl.data.task import Task, as_labels
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows

PARTICIPANTS = 5
_HELD_OUT = 0.2
_ROWS = 10_000
SMALLEST_CELL = 5
_DESCRIBED_STEPS = 5 * 10**6  # either side of what is described: its bins grow, so that width costs little
_MANY = 30  # rows from which on different whole numbers are no chance
_OF_ALL = "holds the values of all devices (Table 1) with room; beyond is clipped and counted"
_WHY_HELD_OUT = "share of each device's rows kept out of training for the score"
_WHY_ESTIMATED = "all rows make the model, as a formula asks; 0.2 keeps a fifth of each device's for a score"
_MOST_LEFT_OUT = 0.5  # of the rows, for missing values
_COMPLETE = (
    "rows with missing values are left out and counted; missing = a value, in a column, fills and marks them instead"
)
_WHY_NONE = "the devices have too few rows for a score beside this many columns"
_WHY_MARKED = (
    "leaving such rows out would leave out most; drop the column, or think of it",
    "so few rows have them that they are not left out after a Table 1 that has these rows, or nearly all have them",
)
_NO_MEAN = "a number that every range holds, since too few rows have a value for a mean"


@dataclass(frozen=True)
class DraftColumn:
    """What is known of a column before a study is written.

    levels: of a category, or of a target its classes, which may be whole numbers; None for a number.
    grid: low, high and step of a number; None for a category.
    missing: what a missing value becomes, a level or a number; None if none was seen.
    other: the level of unknown names.
    fill: what missing numbers become, such as "the mean of the sample"; "" where that need not be thought about.
    noticed: what to think about, "" if nothing. why: a comment on the range. unit: of a number, as far as it is known.
    missing_codes: what the tables have in place of a missing value.
    guessed: those of them that are numbers which the sample has far from all others.
    rare: how many texts of a sample count as ``other``. of_all: whether it is known of all devices.

    >>> DraftColumn("age", grid=(0.0, 120.0, 1.0)).levels is None
    True
    """

    name: str
    levels: tuple[str, ...] | tuple[int, ...] | None = None
    grid: tuple[float, float, float] | None = None
    missing: str | float | None = None
    other: str | None = None
    noticed: str = ""
    why: str = OF_SAMPLE
    unit: str = ""
    missing_codes: tuple[str | float, ...] = ()
    rare: int = 0
    fill: str = ""
    guessed: tuple[float, ...] = ()
    of_all: bool = False

    @property
    def remarks(self) -> tuple[str, ...]:
        """All there is to think about; nothing is filled in silence.

        >>> DraftColumn("age", grid=(0.0, 120.0, 1.0), missing=57.0, fill="the mean").remarks[0][:50]
        'it has missing values, which missing fills with 57'
        """
        coded = (
            f"{', '.join(f'{one:g}' for one in self.guessed)} far from all others, taken for codes of missing values:"
            " take them out of missing_codes if they are values."
        )
        why = _WHY_MARKED[self.of_all]
        filled = f"it has missing values, which missing fills with {self.missing}, {self.fill}, and marks: {why}."
        return tuple(
            filter(
                None,
                (
                    self.noticed,
                    coded if self.guessed else "",
                    filled if self.fill and self.missing is not None else "",
                ),
            )
        )

    def complete(self) -> DraftColumn:
        """With nothing for missing values, so that their rows are left out.

        >>> DraftColumn("ward", ("a", "b", "missing"), missing="missing").complete().levels
        ('a', 'b')
        """
        if self.levels is None:
            return replace(self, missing=None, fill="")
        levels = tuple(one for one in map(str, self.levels) if one != self.missing)
        return replace(self, levels=levels, missing=None)

    def lenient(self) -> DraftColumn:
        """With a range still wider, something that a missing value becomes, and a level of unknown names."""
        if self.grid is not None:
            low, high, step = self.grid
            far = float(f"{_DESCRIBED_STEPS * step:.12g}")
            grid = (min(low, -far) if low < 0 else low, max(high, far) if low <= 0 < high else high, step)
            return replace(self, grid=grid, missing=anchor(*grid), fill="")
        levels = tuple(one for one in map(str, self.levels or ()) if one not in ("other", "missing"))
        return replace(self, levels=(*levels, "other", "missing"), missing="missing", other="other")


@dataclass(frozen=True)
class Draft:
    """Everything that a study file is written of.

    columns, target: what goes in, and what is predicted, whose ``levels`` are classes.
    rows: public bound on the rows of a device. id: the column that tells rows apart.
    noticed: remarks on the table as a whole.
    describes: whether it is a study that only describes.
    complete_cases: whether rows with missing values are left out, and said: how many, for whoever has the table.
    held_out: the share of rows that is kept for the score; 0 where it would be too few to be scored.
    kind: of the further model of all columns; "" is none. estimates: whether models are made for their coefficients,
        of all rows, and not for a score. inference: whether the study's own has standard errors.

    >>> Draft("stay", (DraftColumn("age", grid=(0.0, 120.0, 1.0)),), DraftColumn("ill", ("no", "yes"))).id is None
    True
    """

    name: str
    columns: tuple[DraftColumn, ...]
    target: DraftColumn
    rows: int = _ROWS
    id: str | None = None
    noticed: tuple[str, ...] = ()
    participants: int = PARTICIPANTS
    describes: bool = False
    complete_cases: bool = False
    said: tuple[str, ...] = ()
    held_out: float = _HELD_OUT
    kind: str = ""
    estimates: bool = False
    inference: bool = False

    def describing(self) -> Draft:
        """The same for a study that describes: no missing value and no unknown name keeps a table out."""
        columns, name = tuple(one.lenient() for one in self.columns), plain_name(self.name, "-table-1")
        target = replace(self.target.lenient(), missing=None) if self.target.grid is not None else self.target
        return replace(
            self, name=name, columns=columns, target=target, describes=True, complete_cases=True, said=(), kind=""
        )


def no_further_model(classes: int) -> str:
    """The study's own model alone, which is linear.

    >>> no_further_model(2)
    ''
    """
    del classes
    return ""


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
    complete = bool(left_out.mean() <= _MOST_LEFT_OUT)
    further = kind(len(_target(table, target, task).levels or ()))
    columns = []
    for one in guess.columns.columns:
        values = table.column(one.name)
        if isinstance(one, CategoryColumn):
            columns.append(_category(one, values, table.name, complete=complete))
            continue
        finite, noticed = _finite(values), ""
        found = ranged(one.name, finite, iterates=bool(further))
        if one.name in beside or _like_ids(values):
            found = found._replace(grid=far_grid(finite), why=WIDE, unit="")
        mean, fill = _fill(finite, found.grid)
        if not np.ptp(finite):
            noticed = "the same number in all rows of the sample. Drop it unless it differs elsewhere."
        words, odd = _words(values)
        if odd:
            noticed = _odd_cells(words, odd)
        if _like_ids(values) and one.name not in beside:
            noticed = "another whole number in every row, as ids have: drop it, or say id = above."
        missing, guessed = None if one.missing is None or complete else mean, codes.get(one.name, ())
        known = DraftColumn(one.name, grid=found.grid, missing=missing, noticed=noticed, why=found.why, fill=fill)
        columns.append(replace(known, unit=found.unit, missing_codes=(*words, *guessed), guessed=guessed))
    goal = _target(table, target, task, iterates=bool(further))
    goal = replace(goal, missing_codes=codes.get(target, ()), guessed=codes.get(target, ()))
    rows, row_id = max(_ROWS, _power_above(len(table))), ids[0] if ids else None
    complete = bool(left_out.any() if complete else absent[target].any())
    said = (_left_out(absent, left_out),) if complete else ()
    return Draft(
        name, tuple(columns), goal, rows, row_id, guess.left_out, complete_cases=complete, said=said, kind=further
    )


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
    return f"{odd} cells of the sample are no numbers: missing_codes takes {_listed(words)} as missing.{advice}"


def _fill(values: Floats, grid: tuple[float, float, float]) -> tuple[float, str]:
    """The mean, but that of few rows: the file, which everybody sees, holds nobody's value."""
    if len(values) < SMALLEST_CELL:
        return anchor(*grid), _NO_MEAN
    return _on_grid(float(values.mean()), grid), "the mean of the sample"


def _on_grid(value: float, grid: tuple[float, float, float]) -> float:
    low, high, step = grid
    return float(f"{min(max(low + round((value - low) / step) * step, low), high):.12g}")


def _is_text(values: Rows) -> bool:
    return values.dtype.kind == "U"


def _like_ids(values: Rows) -> bool:
    numbers = as_numbers(values)
    whole = len(numbers) >= _MANY and bool((numbers == np.round(numbers)).all())
    return whole and len(np.unique(numbers)) == len(numbers)


def _category(column: CategoryColumn, values: Rows, table: str, *, complete: bool) -> DraftColumn:
    """Without the texts that few rows of the sample have: a file that everybody sees does not tell one person's."""
    own = [one for one in column.levels if one not in (column.missing, OTHER)]
    texts = as_levels(values, own)
    rare = [one for one in own if one not in (FALSE, TRUE) and (texts == one).sum() < SMALLEST_CELL]
    if len(rare) == len(own):
        raise InvalidInput(
            f"column {column.name!r} of {table} must have a text that at least {SMALLEST_CELL} rows have, got none:"
            " drop the column, or take a larger sample"
        )
    missing, other = None if complete else column.missing, OTHER if rare else column.other
    levels = (*(one for one in own if one not in rare), *filter(None, (other, missing)))
    return DraftColumn(column.name, levels, missing=missing, other=other, rare=len(rare))


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
    if sum(gaps_of.get(one.name, 0) for one in columns) <= _MOST_LEFT_OUT * rows:
        columns = tuple(one.complete() if gaps_of.get(one.name) else one for one in columns)
    # Of a device's rows that are held out at least twice as many as columns are scored; fewer would only be lost.
    design = sum(1 if one.levels is None else len(one.levels) - 1 for one in columns)
    held_out = _HELD_OUT if _HELD_OUT * rows >= 2 * (design + 1) * devices else 0.0
    drafted = Draft(name, columns, replace(goal, missing=None), *bounds, complete_cases=complete_cases)
    return replace(drafted, held_out=held_out, kind=kind(len(goal.levels or ())))


def _counted_gaps(one: Any) -> int:
    """As Table 1 counts missing values; 0 where it has none, or only few."""
    count = one["missing"] if one["kind"] == "number" else one["counts"].get(one["missing"])
    return int(count or 0) if isinstance(count, int | float | None) else 0


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
        gaps = None
        if one["missing"] != 0 and one["fill"] is not None:
            gaps = _on_grid(float(one["fill"] if one["mean"] is None else one["mean"]), grid)
        fill = _NO_MEAN if one["mean"] is None else "the mean of all devices"
        return DraftColumn(
            name, None, grid, gaps, noticed=noticed, why=_OF_ALL, missing_codes=codes, fill=fill, of_all=True
        )
    # The level of unknown names stays, though nobody is counted there: rare levels are merged into it.
    missing, other = None if one["counts"].get(one["missing"]) == 0 else one["missing"], one["other"]
    levels = tuple(level for level in one["levels"] if level != one["missing"] or missing is not None)
    if not all(isinstance(level, str | int) for level in levels) or not {missing, other} <= {None, *levels}:
        raise ValueError(name)
    return DraftColumn(name, levels, missing=missing, other=other, missing_codes=codes, of_all=True)


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


_MOST_NAMED = 4
_MOST_CLASSES = 20  # with more different whole numbers nobody means classes


def _finite(values: Rows) -> Floats:
    numbers = as_numbers(values)
    return numbers[np.isfinite(numbers)]


# -- the file


def study_text(draft: Draft) -> str:
    """The study file.

    >>> age, ill = DraftColumn("age", grid=(0.0, 120.0, 1.0)), DraftColumn("ill", ("no", "yes"))
    >>> study_text(Draft("stay", (age,), ill)).splitlines()[4]
    'name = "stay"'
    """
    lines = [
        "# A study file: everything that turns rows into a model, and what the parties agree to.",
        "# All parties need the same file; codedfl study show says what it means, study check tries it on a table.",
        '# label = "Age at entry" and unit = "years" in a column or in [target] stand in tables and figures.',
        *(f"# Noticed: {note}" for note in draft.noticed),
        _say("format", FORMAT),
        _say("name", plain_name(draft.name)),
        _say("purpose", "", "what the model is for; people read it before they approve"),
        _say("edition", 1, "count up when the same study is made again on newer rows"),
        *_id(draft.id),
        *([_say("complete_cases", True, _COMPLETE)] if draft.complete_cases else []),
        "",
    ]
    for column in draft.columns:
        lines += [*_column(column, draft.describes), ""]
    lines += [*_target_lines(draft.target), "", *_rest(draft)]
    return "\n".join(lines) + "\n"


def _rest(draft: Draft) -> list[str]:
    protection = [
        "[protection]",
        _say(
            "colluders",
            1,
            "how many devices may help the server and still learn nothing but sums over disclosure groups",
        ),
        _say("least_participants", draft.participants, "no device takes part with fewer; more hide each one better"),
        _say(
            "max_rows", draft.rows * draft.participants, "public bound on the rows of all; room to spare costs digits"
        ),
        _say("max_rows_per_device", draft.rows, "public bound on the rows of one device"),
        _say(
            "smallest_cell",
            SMALLEST_CELL,
            "levels, missing values and classes with fewer people over all devices are merged",
        ),
        '# roster = "..."  # who takes part; devices approve nothing without it',
        '# server_key = "..."  # codedfl study kit fills in this and the line above',
        "",
    ]
    if draft.describes:
        names = [one.name for one in draft.columns]
        kind = ["[features]", _say("kind", NO_FEATURES, "no model: the study only describes"), ""]
        table = ["[[model]]", _say("name", "table 1"), _say("kind", TableOne.kind), f"columns = {_listed(names)}", ""]
        return [*kind, *protection, *table, "[result]", _say("held_out", 0.0, "all rows are described")]
    return [
        "[features]",
        _say(
            "kind",
            "linear",
            "linear: coefficients one can read; rbf: features of a Gaussian kernel, which need narrow ranges; pca-rbf;"
            " scattering; onnx",
        ),
        "",
        *protection,
        "[training]",
        _say("solver", "block-krylov", "how the server uses what it gets; all give the same model in the end"),
        _say("epochs", 50, "most exchanges with random features: each shows one more direction of the total X'X"),
        _say(
            "regularisation",
            1e-6 if draft.target.levels is None else 1e-4,
            "weight of |Theta|^2 against the mean squared error",
        ),
        "",
        "[result]",
        *_held_out(draft),
        _say("most_clipped", 0.0, "share of a column's values beyond its range above which there is no inference"),
        *_further(draft),
    ]


def _held_out(draft: Draft) -> list[str]:
    why = _WHY_ESTIMATED if draft.estimates else _WHY_HELD_OUT if draft.held_out else _WHY_NONE
    return [
        _say("held_out", 0.0 if draft.estimates else draft.held_out, why),
        _say("inference", draft.inference, "true: standard errors and p values; nothing more leaves for them"),
    ]


def _further(draft: Draft) -> list[str]:
    """What least squares does not say: odds, rates, hazards."""
    if not draft.kind:
        return []
    names = [one.name for one in draft.columns]
    return ["", *model_text(drafted_model(draft.kind, f"{draft.kind} of {draft.target.name}", names, {}))]


def _say(key: str, value: object, why: str = "") -> str:
    text = tomli_w.dumps({key: value}).strip()
    return f"{text}  # {why}" if why else text


def _id(name: str | None) -> list[str]:
    if name is not None:
        return [_say("id", name, "tells rows apart, never leaves a machine; sees what changed between editions")]
    return ['# id = "..."  # a column that tells rows apart, such as a patient number; it never leaves a machine']


def _column(column: DraftColumn, describes: bool) -> list[str]:
    lines = [*_noticed(column), "[[column]]", _say("name", column.name)]
    codes = (
        [f"missing_codes = {_listed(column.missing_codes)}  # what tables have in place of a missing value"]
        if column.missing_codes
        else []
    )
    if column.grid is None:
        lines += [
            _say("kind", "category"),
            f"levels = {_listed(column.levels or ())}  # all there may be; the first is the one the others are compared"
            " with",
            *codes,
        ]
        if column.missing is not None:
            lines.append(_say("missing", column.missing, "the level that a missing value counts as"))
        if column.other is not None:
            return [*lines, _say("other", column.other, "the level that unknown and rare names count as")]
        return [*lines, '# other = "..."  # the level that unknown names count as; without it such rows are refused']
    lines += [_say("kind", "number"), *_grid(column), *codes]
    if column.missing is None:
        return [
            *lines,
            "# missing = 0.0  # what a missing value becomes, with a mark beside it; without it such rows are refused",
        ]
    why = "what a missing value becomes; a mark beside it lets the model learn what it means"
    why = "a missing value is counted as one, and is in no mean" if describes else why
    return [*lines, _say("missing", column.missing, why)]


def _target_lines(target: DraftColumn) -> list[str]:
    codes = [f"missing_codes = {_listed(target.missing_codes)}  # what tables have in place of a missing value"]
    lines = [*_noticed(target), "[target]", _say("name", target.name), *(codes if target.missing_codes else [])]
    if target.grid is not None:
        return [*lines, *_grid(target)]
    levels = target.levels or ()
    second = f"; odds are those of the second, here {levels[1]}" if len(levels) == 2 else ""
    return [*lines, f"classes = {_listed(levels)}  # all there may be{second}"]


def _grid(column: DraftColumn) -> list[str]:
    assert column.grid is not None
    low, high, step = column.grid
    return [
        f"range = [{low!r}, {high!r}]  # {column.why}",
        _say("step", step, "the unit of record of the coarsest site: whole years, 0.1 kg"),
        *([_say("unit", column.unit, "in which every site records it")] if column.unit else []),
    ]


def _noticed(column: DraftColumn) -> list[str]:
    return [f"# Noticed: {one}" for one in column.remarks]


def _listed(values: Sequence[str | float]) -> str:
    return "[" + ", ".join(tomli_w.dumps({"x": one}).partition("=")[2].strip() for one in values) + "]"


def _power_above(count: int) -> int:
    return 1 << max(count - 1, 1).bit_length()
