"""From terms to columns: what the study lists of the table, and the derived columns that a formula makes of them."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product as each_of
from typing import NamedTuple

from codedfl.authoring.formula.calls import CATEGORIES, Call, call_of
from codedfl.authoring.formula.parser import Formula, parse_formula
from codedfl.authoring.formula.splines import breaks_of, natural_weights, spline_columns
from codedfl.contract.study import factors_of
from codedfl.data.columns import CategoryColumn, Column, DerivedColumn, NumberColumn
from codedfl.data.derived import FUNCTIONS, MOST_POWER, Factor, interval
from codedfl.errors import InvalidInput

_MOST_STEPS = 1 << 20
_MOST_CUTS = 20
_COMPARED = {ast.Gt: "above", ast.GtE: "least", ast.Lt: "below", ast.LtE: "upto"}
_MIRRORED = {"above": "below", "least": "upto", "below": "above", "upto": "least"}
_TREATMENT = "write C({x}, Treatment('level')): other codings are contrasts of it (codedfl study refit --contrast)"
KnownColumns = Mapping[str, Column]


class TermPart(NamedTuple):
    """A factor of a term: the columns that it may be, by name; its own name; the column that it is by itself, or "".

    Examples
    --------
    >>> from codedfl.authoring.formula.calls import call_of
    >>> from codedfl.authoring.formula.terms import part_of
    >>> from codedfl.data.columns import NumberColumn
    >>> age = NumberColumn("age", (0.0, 100.0), 1.0)
    >>> [name for name, _ in part_of(call_of("cut(age, c(-Inf, 50, 70, Inf))"), {"age": age}).columns]
    ['age in (50, 70]', 'age > 70']
    """

    columns: tuple[tuple[str, Factor], ...]
    margin: str
    plain: str = ""


def expand(formula: str, columns: tuple[Column, ...], target: str) -> tuple[Column, ...]:
    """The columns of a study: those that the formula names, and the derived ones that it makes of them.

    columns: all columns of the table that may be named, with ranges, steps and levels.

    Examples
    --------
    >>> from codedfl.data.columns import CategoryColumn, NumberColumn
    >>> from codedfl.authoring.formula import expand
    >>> age = NumberColumn("age", (0.0, 100.0), 1.0)
    >>> ward = CategoryColumn("ward", ("a", "b", "c"))
    >>> found = expand("days ~ age * C(ward)", (age, ward), "days")
    >>> [(one.name, one.range, one.step) for one in found[2:]]
    [('age:ward = b', (0.0, 100.0), 1.0), ('age:ward = c', (0.0, 100.0), 1.0)]
    >>> expand("days ~ age + scale(age)", (age, ward), "days")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the formula must learn nothing from rows, got scale(age): write I((age - 50) / 10) \
with numbers of your own
    """
    parsed = parse_formula(formula)
    if parsed.response.function not in ("", *FUNCTIONS):
        raise InvalidInput(
            f"a function of the target must be one of {', '.join(FUNCTIONS)}, got {parsed.response.function[:40]!r}"
        )
    if parsed.response.name != target:
        raise InvalidInput(
            f"the formula must begin with the target, '{target} ~', got {parsed.response.name[:60]!r} before '~'"
        )
    constant_by(formula, columns)
    known = {one.name: one for one in columns}
    calls = {text: call_of(text) for term in parsed.terms for text in term}
    known = _referred(calls.values(), known)
    terms = [tuple(part_of(calls[text], known) for text in term) for term in parsed.terms]
    plain: set[str] = set()
    made: list[Column] = []
    whole = {frozenset(part.margin for part in term) for term in terms}
    for term in terms:
        _check_margins(term, whole)
        if len(term) == 1 and term[0].plain:
            plain.add(term[0].plain)
            continue
        made += [_derived(dict(named), known) for named in each_of(*(part.columns for part in term))]
    beside, offset = _beside(parsed, known)
    used = plain | beside | {factor.column for one in (*made, *offset) for factor in factors_of(one)}
    listed = [known[name] if name in plain else known[name].beside() for name in known if name in used]
    return (*listed, *made, *offset)


def _beside(parsed: Formula, known: KnownColumns) -> tuple[set[str], list[Column]]:
    """Columns that only a further model uses: events, entries, strata and an offset, which may be a derived one."""
    response = parsed.response
    names = {*filter(None, (response.entry, parsed.strata, parsed.cluster))}
    made: list[Column] = []
    for text in filter(None, (response.event, parsed.offset)):
        part = _part_beside(text, known)
        if text == parsed.offset and (len(part.columns) != 1 or part.columns[0][1].level):
            raise InvalidInput(f"offset must be of one number, got {parsed.offset[:60]!r}")
        if part.plain:
            names.add(part.plain)
        else:
            made.append(_derived(dict(part.columns), known).beside())
    for name in sorted(names - known.keys()):
        raise _unknown(name, known)
    return names, made


def _part_beside(text: str, known: KnownColumns) -> TermPart:
    return part_of(call_of(text), known)


def event_name(formula: str, columns: tuple[Column, ...]) -> str:
    """What the study calls the column of the event in ``Surv``; "" without one. It must be, or be said to be, 0 or 1.

    Examples
    --------
    >>> from codedfl.authoring.formula.terms import event_name
    >>> died = CategoryColumn("died", ("no", "yes"))
    >>> event_name("Surv(days, died == 'yes') ~ age", (died,))
    'died == yes'
    >>> event_name("Surv(days, died) ~ age", (died,))
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the event must be 0 or 1, got 'died' with no, yes: write Surv(days, died == 'yes')
    """
    response, known = parse_formula(formula).response, {one.name: one for one in columns}
    if not response.event:
        return ""
    part = _part_beside(response.event, known)
    column = known[part.plain] if part.plain else None
    if column is not None and (isinstance(column, CategoryColumn) or column.range != (0.0, 1.0)):
        has = ", ".join(column.levels) if isinstance(column, CategoryColumn) else "other numbers"
        one = repr(column.levels[-1]) if isinstance(column, CategoryColumn) else "2"
        inside = ", ".join(filter(None, (response.entry, response.name, f"{part.plain} == {one}")))
        raise InvalidInput(f"the event must be 0 or 1, got {part.plain!r} with {has[:60]}: write Surv({inside})")
    return part.columns[0][0]


def offset_name(formula: str, columns: tuple[Column, ...]) -> str:
    """What the study calls the column of ``offset(...)``; "" without one.

    Examples
    --------
    >>> from codedfl.authoring.formula.terms import offset_name
    >>> from codedfl.data.columns import NumberColumn
    >>> years = NumberColumn("years", (1.0, 20.0), 1.0)
    >>> offset_name("visits ~ age + offset(log(years))", (years,))
    'log(years)'
    """
    offset = parse_formula(formula).offset
    return part_of(call_of(offset), {one.name: one for one in columns}).columns[0][0] if offset else ""


def constant_by(formula: str, columns: tuple[Column, ...]) -> str:
    """The category whose levels have the constants where a formula takes the one away: its first; "" where it does not.

    Examples
    --------
    >>> from codedfl.authoring.formula.terms import constant_by
    >>> from codedfl.data.columns import CategoryColumn
    >>> constant_by("days ~ C(ward) - 1", (CategoryColumn("ward", ("a", "b")),))
    'ward'
    """
    parsed = parse_formula(formula)
    if parsed.constant:
        return ""
    known = {one.name: one for one in columns}
    parts = [part_of(call_of(term[0]), known) for term in parsed.terms if len(term) == 1]
    found = [one.plain for one in parts if one.plain and isinstance(known[one.plain], CategoryColumn)]
    if not found:
        raise InvalidInput(
            "the formula must keep its constant unless a category has one for each level, got one without: leave out"
            " '0 +' and '- 1'"
        )
    return found[0]


def _unknown(name: str, known: KnownColumns) -> InvalidInput:
    return InvalidInput(f"the formula must name columns of the study ({', '.join(known)}), got {name[:60]!r}")


# -- categories, and the level that the others are compared with


def _referred(calls: Iterable[Call], known: KnownColumns) -> dict[str, Column]:
    """Columns with the level first that ``Treatment`` or ``relevel`` names."""
    said: dict[str, str] = {}
    for call in calls:
        level = reference_of(call) if call.function in CATEGORIES else ""
        if level and said.setdefault(call.column, level) != level:
            raise call.refuse(f"column {call.column!r} must have one reference level")
    found = dict(known)
    for name, level in said.items():
        column = known.get(name)
        if not isinstance(column, CategoryColumn):
            continue  # what it is in place of one is said with its term
        if level not in column.levels:
            raise InvalidInput(f"Treatment of {name!r} must name one of its levels, got {level[:60]!r}")
        levels = (level, *(one for one in column.levels if one != level))
        found[name] = replace(column, levels=levels)
    return found


def reference_of(call: Call) -> str:
    """The level of ``C(x, Treatment("b"))`` or ``relevel(x, ref="b")``; "" leaves the first.

    Examples
    --------
    >>> from codedfl.authoring.formula.calls import call_of
    >>> from codedfl.authoring.formula.terms import reference_of
    >>> reference_of(call_of("C(ward, Treatment(reference='b'))"))
    'b'
    """
    instead = _TREATMENT.format(x=call.column)
    if not isinstance(call.first, ast.Name):
        raise call.refuse(f"{call.function} must be of a column")
    if not call.arguments:
        if call.function == "C":
            return ""
        raise call.refuse("relevel must name its ref")
    if len(call.arguments) > 1 or not {*call.arguments} <= {"0", "ref", "contr"}:
        raise call.refuse(f"{call.function} must have one column, and a reference level or none", instead)
    (node,) = call.arguments.values()
    if call.function == "C":
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Treatment"
        values = [*node.args, *(one.value for one in node.keywords)] if isinstance(node, ast.Call) and named else []
        if isinstance(node, ast.Name) and node.id == "Treatment":
            return ""
        if len(values) != 1:
            raise call.refuse("C must have treatment coding", instead)
        node = values[0]
    level = node.value if isinstance(node, ast.Constant) else None
    if type(level) not in (str, int):
        raise call.refuse("a reference level must be a text or a whole number")
    return str(level)


# -- from a call to factors


def part_of(call: Call, known: KnownColumns) -> TermPart:
    """What a factor may be, of columns that are known.

    Examples
    --------
    See ``TermPart``.
    """
    name = call.column
    if name not in known:
        raise _unknown(name, known)
    column = known[name]
    if isinstance(column, CategoryColumn):
        if call.function in ("", *CATEGORIES):
            levels = ((f"{name} = {level}", Factor(name, level)) for level in column.levels[1:])
            return TermPart(tuple(levels), name, name)
        if call.function == "I":
            factor = _level(call, column)
            return _one(factor, f"{name} == {factor.level}")
    if call.function in CATEGORIES or column.range is None:
        wanted = "category" if call.function in CATEGORIES else "number"
        raise InvalidInput(f"column {name!r} must be a {wanted} in the study for {call.text[:60]!r}, got another kind")
    if call.function == "":
        return TermPart(((name, Factor(name)),), name, name)
    return _of_number(call, column.range)


def _one(factor: Factor, name: str = "") -> TermPart:
    name = name or str(factor)
    return TermPart(((name, factor),), name, factor.column if factor == Factor(factor.column) else "")


def _numbered(call: Call, factors: list[Factor]) -> TermPart:
    return TermPart(tuple((f"{call.text}[{place}]", one) for place, one in enumerate(factors, 1)), call.text)


def _of_number(call: Call, ends: tuple[float, float]) -> TermPart:
    if call.function == "I":
        call.named()
        return _one(_expression(call, call.first))
    moved = call.moved()
    if call.function in FUNCTIONS:
        call.named()
        return _one(Factor(moved.column, function=call.function, minus=moved.minus, per=moved.per))
    if moved != (call.column, 0.0, 1.0):
        raise call.refuse(f"{call.function} must be of a column as it is")
    if call.function == "bs":
        return _numbered(call, [Factor(call.column, knots=knots) for knots in spline_columns(call, ends)])
    if call.function == "ns":
        knots, columns = natural_weights(breaks_of(call, ends, 3, fewest=1))
        return _numbered(call, [Factor(call.column, knots=knots, weights=weights) for weights in columns])
    return _powers(call) if call.function == "poly" else _cut(call, ends)


def _powers(call: Call) -> TermPart:
    """``poly(x, 3, raw=True)``: the fit is that of orthogonal columns, which would be learnt from rows."""
    said = call.named("degree", "raw")
    if "raw" not in said or not call.truth(said["raw"]):
        raise InvalidInput(
            f"the formula must learn nothing from rows, got {call.text[:60]}: write poly({call.column}, 2, raw=True),"
            " whose fit is the same"
        )
    degree = call.whole(said["degree"]) if "degree" in said else 1
    if not 1 <= degree <= MOST_POWER:
        raise call.refuse(f"degree of poly must be between 1 and {MOST_POWER}")
    return _numbered(call, [Factor(call.column, power=power) for power in range(1, degree + 1)])


def _cut(call: Call, ends: tuple[float, float]) -> TermPart:
    """Intervals of public breaks, (a, b] as in R and pandas; the first is the reference."""
    said = call.named("breaks", "bins", "right", "include_lowest")
    given = [said[key] for key in ("breaks", "bins") if key in said]
    breaks = call.listed(given[0]) if len(given) == 1 else []
    flags = [call.truth(said[key]) if key in said else usual for key, usual in _FLAGS]
    if len(breaks) < 3 or breaks != sorted(set(breaks)) or len(breaks) > _MOST_CUTS or None in flags:
        raise call.refuse(
            f"cut must have 3 to {_MOST_CUTS} ascending breaks, and right and include_lowest as True or False",
            f"breaks that are counted would be learnt from rows: cut({call.column}, [-Inf, 50, Inf])",
        )
    right, lowest = flags
    first, *inner, last = breaks
    covered = (first < ends[0] or (first == ends[0] and (not right or lowest))) and (
        last > ends[1] or (last == ends[1] and (right or lowest))
    )
    if not covered or not ends[0] < inner[0] <= inner[-1] < ends[1]:
        raise call.refuse(
            f"breaks of cut must cover the range {list(ends)}, with all but the first and the last inside it",
            f"begin with -Inf and end with Inf, [-Inf, {', '.join(f'{one:g}' for one in inner)}, Inf]",
        )
    above, upto = ("above", "upto") if right else ("least", "below")
    found: list[tuple[str, Factor]] = []
    for low, high in zip(inner, [*inner[1:], math.inf], strict=True):
        between = {above: low} | ({upto: high} if math.isfinite(high) else {})
        factor = Factor(call.column, **between)  # type: ignore[arg-type]
        found.append((str(factor), factor))
    return TermPart(tuple(found), call.text)


_FLAGS = (("right", True), ("include_lowest", False))


def _expression(call: Call, node: ast.expr) -> Factor:
    """What ``I()`` holds: a comparison, a power, a function or a number that is moved."""
    if isinstance(node, ast.Compare | ast.BoolOp) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd)):
        return _comparison(call, node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        moved, power = call.moved(node.left), call.whole(node.right)
        if not 1 <= power <= MOST_POWER:
            raise call.refuse(f"a power must be between 1 and {MOST_POWER}")
        return Factor(moved.column, power=power, minus=moved.minus, per=moved.per)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        if len(node.args) != 1 or node.keywords:
            raise call.refuse(f"{node.func.id} must have one column and nothing else")
        moved = call.moved(node.args[0])
        return Factor(moved.column, function=node.func.id, minus=moved.minus, per=moved.per)
    moved = call.moved(node)
    return Factor(moved.column, minus=moved.minus, per=moved.per)


def _comparison(call: Call, node: ast.expr) -> Factor:
    """``a > 50``, ``30 < a <= 50`` or ``(a > 30) & (a <= 50)`` of one number."""
    if isinstance(node, ast.BinOp):
        parts = [_comparison(call, one) for one in (node.left, node.right)]
        said = [{key: end for key in _MIRRORED if (end := getattr(one, key)) is not None} for one in parts]
        if len({(one.minus, one.per) for one in parts}) != 1 or {*said[0]} & {*said[1]}:
            raise call.refuse("comparisons must be of the same number, one from below and one from above")
        return replace(parts[0], **said[1])
    if not isinstance(node, ast.Compare):
        raise call.refuse("comparisons must be joined by &", "what either allows is a column for each")
    sides, found = [node.left, *node.comparators], dict[str, float]()
    place, *more = [at for at, one in enumerate(sides) if call.constant(one) is None]
    if more:
        raise call.refuse("a comparison must be of a column with numbers")
    for at, operator in enumerate(node.ops):
        if place not in (at, at + 1):
            raise call.refuse("a comparison must have the column in it")
        end, after = call.value(sides[at + 1 if place == at else at]), place == at
        if isinstance(operator, ast.Eq):
            found |= {"least": end, "upto": end}
        elif type(operator) in _COMPARED:
            key = _COMPARED[type(operator)]
            found[key if after else _MIRRORED[key]] = end
        else:
            raise call.refuse("a comparison must be one of > >= < <= ==", "its opposite has the opposite coefficient")
    moved = call.moved(sides[place])
    return Factor(moved.column, minus=moved.minus, per=moved.per, **found)  # type: ignore[arg-type]


def _level(call: Call, column: CategoryColumn) -> Factor:
    """``I(ward == "b")``."""
    node = call.first
    call.named()
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        texts = [one.value for one in (node.left, node.comparators[0]) if isinstance(one, ast.Constant)]
        if len(texts) == 1 and str(texts[0]) in column.levels:
            return Factor(column.name, str(texts[0]))
    raise call.refuse(f"I of the category {column.name!r} must be like I({column.name} == '{column.levels[-1]}')")


# -- from factors to derived columns


def _check_margins(term: tuple[TermPart, ...], whole: set[frozenset[str]]) -> None:
    """Without its parts a product would mean another coding of levels, which is not offered."""
    for part in term if len(term) > 1 else ():
        rest = frozenset(one.margin for one in term) - {part.margin}
        if rest not in whole:
            raise InvalidInput(
                f"a product of the formula must have its parts beside it, got"
                f" {':'.join(one.margin for one in term)} without {':'.join(sorted(rest))}: write a * b"
            )


def _derived(named: Mapping[str, Factor], known: KnownColumns) -> Column:
    """With the range that follows from the columns' ranges, and a step that leaves a million of them at most."""
    factors = tuple(named.values())
    low, high = interval(factors, {name: one.range for name, one in known.items()})
    step = math.prod(_steps(factors, known))
    if not step or (high - low) / step > _MOST_STEPS:
        step = ten_to(high - low)
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    ends = float(f"{low:.12g}"), float(f"{high:.12g}")
    numbers = (known[one.column] for one in factors if not one.level)
    scale = next((said.scale for said in numbers if isinstance(said, NumberColumn)), "moments")
    return DerivedColumn(":".join(named), ends, float(f"{step:.12g}"), factors=factors, scale=scale)


def _steps(factors: tuple[Factor, ...], known: KnownColumns) -> Iterator[float]:
    """Of each factor the step of which its values are whole multiples, 0 where there is none."""
    for one in factors:
        column = known[one.column]
        if one.marks:
            yield 1.0
            continue
        step = (column.step or 0.0) / abs(one.per)
        at = (((column.range or (0.0, 0.0))[0] - one.minus) / one.per) / step if step else 0.5
        plain = not one.function and not one.knots and abs(at - round(at)) < 1e-9 * max(1.0, abs(at))
        yield step**one.power if plain else 0.0


def ten_to(width: float) -> float:
    """A power of ten of which a hundred thousand to a million fit.

    >>> ten_to(90.0)
    0.0001
    """
    return float(f"1e{math.floor(math.log10(width)) - 5}")
