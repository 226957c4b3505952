"""One parameter over a few values: time to the target against it, as a table and as a picture.

A curve is a scheme with a solver; at each value its fastest variant counts. What has no such parameter is a level line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from codedfl.report.canvas import Pictures
from codedfl.report.text import terminal_table
from codedfl_lab.comparing.names import method_name
from codedfl_lab.comparing.results import Results, SchemeResult
from codedfl_lab.report.curves import curves_figure
from codedfl_lab.report.rows import best_variants, by_time, entries_at, kinds, median_time, target_text

WORDS = {"alpha": "α", "z": "z, the colluders borne", "D": "D, the devices", "d": "d, the features"}
AT_ONCE = 5  # values beside each other that fit 80 characters

Curve = dict[int, SchemeResult]


def curves_over(parameter: str, found: Sequence[Results]) -> dict[tuple[str, str], Curve]:
    """By scheme and solver the fastest row at each value, at the headline target and by the first convention."""
    values = {value for results in found for value, _ in _valued(parameter, results)} - {None}
    curves: dict[tuple[str, str], Curve] = {}
    for value in sorted(value for value in values if value is not None):
        rows = [row for results in found for of, row in _valued(parameter, results) if of in (value, None)]
        for row in best_variants(rows):
            curves.setdefault((row.scheme, row.solver), {})[value] = row
    return curves


def _valued(parameter: str, results: Results) -> Iterator[tuple[int | None, SchemeResult]]:
    """Each row with its value; None for a scheme that has no such parameter."""
    assert results.headline_target is not None
    size = {"D": results.n_devices, "d": results.n_features}.get(parameter)
    for row in entries_at(results.schemes, results.headline_target, *kinds(results.schemes)[0]):
        own = row.parameters.get(parameter)
        yield (size if own is None or size is not None else int(own)), row


def sweep_tables(parameter: str, found: Sequence[Results]) -> Iterator[Table]:
    """Seconds to the target, a column a value; several tables where there are many values."""
    curves = curves_over(parameter, found)
    values = sorted({value for curve in curves.values() for value in curve})
    for start in range(0, len(values), AT_ONCE):
        shown = values[start : start + AT_ONCE]
        table = terminal_table(f"Seconds to {_goal(found[0])} against {WORDS[parameter]}")
        table.add_column("scheme", min_width=15)
        for value in shown:
            table.add_column(f"{parameter} = {value}", justify="right", no_wrap=True)
        for method, curve in sorted(curves.items(), key=lambda one: [by_time(row) for row in one[1].values()]):
            cells = [_cell(curve[value]) if value in curve else "" for value in shown]
            table.add_row(Text(method_name(*method)), *cells)
        yield table


def _cell(row: SchemeResult) -> str:
    if row.reason is not None:
        return "diverges" if row.diverged else "–"
    return median_time(row)


def sweep_figure(parameter: str, found: Sequence[Results]) -> Pictures:
    """Median virtual time against the parameter. What never gets there is left out."""
    curves = {}
    for method, curve in curves_over(parameter, found).items():
        times = [(float(value), row.time_to_target_s.median) for value, row in curve.items()]
        reached = [(value, median) for value, median in times if median is not None]
        if reached:
            curves[method] = reached
    height = f"time to {_goal(found[0])}, simulated seconds"
    return curves_figure({found[0].title: curves}, WORDS[parameter], height)


def _goal(results: Results) -> str:
    return target_text(results.headline_target or math.nan, results.score_name)
