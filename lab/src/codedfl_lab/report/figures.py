"""The paper's Figure 1: accuracy against training time, one curve per scheme.

The line is the median over feature seeds, the band their whole spread; a scheme with one epoch is a point. Each
curve is named once, in the legend, in the order in which they meet the target; the table has the same order.

The seeds of a scheme share one time axis (``comparison`` draws latencies apart from models), so the median is taken
epoch by epoch. A seed stops a little after it has reached the last target; from then on it counts as it ended, or the
slow seeds alone would make up the rest of the curve. The curve ends where half of the seeds have stopped.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from codedfl.errors import InvalidInput
from codedfl.report import canvas
from codedfl.report.canvas import COLOURS, GREY, INK, MARKERS, PAPER, SOLID, Dashes, Pictures
from codedfl.report.text import number, seconds
from codedfl.typing import Floats
from codedfl_lab.comparing.names import full_name
from codedfl_lab.comparing.results import SchemeResult, TraceRow
from codedfl_lab.report.looks import Look, look_of
from codedfl_lab.report.rows import by_time, entries_at, kinds, percent, target_text, targets_of

LOG_FROM = 8.0  # times between the first and the last curve at the target
VIEW_BELOW = 0.15  # how far below the target the view begins where there is no lower target

MARKED_EVERY = 0.2  # of the height of the view, along a curve

_STYLES: dict[str, Dashes] = {
    "coded-keys": (0, (5, 1.5)),
    "coded-fedl": (0, (6, 1.5, 1, 1.5)),
    "drop-slowest": (0, (1, 1.2)),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """One scheme by its ``full_name``; ``low`` and ``high`` are the least and the greatest score over the seeds."""

    name: str
    seconds: Floats
    median: Floats
    low: Floats
    high: Floats

    def reaches(self, target: float) -> float:
        """Seconds at which the median curve first meets the target; infinity if it never does."""
        met = np.flatnonzero(self.median >= target)
        return float(self.seconds[met[0]]) if len(met) else float("inf")


def curves_of(traces: Iterable[TraceRow], dataset: str, step: str) -> list[Curve]:
    """The curves of one data set and one step, in the order of the traces."""
    points: dict[str, dict[int, dict[int, tuple[float, float]]]] = {}
    for row in traces:
        if row.dataset == dataset and row.step == step:
            of_seed = points.setdefault(full_name(row), defaultdict(dict))
            of_seed[row.seed][row.epoch] = (row.seconds, row.accuracy)
    return [_curve(name, of_seed) for name, of_seed in points.items()]


def _curve(name: str, of_seed: Mapping[int, Mapping[int, tuple[float, float]]]) -> Curve:
    last = float(np.median([max(epochs) for epochs in of_seed.values()]))
    times = {epoch: at[0] for epochs in of_seed.values() for epoch, at in epochs.items()}
    grid = np.array(sorted(epoch for epoch in times if epoch <= last), dtype=np.float64)
    scores = []
    for epochs in of_seed.values():
        known = np.array(sorted(epochs), dtype=np.float64)
        # Outside the epochs of this seed np.interp holds its first and last value.
        scores.append(np.interp(grid, known, [epochs[int(epoch)][1] for epoch in known]))
    stacked = np.array(scores)
    return Curve(
        name,
        np.array([times[int(epoch)] for epoch in grid]),
        np.median(stacked, axis=0),
        stacked.min(axis=0),
        stacked.max(axis=0),
    )


def looks_of(shown: Sequence[SchemeResult]) -> dict[str, Look]:
    """How each curve looks: no two alike, with colours and without.

    Each scheme has a colour and a marker, each solver a line style. Where one scheme has several curves with one
    solver, as in the paper's figure, every curve has its own colour and marker, and each scheme a line style. More than
    six then begin again with the colours, distinguished by the others; the baselines keep theirs (dropping, which is in
    no figure of the paper, is grey).
    """
    if len({(one.scheme, one.solver) for one in shown}) == len(shown):
        return {full_name(one): look_of(one.scheme, one.solver) for one in shown}
    if len(shown) > len(MARKERS):
        raise InvalidInput(f"a figure must have at most {len(MARKERS)} curves, got {len(shown)}")
    fixed = {"conventional": INK, "drop-slowest": GREY}
    colours = itertools.cycle(COLOURS)
    return {
        full_name(one): Look(
            fixed.get(one.scheme) or next(colours),
            _STYLES.get(one.scheme, SOLID),
            1.1 if one.scheme == "drop-slowest" else 1.6,
            marker,
        )
        for one, marker in zip(shown, MARKERS, strict=False)
    }


def accuracy_figure(
    title: str, schemes: Sequence[SchemeResult], traces: Sequence[TraceRow], target: float, score_name: str
) -> Pictures:
    """Draw the first table of the rows (its sharing convention and step) from its traces."""
    if not schemes:
        raise InvalidInput("results must hold at least one scheme, got none")
    sharing, step = kinds(schemes)[0]
    entries = {full_name(e): e for e in entries_at(schemes, target, sharing, step)}
    curves = [curve for curve in curves_of(traces, schemes[0].dataset, step) if curve.name in entries]
    if not curves:
        raise InvalidInput(f"traces must hold rows of {schemes[0].dataset!r} with step {step}, got none")
    looks = looks_of([entries[curve.name] for curve in curves])

    def draw(figure: Figure, column: bool) -> None:
        axes = figure.add_subplot()
        lines = [_draw(axes, curve, looks[curve.name], 0.6 if column else 1.0) for curve in curves]
        _limits(axes, curves, target, targets_of(schemes))
        _mark(axes, lines, curves)
        axes.axhline(target, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        axes.set_xlabel("training time, simulated seconds, sharing phase included")
        axes.set_ylabel(f"test {score_name}")
        if score_name == "accuracy":
            # Nothing above 100 %.
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value) if value < 1 + 1e-9 else ""))
        _legend(axes, curves, entries, target, score_name, column=column)
        if not column:  # there the title belongs into the caption
            axes.set_title(title)

    # As high as wide in a column, and a line of the legend for each curve below.
    return canvas.pictures(draw, (9.6, 4.9), (canvas.COLUMN_INCHES, 2.7 + 0.13 * (len(curves) + 1)))


def _draw(axes: Axes, curve: Curve, look: Look, scale: float) -> Line2D:
    """``scale`` is of lines and markers."""
    style: dict[str, Any] = {
        "marker": look.marker,
        "markersize": (9.0 if look.marker == "*" else 6.5) * scale,  # a star has little area
        "markeredgecolor": PAPER,
        "markeredgewidth": 0.4 * scale,
    }
    if len(curve.seconds) == 1:
        axes.vlines(curve.seconds, curve.low, curve.high, color=look.color, linewidth=scale * look.width)
        return axes.plot(curve.seconds, curve.median, ls="none", color=look.color, label=curve.name, **style)[0]
    axes.fill_between(curve.seconds, curve.low, curve.high, color=look.color, alpha=0.14, linewidth=0)
    return axes.plot(
        *(curve.seconds, curve.median),
        color=look.color,
        label=curve.name,
        linestyle=look.dashes,
        linewidth=scale * look.width,
        **style,
    )[0]


def _mark(axes: Axes, lines: Sequence[Line2D], curves: Sequence[Curve]) -> None:
    """Markers along what is in view, as far apart on every curve; of curves that lie on one another at other places.

    A curve that goes up and down is measured by the best it has reached, or it would be all markers.
    """
    bottom, top = axes.get_ylim()
    height = axes.get_window_extent().height
    for index, (line, curve) in enumerate(zip(lines, curves, strict=True)):
        best = np.clip(np.maximum.accumulate(curve.median), bottom, top)
        places = axes.transData.transform(np.column_stack([curve.seconds, best]))
        along = np.concatenate([[0.0], np.hypot(*np.diff(places, axis=0).T).cumsum()]) / height
        wanted = np.arange((1 + index % 4) * MARKED_EVERY / 4, along[-1], MARKED_EVERY)
        line.set_markevery(sorted({int(np.abs(along - one).argmin()) for one in wanted}) or [len(along) - 1])


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


def _legend(
    axes: Axes,
    curves: Sequence[Curve],
    entries: Mapping[str, SchemeResult],
    target: float,
    score_name: str,
    *,
    column: bool,
) -> None:
    """In the order in which the curves meet the target line, with the times of the table."""
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order = sorted((curve.name for curve in curves if curve.name in entries), key=lambda name: by_time(entries[name]))
    size, texts = 6.5 if column else 8.5, []
    for entry in (entries[name] for name in order):
        faster = entry.speedup_over_conventional.median
        times = f", {number(faster)}×" if faster and entry.scheme != "conventional" else ""
        texts.append(f"{full_name(entry)}: {seconds(entry.time_to_target_s.median)}{times}")
    axes.figure.legend(
        [handles[name] for name in order],
        texts,
        loc="outside lower left" if column else "outside right center",
        title=f"time to {target_text(target, score_name)}",
        alignment="left",
        frameon=False,
        fontsize=size,
        title_fontsize=size,
        handlelength=3.6,
        labelspacing=0.3 if column else 0.7,
    )
