"""Columns that are made of other columns: products of levels, numbers and a few functions of one number.

They follow from a row by itself and from public numbers alone; nothing here looks at other rows. The study lists them
one by one (a formula is expanded on its author's machine, ``contract.formula``), and numpy is all they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject, Rows, Unchecked

# Name -> the function, and the numbers above which it is defined. All are monotone, so that ranges follow from ends.
FUNCTIONS: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    "log": (np.log, 0.0),
    "log2": (np.log2, 0.0),
    "log10": (np.log10, 0.0),
    "log1p": (np.log1p, -1.0),
    "exp": (np.exp, -np.inf),
    "sqrt": (np.sqrt, -np.finfo(np.float64).tiny),
}
MOST_POWER = 8
MOST_DEGREE = 5
_KEYS = {"column", "level", "function", "power", "knots"}


@dataclass(frozen=True)
class Factor:
    """One column's part in a product.

    column: the name of a column of the table.
    level: of a category: 1 where the row has this level, else 0. "" for a number.
    function: of a number: one of ``FUNCTIONS``; "" leaves it as it is.
    power: a whole number from 1 on, to which the number is raised.
    knots: of a number: the B-spline on these knots, ascending, of degree len(knots) - 2; () is none.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.data.derived import Factor
    >>> Factor("cost", function="log2").values(np.array([8.0])), Factor("ward", "b").values(np.array(["a", "b"]))
    (array([3.]), array([0., 1.]))
    >>> Factor("age", knots=(0.0, 10.0, 20.0)).values(np.array([5.0, 10.0, 20.0]))
    array([0.5, 1. , 0. ])
    """

    column: str
    level: str = ""
    function: str = ""
    power: int = 1
    knots: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        what = f"a factor of {self.column!r}"
        if sum(map(bool, (self.level, self.function, self.power != 1, self.knots))) > 1:
            raise InvalidInput(f"{what} must have one of level, function, power and knots, got several")
        if self.function and self.function not in FUNCTIONS:
            raise InvalidInput(f"function of {what} must be one of {', '.join(FUNCTIONS)}, got {self.function[:40]!r}")
        if not 1 <= self.power <= MOST_POWER:
            raise InvalidInput(f"power of {what} must be between 1 and {MOST_POWER}, got {self.power}")
        if self.knots and not self._ordered():
            raise InvalidInput(
                f"knots of {what} must be 2 to {MOST_DEGREE + 2} finite numbers, ascending and not all the same, got"
                f" {list(self.knots)[:10]}"
            )

    def _ordered(self) -> bool:
        finite = all(map(np.isfinite, self.knots))
        return (
            finite
            and list(self.knots) == sorted(self.knots)
            and self.knots[0] < self.knots[-1]
            and (2 <= len(self.knots) <= MOST_DEGREE + 2)
        )

    def __str__(self) -> str:
        if self.level:
            return f"{self.column} = {self.level}"
        if self.knots:
            return f"spline({self.column}; {', '.join(f'{one:g}' for one in self.knots)})"
        if self.function:
            return f"{self.function}({self.column})"
        return self.column if self.power == 1 else f"{self.column}^{self.power}"

    def values(self, values: Rows) -> Floats:
        """The factor of each row: ``values`` are numbers, or the names of levels."""
        if self.level:
            return np.asarray(values == self.level, dtype=np.float64)
        numbers = np.asarray(values, dtype=np.float64)
        if self.knots:
            return _spline(numbers, self.knots)
        if self.function:
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                return FUNCTIONS[self.function][0](numbers)
        # By multiplication: powers of a library may differ in their last bit from machine to machine.
        return np.asarray(np.multiply.reduce([numbers] * self.power))

    def interval(self, ends: tuple[float, float] | None) -> tuple[float, float]:
        """From where to where it goes if its number goes from end to end; None is a category."""
        if (ends is None) != bool(self.level):
            wanted = "category" if self.level else "number"
            raise InvalidInput(f"the column {self.column!r} of the factor {self} must be a {wanted}, got another kind")
        if ends is None or self.knots:
            return 0.0, 1.0
        if self.function and ends[0] <= FUNCTIONS[self.function][1]:
            raise InvalidInput(
                f"range of column {self.column!r} must begin where {self} is defined, got {ends[0]:g}"
                f"{': take log1p, or begin above 0' * self.function.startswith('log')}"
            )
        low, high = sorted(map(float, self.values(np.array(ends))))
        return (0.0, high) if self.power % 2 == 0 and ends[0] < 0 < ends[1] else (low, high)

    def to_dict(self) -> JsonObject:
        """What is said of it."""
        said = {"column": self.column, "level": self.level, "function": self.function}
        given = {key: value for key, value in said.items() if value}
        if self.power != 1:
            return {**given, "power": self.power}
        return {**given, "knots": list(self.knots)} if self.knots else given

    @classmethod
    def from_dict(cls, saved: Unchecked) -> Factor:
        """What ``to_dict`` described; anything else is refused."""
        if not isinstance(saved, Mapping) or not set(saved) <= _KEYS:
            raise InvalidInput(f"a factor must hold only {', '.join(sorted(_KEYS))}, got {saved!r:.80}")
        texts = [saved.get(key, "") for key in ("column", "level", "function")]
        power, knots = saved.get("power", 1), saved.get("knots", [])
        numbers = isinstance(knots, list) and all(type(one) in (int, float) and abs(one) < 1e300 for one in knots)
        if not all(isinstance(one, str) for one in texts) or not texts[0] or type(power) is not int or not numbers:
            raise InvalidInput(
                "a factor must be a column, and level or function as text, power as a whole number or knots as numbers,"
                f" got {dict(saved)!r:.80}"
            )
        column, level, function = texts
        return cls(column, level, function, power, tuple(map(float, knots)))


def product(factors: tuple[Factor, ...], columns: Mapping[str, Rows]) -> Floats:
    """The product of factors in each row; ``columns`` holds numbers, or names of levels, of each column.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.data.derived import Factor, product
    >>> rows = {"age": np.array([40.0, 50.0]), "ward": np.array(["a", "b"])}
    >>> product((Factor("age"), Factor("ward", "b")), rows)
    array([ 0., 50.])
    """
    return np.asarray(np.multiply.reduce([one.values(columns[one.column]) for one in factors]))


def interval(factors: tuple[Factor, ...], ends: Mapping[str, tuple[float, float] | None]) -> tuple[float, float]:
    """From where to where a product goes; ``ends`` are the ranges of the columns, None for a category.

    Examples
    --------
    >>> from codedfl.data.derived import Factor, interval
    >>> interval((Factor("age"), Factor("t", power=2)), {"age": (20.0, 90.0), "t": (-3.0, 2.0)})
    (0.0, 810.0)
    """
    low, high = 1.0, 1.0
    for one in factors:
        if one.column not in ends:
            raise InvalidInput(f"the factor {one} must be of a listed column that is not derived, got {one.column!r}")
        first, last = one.interval(ends[one.column])
        products = [a * b for a in (low, high) for b in (first, last)]
        low, high = min(products), max(products)
    if not abs(low) + abs(high) < 1e300:
        raise InvalidInput(f"the product of {', '.join(map(str, factors))} must be finite, got up to {high:g}")
    return low, high


def spline_knots(low: float, high: float, df: int, degree: int = 3) -> list[tuple[float, ...]]:
    """The knots of each B-spline of a basis without its first, as R's ``bs(x, df)`` counts them.

    Inner knots are at equal distances over the public range: quantiles would have to be learnt from rows.

    Examples
    --------
    >>> from codedfl.data.derived import spline_knots
    >>> spline_knots(0.0, 10.0, df=2, degree=1)
    [(0.0, 5.0, 10.0), (5.0, 10.0, 10.0)]
    """
    inner = np.linspace(low, high, df - degree + 2).tolist()
    return knots_of(inner, degree)


def knots_of(breaks: list[float], degree: int) -> list[tuple[float, ...]]:
    """The knots of each B-spline but the first on these breaks, both ends of the range among them.

    Examples
    --------
    >>> from codedfl.data.derived import knots_of
    >>> knots_of([0.0, 4.0, 10.0], 1)
    [(0.0, 4.0, 10.0), (4.0, 10.0, 10.0)]
    """
    whole = [breaks[0]] * degree + breaks + [breaks[-1]] * degree
    return [tuple(whole[i : i + degree + 2]) for i in range(1, len(whole) - degree - 1)]


def _spline(x: Floats, knots: tuple[float, ...]) -> Floats:
    """Cox and de Boor's recursion; the last interval holds its right end too."""
    parts: list[Floats] = [
        np.asarray((low <= x) & ((x < high) | ((high == knots[-1]) & (x == high))) & (low < high), dtype=np.float64)
        for low, high in pairwise(knots)
    ]
    for degree in range(1, len(knots) - 1):
        parts = [
            _share(x - knots[i], knots[i + degree] - knots[i]) * parts[i]
            + _share(knots[i + degree + 1] - x, knots[i + degree + 1] - knots[i + 1]) * parts[i + 1]
            for i in range(len(parts) - 1)
        ]
    return parts[0]


def _share(distance: Floats, width: float) -> Floats:
    return distance / width if width else np.zeros_like(distance)
