"""A study file with a formula: what is drafted of it, and whether a study's columns are still those of its formula."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import tomli_w

from codedfl.authoring.drafted_model import LINEAR, POSITIVE, drafted_model, model_text, toml_value, with_room
from codedfl.authoring.formula.calls import CATEGORIES, Call, call_of
from codedfl.authoring.formula.parser import parse_formula
from codedfl.authoring.formula.terms import constant_by, event_name, expand, offset_name, part_of, ten_to
from codedfl.contract.study import Study, factors_of
from codedfl.contract.toml_file import parse_study
from codedfl.data.columns import CategoryColumn, ClassTarget, Column, NumberTarget, as_numbers, as_texts
from codedfl.data.derived import FUNCTIONS, Factor
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput
from codedfl.typing import Json, Rows

_LEAST_REACH = 500
_MOST_TIMES = 24
_TWO = 2  # classes
_NICE = (1, 1.5, 2, 3, 5, 7, 10)
_FROM_TABLE_ONE = (
    "one table has drafted it wide: draft from Table 1, whose ranges fit (codedfl study describe, then study new --from"
    " with --formula)"
)
_NAME_KNOTS = "name knots where the values are, such as quartiles of Table 1, bs(x, knots=[40, 60])"
Meaning = tuple[tuple[str, ...], str, bool, tuple[Factor, ...]]


def formula_objection(study: Study) -> str:
    """Why the columns of a study are not those of its formula; empty when they are, or when it has none.

    Examples
    --------
    >>> from codedfl.authoring.formula import formula_objection
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> formula_objection(Study("stay", (age,), days, 1000, 300, 4, formula="days ~ age + I(age**2)"))
    'columns must be the 2 of the formula, got 1'
    """
    if not study.formula:
        return ""
    listed = tuple(one for one in study.columns if not factors_of(one))
    wanted = expand(study.formula, listed, study.target.name)
    if (function := parse_formula(study.formula).response.function) != getattr(study.target, "function", ""):
        return f"function of the target must be {function!r}, as in the formula: {study.formula[:60]}"
    if (by := constant_by(study.formula, listed)) != study.constant_by:
        return f"constant_by must be {by!r}, as in the formula: {study.formula[:60]}"
    named = {one.name for one in wanted}
    # What is beside the model and not in the formula is a cluster, an offset, weights, an event: a [[model]] names it.
    given = tuple(one for one in study.columns if one.in_model or one.name in named)
    if strange := [one.name for one in given if not factors_of(one) and one.name not in named]:
        return f"column {strange[0]!r} must have in_model = false, since the formula does not name it"
    for one, other in zip(map(_meaning, given), map(_meaning, wanted), strict=False):
        if one != other:
            return (
                f"columns must be those that the formula makes of the ranges and levels, got {one[1]!r} in place of"
                f" {other[1]!r} or made otherwise: draft them again with codedfl study new --formula"
            )
    if len(wanted) != len(given):
        return f"columns must be the {len(wanted)} of the formula, got {len(given)}"
    return ""


def _meaning(one: Column) -> Meaning:
    return one.design_names, one.name, one.in_model, factors_of(one)


def names_in(formula: str) -> tuple[list[str], set[str]]:
    """The columns that a formula names beside its target, in its order, and those that it says are categories.

    Examples
    --------
    >>> from codedfl.authoring.formula import names_in
    >>> names_in("days ~ age * C(ward) + log(cost)")
    (['age', 'ward', 'cost'], {'ward'})
    """
    parsed = parse_formula(formula)
    calls = _calls(formula)
    event = [call_of(parsed.response.event).column] if parsed.response.event else []
    beside = (*filter(None, (parsed.strata, parsed.cluster, parsed.response.entry)), *event)
    names = list(dict.fromkeys((*(one.column for one in calls), *beside)))
    categories = {one.column for one in calls if one.function in CATEGORIES}
    return names, categories | ({parsed.strata} if parsed.strata and event else set())  # else it says who is matched


def kind_of_formula(formula: str, classes: int, kind: str = "") -> str:
    """The further model that a formula asks for, with a target of ``classes``; "" is the study's own linear one.

    kind: as its author says; "" leaves it to the formula: times to an event, matched sets, two classes.

    Examples
    --------
    >>> from codedfl.authoring.formula import kind_of_formula
    >>> kind_of_formula("Surv(days, died) ~ age", 0), kind_of_formula("ill ~ age", 2), kind_of_formula("days ~ age", 0)
    ('cox', 'logistic', '')
    """
    parsed = parse_formula(formula)
    if kind:
        return "" if kind == LINEAR else kind
    if parsed.response.event:
        return "cox"
    if classes == _TWO:
        return "conditional-logit" if parsed.strata else "logistic"
    return "poisson" if parsed.offset else ""


def _calls(formula: str) -> list[Call]:
    parsed = parse_formula(formula)
    return [call_of(text) for term in (*parsed.terms, *([(parsed.offset,)] if parsed.offset else [])) for text in term]


def draft_with_formula(
    table: RawTable | None,
    formula: str,
    draft: Callable[[RawTable | None, tuple[str, ...], tuple[str, ...]], str],
    quantiles: Mapping[str, Rows] | None = None,
    kind: str = "",
) -> str:
    """The text of a study file with a formula: ``draft`` writes it for a table and the columns that are kept of it.

    ``draft`` also takes those of the columns that only say who a row is of.

    kind: of the model that its author asks for; "" leaves it to the formula.
    table: a sample, of which numbers that the formula calls categories become levels; None where ``draft`` has Table 1,
        whose ``quantiles`` are then all that is known of values.
    The range of a number whose logarithm is taken begins one step above 0 where it would begin at 0.
    """
    names, categories = names_in(formula)
    target = parse_formula(formula).response.name
    if table is not None:
        texts = {name: as_texts(table.column(name)) for name in categories}
        table = replace(table, columns={**table.columns, **texts})
    parsed = parse_formula(formula)
    who = (parsed.cluster, "" if parsed.response.event else parsed.strata)
    text = _above_zero(draft(table, tuple(names), tuple(filter(None, who))), formula, names)
    target_now = parse_study(text).target
    classes = len(target_now.classes) if isinstance(target_now, ClassTarget) else 0
    kind = kind_of_formula(formula, classes, kind)
    if kind in POSITIVE:
        text = _target_above_zero(text, target)
    expanded = expand(formula, parse_study(text).columns, target)
    if table is not None:
        _check_splines(expanded, table.columns, "the sample", _FROM_TABLE_ONE)
    else:
        _check_splines(expanded, quantiles or {}, "95 % of all rows", _NAME_KNOTS)
    for one in expanded:
        text = _listed_again(text, one)
    columns = "\n".join(_listed(one) for one in expanded if factors_of(one))
    # Before what is noticed of the target, which stands above its section.
    text = re.sub(r"\n((?:# Noticed: .*\n)*\[target\])", lambda found: f"\n{columns}\n{found[1]}", text, count=1)
    text = _target_moved(text, formula)
    head, _, tail = text.partition("\n[target]")
    said = tomli_w.dumps({"formula": formula}).strip()
    head = head.replace("\nedition = ", f"\n{said}  # the columns below are made of it\nedition = ", 1)
    if by := constant_by(formula, tuple(one for one in parse_study(text).columns if not factors_of(one))):
        line = f"constant_by = {toml_value(by)}  # each of its levels has a constant in tables of linear models"
        head = head.replace("\nedition = ", f"\n{line}\nedition = ", 1)
    inside = [one.name for one in expanded if one.in_model]
    text = f"{head}\n[target]{tail}"
    longest = np.zeros(0) if table is None else as_numbers(table.column(target))
    if kind or parsed.strata or parsed.cluster or parsed.offset:
        text += _further(formula, text, kind or LINEAR, inside, longest)
        text = with_room(text, 0 if table is None else len(table))  # refused: a rate of what is no count
    return text


def _further(formula: str, text: str, kind: str, inside: list[str], seen: Rows) -> str:
    """The model that the formula means where it is another than the study's own, which is linear.

    seen: times of a sample, whose longest says how far the grid goes, to its order of magnitude; else the range does.
    """
    parsed, study = parse_formula(formula), parse_study(text)
    beside: dict[str, Json] = {
        "event": event_name(formula, study.columns),
        "entry": parsed.response.entry,
        "strata": parsed.strata,
        "cluster": parsed.cluster,
        "offset": offset_name(formula, study.columns),
    }
    if parsed.response.event:
        assert isinstance(study.target, NumberTarget)
        beside["times"] = list(_times(study.target, seen))
    lines = model_text(drafted_model(kind, f"{parsed.response.name} by formula", inside, beside))
    grid = ["# times: the public grid; take those that a reader asks for"] if parsed.response.event else []
    return "\n".join(
        ["", "# The formula's own model; the study's linear one comes of the same sums.", *grid, *lines, ""]
    )


def _target_above_zero(text: str, target: str) -> str:
    """The text with a target whose range begins above 0."""
    found = parse_study(text).target
    if not isinstance(found, NumberTarget) or found.range[0] > 0:
        return text
    begin = re.escape("\n[target]\n" + tomli_w.dumps({"name": target}))
    return re.sub(rf"({begin}(?:missing_codes.*\n)?range = \[)[^,]*", rf"\g<1>{found.step!r}", text)


def _times(target: NumberTarget, seen: Rows) -> list[float]:
    """Equal distances, in whole steps, to a number of ``_NICE`` beyond the longest time of a sample."""
    (low, high), step = target.grid.range, target.grid.step
    longest = float(np.max(seen[np.isfinite(seen)], initial=low))
    if longest > low:
        power = 10.0 ** math.floor(math.log10(longest - low))
        high = min(high, low + next(one for one in _NICE if one * power >= longest - low) * power)
    every = step * math.ceil((high - low) / step / _MOST_TIMES)
    return [float(f"{low + every * place:.12g}") for place in range(1, int((high - low) / every + 1e-9) + 1)]


def _above_zero(text: str, formula: str, names: list[str]) -> str:
    """The text with ranges that begin above 0 where the formula takes a logarithm of the column itself."""
    for call in _calls(formula):
        column = parse_study(text).columns[names.index(call.column)]
        if column.range is None or column.range[0] != 0 or column.step == column.range[1]:
            continue
        factors = (factor for _, factor in part_of(call, {call.column: column}).columns)
        if any(one.function in ("log", "log2", "log10") and not one.minus and one.per > 0 for one in factors):
            begin = re.escape(_head(call.column)) + r"kind = \"number\"\nrange = \["
            text = re.sub(f"({begin})0\\.0", rf"\g<1>{column.step!r}", text)
    return text


def _target_moved(text: str, formula: str) -> str:
    """The text with a target of which a function is predicted, on the function's own range, beginning above 0."""
    response, target = parse_formula(formula).response, parse_study(text).target
    if not response.function:
        return text
    if not isinstance(target, NumberTarget):
        raise InvalidInput(f"the target {response.name!r} must be a number for {response.function}, got classes")
    (low, high), least = target.range, FUNCTIONS[response.function][1]
    low = low if low > least else low + target.step
    first, last = (float(FUNCTIONS[response.function][0](np.array([end]))[0]) for end in (low, high))
    if not first < last < math.inf:
        raise InvalidInput(
            f"the target {response.name!r} must be where {response.function} is defined, got from {low:g}"
        )
    step = ten_to(last - first)
    ends = [float(f"{turn(end / step) * step:.12g}") for turn, end in ((math.floor, first), (math.ceil, last))]
    begin = re.escape("\n[target]\n" + tomli_w.dumps({"name": response.name})) + "(?:missing_codes.*\n)?"
    lines = f"function = {toml_value(response.function)}  # of what the tables have; range and step are its own\n"
    lines += f"range = {toml_value(list(ends))}\nstep = {toml_value(step)}\n"
    return re.sub(f"({begin})range = .*\nstep = .*\n", lambda found: found[1] + lines, text)


def _listed_again(text: str, one: Column) -> str:
    """A column of the table out of the model, or with the reference level that the formula names."""
    head = _head(one.name)
    if factors_of(one) or head not in text:
        return text
    before, _, after = text.partition(head)
    if not one.in_model:
        after = f"in_model = false  # in others only\n{after}"
    if isinstance(one, CategoryColumn):
        levels = f"levels = {toml_value(list(one.levels))}"
        after = re.sub(r"(?m)^levels = \[.*?\](?=  #|$)", lambda _: levels, after, count=1)
    return before + head + after


def _check_splines(columns: tuple[Column, ...], seen: Mapping[str, Rows], where: str, remedy: str) -> None:
    """Refuse splines whose knots lie so far beyond the values that were seen that they are 0 there, or nearly."""
    ranges = {one.name: one.range for one in columns}
    for one in columns:
        for factor in (factor for factor in factors_of(one) if factor.knots and factor.column in seen):
            values = as_numbers(seen[factor.column])
            reach = float(np.abs(factor.values(values[np.isfinite(values)])).max(initial=0.0)) / ten_to(1.0)
            if reach < _LEAST_REACH:
                ends = list(ranges[factor.column] or ())
                raise InvalidInput(
                    f"a spline must reach at least {_LEAST_REACH} of its steps in {where}, got {reach:.0f} of"
                    f" {one.name!r}: knots lie over the public range {ends}; {remedy}"
                )


def _listed(one: Column) -> str:
    """A derived column as the file lists it."""
    factors = ", ".join(
        "{ " + ", ".join(f"{key} = {toml_value(value)}" for key, value in factor.to_dict().items()) + " }"
        for factor in factors_of(one)
    )
    said: dict[str, Json] = {
        "name": one.name,
        "kind": "derived",
        "range": [*one.grid.range],
        "step": one.grid.step,
        **({} if one.in_model else {"in_model": False}),
    }
    return "\n".join(
        ["[[column]]", *(f"{key} = {toml_value(value)}" for key, value in said.items()), f"factors = [{factors}]", ""]
    )


def _head(name: str) -> str:
    return "[[column]]\n" + tomli_w.dumps({"name": name})
