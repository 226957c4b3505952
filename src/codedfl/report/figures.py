"""The paper's Figure 1: accuracy against training time, one curve a scheme.

The line is the median over feature seeds, the band their whole spread; a scheme with one epoch is a point. Each
curve is named once, in the legend, in the order in which they meet the target; the table has the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from codedfl.errors import InvalidInput
from codedfl.report import canvas
from codedfl.report.canvas import COLOURS, GREY, INK, SOLID, Dashes, Look, Pictures, look_of
from codedfl.report.curves import Curve, curves_of
from codedfl.report.rows import (
    by_time,
    entries_at,
    kinds,
    number,
    percent,
    seconds,
    series_name,
    target_text,
    targets_of,
)
from codedfl.study.results import SchemeResult, TraceRow

LOG_FROM = 8.0  # times between the first and the last curve at the target
VIEW_BELOW = 0.15  # how far below the target the view begins where there is no lower target

_STYLES: dict[str, Dashes] = {
    "coded-keys": (0, (5, 1.5)),
    "coded-fedl": (0, (6, 1.5, 1, 1.5)),
    "drop-slowest": (0, (1, 1.2)),
}


Looks = Callable[[Sequence[SchemeResult]], Mapping[str, Look]]


def looks_in_turn(shown: Sequence[SchemeResult]) -> dict[str, Look]:
    """A colour a curve, a line style a scheme.

    The baselines have their own colours (dropping, which is in no figure of the paper, is grey); more than six others
    begin again, told apart by their line style.
    """
    fixed = {"conventional": INK, "drop-slowest": GREY}
    others = [series_name(one) for one in shown if one.scheme not in fixed]
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(others)}
    return {
        series_name(one): Look(
            series_name(one),
            fixed.get(one.scheme) or colours[series_name(one)],
            _STYLES.get(one.scheme, SOLID),
            1.1 if one.scheme == "drop-slowest" else 1.6,
        )
        for one in shown
    }


def looks_by_scheme(shown: Sequence[SchemeResult]) -> dict[str, Look]:
    """A colour a scheme, a line style a solver, alpha in the legend only: for results with one curve of each."""
    return {series_name(one): look_of(one.scheme, one.solver) for one in shown}


def accuracy_figure(
    title: str,
    schemes: Sequence[SchemeResult],
    traces: Sequence[TraceRow],
    target: float,
    score_name: str,
    looks_of: Looks = looks_in_turn,
) -> Pictures:
    """Draw the first table of the rows (its sharing convention and step) from its traces."""
    if not schemes:
        raise InvalidInput("results must hold at least one scheme, got none")
    sharing, step = kinds(schemes)[0]
    entries = {series_name(e): e for e in entries_at(schemes, target, sharing, step)}
    curves = [curve for curve in curves_of(traces, schemes[0].dataset, step) if curve.name in entries]
    if not curves:
        raise InvalidInput(f"traces must hold rows of {schemes[0].dataset!r} with step {step}, got none")
    looks = looks_of([entries[curve.name] for curve in curves])
    with canvas.house_style():
        figure = canvas.blank(9.6, 4.9)
        axes = figure.add_subplot()
        for curve in curves:
            _draw(axes, curve, looks[curve.name])
        _limits(axes, curves, target, targets_of(schemes))
        axes.axhline(target, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        canvas.light_grid(axes)
        axes.set_xlabel("training time, virtual seconds, sharing phase included")
        axes.set_ylabel(f"test {score_name}")
        if score_name == "accuracy":
            axes.yaxis.set_major_formatter(FuncFormatter(_percent_tick))
        canvas.title(axes, title)
        _legend(axes, curves, entries, target, score_name)
        return canvas.render(figure)


def _draw(axes: Axes, curve: Curve, look: Look) -> None:
    if len(curve.seconds) == 1:
        axes.vlines(curve.seconds, curve.low, curve.high, color=look.color, linewidth=look.width)
        axes.plot(curve.seconds, curve.median, color=look.color, marker="o", markersize=5, ls="none", label=curve.name)
        return
    axes.fill_between(curve.seconds, curve.low, curve.high, color=look.color, alpha=0.14, linewidth=0)
    axes.plot(
        curve.seconds,
        curve.median,
        color=look.color,
        linestyle=look.dashes,
        linewidth=look.width,
        label=curve.name,
    )


def _limits(axes: Axes, curves: Sequence[Curve], target: float, targets: Sequence[float]) -> None:
    """Show where curves approach the target, not their first steps."""
    ends = [float(curve.median[-1]) for curve in curves]
    top = max(target, *(float(curve.high.max()) for curve in curves))
    lowest = min(targets) if len(targets) > 1 else target - VIEW_BELOW
    # A scheme that diverges must not squeeze the others into a line.
    bottom = max(min(lowest, *ends), lowest - 2 * (top - lowest))
    bottom -= 0.15 * (top - bottom)
    axes.set_ylim(bottom, top + 0.06 * (top - bottom))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    first = min(_enters(curve, bottom) for curve in curves)
    last = max(float(curve.seconds[-1]) for curve in curves)
    reached = [time for time in (curve.reaches(target) for curve in curves) if np.isfinite(time)]
    if reached and max(reached) > LOG_FROM * min(reached):
        axes.set_xscale("log")
        axes.set_xlim(first / 1.3, last * 1.15)
        canvas.log_ticks(axes.xaxis)
    else:
        axes.set_xlim(0.0, last * 1.03)
        canvas.count_ticks(axes.xaxis)


def _enters(curve: Curve, bottom: float) -> float:
    """Seconds at which the curve first comes into view."""
    above = int(np.argmax(curve.median >= bottom))
    before = max(0, above - 1)
    return float(np.interp(bottom, curve.median[before : above + 1], curve.seconds[before : above + 1]))


def _percent_tick(value: float, _position: int | None) -> str:
    """Nothing above 100 %."""
    return "" if value > 1 + 1e-9 else percent(value)


def _legend(
    axes: Axes, curves: Sequence[Curve], entries: Mapping[str, SchemeResult], target: float, score_name: str
) -> None:
    """In the order in which the curves meet the target line, with the times of the table."""
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order = sorted((curve.name for curve in curves if curve.name in entries), key=lambda name: by_time(entries[name]))
    axes.figure.legend(
        [handles[name] for name in order],
        [_legend_text(entries[name]) for name in order],
        loc="outside right center",
        title=f"time to {target_text(target, score_name)}",
        alignment="left",
        frameon=False,
        fontsize=8.5,
        title_fontsize=8.5,
        handlelength=3.2,
        labelspacing=0.7,
    )


def _legend_text(entry: SchemeResult) -> str:
    faster = entry.speedup_over_conventional.median
    times = f", {number(faster)}×" if faster and entry.scheme != "conventional" else ""
    return f"{series_name(entry)}: {seconds(entry.time_to_target_s.median)}{times}"
