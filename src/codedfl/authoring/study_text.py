"""The text of a drafted study file: every choice is made, and says in a comment why."""

from __future__ import annotations

from collections.abc import Sequence

import tomli_w

from codedfl.authoring.draft import Draft, DraftColumn
from codedfl.authoring.drafted_model import drafted_model, model_text
from codedfl.contract.models import TableOne
from codedfl.contract.names import plain_name
from codedfl.contract.study import NO_FEATURES
from codedfl.contract.toml_file import FORMAT

SMALLEST_CELL = 5
_WHY_HELD_OUT = "share of each device's rows kept out of training for the score"
_WHY_ESTIMATED = "all rows make the model, as a formula asks; 0.2 keeps a fifth of each device's for a score"
_COMPLETE = (
    "rows with missing values are left out and counted; missing = a value, in a column, fills and marks them instead"
)
_WHY_NONE = "the devices have too few rows for a score beside this many columns"


def study_text(draft: Draft) -> str:
    """The study file.

    >>> from codedfl.authoring.draft import Draft, DraftColumn
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
        table = ["[[model]]", _say("name", "table 1"), _say("kind", TableOne.kind), f"columns = {listed(names)}", ""]
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
        [f"missing_codes = {listed(column.missing_codes)}  # what tables have in place of a missing value"]
        if column.missing_codes
        else []
    )
    if column.grid is None:
        lines += [
            _say("kind", "category"),
            f"levels = {listed(column.levels or ())}  # all there may be; the first is the one the others are compared"
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
    codes = [f"missing_codes = {listed(target.missing_codes)}  # what tables have in place of a missing value"]
    lines = [*_noticed(target), "[target]", _say("name", target.name), *(codes if target.missing_codes else [])]
    if target.grid is not None:
        return [*lines, *_grid(target)]
    levels = target.levels or ()
    second = f"; odds are those of the second, here {levels[1]}" if len(levels) == 2 else ""
    return [*lines, f"classes = {listed(levels)}  # all there may be{second}"]


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


def listed(values: Sequence[str | float]) -> str:
    """As TOML has a list.

    >>> listed(["a", 1.5])
    '["a", 1.5]'
    """
    return "[" + ", ".join(tomli_w.dumps({"x": one}).partition("=")[2].strip() for one in values) + "]"
