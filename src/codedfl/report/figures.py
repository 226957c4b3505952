"""The paper's Figure 1: accuracy against training time, one curve a scheme.

The line is the median over feature seeds, the band their whole spread. The legend is in the order in which the curves
meet the target; the same order with numbers is in the table. SVG files are the same byte for byte in every run.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from codedfl.errors import InvalidInput
from codedfl.report.curves import Curve, curves_of
from codedfl.report.end_labels import EndLabel, write_end_labels
from codedfl.report.rows import (
    Entry,
    by_time,
    count,
    entries_at,
    kinds,
    number,
    percent,
    seconds,
    series_name,
    target_text,
    targets_of,
)

INK = "#1b1f24"
"""Text, axes and the baseline."""
PAPER = "#fffffe"
"""The background. A page can replace it and the ink by its own colours: nothing else in the picture has them."""

# Okabe and Ito's colours, safe for the colour-blind; their black is the ink, their yellow does not show on white.
# Dropping, which is in no figure of the paper, is grey.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#868686"
STYLES = {
    "conventional": (0, ()),
    "coded-padded": (0, ()),
    "coded-keys": (0, (5, 1.5)),
    "coded-fedl": (0, (6, 1.5, 1, 1.5)),
    "drop-slowest": (0, (1, 1.2)),
}
LOG_FROM = 8.0  # times between the first and the last curve at the target
DPI = 150

_SVG_METADATA = ("Creator", "Date", "Format", "Type")  # left out: they date the file or point to other sites
_RC: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.facecolor": PAPER,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a dollar sign in a file's name is a dollar sign
    "svg.hashsalt": "codedfl",
    "svg.fonttype": "path",  # the same letters on every machine
}


@dataclass(frozen=True)
class Pictures:
    png: bytes
    svg: str


def accuracy_figure(results: Mapping[str, Any], traces: Sequence[Mapping[str, Any]]) -> Pictures:
    """Draw the results' first table (its sharing convention and step) from its traces."""
    schemes: Sequence[Entry] = results["schemes"]
    if not schemes:
        raise InvalidInput("results must hold at least one scheme, got none")
    sharing, step = kinds(schemes)[0]
    curves = curves_of(traces, schemes[0]["dataset"], step)
    if not curves:
        raise InvalidInput(f"traces must hold rows of {schemes[0]['dataset']!r} with step {step}, got none")
    target, score_name = float(results["headline_target"]), str(results["score_name"])
    entries = {series_name(e): e for e in entries_at(schemes, target, sharing, step)}
    with mpl.rc_context(_RC):
        figure = Figure(figsize=(9.6, 4.9), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        colours = _colours(curves)
        for curve in curves:
            axes.fill_between(curve.seconds, curve.low, curve.high, color=colours[curve.name], alpha=0.14, linewidth=0)
            axes.plot(
                curve.seconds,
                curve.median,
                color=colours[curve.name],
                linestyle=STYLES.get(curve.scheme, STYLES["conventional"]),
                linewidth=1.1 if curve.scheme == "drop-slowest" else 1.6,
                label=curve.name,
            )
        _limits(axes, curves, target, targets_of(schemes))
        axes.axhline(target, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        axes.grid(True, which="major", color=INK, alpha=0.1, linewidth=0.6)
        axes.set_xlabel("training time, virtual seconds, sharing phase included")
        axes.set_ylabel(f"test {score_name}")
        if score_name == "accuracy":
            axes.yaxis.set_major_formatter(FuncFormatter(_percent_tick))
        axes.set_title(str(results["title"]), loc="left", fontsize=11, fontweight="bold")
        _legend(axes, curves, entries, target, score_name)
        canvas.draw()  # type: ignore[no-untyped-call]  # the layout is known only now
        along_target = np.column_stack((axes.get_xlim(), (target, target)))
        labels = [
            EndLabel(short, colours[curve.name], np.column_stack((curve.seconds, curve.median)))
            for curve, short in zip(curves, short_names([curve.name for curve in curves]), strict=True)
        ]
        renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
        write_end_labels(axes, renderer, labels, [along_target], fontsize=8.0)
        return Pictures(_png(figure), _svg(figure))


def short_names(names: Sequence[str]) -> list[str]:
    """What comes after the first comma, where that says which curve it is."""
    tails = [name.split(", ", 1)[-1] for name in names]
    return [tail if tails.count(tail) == 1 else name for name, tail in zip(names, tails, strict=True)]


def _colours(curves: Sequence[Curve]) -> dict[str, str]:
    """Fixed ones for the baselines, the others in turn; more than six begin again, told apart by their line style."""
    fixed = {"conventional": INK, "drop-slowest": GREY}
    others = [curve.name for curve in curves if curve.scheme not in fixed]
    colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(others)}
    return {curve.name: fixed.get(curve.scheme) or colours[curve.name] for curve in curves}


def _limits(axes: Axes, curves: Sequence[Curve], target: float, targets: Sequence[float]) -> None:
    """Show where curves approach the target, not their first steps; leave room above for the names."""
    ends = [float(curve.median[-1]) for curve in curves]
    top = max(target, *(float(curve.high.max()) for curve in curves))
    lowest = min(targets)
    # A scheme that diverges must not squeeze the others into a line.
    bottom = max(min(lowest, *ends), lowest - 2 * (top - lowest))
    bottom -= 0.15 * (top - bottom)
    axes.set_ylim(bottom, top + 0.2 * (top - bottom))
    axes.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    first = min(_enters(curve, bottom) for curve in curves)
    last = max(float(curve.seconds[-1]) for curve in curves)
    reached = [time for time in (curve.reaches(target) for curve in curves) if np.isfinite(time)]
    if reached and max(reached) > LOG_FROM * min(reached):
        axes.set_xscale("log")
        axes.set_xlim(first / 1.15, last * 1.5)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(0.0, last * 1.12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _position: count(value)))


def _enters(curve: Curve, bottom: float) -> float:
    """Seconds at which the curve first comes into view."""
    above = int(np.argmax(curve.median >= bottom))
    before = max(0, above - 1)
    return float(np.interp(bottom, curve.median[before : above + 1], curve.seconds[before : above + 1]))


def _percent_tick(value: float, _position: int | None) -> str:
    """Nothing above 100 %: there the names are."""
    return "" if value > 1 + 1e-9 else percent(value)


def _legend(axes: Axes, curves: Sequence[Curve], entries: Mapping[str, Entry], target: float, score_name: str) -> None:
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


def _legend_text(entry: Entry) -> str:
    faster = entry["speedup_over_conventional"]["median"]
    times = f", {number(faster)}×" if faster and entry["scheme"] != "conventional" else ""
    return f"{series_name(entry)}: {seconds(entry['time_to_target_s']['median'])}{times}"


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def _svg(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", facecolor=PAPER, metadata=dict.fromkeys(_SVG_METADATA))
    return buffer.getvalue().decode()
