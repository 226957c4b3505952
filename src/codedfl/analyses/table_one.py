"""Table 1 over all devices: what a paper begins with, and what the ranges of a real study are drafted from.

Nothing is told of fewer than ``smallest_cell`` rows: few gaps are "few", rare levels are counted together, quantiles
have enough rows on either side, means and deviations are rounded, since an exact one would tell the number of rows. A
range is told by its order of magnitude, so that nobody's largest value is in it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.cells import FEW, CellCounts, Count, rare_together, told, unmarked
from codedfl.contract.models import TableOne
from codedfl.contract.study import Study
from codedfl.contract.study_columns import MOST_STEPS, ClassTarget, Grid, StudyColumn
from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.files import harmless
from codedfl.statistics.histogram import Histogram, anchor_code, bin_starts
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, Integers, JsonObject

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_DIGITS = 4  # of means and deviations
_ROOM = 1.1  # times the furthest value
# So a range reaches less than twice as far as everybody's values: a logistic model is bounded over its ranges.
_NICE = (1, 1.5, 2, 3, 5, 7, 10)
_NAME, _WIDTH = 17, 79


@dataclass(frozen=True)
class DescribedNumber:
    """A number column over all devices.

    rows: without a gap, and missing: with one; None and "few" where fewer than a cell.
    mean, deviation, quantiles: rounded; None where too few rows have a value.
    range, step: a range that holds everybody's values with room, for the study to come.
    fill: what the describing study filled gaps with. clipped: whether values lay beyond the range of that study.
    missing_codes: what tables have in place of a gap.

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
        are too few. missing, other: the levels of gaps and of unknown names. missing_codes: as of a number.

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


@dataclass(frozen=True)
class TableOneFinding:
    r"""Table 1.

    rows: of all devices; left_out: rows without a target, or "few".
    columns: in the order of the study; target: the last of them.
    clipped: values beyond the ranges, in words.
    protection: what a study drafted from it has in common with the one that described.

    Examples
    --------
    >>> from codedfl.analyses.table_one import DescribedNumber, TableOneFinding
    >>> age = DescribedNumber("age", 480, 0, 61.5, 17.1, (31, 50, 63, 74, 86), (0.0, 200.0), 1.0, None)
    >>> print(*TableOneFinding("table 1", 480, 0, (age,), "age", "", {}).lines(), sep="\n")
    480 rows, 0 left out without 'age'
                            n missing      mean       sd     25 %     50 %     75 %
    age                   480       0      61.5     17.1       50       63       74
    """

    name: str
    rows: int
    left_out: int | str
    columns: tuple[DescribedNumber | DescribedLevels, ...]
    target: str
    clipped: str
    protection: Mapping[str, str | int | bool | None]

    def to_dict(self) -> JsonObject:
        """For JSON; ``codedfl study new --from`` reads it."""
        return {"kind": TableOne.kind, **asdict(self), "columns": [one.to_dict() for one in self.columns]}

    def lines(self) -> list[str]:
        """For people, at most 79 columns wide."""
        quartiles = [f"{share:.0%}".replace("%", " %") for share in QUANTILES[1:4]]
        found = [f"{self.rows} rows, {self.left_out} left out without {self.target!r}"]
        found.append(_line("", "n", "missing", "mean", "sd", *quartiles))
        for one in self.columns:
            if isinstance(one, DescribedNumber):
                rows = "most" if one.rows is None else str(one.rows)
                found.append(_line(one.name, rows, str(one.missing), *map(_text, _shown(one))))
            else:
                found.append(_cut(one.name, _WIDTH))
                found += [
                    f"  {_cut(level, _NAME + 6):<{_NAME + 6}}{_share(rows, self.rows)}" for level, rows in one.counts
                ]
        words = [f"clipped even here: {self.clipped}"] if self.clipped else []
        return [*found, *words]

    def csv(self) -> str:
        """A line per number and per level, as spreadsheets and R read it."""
        stream = io.StringIO()
        lines = csv.writer(stream, lineterminator="\n")
        lines.writerow(("column", "level", "n", "missing", "mean", "sd", *(f"q{share:g}" for share in QUANTILES)))
        for one in self.columns:
            if isinstance(one, DescribedNumber):
                lines.writerow((harmless(one.name), "", one.rows, one.missing, one.mean, one.deviation, *one.quantiles))
            else:
                lines.writerows((harmless(one.name), harmless(level), rows) for level, rows in one.counts)
        return stream.getvalue()


def _shown(one: DescribedNumber) -> tuple[float | None, ...]:
    return (one.mean, one.deviation, *one.quantiles[1:4])


def _line(name: str, *cells: str) -> str:
    widths = (8, 8, 10, 9, 9, 9, 9)
    return (
        f"{_cut(name, _NAME):<{_NAME}}" + "".join(f" {one:>{w - 1}}" for one, w in zip(cells, widths, strict=True))
    ).rstrip()


def _cut(text: object, most: int) -> str:
    return str(text) if len(str(text)) <= most else f"{str(text)[: most - 3]}..."


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e7 else f"{_rounded(value):.0f}"


def _share(rows: int | None, of: int) -> str:
    return f"{FEW:>8}" if rows is None else f"{rows:>8}{rows / of:>9.1%}"


# -- from the totals


@register_analysis(TableOne.kind)
def describe(totals: Totals, model: TableOne) -> Generator[Ask, Any, Finding]:
    """One more total, whatever the number of columns.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.table_one import describe
    >>> ANALYSES["describe"] is describe
    True
    """
    integers: list[int] = yield totals.ask("histogram", model)
    study, counts = totals.study, totals.counts
    kept = next(one for one in totals.final.models if one.name == model.name)
    numbers = _numbers(Histogram(totals.final, model=kept), integers)
    final = {one.column.name: one for one in totals.final.columns}
    few = unmarked(study, totals.merged)
    columns = [
        _column(study, one, final.get(one.column.name), counts, numbers.get(one.column.name), few)
        for one in study.columns
        if one.column.name in model.columns
    ]
    columns.append(_target(study, counts, numbers.get(study.target.name)))
    return TableOneFinding(
        model.name,
        counts.rows.rows,
        counts.left_out,
        tuple(one for one in columns if one is not None),
        study.target.name,
        counts.clipped.words(study.smallest_cell),
        {
            "id": study.id,
            "complete_cases": study.complete_cases,
            "least_participants": study.least_participants,
            "max_rows_per_device": study.max_rows_per_device,
        },
    )


@dataclass(frozen=True, eq=False)
class _Sums:
    grid: Grid
    rows: int
    first: int
    second: int
    bins: Integers


def _numbers(statistic: Histogram, integers: Sequence[int]) -> dict[str, _Sums]:
    found, begin = {}, 0
    for name, grid in statistic.grids.items():
        end = begin + 3 + len(bin_starts(grid))
        rows, first, second, *bins = integers[begin:end]
        found[name], begin = _Sums(grid, rows, first, second, np.array(bins, dtype=np.int64)), end
    return found


def _column(
    study: Study,
    one: StudyColumn,
    final: StudyColumn | None,
    counts: CellCounts,
    sums: _Sums | None,
    few: Collection[str],
) -> DescribedNumber | DescribedLevels | None:
    """``final``: what the census has left of it. few: columns of which a few values are missing."""
    if isinstance(one.column, CategoryColumn):
        return _levels(one.column, None if final is None else final.column, counts)
    if sums is None or final is None:  # it varies in too few people
        return None
    name, gaps = one.column.name, counts.columns[one.column.name][0]
    missing = FEW if name in few else told(study, gaps.rows)
    rows = None if missing == FEW else counts.rows.rows - gaps.rows
    found = _number(study, name, sums, (rows, missing), one.column.missing)
    return replace(found, clipped=name in counts.clipped.values, missing_codes=one.column.missing_codes)


def _target(study: Study, counts: CellCounts, sums: _Sums | None) -> DescribedNumber | DescribedLevels:
    target = study.target
    if isinstance(target, ClassTarget):
        rows, names = [one.rows for one in counts.classes], tuple(map(str, target.classes))
        rare = rare_together(rows, study.smallest_cell)
        shown: list[tuple[str, int | None]] = [(name, rows[i]) for i, name in enumerate(names) if i not in rare]
        together = sum(rows[place] for place in rare)
        if rare:
            enough = together >= study.smallest_cell
            shown.append((", ".join(names[place] for place in sorted(rare)), together if enough else None))
        if any(count is None for _, count in shown):  # the others would give it back
            shown = [(name, None) for name, _ in shown]
        return DescribedLevels(target.name, target.classes, tuple(shown))
    assert sums is not None
    found = _number(study, target.name, sums, (counts.rows.rows, 0), None)
    return replace(found, clipped=found.name in counts.clipped.values)


def _levels(column: CategoryColumn, final: NumberColumn | CategoryColumn | None, counts: CellCounts) -> DescribedLevels:
    """The levels that the census has left, and those that it has merged by their names; no count of a column of one."""
    said: list[tuple[str, int | None]]
    if isinstance(final, CategoryColumn):
        cells: Sequence[Count] = counts.columns[column.name]
        said = [(_named(column, final, level), cell.rows) for level, cell in zip(final.levels, cells, strict=True)]
    else:
        said = [(", ".join(column.levels), None)]
    return DescribedLevels(column.name, column.levels, tuple(said), column.missing, column.other, column.missing_codes)


def _named(column: CategoryColumn, final: CategoryColumn, level: str) -> str:
    """Of *other* all that it stands for."""
    if not final.merged or (level in column.levels and level != column.other):
        return level
    return ", ".join(one for one in column.levels if one in final.merged or one == column.other)


def _number(
    study: Study, name: str, sums: _Sums, shown: tuple[int | None, int | str], fill: float | None
) -> DescribedNumber:
    n, grid = sums.rows, sums.grid
    mean = deviation = None
    if n >= max(2, study.smallest_cell):
        mean = _rounded(grid.zero + grid.step * sums.first / n)
        deviation = _rounded(grid.step * math.sqrt((n * sums.second - sums.first**2) / (n * (n - 1))))
    least = study.smallest_cell
    quantiles = (
        quantile(grid, sums.bins, share) if min(share, 1 - share) * n >= least else None for share in QUANTILES
    )
    return DescribedNumber(
        name, *shown, mean, deviation, tuple(quantiles), drafted_range(grid, sums.bins), grid.step, fill
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def quantile(grid: Grid, bins: Integers, share: float) -> float:
    """The value below which this share of rows lies: exact where bins are single steps, else within its bin.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.table_one import quantile
    >>> from codedfl.contract.study_columns import Grid
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
    >>> from codedfl.analyses.table_one import drafted_range
    >>> from codedfl.contract.study_columns import Grid
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
