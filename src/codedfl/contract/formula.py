"""A formula, as statisticians type it, expanded on the author's machine into columns that the study lists.

The parser of the package formulaic reads it (``codedfl[formula]``); its evaluator, which runs Python and learns levels
and knots from rows, is never called, and a device never loads it. What would learn from rows, and every name that is
not listed here, is refused. A constant is always in the model.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product as each_of

import numpy as np
import tomli_w

from codedfl.contract.study import Study, factors_of
from codedfl.contract.study_columns import StudyColumn
from codedfl.contract.toml_file import parse_study
from codedfl.data.columns import CategoryColumn, DerivedColumn, as_numbers, as_texts
from codedfl.data.derived import FUNCTIONS, MOST_DEGREE, Factor, interval, knots_of, spline_knots
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput
from codedfl.typing import Json, Rows

_LEARNS = {"scale", "center", "standardize", "poly", "cs", "cr", "cc", "cubic_spline", "te", "hashed", "lag"}
_MOST_LETTERS = 1000
_MOST_PRODUCTS = 8  # stars in a row make two to their number terms
_MOST_STEPS = 1 << 20
_MOST_DF = 12
_LEAST_REACH = 500
_FROM_TABLE_ONE = (
    "one table has drafted it wide: draft from Table 1, whose ranges fit (codedfl study describe, then study new --from"
    " with --formula)"
)
_NAME_KNOTS = "name knots where the values are, such as quartiles of Table 1, bs(x, knots=[40, 60])"
_TOO_MANY = re.compile(r"\^|\*\*\s*[^\d\s]|\*\*\s*\d\d|\)\s*\*\*\s*([4-9]|\d.*\)\s*\*\*)")  # they multiply the terms
_NAME = re.compile(r"`([^`]*)`")


def expand(formula: str, columns: tuple[StudyColumn, ...], target: str) -> tuple[StudyColumn, ...]:
    """The columns of a study: those that the formula names, and the derived ones that it makes of them.

    columns: all columns of the table that may be named, with ranges, steps and levels.

    Examples
    --------
    >>> from codedfl.contract.study_columns import StudyColumn
    >>> from codedfl.contract.formula import expand
    >>> from codedfl.data.columns import CategoryColumn, NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 100.0), 1.0)
    >>> ward = StudyColumn(CategoryColumn("ward", ("a", "b", "c")))
    >>> found = expand("days ~ age * C(ward)", (age, ward), "days")
    >>> [(one.column.name, one.range, one.step) for one in found[2:]]
    [('age:ward = b', (0.0, 100.0), 1.0), ('age:ward = c', (0.0, 100.0), 1.0)]
    >>> expand("days ~ age + scale(age)", (age, ward), "days")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the formula must learn nothing from rows, got scale(age)
    """
    known = {one.column.name: one for one in columns}
    terms = [tuple(_parts(text, known) for text in term) for term in _terms(formula, target)]
    plain: set[str] = set()
    made: list[StudyColumn] = []
    whole = {frozenset(map(_margin, term)) for term in terms}
    for term in terms:
        _check_margins(term, whole)
        if len(term) == 1 and (name := _as_it_is(term[0], known)):
            plain.add(name)
            continue
        made += [_derived(dict(named), known) for named in each_of(*(part for part, _ in term))]
    used = plain | {factor.column for one in made for factor in factors_of(one)}
    listed = [one if one.column.name in plain else one.beside() for one in columns if one.column.name in used]
    return (*listed, *made)


def formula_objection(study: Study) -> str:
    """Why the columns of a study are not those of its formula; empty when they are, or when it has none."""
    if not study.formula:
        return ""
    listed = tuple(one for one in study.columns if not factors_of(one))
    wanted = expand(study.formula, listed, study.target.name)
    named = {one.column.name for one in wanted}
    # What is beside the model and not in the formula is a cluster, an offset, weights, an event: a [[model]] names it.
    given = tuple(one for one in study.columns if one.column.in_model or one.column.name in named)
    if strange := [one.column.name for one in given if not factors_of(one) and one.column.name not in named]:
        return f"column {strange[0]!r} must have in_model = false, since the formula does not name it"
    for one, other in zip(_meanings(given), _meanings(wanted), strict=False):
        if one != other:
            return (
                f"columns must be those that the formula makes of the ranges and levels, got {one[0]!r} in place of"
                f" {other[0]!r} or made otherwise: draft them anew with codedfl study new --formula"
            )
    if len(wanted) != len(given):
        return f"columns must be the {len(wanted)} of the formula, got {len(given)}"
    return ""


def _meanings(columns: tuple[StudyColumn, ...]) -> list[tuple[str, bool, tuple[Factor, ...]]]:
    return [(one.column.name, one.column.in_model, factors_of(one)) for one in columns]


def names_in(formula: str, target: str) -> tuple[list[str], set[str]]:
    """The columns that a formula names, in its order, and those of them that it says are categories.

    Examples
    --------
    >>> from codedfl.contract.formula import names_in
    >>> names_in("days ~ age * C(ward) + log(cost)", "days")
    (['age', 'ward', 'cost'], {'ward'})
    """
    calls = [_call(text) for term in _terms(formula, target) for text in term]
    names = list(dict.fromkeys(name for _, name, _ in calls))
    return names, {name for function, name, _ in calls if function == "C"}


def draft_with_formula(
    table: RawTable | None,
    formula: str,
    draft: Callable[[RawTable | None, tuple[str, ...]], str],
    quantiles: Mapping[str, Rows] | None = None,
) -> str:
    """The text of a study file with a formula: ``draft`` writes it for a table and the columns that are kept of it.

    table: a sample, of which numbers that the formula calls categories become levels; None where ``draft`` has Table 1,
        whose ``quantiles`` are then all that is known of values.
    The range of a number whose logarithm is taken begins one step above 0 where it would begin at 0.
    """
    target = formula.partition("~")[0].strip().strip("`")
    names, categories = names_in(formula, target)
    if table is not None:
        texts = {name: as_texts(table.column(name)) for name in categories}
        table = replace(table, columns={**table.columns, **texts})
    text = draft(table, tuple(names))
    for name in set(re.findall(r"log(?:2|10)?\(`?([^)`]*)`?\)", formula)) & set(names):
        begin = re.escape(_head(name)) + r"kind = \"number\"\nrange = \["
        step = parse_study(text).columns[names.index(name)].step
        text = re.sub(f"({begin})0\\.0", rf"\g<1>{step!r}", text)
    expanded = expand(formula, parse_study(text).columns, target)
    if table is not None:
        _check_splines(expanded, table.columns, "the sample", _FROM_TABLE_ONE)
    else:
        _check_splines(expanded, quantiles or {}, "95 % of all rows", _NAME_KNOTS)
    for one in expanded:
        if not one.column.in_model:
            text = text.replace(_head(one.column.name), f"{_head(one.column.name)}in_model = false  # in others only\n")
    head, _, tail = text.partition("\n[target]")
    said = tomli_w.dumps({"formula": formula}).strip()
    head = head.replace("\nedition = ", f"\n{said}  # the columns below are made of it\nedition = ", 1)
    columns = "\n".join(_listed(one) for one in expanded if factors_of(one))
    return f"{head}\n{columns}\n[target]{tail}"


def _check_splines(columns: tuple[StudyColumn, ...], seen: Mapping[str, Rows], where: str, remedy: str) -> None:
    """Refuse splines whose knots lie so far beyond the values that were seen that they are 0 there, or nearly."""
    ranges = {one.column.name: one.range for one in columns}
    for one in columns:
        for factor in (factor for factor in factors_of(one) if factor.knots and factor.column in seen):
            values = as_numbers(seen[factor.column])
            reach = float(factor.values(values[np.isfinite(values)]).max(initial=0.0)) / _ten_to(1.0)
            if reach < _LEAST_REACH:
                ends = list(ranges[factor.column] or ())
                raise InvalidInput(
                    f"a spline must reach at least {_LEAST_REACH} of its steps in {where}, got {reach:.0f} of"
                    f" {one.column.name!r}: knots lie over the public range {ends}; {remedy}"
                )


def _listed(one: StudyColumn) -> str:
    """A derived column as the file lists it."""
    factors = ", ".join(
        "{ " + ", ".join(f"{key} = {_said(value)}" for key, value in factor.to_dict().items()) + " }"
        for factor in factors_of(one)
    )
    said: dict[str, Json] = {
        "name": one.column.name,
        "kind": "derived",
        "range": [*one.grid.range],
        "step": one.grid.step,
    }
    return "\n".join(
        ["[[column]]", *(f"{key} = {_said(value)}" for key, value in said.items()), f"factors = [{factors}]", ""]
    )


def _said(value: Json) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_said, value))}]"
    return tomli_w.dumps({"x": value}).partition("=")[2].strip()


def _head(name: str) -> str:
    return "[[column]]\n" + tomli_w.dumps({"name": name})


# -- from text to terms


def _terms(formula: str, target: str) -> list[list[str]]:
    """The factors of each term, as text; by formulaic's parser alone."""
    stars = formula.replace("**", "").count("*") + 2 * formula.count("%")
    if len(formula) > _MOST_LETTERS or stars > _MOST_PRODUCTS or _TOO_MANY.search(formula):
        raise InvalidInput(
            f"the formula must have at most {_MOST_LETTERS} letters, {_MOST_PRODUCTS} products, one (a + b)**2 or **3"
            f" and no ^, got {formula[:60]!r}"
        )
    try:
        from formulaic.parser import DefaultFormulaParser
    except ImportError:
        raise InvalidInput("formulaic must be installed for formulas: pip install 'codedfl[formula]'") from None
    try:
        found = DefaultFormulaParser(feature_flags=["twosided"]).get_terms(formula)
        left = [factor.expr for term in found.lhs for factor in term.factors]
        right = [[factor.expr for factor in term.factors] for term in found.rhs]
    except Exception as error:  # of a parser that says "not a formula" in many ways
        said = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise InvalidInput(f"the formula must be like 'y ~ a + C(b)', got {formula[:60]!r} ({said})") from None
    if left != [target]:
        raise InvalidInput(f"the formula must begin with the target, '{target} ~', got {' + '.join(left)[:60]!r}")
    if ["1"] not in right:
        raise InvalidInput("the formula must keep its constant, got one without: leave out '0 +' and '- 1'")
    if right == [["1"]]:
        raise InvalidInput(f"the formula must have a column beside its constant, got {formula[:60]!r}")
    return [term for term in right if term != ["1"]]


def _call(text: str) -> tuple[str, str, list[ast.expr | tuple[str, ast.expr]]]:
    """A factor as (function, column, further arguments); the function of a plain name is ""."""
    quoted: list[str] = []

    def keep(match: re.Match[str]) -> str:
        quoted.append(match[1])
        return f"_quoted_{len(quoted) - 1}_"

    if re.fullmatch(r"[^()`{}'\"\[\]]+", text) and not re.fullmatch(r"[\d.eE+-]+", text):
        return "", text, []
    try:
        tree = ast.parse(_NAME.sub(keep, text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidInput(f"a term of the formula must be a column or a call, got {text[:60]!r}") from None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or not tree.args:
        raise InvalidInput(f"a term of the formula must be a column or a call, got {text[:60]!r}")
    function, first = tree.func.id, tree.args[0]
    if function in _LEARNS:
        raise InvalidInput(f"the formula must learn nothing from rows, got {text[:60]}")
    rest: list[ast.expr | tuple[str, ast.expr]] = [*tree.args[1:]]
    rest += [(one.arg or "", one.value) for one in tree.keywords]
    if function == "I" and isinstance(first, ast.BinOp) and isinstance(first.op, ast.Pow) and not rest:
        rest, first = [first.right], first.left
    if function not in (*FUNCTIONS, "C", "I", "bs") or not isinstance(first, ast.Name):
        listed = ", ".join((*FUNCTIONS, "C", "I(x**2)", "bs"))
        raise InvalidInput(f"the formula must call {listed} of one column only, got {text[:60]!r}")
    name = re.sub(r"^_quoted_(\d+)_$", lambda match: quoted[int(match[1])], first.id)
    return function, name, rest


# -- from terms to columns

_Part = tuple[list[tuple[str, Factor]], str]  # the factors that a part of a term may be, by name, and its own name


def _parts(text: str, known: Mapping[str, StudyColumn]) -> _Part:
    function, name, rest = _call(text)
    if name not in known:
        raise InvalidInput(f"the formula must name columns of the study ({', '.join(known)}), got {name[:60]!r}")
    column, ends = known[name].column, known[name].range
    if function in ("", "C") and isinstance(column, CategoryColumn):
        if rest:
            raise InvalidInput(
                f"C must have one column and nothing else, got {text[:60]!r}: the first level is compared"
            )
        return [(f"{name} = {level}", Factor(name, level)) for level in column.levels[1:]], name
    if function == "C" or ends is None:
        wanted = "category" if function == "C" else "number"
        raise InvalidInput(f"column {name!r} must be a {wanted} in the study for {text[:60]!r}, got another kind")
    if function == "bs":
        found = enumerate(_knots(text, rest, ends), start=1)
        return [(f"{text}[{place}]", Factor(name, knots=knots)) for place, knots in found], text
    power = _whole(text, rest[0]) if function == "I" and rest else 1
    if rest and function != "I":
        raise InvalidInput(f"{function} must have one column and nothing else, got {text[:60]!r}")
    factor = Factor(name, function="" if function == "I" else function, power=power)
    return [(str(factor), factor)], str(factor)


def _knots(
    text: str, rest: list[ast.expr | tuple[str, ast.expr]], ends: tuple[float, float]
) -> list[tuple[float, ...]]:
    """Of ``bs(x, df, degree=3)`` at equal distances over the range, or of ``bs(x, knots=[...], degree=3)``."""
    said: dict[str, ast.expr] = {}
    for place, one in enumerate(rest):
        key, value = one if isinstance(one, tuple) else (("df", "knots", "degree")[place] if place < 3 else "", one)
        if key not in ("df", "knots", "degree") or key in said:
            raise InvalidInput(f"bs must have df or knots, and degree, got {text[:60]!r}")
        said[key] = value
    degree = _whole(text, said["degree"]) if "degree" in said else 3
    if not 1 <= degree <= MOST_DEGREE or ("df" in said) == ("knots" in said):
        raise InvalidInput(f"bs must have df or knots, and a degree from 1 to {MOST_DEGREE}, got {text[:60]!r}")
    if "df" in said:
        df = _whole(text, said["df"])
        if not degree <= df <= _MOST_DF:
            raise InvalidInput(f"df of bs must be between its degree and {_MOST_DF}, got {text[:60]!r}")
        return spline_knots(*ends, df, degree)
    listed = said["knots"]
    inner = [_number(text, one) for one in listed.elts] if isinstance(listed, ast.List | ast.Tuple) else []
    breaks = [ends[0], *inner, ends[1]]
    if not inner or len(inner) > _MOST_DF or breaks != sorted(set(breaks)):
        raise InvalidInput(f"knots of bs must be a list of ascending numbers within {list(ends)}, got {text[:60]!r}")
    return knots_of(breaks, degree)


def _whole(text: str, value: ast.expr | tuple[str, ast.expr]) -> int:
    number = _number(text, value)
    if number != int(number):
        raise InvalidInput(f"arguments must be whole numbers, got {text[:60]!r}")
    return int(number)


def _number(text: str, value: ast.expr | tuple[str, ast.expr]) -> float:
    sign = 1.0
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        sign, value = -1.0, value.operand
    number = value.value if isinstance(value, ast.Constant) else None
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < 1e15:
        raise InvalidInput(f"arguments must be plain numbers, got {text[:60]!r}")
    return sign * float(number)


def _margin(part: _Part) -> str:
    return part[1]


def _check_margins(term: tuple[_Part, ...], whole: set[frozenset[str]]) -> None:
    """Without its parts a product would mean another coding of levels, which is not offered."""
    for part in term if len(term) > 1 else ():
        rest = frozenset(map(_margin, term)) - {part[1]}
        if rest not in whole:
            raise InvalidInput(
                f"a product of the formula must have its parts beside it, got {':'.join(map(_margin, term))} without"
                f" {':'.join(sorted(rest))}: write a * b"
            )


def _as_it_is(part: _Part, known: Mapping[str, StudyColumn]) -> str:
    """The column that a part is by itself: a number, or all levels of a category; "" if it is made of one."""
    first = part[0][0][1]
    plain = first.level or first == Factor(first.column)
    return known[first.column].column.name if plain else ""


def _derived(named: Mapping[str, Factor], known: Mapping[str, StudyColumn]) -> StudyColumn:
    """With the range that follows from the columns' ranges, and a step that leaves a million of them at most."""
    factors = tuple(named.values())
    low, high = interval(factors, {name: one.range for name, one in known.items()})
    step = math.prod(_steps(factors, known))
    if not step or (high - low) / step > _MOST_STEPS:
        step = _ten_to(high - low)
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    ends = float(f"{low:.12g}"), float(f"{high:.12g}")
    scale = next((known[one.column].scale for one in factors if not one.level), "moments")
    return StudyColumn(DerivedColumn(":".join(named), factors=factors), ends, float(f"{step:.12g}"), scale)


def _steps(factors: tuple[Factor, ...], known: Mapping[str, StudyColumn]) -> Iterator[float]:
    """Of each factor the step of its values, 0 where they have none."""
    for one in factors:
        step = known[one.column].step
        plain = step is not None and not one.function and not one.knots
        yield 1.0 if one.level else step**one.power if step is not None and plain else 0.0


def _ten_to(width: float) -> float:
    """A power of ten of which a hundred thousand to a million fit."""
    return float(f"1e{math.floor(math.log10(width)) - 5}")
