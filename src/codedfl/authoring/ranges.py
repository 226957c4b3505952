"""Public ranges and steps for what a sample's columns hold: round numbers, wide enough for others, no wider than fits.

A model's coefficients are accepted while the linear predictor stays within its bound over all that the ranges allow,
so a range ten times too wide allows a tenth of the effect (THREAT_MODEL.md says why the bound goes by ranges and not by
rows). One too narrow clips, and nobody makes standard errors of clipped values. So a range is a width of the sample
either side of it, rounded outwards, and ten where all models are linear, which width costs nothing; or it is what a
quantity can be at all where its name says which quantity it is.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from codedfl.typing import Floats

OF_SAMPLE = (
    "a width of the sample either side, rounded outwards; beyond is clipped and counted: widen it if others have more"
)
FAR = "wide: ten widths of the sample either side, which costs linear models nothing; beyond is clipped and counted"
OF_MARKS = "0 or 1, as marks are"
WIDE = "wide, since it only tells rows apart or adds nothing to a model; beyond is clipped and counted"
_MOST_STEPS = 1 << 20  # of what a sample has of a column: finer is rarely a unit of record
_MOST_WIDE = 1 << 20  # of a drafted range, so that a description can look ten times as far
_MOST_DECIMALS = 9
_OFF_GRID = 1e-6  # in steps
_ROOM, _FAR = 1, 10  # widths of the sample either side of it; of a column in no model, which costs nothing
_LEAST_SHARE = 0.08  # of a quantity's range that a sample takes, or the sample's own is the better one


class Quantity(NamedTuple):
    """What people measure under such names: all it can be of anybody, and its unit.

    Examples
    --------
    >>> from codedfl.authoring.ranges import quantity_of
    >>> quantity_of("age_years", np.array([31.0, 80.0]))
    Quantity(low=0.0, high=120.0, unit='years', what='age')
    """

    low: float
    high: float
    unit: str
    what: str


_QUANTITIES = (
    (r"age|alter", Quantity(0.0, 120.0, "years", "age")),
    (r"bmi|body mass index", Quantity(5.0, 100.0, "kg/m2", "body mass index")),
    (r"height|body height", Quantity(30.0, 250.0, "cm", "height")),
    (r"weight|body weight", Quantity(0.0, 350.0, "kg", "body weight")),
    (r"sbp|sysbp|systolic|systolic bp|systolic blood pressure", Quantity(30.0, 330.0, "mmHg", "systolic pressure")),
    (r"dbp|diabp|diastolic|diastolic bp|diastolic blood pressure", Quantity(0.0, 230.0, "mmHg", "diastolic pressure")),
    (r"pulse|heart rate|hr", Quantity(0.0, 350.0, "per minute", "heart rate")),
)


def quantity_of(name: str, values: Floats) -> Quantity | None:
    """What a column measures by its name, where its values say nothing else: in months an age is beyond 120.

    Examples
    --------
    >>> from codedfl.authoring.ranges import quantity_of
    >>> quantity_of("age", np.array([300.0, 950.0])) is None
    True
    """
    plain = re.sub(r"[\s_.-]+", " ", name).strip().lower()
    for pattern, found in _QUANTITIES:
        if re.fullmatch(rf"({pattern})( (at )?(baseline|entry|inclusion|years|yrs|kg|cm|mmhg))*", plain):
            inside = found.low <= values.min() and values.max() <= found.high
            wide = np.ptp(values) >= _LEAST_SHARE * (found.high - found.low)
            return found if inside and wide else None
    return None


class Ranged(NamedTuple):
    """Low, high and step of a column, with the reason, and the unit that was guessed; "" is none.

    Examples
    --------
    See ``ranged``, which makes one.
    """

    grid: tuple[float, float, float]
    why: str
    unit: str = ""


def ranged(name: str, values: Floats, *, iterates: bool = True) -> Ranged:
    """The range and the step of a column with these values.

    iterates: whether some model has a bound, by which width costs effects.

    Examples
    --------
    >>> from codedfl.authoring.ranges import ranged
    >>> ranged("age", np.array([24.0, 93.0])).grid, ranged("urea", np.array([24.0, 93.0])).grid
    ((0.0, 120.0, 1.0), (0.0, 180.0, 1.0))
    """
    found = quantity_of(name, values)
    if found is None:
        marks = set(np.unique(values).tolist()) <= {0.0, 1.0}
        why = OF_MARKS if marks else OF_SAMPLE if iterates else FAR
        return Ranged(drafted_grid(values) if iterates else far_grid(values), why)
    step = unit_of_record(values, found.high - found.low)
    low, high = (float(f"{turn(end / step) * step:.12g}") for turn, end in ((_floor, found.low), (_ceil, found.high)))
    why = f"taken for {found.what} in {found.unit}, and nobody's is beyond; change it if it is another quantity"
    return Ranged((low, high, step), why, found.unit)


def drafted_grid(values: Floats, room: float = _ROOM) -> tuple[float, float, float]:
    """A range around the values and a step, with the values on the grid: steps are counted from the low end.

    Examples
    --------
    >>> from codedfl.authoring.ranges import drafted_grid
    >>> drafted_grid(np.array([1.0, 2.0]))
    (0.0, 3.0, 1.0)
    """
    low, high = fitting_range(values, room)
    step = unit_of_record(values, high - low)
    low, high = (turn(end / step) * step for turn, end in ((_floor, low), (_ceil, high)))
    return float(f"{low:.12g}"), float(f"{high:.12g}"), step


def far_grid(values: Floats) -> tuple[float, float, float]:
    """That of a column whose width costs nothing: of linear models, or in none, such as who a row is of.

    Examples
    --------
    >>> from codedfl.authoring.ranges import far_grid
    >>> far_grid(np.array([1.0, 101.0]))
    (0.0, 1150.0, 1.0)
    """
    return drafted_grid(values, _FAR)


def anchor(low: float, high: float, step: float) -> float:
    """A value of the grid that every drafted range of a column holds: 0, or the middle of a range that has no 0.

    Examples
    --------
    >>> from codedfl.authoring.ranges import anchor
    >>> anchor(0.0, 120.0, 1.0), anchor(1690.0, 2320.0, 1.0)
    (0.0, 2005.0)
    """
    if low <= 0 <= high:
        return 0.0
    return float(f"{low + round((high - low) / 2 / step) * step:.12g}")


def _floor(steps: float) -> int:
    """What is a whole number but for rounding stays one."""
    return math.floor(steps + _OFF_GRID)


def _ceil(steps: float) -> int:
    return math.ceil(steps - _OFF_GRID)


def unit_of_record(values: Floats, width: float = 0.0) -> float:
    """1, 0.1, 0.01, ..., as many decimals as the values have; coarser where they would take too many steps.

    width: of the range, which must have room for ten times as much: sites have other values.

    Examples
    --------
    >>> from codedfl.authoring.ranges import unit_of_record
    >>> unit_of_record(np.array([58.1, 61.0]))
    0.1
    """
    decimals = 0
    while decimals < _MOST_DECIMALS and not np.allclose(values, np.round(values, decimals), rtol=1e-12, atol=1e-12):
        decimals += 1
    while _width(values) * 10.0**decimals > _MOST_STEPS or width * 10.0**decimals > _MOST_WIDE:
        decimals -= 1
    return float(f"1e{-decimals}")


def fitting_range(values: Floats, room: float = _ROOM) -> tuple[float, float]:
    """A range around the values with ``room`` of their widths either side, its ends rounded outwards to half of one.

    So an end tells the extreme of a sample to half a width at best. Values that are never negative keep 0 as their end,
    and so do those that are never positive. Of 0 and 1 alone the range is [0, 1]: they are marks.

    Examples
    --------
    >>> from codedfl.authoring.ranges import fitting_range
    >>> fitting_range(np.array([18.0, 97.0])), fitting_range(np.array([0.0, 1.0]))
    ((0.0, 180.0), (0.0, 1.0))
    """
    if set(np.unique(values).tolist()) <= {0.0, 1.0}:
        return 0.0, 1.0
    least, most, width = float(values.min()), float(values.max()), _width(values)
    power = 10.0 ** math.floor(math.log10(width / 2))
    unit = power * max(one for one in (1, 2, 5) if one * power <= width / 2 * (1 + 1e-9))
    low = math.floor((least - room * width) / unit) * unit
    high = math.ceil((most + room * width) / unit) * unit
    low, high = (0.0 if least >= 0 > low else low), (0.0 if most <= 0 < high else high)
    return float(f"{low:.12g}"), float(f"{high:.12g}")


def _width(values: Floats) -> float:
    """From the least to the most; the size of a constant, or 1."""
    least, most = float(values.min()), float(values.max())
    return (most - least) or abs(most) or 1.0
