"""Table 1 by arm, with standardised differences; nothing is reported that would show fewer than a cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from codedfl.analyses.cells import FEW, enough
from codedfl.analyses.described import DescribedLevels, DescribedNumber, described_number, numbers_of
from codedfl.analyses.distributions import distributions
from codedfl.contract.study import Study
from codedfl.statistics.arms import Arms
from codedfl.typing import Integers, JsonObject


@dataclass(frozen=True)
class Arm:
    """One arm: its rows, and its columns as Table 1 has them.

    Examples
    --------
    >>> from codedfl.analyses.arms import Arm
    >>> Arm("placebo", 120, ()).rows
    120
    """

    level: str
    rows: int
    columns: tuple[DescribedNumber | DescribedLevels, ...]

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return {**asdict(self), "columns": [one.to_dict() for one in self.columns]}


def arms_of(study: Study, statistic: Arms, integers: Sequence[int]) -> tuple[Arm, ...]:
    """Of a total of ``arms``; none where an arm has too few rows.

    A category of which some cell has few rows is not reported by arm at all: arms and margins would give the cell back.

    Examples
    --------
    See ``codedfl.analyses.table_one.describe``, whose table has them.
    """
    each, smallest = statistic.each, study.smallest_cell
    parts = [integers[place * each : (place + 1) * each] for place in range(len(statistic.arms))]
    if min(part[0] for part in parts) < smallest:
        return ()
    levels = {name: statistic.category(name).levels for name in statistic.categories}
    counts = [_counts(levels, part) for part in parts]
    reported = {name for name in levels if enough(np.array([one[name] for one in counts]), smallest)}
    order, found = [*(one.name for one in study.columns), study.target.name], []
    for level, part, of_arm in zip(statistic.arms, parts, counts, strict=True):
        columns: list[DescribedNumber | DescribedLevels] = []
        for name, sums in numbers_of(statistic, part[1:]).items():
            gaps = part[0] - sums.rows
            missing = FEW if 0 < gaps < smallest else gaps
            columns.append(described_number(study, name, sums, (None if missing == FEW else sums.rows, missing), None))
        for name, names in levels.items():
            rows = of_arm[name] if name in reported else [None] * len(names)
            columns.append(DescribedLevels(name, names, tuple(zip(names, rows, strict=True))))
        found.append(Arm(level, part[0], tuple(sorted(columns, key=lambda one: order.index(one.name)))))
    return tuple(found)


def tests_of(study: Study, statistic: Arms, integers: Sequence[int]) -> dict[str, float]:
    """Of each column p of the hypothesis that all arms have one distribution, as Table 1 reports it.

    Of numbers by the analysis of variance of their means (of two arms Student's t), of levels by Pearson's chi^2; three
    digits, since an exact one would give back what means are rounded for. A column of which some arm has few rows, or
    a cell has, has none.

    Examples
    --------
    See ``codedfl.analyses.table_one.describe``, whose table has them.
    """
    each, least = statistic.each, max(2, study.smallest_cell)
    parts = [integers[place * each : (place + 1) * each] for place in range(len(statistic.arms))]
    found: dict[str, float] = {}
    numbers = [numbers_of(statistic, part[1:]) for part in parts]
    for name in numbers[0]:
        sums = [one[name] for one in numbers]
        if min(one.rows for one in sums) >= least:
            found[name] = _of_means([(one.rows, one.first, one.second) for one in sums])
    levels = {name: statistic.category(name).levels for name in statistic.categories}
    counts = [_counts(levels, part) for part in parts]
    for name in levels:
        table = np.array([one[name] for one in counts])
        if enough(table, study.smallest_cell):
            found[name] = _of_counts(table[:, table.any(axis=0)])
    return {name: float(f"{p:.3g}") for name, p in found.items() if math.isfinite(p)}


def _of_means(sums: Sequence[tuple[int, int, int]]) -> float:
    """From rows, sums and sums of squares of whole numbers: NaN where nothing varies."""
    rows, first = sum(one[0] for one in sums), sum(one[1] for one in sums)
    between = sum(Fraction(one[1] ** 2, one[0]) for one in sums) - Fraction(first**2, rows)
    within = sum(one[2] - Fraction(one[1] ** 2, one[0]) for one in sums)
    freedom = len(sums) - 1, rows - len(sums)
    if not within:
        return math.nan
    return float(distributions().f.sf(float(between / within) * freedom[1] / freedom[0], *freedom))


def _of_counts(table: Integers) -> float:
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    return float(distributions().chi2.sf(((table - expected) ** 2 / expected).sum(), freedom)) if freedom else math.nan


def _counts(levels: dict[str, tuple[str, ...]], part: Sequence[int]) -> dict[str, list[int]]:
    found, begin = {}, len(part) - sum(map(len, levels.values()))
    for name, names in levels.items():
        found[name], begin = list(part[begin : begin + len(names)]), begin + len(names)
    return found


def differences(arms: Sequence[Arm]) -> dict[str, float]:
    """Of each column the largest standardised difference of two arms, from what is reported of them.

    Of numbers the difference of means by the root of the mean variance; of levels that of their shares by the root of
    their mean covariance (Yang and Dalton, 2012).

    Examples
    --------
    >>> from codedfl.analyses.arms import Arm, differences
    >>> from codedfl.analyses.described import DescribedLevels
    >>> one, other = (DescribedLevels("sex", ("f", "m"), (("f", a), ("m", b))) for a, b in ((50, 50), (30, 70)))
    >>> {name: round(one, 3) for name, one in differences([Arm("a", 100, (one,)), Arm("b", 100, (other,))]).items()}
    {'sex': 0.417}
    """
    found: dict[str, float] = {}
    for one, other in combinations(arms, 2):
        for mine, theirs in zip(one.columns, other.columns, strict=True):
            apart = _apart(mine, theirs)
            if apart is not None:
                found[mine.name] = max(found.get(mine.name, 0.0), apart)
    return found


def _apart(one: DescribedNumber | DescribedLevels, other: DescribedNumber | DescribedLevels) -> float | None:
    if isinstance(one, DescribedNumber) and isinstance(other, DescribedNumber):
        if None in (one.mean, other.mean, one.deviation, other.deviation):
            return None
        spread = math.sqrt(((one.deviation or 0.0) ** 2 + (other.deviation or 0.0) ** 2) / 2)
        return abs((one.mean or 0.0) - (other.mean or 0.0)) / spread if spread else None
    assert isinstance(one, DescribedLevels) and isinstance(other, DescribedLevels)
    counts = [[count for _, count in each.counts] for each in (one, other)]
    if any(count is None for row in counts for count in row):
        return None
    shares = np.array(counts, dtype=np.float64)
    shares = (shares / shares.sum(axis=1, keepdims=True))[:, shares.any(axis=0)][:, 1:]
    covariance = sum(np.diag(share) - np.outer(share, share) for share in shares) / 2
    apart = shares[0] - shares[1]
    return float(math.sqrt(max(0.0, apart @ np.linalg.pinv(covariance) @ apart)))
