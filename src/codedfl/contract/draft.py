"""A first study from a sample: every choice is made, and says in a comment why and what to think about.

The sample is somebody's own table. Its extremes are rounded outwards, so that the file, which everybody sees, does not
hold a person's value; whoever publishes the file reads it first.
"""

from __future__ import annotations

import math

import numpy as np
import tomli_w

from codedfl.contract.toml_file import FORMAT
from codedfl.data.columns import CategoryColumn, NumberColumn, guess_columns, numbers_the_rows
from codedfl.data.dataset import Task, as_labels
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput

PARTICIPANTS = 5
_ROWS = 10_000
_MOST_STEPS = 1 << 20  # of a drafted column: finer is rarely a unit of record
_MOST_DECIMALS = 9
_OFF_GRID = 1e-6  # in steps


def draft_study(
    table: RawTable,
    target: str,
    name: str,
    drop: tuple[str, ...] = (),
    participants: int = PARTICIPANTS,
    task: Task | None = None,
    keep: tuple[str, ...] | None = None,
) -> str:
    """The text of a study file for tables like this one.

    task: what the target is for; None guesses: text, and few whole numbers, are classes.
    keep: columns to learn from, exactly these; None takes all but the target and ``drop``.

    >>> from codedfl.data.tables import as_raw_table
    >>> text = draft_study(as_raw_table({"age": [61, 58, 70.0], "days": [7.5, 3, 4.0]}), "days", "stay")
    >>> [line.partition("#")[0].strip() for line in text.splitlines() if line.startswith("step")]
    ['step = 1.0', 'step = 0.1']
    """
    guess = guess_columns(table.without([target]), keep=keep, drop=drop)
    lines = [
        "# A study file: everything that turns rows into a model, and what the parties agree to.",
        "# All parties need the same file; codedfl study show says what it means, study check tries it on a table.",
        *(f"# Noticed: {note}" for note in guess.left_out),
        _say("format", FORMAT),
        _say("name", name),
        _say("purpose", "", "what the model is for; people read it before they approve"),
        _say("edition", 1, "count up when the same study is made again on newer rows"),
        *_id(table, target),
        "",
    ]
    for column in guess.columns.columns:
        lines += [*_column(table, column), ""]
    rows = max(_ROWS, _power_above(len(table)))
    classes = _is_classes(table, target, task)
    lines += [
        *_target(table, target, classes, guessed=task is None),
        "",
        "[features]",
        _say(
            "kind",
            "linear",
            "linear: coefficients one can read; rbf: features of a Gaussian kernel; pca-rbf; scattering; onnx",
        ),
        "",
        "[protection]",
        _say("colluders", 1, "how many devices may help the server and still learn nothing but totals over pods"),
        _say("least_participants", participants, "no device takes part with fewer; more hide each one better"),
        _say("max_rows", rows * participants, "public bound on the rows of all; room to spare costs digits"),
        _say("max_rows_per_device", rows, "public bound on the rows of one device"),
        _say("smallest_cell", 5, "levels with fewer rows than this are merged first"),
        '# roster = "..."  # the line that codedfl roster show prints; devices approve nothing without it',
        '# server_key = "..."  # the line that codedfl key --server prints on the server',
        "",
        "[training]",
        _say("solver", "block-krylov", "how the server uses what it gets; all give the same model in the end"),
        _say("epochs", 50, "most exchanges with random features: each shows one more direction of the total X'X"),
        _say("regularisation", 1e-4 if classes else 1e-6, "weight of |Theta|^2 against the mean squared error"),
        "",
        "[result]",
        _say("held_out", 0.2, "share of each device's rows kept out of training for the score"),
        _say("inference", False, "true: standard errors and p values; nothing more leaves for them"),
    ]
    return "\n".join(lines) + "\n"


def _say(key: str, value: object, why: str = "") -> str:
    text = tomli_w.dumps({key: value}).strip()
    return f"{text}  # {why}" if why else text


def _column(table: RawTable, column: NumberColumn | CategoryColumn) -> list[str]:
    values = table.column(column.name)
    lines = ["[[column]]", _say("name", column.name)]
    if values.dtype.kind == "f" and not np.ptp(values[np.isfinite(values)]):
        lines[:0] = ["# Noticed: the same number in all rows of the sample. Drop it unless it differs elsewhere."]
    if isinstance(column, CategoryColumn):
        lines += [
            _say("kind", "category"),
            "levels = [" + ", ".join(_text(level) for level in column.levels) + "]"
            "  # all there may be; the first is the one the others are compared with",
        ]
        if column.missing is not None:
            lines.append(_say("missing", column.missing, "the level that a gap counts as"))
        return [*lines, '# other = "..."  # the level that unknown names count as; without it such rows are refused']
    low, high, step = drafted_grid(values[np.isfinite(values)])
    lines += [
        _say("kind", "number"),
        f"range = [{low!r}, {high!r}]  # what is possible, not what the sample had: beyond is clipped and counted",
        _step(step),
    ]
    if column.missing is None:
        return [*lines, "# missing = 0.0  # what a gap becomes, with a mark beside it; without it gaps are refused"]
    middle = float(np.clip(round((low + high) / 2, 6), low, high))
    return [*lines, _say("missing", middle, "what a gap becomes; a mark beside it lets the model learn what it means")]


def _target(table: RawTable, target: str, classes: bool, guessed: bool) -> list[str]:
    values = table.column(target, "the target")
    lines = ["[target]", _say("name", target)]
    if not classes:
        low, high, step = drafted_grid(values[np.isfinite(values)])
        return [
            *lines,
            f"range = [{low!r}, {high!r}]  # what is possible: beyond is clipped in training, and counted",
            _step(step),
        ]
    present = values[values != ""] if values.dtype.kind == "U" else values[np.isfinite(values)].astype(np.int64)
    levels = np.unique(present).tolist()
    shown = ", ".join(_text(one) if isinstance(one, str) else str(one) for one in levels)
    if guessed and present.dtype.kind != "U":
        lines[:0] = ["# Guessed from few whole numbers. If it is a quantity: codedfl study new --task regression"]
    return [*lines, f"classes = [{shown}]  # all there may be"]


def _is_classes(table: RawTable, target: str, task: Task | None) -> bool:
    values = table.column(target, "the target")
    present = values[values != ""] if values.dtype.kind == "U" else values[np.isfinite(values)]
    if not len(present):
        raise InvalidInput(f"the target {target!r} of {table.name} must hold values, got gaps only")
    return as_labels(present, task)[1] == "classification"


def _id(table: RawTable, target: str) -> list[str]:
    """The column that numbers patients, if one has a name for it."""
    found = [name for name in table.names if name != target and numbers_the_rows(name, table.column(name))]
    if found:
        return [_say("id", found[0], "tells rows apart, never leaves a machine; sees what changed between editions")]
    return ['# id = "..."  # a column that tells rows apart, such as a patient number; it never leaves a machine']


def _step(step: float) -> str:
    return _say("step", step, "the unit of record of the coarsest site: whole years, 0.1 kg")


def drafted_grid(values: np.ndarray) -> tuple[float, float, float]:
    """A range around the values and a step, with the values on the grid: steps are counted from the low end.

    >>> drafted_grid(np.array([1.0, 2.0]))
    (0.0, 3.0, 1.0)
    """
    low, high = outer_range(values)
    step = unit_of_record(values, low, high)
    low, high = (turn(end / step) * step for turn, end in ((_floor, low), (_ceil, high)))
    return float(f"{low:.12g}"), float(f"{high:.12g}"), step


def _floor(steps: float) -> int:
    """What is a whole number but for rounding stays one."""
    return math.floor(steps + _OFF_GRID)


def _ceil(steps: float) -> int:
    return math.ceil(steps - _OFF_GRID)


def unit_of_record(values: np.ndarray, low: float, high: float) -> float:
    """1, 0.1, 0.01, ..., as many decimals as the values have; coarser where the range would have too many steps.

    >>> unit_of_record(np.array([58.1, 61.0]), 0.0, 110.0)
    0.1
    """
    decimals = 0
    while decimals < _MOST_DECIMALS and not np.allclose(values, np.round(values, decimals), rtol=1e-12, atol=1e-12):
        decimals += 1
    while (high - low) * 10.0**decimals > _MOST_STEPS:
        decimals -= 1
    return float(f"1e{-decimals}")


def _text(value: str) -> str:
    return tomli_w.dumps({"x": value}).partition("=")[2].strip()


def outer_range(values: np.ndarray) -> tuple[float, float]:
    """A range around the values with a tenth of room, its ends rounded outwards to two digits of the width.

    Values that are never negative keep 0 as their end. A constant column takes its own size, or 1, for a width.
    """
    least, most = float(values.min()), float(values.max())
    width = (most - least) or abs(most) or 1.0
    unit = 10.0 ** (math.floor(math.log10(width)) - 1) * 5
    low = math.floor((least - 0.1 * width) / unit) * unit
    high = math.ceil((most + 0.1 * width) / unit) * unit
    if least >= 0 > low:
        low = 0.0
    return float(f"{low:.12g}"), float(f"{high:.12g}")


def _power_above(count: int) -> int:
    return 1 << max(count - 1, 1).bit_length()
