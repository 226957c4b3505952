"""One number against another, a curve per scheme and solver: fleets of other sizes, and sweeps of a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from codedfl.errors import InvalidInput
from codedfl.report import canvas
from codedfl.report.canvas import Pictures
from codedfl_lab.comparing.names import method_name
from codedfl_lab.report.looks import look_of

Method = tuple[str, str]  # scheme and solver
Points = Sequence[tuple[float, float]]
LOG_FROM = 8.0  # times between the first and the last place, from which the width is logarithmic


def curves_figure(panels: Mapping[str, Mapping[Method, Points]], width: str, height: str) -> Pictures:
    """Panels by their titles, ``width`` and ``height`` say what the axes are; the height is logarithmic."""
    methods = list(dict.fromkeys(method for curves in panels.values() for method in curves))
    if not methods:
        raise InvalidInput("a figure must have at least one curve, got none")

    def draw(figure: Figure, column: bool) -> None:
        rows, columns = (len(panels), 1) if column else (1, len(panels))
        scale = 0.6 if column else 1.0
        grid = figure.subplots(rows, columns, sharey=not column, squeeze=False)
        handles = {}
        for axes, (title, curves) in zip(grid.flat, panels.items(), strict=True):
            for method, points in curves.items():
                look = look_of(*method)
                style = {"color": look.color, "linestyle": look.dashes, "marker": look.marker}
                sizes = {"linewidth": scale * look.width, "markersize": 4.0 * scale}
                handles[method] = axes.plot(*np.array(points).T, label=method_name(*method), **style, **sizes)[0]
            places = sorted({x for points in curves.values() for x, _ in points})
            if places[0] > 0 and places[-1] > LOG_FROM * places[0]:
                axes.set_xscale("log")
            axes.set_yscale("log")
            canvas.fixed_ticks(axes, places)
            canvas.log_ticks(axes.yaxis)
            axes.set_xlabel(width)
            axes.set_title(title)
        for axes in grid[:, 0]:
            axes.set_ylabel(height)
        figure.legend(
            handles=[handles[method] for method in methods],
            loc="outside lower left" if column else "outside right center",
            frameon=False,
            fontsize=6.5 if column else 8.5,
            handlelength=3.6,
        )

    tall = 2.3 * len(panels) + 0.13 * len(methods)
    return canvas.pictures(draw, (2.6 + 4.4 * len(panels), 4.6), (canvas.COLUMN_INCHES, tall))
