"""Knots of splines over public ranges, and R's basis of natural splines on them. Nothing is learnt from rows."""

from __future__ import annotations

import math

import numpy as np

from codedfl.authoring.formula.calls import Call
from codedfl.data.derived import MOST_DEGREE

MOST_DF = 12
_CUBIC = 3
Vector = list[float]


def breaks_of(call: Call, ends: tuple[float, float], degree: int, fewest: int) -> list[float]:
    """The ends of the range with the inner knots: those that are named, or at equal distances by ``df``.

    fewest: the df that has no inner knots.

    Examples
    --------
    >>> from codedfl.authoring.formula.calls import call_of
    >>> from codedfl.authoring.formula.splines import breaks_of
    >>> breaks_of(call_of("ns(age, df=3)"), (0.0, 90.0), 3, fewest=1)
    [0.0, 30.0, 60.0, 90.0]
    """
    said = call.named("df", "knots", "degree") if call.function == "bs" else call.named("df", "knots")
    rule = f"{call.function} must have df or knots{f', and a degree from 1 to {MOST_DEGREE}' * (call.function == 'bs')}"
    if ("df" in said) == ("knots" in said) or not 1 <= degree <= MOST_DEGREE:
        raise call.refuse(rule)
    low, high = ends
    if "df" in said:
        df = call.whole(said["df"])
        if not fewest <= df <= MOST_DF:
            least = "its degree" if call.function == "bs" else fewest
            raise call.refuse(f"df of {call.function} must be between {least} and {MOST_DF}")
        found: list[float] = np.linspace(low, high, df - fewest + 2).tolist()
        return found
    inner = call.listed(said["knots"])
    breaks = [low, *inner, high]
    if not inner or len(inner) > MOST_DF or breaks != sorted(set(breaks)):
        raise call.refuse(f"knots of {call.function} must be a list of ascending numbers within {list(ends)}")
    return breaks


def natural_weights(breaks: list[float]) -> tuple[tuple[float, ...], list[tuple[float, ...]]]:
    """The knots of all cubic B-splines on these breaks, and of each column of R's ``ns`` their weights.

    The combinations whose second derivative is 0 at both ends, without a constant, in the order and with the signs that
    R has: two Householder reflections take the two conditions to the first two places, and the others are the basis.
    They are in plain floats, so that every machine finds the same bits.

    Examples
    --------
    >>> from codedfl.authoring.formula.splines import natural_weights
    >>> knots, columns = natural_weights([0.0, 1.0])
    >>> len(knots), [round(one, 6) for one in columns[0]]
    (8, [0.0, 0.267261, 0.534522, 0.801784])
    """
    knots = [breaks[0]] * _CUBIC + breaks + [breaks[-1]] * _CUBIC
    count = len(knots) - _CUBIC - 1
    conditions = [_bent(knots, count, breaks[0])[1:], _bent(knots, count, breaks[-1])[1:]]
    reflections: list[Vector] = []
    for place in range(2):
        vector = conditions[place]
        for one in reflections:
            vector = _reflected(vector, one)
        reflections.append(_reflection(vector, place))
    columns = []
    for place in range(2, count - 1):
        column = [1.0 if one == place else 0.0 for one in range(count - 1)]
        for reflection in reversed(reflections):
            column = _reflected(column, reflection)
        columns.append((0.0, *column))
    return tuple(knots), columns


def _bent(knots: Vector, count: int, x: float) -> Vector:
    """The second derivative of each cubic B-spline at an end of the range."""
    weights = [[1.0 if row == one else 0.0 for row in range(count)] for one in range(count)]
    return [_value(knots, _differences(knots, _differences(knots, one, _CUBIC), _CUBIC - 1), x) for one in weights]


def _differences(knots: Vector, weights: Vector, degree: int) -> Vector:
    """Weights of the derivative, on B-splines of one degree less; both ends of the knots stay."""
    first = _CUBIC - degree
    found = []
    for place in range(len(weights) - 1):
        width = knots[first + place + 1 + degree] - knots[first + place + 1]
        found.append(degree * (weights[place + 1] - weights[place]) / width if width else 0.0)
    return found


def _value(knots: Vector, weights: Vector, x: float) -> float:
    """Of a function of degree 1 at an end, where one B-spline is 1 and the others are 0."""
    return weights[0] if x == knots[0] else weights[-1]


def _reflection(vector: Vector, place: int) -> Vector:
    """Householder's vector, which takes all below ``place`` to 0; signs as LINPACK and LAPACK choose them."""
    tail = vector[place:]
    size = math.sqrt(math.fsum(one * one for one in tail))
    tail[0] += math.copysign(size, tail[0])
    return [0.0] * place + tail


def _reflected(vector: Vector, by: Vector) -> Vector:
    share = 2.0 * math.fsum(a * b for a, b in zip(vector, by, strict=True)) / math.fsum(one * one for one in by)
    return [a - share * b for a, b in zip(vector, by, strict=True)]


def spline_columns(call: Call, ends: tuple[float, float]) -> list[tuple[float, ...]]:
    """The knots of each column of ``bs(x, df, degree=3)`` or ``bs(x, knots=[...], degree=3)``.

    Examples
    --------
    >>> from codedfl.authoring.formula.calls import call_of
    >>> from codedfl.authoring.formula.splines import spline_columns
    >>> spline_columns(call_of("bs(age, knots=[4], degree=1)"), (0.0, 10.0))
    [(0.0, 4.0, 10.0), (4.0, 10.0, 10.0)]
    """
    said = call.named("df", "knots", "degree")
    degree = call.whole(said["degree"]) if "degree" in said else 3
    return knots_of(breaks_of(call, ends, degree, fewest=degree), degree)


def knots_of(breaks: list[float], degree: int) -> list[tuple[float, ...]]:
    """The knots of each B-spline but the first on these breaks, both ends of the range among them.

    Examples
    --------
    >>> from codedfl.authoring.formula.splines import knots_of
    >>> knots_of([0.0, 4.0, 10.0], 1)
    [(0.0, 4.0, 10.0), (4.0, 10.0, 10.0)]
    """
    whole = [breaks[0]] * degree + breaks + [breaks[-1]] * degree
    return [tuple(whole[i : i + degree + 2]) for i in range(1, len(whole) - degree - 1)]
