"""What Table 1 says of a column, and how it is read from a total: nothing of fewer than a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from codedfl.contract.study import Study
from codedfl.data.columns import MOST_STEPS, Grid
from codedfl.statistics.histogram import Histogram, anchor_code, bin_starts
from codedfl.typing import Floats, Integers, JsonObject

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_DIGITS = 4  # of means and deviations
_ROOM = 1.1  # times the furthest value
# So a range reaches less than twice as far as everybody's values: a logistic model is bounded over its ranges.
_NICE = (1, 1.5, 2, 3, 5, 7, 10)


@dataclass(frozen=True)
class DescribedNumber:
    """A number column over all devices.

    rows: without a missing value, and missing: with one; None and "few" where fewer than a cell.
    mean, deviation, quantiles: rounded; None where too few rows have a value.
    range, step: a range that holds everybody's values with room, for the study to come.
    fill: what the describing study filled missing values with. clipped: whether values lay beyond its range.
    missing_codes: what tables have in place of a missing value.

    Examples
    --------
    See ``TableOneFinding``.
    """

    name: str
    rows: int | None
    missing: int | str
    mean: float | None
    deviation: float | None
    quantiles: tuple[float | None, ...]
    range: tuple[float, float]
    step: float
    fill: float | None
    clipped: bool = False
    missing_codes: tuple[str | float, ...] = ()

    def to_dict(self) -> JsonObject:
        """For JSON."""
        quantiles = dict(zip(map(str, QUANTILES), self.quantiles, strict=True))
        return {"kind": "number", **asdict(self), "quantiles": quantiles}


@dataclass(frozen=True)
class DescribedLevels:
    """A category, or the classes of a target, over all devices.

    levels: as the study lists them. counts: rows of each level, or of several that are rare together; None where all
        are too few. missing, other: the levels of missing values and of unknown names. missing_codes: as of a number.

    Examples
    --------
    See ``TableOneFinding``.
    """

    name: str
    levels: tuple[str, ...] | tuple[int, ...]
    counts: tuple[tuple[str, int | None], ...]
    missing: str | None = None
    other: str | None = None
    missing_codes: tuple[str, ...] = ()

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return {"kind": "category", **asdict(self), "counts": dict(self.counts)}


@dataclass(frozen=True, eq=False)
class Sums:
    """Of one number column: rows, sums of its codes and of their squares, rows per bin.

    Examples
    --------
    See ``numbers_of``, which makes them.
    """

    grid: Grid
    rows: int
    first: int
    second: int
    bins: Integers


def numbers_of(statistic: Histogram, integers: Sequence[int]) -> dict[str, Sums]:
    """By column, of a total that begins with them.

    Examples
    --------
    See ``codedfl.analyses.table_one.describe``, which reads its total so.
    """
    found, begin = {}, 0
    for name, grid in statistic.grids.items():
        end = begin + 3 + len(bin_starts(grid))
        rows, first, second, *bins = integers[begin:end]
        found[name], begin = Sums(grid, rows, first, second, np.array(bins, dtype=np.int64)), end
    return found


def described_number(
    study: Study, name: str, sums: Sums, shown: tuple[int | None, int | str], fill: float | None
) -> DescribedNumber:
    """A number column in the words of a table; ``shown`` is its rows and missing values as they may be reported.

    Examples
    --------
    See ``codedfl.analyses.table_one.describe``, whose columns they are.
    """
    n, grid = sums.rows, sums.grid
    mean = deviation = None
    if n >= max(2, study.smallest_cell):
        mean = rounded(grid.zero + grid.step * sums.first / n)
        deviation = rounded(grid.step * math.sqrt((n * sums.second - sums.first**2) / (n * (n - 1))))
    least = study.smallest_cell
    quantiles = (
        quantile(grid, sums.bins, share) if min(share, 1 - share) * n >= least else None for share in QUANTILES
    )
    return DescribedNumber(
        name, *shown, mean, deviation, tuple(quantiles), drafted_range(grid, sums.bins), grid.step, fill
    )


def rounded(value: float) -> float:
    """To as many digits as means are reported with.

    Examples
    --------
    >>> from codedfl.analyses.described import rounded
    >>> rounded(61.23456)
    61.23
    """
    return float(f"{value:.{_DIGITS}g}")


def quantile(grid: Grid, bins: Integers, share: float) -> float:
    """The value below which this share of rows lies: exact where bins are single steps, else within its bin.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.described import quantile
    >>> from codedfl.data.columns import Grid
    >>> quantile(Grid("range of 'age'", (0.0, 3.0), 1.0), np.array([10, 20, 30, 40]), 0.5)
    2.0
    """
    starts = np.append(bin_starts(grid), grid.n_steps + 1)
    below = np.cumsum(bins)
    place = int(np.searchsorted(below, share * below[-1]))
    inside = (share * below[-1] - (below[place] - bins[place])) / bins[place]
    code = starts[place] + math.floor(inside * (starts[place + 1] - starts[place] - 1))
    value: Floats = grid.values(np.array([code]))
    return float(f"{value[0]:.12g}")


def drafted_range(grid: Grid, bins: Integers) -> tuple[float, float]:
    """From the anchor (0, or the middle) to a number of ``_NICE`` beyond everybody's value, either side.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.described import drafted_range
    >>> from codedfl.data.columns import Grid
    >>> drafted_range(Grid("range of 'age'", (0.0, 9.0), 1.0), np.array([0, 0, 3, 9, 2, 0, 0, 0, 0, 0]))
    (0.0, 5.0)
    """
    starts, anchor = np.append(bin_starts(grid), grid.n_steps + 1), anchor_code(grid)
    seen = np.flatnonzero(bins)
    ends = (anchor - starts[seen[0]], starts[seen[-1] + 1] - 1 - anchor) if len(seen) else (0, 1)
    marks = grid.step == 1 and max(ends) == 1  # 0 and 1 alone
    down, up = (_nice(max(0, int(end)) * grid.step * (1 if marks else _ROOM), grid.step) for end in ends)
    middle = grid.range[0] + anchor * grid.step
    low, high = middle - down, middle + (up or (0.0 if down else grid.step))
    low = max(low, high - MOST_STEPS * grid.step)
    return float(f"{low:.12g}"), float(f"{high:.12g}")


def _nice(distance: float, step: float) -> float:
    """0, or a number of ``_NICE`` times a power of ten, in whole steps."""
    if distance <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(distance))
    nice = next(one * power for one in _NICE if one * power >= distance * (1 - 1e-9))
    return math.ceil(nice / step - 1e-6) * step
