"""Table 1 over all devices: what a paper begins with, and what the ranges of a real study are drafted from.

Nothing is reported of fewer than ``smallest_cell`` rows: few missing values are "few", rare levels are counted
together, quantiles have enough rows on either side, means and deviations are rounded, since an exact one would tell the
number of rows. A range is reported by its order of magnitude, so that nobody's largest value is in it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Generator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.arms import Arm, arms_of, differences, tests_of
from codedfl.analyses.cells import FEW, CellCounts, rare_together, reported, unmarked
from codedfl.analyses.described import (
    QUANTILES,
    DescribedLevels,
    DescribedNumber,
    Sums,
    described_number,
    numbers_of,
    rounded,
)
from codedfl.contract.models import TableOne
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget, Column, NumberColumn
from codedfl.files import harmless
from codedfl.statistics.arms import Arms
from codedfl.statistics.histogram import Histogram
from codedfl.statistics.statistic import Ask
from codedfl.typing import JsonObject

_NAME, _WIDTH = 17, 79


@dataclass(frozen=True)
class TableOneFinding:
    r"""Table 1.

    rows: of all devices; left_out: rows without a target, or "few".
    columns: in the order of the study; target: the last of them.
    clipped: values beyond the ranges, in words.
    arms: the same by the levels of one category; empty where nobody asked, or an arm has few rows.
    tests: p of the hypothesis that all arms have one distribution, by column.
    protection: what a study drafted from it has in common with the one that described.

    Examples
    --------
    >>> from codedfl.analyses.described import DescribedNumber
    >>> from codedfl.analyses.table_one import TableOneFinding
    >>> age = DescribedNumber("age", 480, 0, 61.5, 17.1, (31, 50, 63, 74, 86), (0.0, 200.0), 1.0, None)
    >>> print(*TableOneFinding("table 1", 480, 0, (age,), "age", "", {}).lines(), sep="\n")
    480 rows, 0 left out for missing values
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
    arms: tuple[Arm, ...] = ()
    tests: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> JsonObject:
        """For JSON; ``codedfl study new --from`` reads it."""
        whole = {"columns": [one.to_dict() for one in self.columns], "arms": [one.to_dict() for one in self.arms]}
        return {"kind": TableOne.kind, **asdict(self), **whole, "differences": differences(self.arms)}

    def lines(self) -> list[str]:
        """For people, at most 79 columns wide."""
        quartiles = [f"{share:.0%}".replace("%", " %") for share in QUANTILES[1:4]]
        found = [f"{self.rows} rows, {self.left_out} left out for missing values"]
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
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e7 else f"{rounded(value):.0f}"


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
    kept = totals.final_of(model)
    numbers = numbers_of(Histogram(totals.final, model=kept), integers)
    final = {one.name: one for one in totals.final.columns}
    few = unmarked(study, totals.merged)
    columns = [
        _column(study, one, final.get(one.name), counts, numbers.get(one.name), few)
        for one in study.columns
        if one.name in model.columns
    ]
    columns.append(_target(study, counts, numbers.get(study.target.name)))
    arms: tuple[Arm, ...] = ()
    tests: dict[str, float] = {}
    if kept.by:
        integers = yield totals.ask(Arms.name, model)
        by_arm = Arms(totals.final, model=kept)
        if arms := arms_of(study, by_arm, integers):
            tests = tests_of(study, by_arm, integers)
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
        arms,
        tests,
    )


def _column(
    study: Study,
    one: Column,
    final: Column | None,
    counts: CellCounts,
    sums: Sums | None,
    few: Collection[str],
) -> DescribedNumber | DescribedLevels | None:
    """``final``: what the census has left of it. few: columns of which a few values are missing."""
    if isinstance(one, CategoryColumn):
        return _levels(one, final, counts)
    if sums is None or final is None:  # it varies in too few people
        return None
    name = one.name
    missing = FEW if name in few else reported(study, counts.rows.rows - sums.rows)
    rows = None if missing == FEW else sums.rows
    found = described_number(study, name, sums, (rows, missing), one.missing)
    return replace(found, clipped=name in counts.clipped.values, missing_codes=one.missing_codes)


def _target(study: Study, counts: CellCounts, sums: Sums | None) -> DescribedNumber | DescribedLevels:
    target = study.target
    if isinstance(target, ClassTarget):
        rows, names = counts.classes, tuple(map(str, target.classes))
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
    found = described_number(study, target.name, sums, (counts.rows.rows, 0), None)
    return replace(found, clipped=found.name in counts.clipped.values)


def _levels(column: CategoryColumn, final: NumberColumn | CategoryColumn | None, counts: CellCounts) -> DescribedLevels:
    """The levels that the census has left, and those that it has merged by their names; no count of a column of one."""
    said: list[tuple[str, int | None]]
    if isinstance(final, CategoryColumn):
        rows = counts.levels[column.name]
        said = [(_named(column, final, level), n) for level, n in zip(final.levels, rows, strict=True)]
    else:
        said = [(", ".join(column.levels), None)]
    return DescribedLevels(column.name, column.levels, tuple(said), column.missing, column.other, column.missing_codes)


def _named(column: CategoryColumn, final: CategoryColumn, level: str) -> str:
    """Of *other* all that it stands for."""
    if not final.merged or (level in column.levels and level != column.other):
        return level
    return ", ".join(one for one in column.levels if one in final.merged or one == column.other)
