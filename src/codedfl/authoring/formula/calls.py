"""One factor of a term, such as ``log(cost)`` or ``I(age > 50)``: its column, and what is made of it.

Arguments are plain numbers and texts. Whatever would learn from rows is refused, with what to write in its place.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from codedfl.authoring.formula.parser import Names, plain_name_of, tree_of
from codedfl.data.derived import FUNCTIONS
from codedfl.errors import InvalidInput

OFFERED = ("C", "I", "bs", "ns", "poly", "cut", "relevel")
CATEGORIES = ("C", "relevel")
_INFINITE = {"Inf": math.inf, "inf": math.inf}
_SPLINE = "write ns({x}, knots=[40, 60]) with knots of your own"
_SCALE = "write I(({x} - 50) / 10) with numbers of your own"
_INSTEAD = {
    **dict.fromkeys(("scale", "center", "standardize"), _SCALE),
    **dict.fromkeys(("cs", "cr", "cc", "cubic_spline", "s", "te", "rcs"), _SPLINE),
    **dict.fromkeys(("qcut", "ntile", "quantile"), "write cut({x}, [-Inf, 50, Inf]) with breaks of your own"),
    **dict.fromkeys(("hashed", "lag", "mean", "rank"), "make the column before the study, in every table"),
}
_FOLDED: Mapping[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b if b else math.nan,
    ast.Pow: lambda a, b: a**b if abs(a) < 1e6 and abs(b) < 9 and a > 0 else math.nan,
}


class Moved(NamedTuple):
    """A number less ``minus``, over ``per``.

    Examples
    --------
    See ``Call.moved``.
    """

    column: str
    minus: float = 0.0
    per: float = 1.0


@dataclass(frozen=True)
class Call:
    """A factor as a call.

    text: as it is written. function: "" of a plain name. column: that it is made of.
    first: the syntax of what the function is of; arguments: those after it, by name or place.

    Examples
    --------
    >>> from codedfl.authoring.formula.calls import call_of
    >>> found = call_of("log((cost - 5) / 10)")
    >>> found.function, found.column, found.moved()
    ('log', 'cost', Moved(column='cost', minus=5.0, per=10.0))
    >>> call_of("bs(age, df=4)").number("df")
    4.0
    """

    text: str
    function: str
    column: str
    first: ast.expr
    names: Names
    arguments: Mapping[str, ast.expr] = field(default_factory=dict)

    def refuse(self, rule: str, instead: str = "") -> InvalidInput:
        """What to raise: the rule, the factor, and what to write in its place."""
        return InvalidInput(f"{rule}, got {self.text[:60]!r}{instead and f': {instead}'}")

    def named(self, *names: str) -> dict[str, ast.expr]:
        """The arguments after the first by these names, in this order of places; others are refused."""
        found: dict[str, ast.expr] = {}
        for key, value in self.arguments.items():
            name = names[int(key)] if key.isdigit() and int(key) < len(names) else key
            if name not in names or name in found:
                raise self.refuse(f"{self.function} must have {', '.join(names) or 'one column'} and nothing else")
            found[name] = value
        return found

    def number(self, *names: str) -> float:
        """The argument of this name as a number."""
        return self.value(self.named(*names)[names[0]])

    def value(self, node: ast.expr) -> float:
        """A number, or some with + - * / between them."""
        found = self._value(node)
        if not (abs(found) < 1e15 or math.isinf(found)):
            raise self.refuse("arguments must be plain numbers")
        return found

    def _value(self, node: ast.expr) -> float:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return -self._value(node.operand) if isinstance(node.op, ast.USub) else self._value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _FOLDED:
            return float(_FOLDED[type(node.op)](self._value(node.left), self._value(node.right)))
        if isinstance(node, ast.Name) and node.id in _INFINITE:
            return _INFINITE[node.id]
        known = node.value if isinstance(node, ast.Constant) else None
        return float(known) if type(known) in (int, float) else math.nan  # type: ignore[arg-type]

    def whole(self, node: ast.expr) -> int:
        """A whole number."""
        number = self.value(node)
        if math.isinf(number) or number != int(number):
            raise self.refuse("arguments must be whole numbers")
        return int(number)

    def listed(self, node: ast.expr) -> list[float]:
        """Numbers in brackets, or in R's ``c()``; empty where it is neither."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "c" and not node.keywords:
            return [self.value(one) for one in node.args]
        return [self.value(one) for one in node.elts] if isinstance(node, ast.List | ast.Tuple) else []

    def truth(self, node: ast.expr) -> bool | None:
        """True or false."""
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None

    def moved(self, node: ast.expr | None = None) -> Moved:
        """The first argument as one column with numbers added, taken, multiplied or divided."""
        node = self.first if node is None else node
        if isinstance(node, ast.Name):
            return Moved(self.names[node.id])
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "I"
            and len(node.args) == 1
        ):
            return self.moved(node.args[0])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return _turned(self.moved(node.operand))
        if isinstance(node, ast.BinOp):
            left, right = (self.constant(one) for one in (node.left, node.right))
            if right is not None:
                return self._with(self.moved(node.left), node.op, right)
            if left is not None and isinstance(node.op, ast.Add | ast.Mult):
                return self._with(self.moved(node.right), node.op, left)
            if left is not None and isinstance(node.op, ast.Sub):
                return self._with(_turned(self.moved(node.right)), ast.Add(), left)
        raise self.refuse(
            "a call of the formula must be of one column and numbers with + - * / ** and comparisons",
            "a product of columns is a:b, and anything else a column of the tables",
        )

    def constant(self, node: ast.expr) -> float | None:
        """The number that an expression without a column is; None of others."""
        found = self._value(node)
        return None if math.isnan(found) else found

    def _with(self, moved: Moved, operator: ast.operator, number: float) -> Moved:
        column, minus, per = moved
        if not math.isfinite(number) or (not number and isinstance(operator, ast.Mult | ast.Div)):
            raise self.refuse("arguments must be plain numbers, other than 0 where one multiplies or divides")
        if isinstance(operator, ast.Mult | ast.Div):
            return Moved(column, minus, per / number if isinstance(operator, ast.Mult) else per * number)
        if isinstance(operator, ast.Add | ast.Sub):
            sign = 1 if isinstance(operator, ast.Sub) else -1
            return Moved(column, minus + sign * number * per, per)
        raise self.refuse("a power must be of a column, I(x**2) or I((x - 50)**2)")


def _turned(moved: Moved) -> Moved:
    return moved._replace(per=-moved.per)


def call_of(text: str) -> Call:
    """A factor as a call; refused where it is none of those that are offered, or has not just one column.

    Examples
    --------
    See ``Call``.
    """
    if plain := plain_name_of(text):
        return Call(text, "", plain, ast.Name(plain), Names())
    tree, names = tree_of(text)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or not tree.args:
        raise InvalidInput(f"a term of the formula must be a column or a call, got {text[:60]!r}")
    function = tree.func.id
    columns = sorted({names[one] for one in _names_in(tree.args[0])})
    if function in _INSTEAD:
        instead = _INSTEAD[function].format(x=columns[0] if columns else "x")
        raise InvalidInput(f"the formula must learn nothing from rows, got {text[:60]}: {instead}")
    if function not in (*FUNCTIONS, *OFFERED) or len(columns) != 1:
        listed = ", ".join((*FUNCTIONS, "C", "I(x**2)", *OFFERED[2:]))
        raise InvalidInput(f"the formula must call {listed} of one column only, got {text[:60]!r}")
    keys = [one.arg or "" for one in tree.keywords]
    given = dict(zip(map(str, range(len(tree.args) - 1)), tree.args[1:], strict=True))
    given |= {key: one.value for key, one in zip(keys, tree.keywords, strict=True)}
    if len(given) < len(tree.args) - 1 + len(keys):
        raise InvalidInput(f"a call of the formula must name each argument once, got {text[:60]!r}")
    return Call(text, function, columns[0], tree.args[0], names, given)


def _names_in(tree: ast.expr) -> set[str]:
    """Names that are neither numbers nor those of functions."""
    called = {id(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)}
    names = (one for one in ast.walk(tree) if isinstance(one, ast.Name) and id(one) not in called)
    return {one.id for one in names} - set(_INFINITE)
