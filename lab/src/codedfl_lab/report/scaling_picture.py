"""Times faster than conventional FL by number of devices: one curve per scheme, the planner's choice marked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from codedfl.errors import InvalidInput
from codedfl.report.text import count
from codedfl_lab.comparing.results import AtSize
from codedfl_lab.report import canvas
from codedfl_lab.report.beyond_page import JOURNAL
from codedfl_lab.report.canvas import EndLabel, Pictures, look_of
from codedfl_lab.report.rows import dataset_name

Scaling = Sequence[AtSize]

_HEIGHT = "times faster than conventional FL"
ROOM = 5.0  # how far right of the last size the names may reach, as a factor


def scaling_figure(scaling: Scaling) -> Pictures:
    """One panel a data set, logarithmic both ways."""
    names = list(dict.fromkeys(row.dataset for row in scaling))
    if not names:
        raise InvalidInput("scaling must hold at least one row, got none")
    sizes = sorted({row.devices for row in scaling})

    def draw(figure: Figure, column: bool) -> None:
        # In a column panels stand one below the other, without room for names at the curves.
        grid = figure.subplots(len(names), 1, squeeze=False)[:, 0] if column else canvas.panels(figure, len(names))
        labels = {}
        for axes, name in zip(grid, names, strict=True):
            _axes(axes, dataset_name(name), sizes, 1.15 if column else ROOM)
            labels[axes] = _draw(axes, name, scaling, 0.6 if column else 1.0)
        for axes in grid if column else grid[:1]:
            axes.set_ylabel(_HEIGHT)
        curves = grid[0].get_legend_handles_labels()[0] if column else []
        handles = [*curves, *_marks(JOURNAL.dataset in names, short=column)]
        size = 6.5 if column else 8.5
        figure.legend(handles=handles, loc="outside lower left", ncols=2, frameon=False, fontsize=size)
        if not column:
            canvas.write_end_labels(figure, labels)

    return canvas.pictures(draw, (5.6 * len(names), 5.0), (canvas.COLUMN_INCHES, 2.3 * len(names) + 1.0))


def _axes(axes: Axes, title: str, sizes: Sequence[int], room: float) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(sizes[0] / 1.15, sizes[-1] * room)
    canvas.fixed_ticks(axes, sizes)
    canvas.log_ticks(axes.yaxis, lambda value: f"{count(value)}×")
    canvas.light_grid(axes)
    axes.set_xlabel("devices")
    canvas.title(axes, title)


def _draw(axes: Axes, dataset: str, scaling: Scaling, scale: float = 1.0) -> list[EndLabel]:
    """The curves of one data set; returns the names to be written at their ends. ``scale`` is of lines and marks."""
    labels = []
    rows = [row for row in scaling if row.dataset == dataset]
    for method in dict.fromkeys(row.method for row in rows):
        look = look_of(*method)
        points = np.array(sorted((row.devices, row.gain) for row in rows if row.method == method), dtype=float)
        axes.plot(
            *points.T,
            color=look.color,
            linestyle=look.dashes,
            linewidth=scale * look.width,
            marker=look.marker,
            markersize=4 * scale,
            label=look.name,
        )
        labels.append(EndLabel(look.name, look.color, points))
    chosen = np.array([(row.devices, row.gain) for row in rows if row.chosen], dtype=float)
    axes.plot(*chosen.T, **_RING)
    if dataset == JOURNAL.dataset:
        axes.plot([JOURNAL.devices], [JOURNAL.speedup], **_DIAMOND)
    return labels


_RING, _DIAMOND = canvas.hollow("o", 9), canvas.hollow("D", 6)


def _marks(with_journal: bool, *, short: bool) -> list[Line2D]:
    found = [Line2D([], [], label="the planner's choice", **_RING)]
    if with_journal:
        text = f"the journal's {JOURNAL.speedup:g}"
        text += "" if short else f" at {JOURNAL.devices} devices, in its own setting"
        found.append(Line2D([], [], label=text, **_DIAMOND))
    return found
