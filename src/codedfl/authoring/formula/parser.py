"""From the text of a formula to its response, terms, offset and strata: names and calls as texts, nothing evaluated.

The parser of the package formulaic reads it (``codedfl[formula]``), after what only R writes is written as Python does.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from codedfl.errors import InvalidInput

_MOST_LETTERS = 1000
_MOST_PRODUCTS = 8  # stars in a row make two to their number terms
_TOO_MANY = re.compile(r"\^|\*\*\s*[^\d\s]|\*\*\s*\d\d|\)\s*\*\*\s*([4-9]|\d.*\)\s*\*\*)")  # they multiply the terms
_SPELT = (
    (r"\b(as\.factor|factor)\(", "C("),
    (r"\bcontr\.treatment\(", "Treatment("),
    (r"\binclude\.lowest\b", "include_lowest"),
    (r"\bTRUE\b", "True"),
    (r"\bFALSE\b", "False"),
    (r"\b(np|numpy|math)\.(log|log2|log10|log1p|exp|sqrt)\(", r"\2("),
)
_ELSEWHERE = (
    (r"\|", "have no random terms: give a [[model]] kind = 'random-intercept' and a cluster"),
    (r"(^|[~+*\s-])\.($|[+*\s-])", "name its columns, since '.' would be those of one table"),
)
_BESIDE = ("offset", "strata", "cluster")
_NAME = re.compile(r"`([^`]*)`")
_PARTED = "a term of the formula must be a column or a call"


@dataclass(frozen=True)
class Response:
    """What is left of ``~``.

    name: the column that is predicted; of ``Surv`` the time. function: of it, such as "log"; "" is the number itself.
    event, entry: of ``Surv(time, event)`` and ``Surv(entry, time, event)``: columns; "" where there is none. An event
        may be a comparison, as text.

    Examples
    --------
    >>> from codedfl.authoring.formula.parser import parse_formula
    >>> parse_formula("Surv(days, died) ~ age").response
    Response(name='days', function='', event='died', entry='')
    >>> parse_formula("Surv(days, died == 'yes') ~ age").response.event
    "I(died == 'yes')"
    """

    name: str
    function: str = ""
    event: str = ""
    entry: str = ""


@dataclass(frozen=True)
class Formula:
    """A formula in its parts; what it means for columns is in ``terms``.

    terms: the factors of each term, as text; the constant is none of them.
    offset: what ``offset(...)`` holds, as text. strata, cluster: the columns of ``strata(...)`` and ``cluster(...)``.
        "" where there is none.
    constant: false where ``0 +`` or ``- 1`` take it away.

    Examples
    --------
    >>> from codedfl.authoring.formula.parser import parse_formula
    >>> found = parse_formula("visits ~ age * C(ward) + offset(log(years))")
    >>> found.terms, found.offset
    ((('age',), ('C(ward)',), ('age', 'C(ward)')), 'log(years)')
    """

    response: Response
    terms: tuple[tuple[str, ...], ...]
    offset: str = ""
    strata: str = ""
    cluster: str = ""
    constant: bool = True


def parse_formula(formula: str) -> Formula:
    """The parts of a formula; refused in one line where it is none, or has too many terms.

    Examples
    --------
    See ``Formula`` and ``Response``.
    """
    spelt = _as_python(formula)
    left, right = _read(spelt, formula)
    terms = [term for term in right if term != ["1"]]
    beside = {name: [term for term in terms if any(text.startswith(f"{name}(") for text in term)] for name in _BESIDE}
    for name, said in beside.items():
        if len(said) > 1 or any(len(term) > 1 for term in said):
            raise InvalidInput(f"the formula must have one {name}(x), as a term by itself, got {formula[:60]!r}")
    response = _response(left, formula)
    plain = tuple(tuple(term) for term in terms if not any(term in said for said in beside.values()))
    if not plain:
        raise InvalidInput(f"the formula must have a column beside its constant, got {formula[:60]!r}")
    inside = beside["offset"][0][0].removeprefix("offset(").removesuffix(")") if beside["offset"] else ""
    strata, cluster = (column_of(said[0][0]) if (said := beside[name]) else "" for name in ("strata", "cluster"))
    return Formula(response, plain, inside, strata, cluster, ["1"] in right)


def _as_python(formula: str) -> str:
    """R's spellings, and its power within a call: ``I(x^2)``."""
    for said, meant in _SPELT:
        formula = re.sub(said, meant, formula)
    return "".join("**" if letter == "^" and inside else letter for letter, inside in _depths(formula))


def _depths(formula: str) -> Iterator[tuple[str, bool]]:
    """Each letter, and whether it is within a call, whose products and powers are numbers' and not terms'."""
    calls: list[bool] = []
    before, quoted = "", False
    for letter in formula:
        quoted ^= letter == "`"
        if letter == "(" and not quoted:
            calls.append(bool(re.match(r"[\w.]", before)) or any(calls))
        yield letter, any(calls)
        if letter == ")" and not quoted and calls:
            calls.pop()
        before = letter


def _read(spelt: str, formula: str) -> tuple[list[str], list[list[str]]]:
    outside = "".join(letter for letter, inside in _depths(spelt) if not inside)
    stars = outside.replace("**", "").count("*") + 2 * outside.count("%")
    if len(formula) > _MOST_LETTERS or stars > _MOST_PRODUCTS or _TOO_MANY.search(outside):
        raise InvalidInput(
            f"the formula must have at most {_MOST_LETTERS} letters, {_MOST_PRODUCTS} products, one (a + b)**2 or **3"
            f" and no ^, got {formula[:60]!r}"
        )
    for pattern, instead in _ELSEWHERE:
        if re.search(pattern, outside):
            raise InvalidInput(f"the formula must {instead}, got {formula[:60]!r}")
    try:
        from formulaic.parser import DefaultFormulaParser
    except ImportError:
        raise InvalidInput("formulaic must be installed for formulas: pip install 'codedfl[formula]'") from None
    try:
        found = DefaultFormulaParser(feature_flags=["twosided"]).get_terms(spelt)
        left = [factor.expr for term in found.lhs for factor in term.factors]
        return left, [[factor.expr for factor in term.factors] for term in found.rhs]
    except Exception as error:  # of a parser that says "not a formula" in many ways
        said = str(error).splitlines()[0][:80] if str(error) else type(error).__name__
        raise InvalidInput(f"the formula must be like 'y ~ a + C(b)', got {formula[:60]!r} ({said})") from None


def _response(left: list[str], formula: str) -> Response:
    if len(left) != 1:
        raise InvalidInput(f"the formula must have one target before '~', got {formula[:60]!r}")
    if plain := plain_name_of(left[0]):
        return Response(plain)
    tree, names = tree_of(left[0])
    given = list(getattr(tree, "args", ()))
    if given and isinstance(given[-1], ast.Compare):  # an event that is said by a comparison
        *given, compared = given
        event = f"I({ast.unparse(compared)})"
        for short, quoted in names.items():
            event = event.replace(short, f"`{quoted}`")
    else:
        event = ""
    arguments = [names[one.id] for one in given if isinstance(one, ast.Name)] + [event] * bool(event)
    called = tree.func.id if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) else ""
    if called == "Surv" and len(arguments) == len(tree.args) in (2, 3) and not tree.keywords:  # type: ignore[attr-defined]
        *entry, time, event = arguments
        return Response(time, event=event, entry=entry[0] if entry else "")
    if called and called != "Surv" and len(arguments) == 1:
        return Response(arguments[0], called)
    raise InvalidInput(
        "the formula must begin with a column, a function of one such as log(y), Surv(time, event) or Surv(entry, time,"
        f" event), got {left[0][:60]!r}"
    )


def plain_name_of(text: str) -> str:
    """The column that a factor is by itself, "" where it is a call.

    Examples
    --------
    >>> from codedfl.authoring.formula.parser import plain_name_of
    >>> plain_name_of("length of stay"), plain_name_of("C(ward)")
    ('length of stay', '')
    """
    bare = re.fullmatch(r"[^()`{}'\"\[\]]+", text) and not re.fullmatch(r"[\d.eE+-]+", text)
    return text if bare else ""


def column_of(text: str) -> str:
    """The one column of a call such as ``strata(site)``."""
    tree, names = tree_of(text)
    if not isinstance(tree, ast.Call) or len(tree.args) != 1 or not isinstance(tree.args[0], ast.Name):
        raise InvalidInput(f"{text.partition('(')[0]} must have one column and nothing else, got {text[:60]!r}")
    return names[tree.args[0].id]


class Names(dict[str, str]):
    """Columns by the names that stand for them in a tree: a quoted one has a name of its own there."""

    def __missing__(self, key: str) -> str:
        return key


def tree_of(text: str) -> tuple[ast.expr, Names]:
    """A factor as Python's syntax tree, which nobody runs, and what its names stand for."""
    names = Names()

    def keep(match: re.Match[str]) -> str:
        names[f"_quoted_{len(names)}_"] = match[1]
        return f"_quoted_{len(names) - 1}_"

    try:
        return ast.parse(_NAME.sub(keep, text), mode="eval").body, names
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InvalidInput(f"{_PARTED}, got {text[:60]!r}") from None
