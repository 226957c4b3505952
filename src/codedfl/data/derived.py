"""Columns that are made of other columns: products of levels, numbers and a few functions of one number.

They follow from a row by itself and from public numbers alone; nothing here looks at other rows. The study lists them
one by one (a formula is expanded on its author's machine, ``authoring.formula``), and numpy is all they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typed import only, record, types_of
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
_CUBIC = 3
_ENDS = ("above", "least", "below", "upto")  # x > above, x >= least, x < below, x <= upto
_TEXTS, _LISTS = ("column", "level", "function"), ("knots", "weights")
_MOST = 1e300  # in size: what is made of it stays finite


@dataclass(frozen=True)
class Factor:
    """One column's part in a product.

    column: the name of a column of the table.
    level: of a category: 1 where the row has this level, else 0. "" for a number.
    function: of a number: one of ``FUNCTIONS``; "" leaves it as it is.
    power: a whole number from 1 on, to which the number is raised.
    knots: of a number: the B-spline on these knots, ascending, of degree len(knots) - 2; () is none.
    minus, per: what is taken from a number first, and what it is then divided by.
    above, least, below, upto: of a number: 1 where it is above the first, at least the second, below the third and at
        most the fourth, as far as they are given, else 0.
    weights: of a number: the sum of all cubic B-splines on ``knots``, weighted, as natural splines are.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.data.derived import Factor
    >>> Factor("cost", function="log2").values(np.array([8.0])), Factor("ward", "b").values(np.array(["a", "b"]))
    (array([3.]), array([0., 1.]))
    >>> Factor("age", knots=(0.0, 10.0, 20.0)).values(np.array([5.0, 10.0, 20.0]))
    array([0.5, 1. , 0. ])
    >>> Factor("age", above=50.0, upto=70.0).values(np.array([50.0, 60.0, 70.0])), Factor("age", minus=50.0, per=10.0)
    (array([0., 1., 1.]), Factor((age - 50) / 10))
    """

    column: str
    level: str = ""
    function: str = ""
    power: int = 1
    knots: tuple[float, ...] = ()
    minus: float = 0.0
    per: float = 1.0
    above: float | None = None
    least: float | None = None
    below: float | None = None
    upto: float | None = None
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.column:
            raise InvalidInput("column of a factor must be said, got ''")
        what = f"a factor of {self.column!r}"
        if sum(map(bool, (self.level, self.function, self.power != 1, self.knots, self._ends))) > 1:
            raise InvalidInput(f"{what} must have one of level, function, power, knots and ends, got several")
        if self.function and self.function not in FUNCTIONS:
            raise InvalidInput(f"function of {what} must be one of {', '.join(FUNCTIONS)}, got {self.function[:40]!r}")
        if not 1 <= self.power <= MOST_POWER:
            raise InvalidInput(f"power of {what} must be between 1 and {MOST_POWER}, got {self.power}")
        numbers = [self.minus, self.per, *self._ends.values(), *self.weights]
        if (
            not self.per
            or not all(abs(one) < _MOST for one in numbers)
            or (self.level and (self.minus or self.per != 1))
        ):
            raise InvalidInput(f"{what} must have finite numbers, per other than 0 and none of them with level")
        if ("above" in self._ends and "least" in self._ends) or ("below" in self._ends and "upto" in self._ends):
            raise InvalidInput(f"{what} must have one of above and least, and one of below and upto, got both")
        if (self.knots or self.weights) and not self._ordered():
            raise InvalidInput(
                f"knots of {what} must be 2 to {MOST_DEGREE + 2} finite numbers, ascending and not all the same, or"
                f" {_CUBIC + 1} more than weights, got {list(self.knots)[:10]}"
            )

    @property
    def _ends(self) -> dict[str, float]:
        return {name: end for name in _ENDS if (end := getattr(self, name)) is not None}

    @property
    def marks(self) -> bool:
        """Whether it is 0 or 1 alone: a level, or a comparison."""
        return bool(self.level or self._ends)

    @property
    def divides(self) -> tuple[float, ...]:
        """The numbers of the column at which it changes: knots and ends.

        >>> Factor("age", above=50.0).divides, Factor("age", knots=(0.0, 1.0), minus=10.0, per=5.0).divides
        ((50.0,), (10.0, 15.0))
        """
        return tuple(sorted({*(one * self.per + self.minus for one in self.knots), *self._ends.values()}))

    @property
    def begins(self) -> tuple[float, ...]:
        """Those of ``divides`` that are themselves on the upper side: of at least so much, and of below.

        >>> Factor("age", above=50.0, upto=70.0).begins, Factor("age", least=50.0, below=70.0).begins
        ((), (50.0, 70.0))
        """
        return tuple(sorted(end for name, end in self._ends.items() if name in ("least", "below")))

    def _ordered(self) -> bool:
        finite = all(abs(one) < _MOST for one in self.knots)
        of_one = 2 <= len(self.knots) <= MOST_DEGREE + 2
        as_many = len(self.knots) == len(self.weights) + _CUBIC + 1 if self.weights else of_one
        return finite and as_many and list(self.knots) == sorted(self.knots) and self.knots[0] < self.knots[-1]

    def __repr__(self) -> str:
        return f"Factor({self})"

    def __str__(self) -> str:
        if self.level:
            return f"{self.column} = {self.level}"
        number = self._moved()
        if self.knots:
            return f"{'natural ' * bool(self.weights)}spline({number}; {', '.join(f'{one:g}' for one in self.knots)})"
        if self._ends:
            return self._between(number)
        if self.function:
            return f"{self.function}({number})"
        return number if self.power == 1 else f"{number}^{self.power}"

    def _moved(self) -> str:
        """The number less ``minus``, over ``per``, as people write it."""
        sign = "-" if self.minus > 0 else "+"
        moved = f"({self.column} {sign} {abs(self.minus):.12g})" if self.minus else self.column
        if self.per == 1:
            return moved
        whole = f"{moved} / {self.per:.12g}" if abs(self.per) >= 1 else f"{moved} * {1 / self.per:.12g}"
        return f"({whole})" if self.power != 1 else whole

    def _between(self, number: str) -> str:
        ends = self._ends
        low = next(
            (f"{'(' if key == 'above' else '['}{ends[key]:.12g}" for key in ("above", "least") if key in ends), ""
        )
        high = next(
            (f"{ends[key]:.12g}{')' if key == 'below' else ']'}" for key in ("below", "upto") if key in ends), ""
        )
        if low and high:
            return f"{number} in {low}, {high}"
        ((key, end),) = ends.items()
        return f"{number} {({'above': '>', 'least': '>=', 'below': '<', 'upto': '<='})[key]} {end:.12g}"

    def values(self, values: Rows) -> Floats:
        """The factor of each row: ``values`` are numbers, or the names of levels."""
        if self.level:
            return np.asarray(values == self.level, dtype=np.float64)
        numbers = np.asarray(values, dtype=np.float64)
        numbers = (numbers - self.minus if self.minus else numbers) / self.per
        if self.weights:
            parts = (_spline(numbers, self.knots[i : i + _CUBIC + 2]) for i in range(len(self.weights)))
            return np.asarray(np.add.reduce([w * part for w, part in zip(self.weights, parts, strict=True)]))
        if self.knots:
            return _spline(numbers, self.knots)
        if self._ends:
            return self._inside(numbers)
        if self.function:
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                return FUNCTIONS[self.function][0](numbers)
        # By multiplication: powers of a library may differ in their last bit from machine to machine.
        return np.asarray(np.multiply.reduce([numbers] * self.power))

    def _inside(self, numbers: Floats) -> Floats:
        """1 within the ends; a missing value stays one, as a comparison with it would be."""
        tests = {"above": np.greater, "least": np.greater_equal, "below": np.less, "upto": np.less_equal}
        inside = np.logical_and.reduce([tests[key](numbers, end) for key, end in self._ends.items()])
        return np.where(np.isnan(numbers), np.nan, inside.astype(np.float64))

    def interval(self, ends: tuple[float, float] | None) -> tuple[float, float]:
        """From where to where it goes if its number goes from end to end; None is a category."""
        if (ends is None) != bool(self.level):
            wanted = "category" if self.level else "number"
            raise InvalidInput(f"the column {self.column!r} of the factor {self} must be a {wanted}, got another kind")
        if self.weights:
            return min(0.0, *self.weights), max(0.0, *self.weights)
        if ends is None or self.knots or self._ends:
            return 0.0, 1.0
        first, last = sorted((end - self.minus) / self.per for end in ends)
        if self.function and first <= FUNCTIONS[self.function][1]:
            raise InvalidInput(
                f"range of column {self.column!r} must begin where {self} is defined, got {ends[0]:g}"
                f"{': take log1p, or begin above 0' * self.function.startswith('log')}"
            )
        low, high = sorted(map(float, self.values(np.array(ends))))
        return (0.0, high) if self.power % 2 == 0 and first < 0 < last else (low, high)

    def to_dict(self) -> JsonObject:
        """What is said of it."""
        usual = {**dict.fromkeys(_TEXTS, ""), "power": 1, "minus": 0.0, "per": 1.0}
        said = {key: getattr(self, key) for key, value in usual.items() if getattr(self, key) != value}
        return {**said, **self._ends, **{key: list(getattr(self, key)) for key in _LISTS if getattr(self, key)}}

    @classmethod
    def from_dict(cls, saved: Unchecked) -> Factor:
        """What ``to_dict`` described; anything else is refused."""
        if not isinstance(saved, Mapping):
            raise InvalidInput(f"a factor must be a record such as {{column = 'age'}}, got {saved!r:.80}")
        only("a factor", saved, types_of(cls))
        return cls(**record(cls, saved, "{} of a factor".format))


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
