"""What all pictures share: colours, line styles, markers, axes, and the way from a figure to PNG, SVG and PDF.

A colour and a marker say which scheme, a line style which solver; only the paper's own figure, where one scheme has
many curves, gives every curve a colour and a marker of its own (``figures``). So curves can be told apart without
colours too. A figure for the screen is PNG and SVG; the same drawn for the column of a paper is PDF. Files are the same
byte for byte in every run.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from codedfl.report.text import count
from codedfl.typing import Floats
from codedfl_lab.comparing.names import method_name

INK = "#1b1f24"
"""Text, axes and the baseline."""
PAPER = "#fffffe"
"""The background. A page can replace it and the ink by its own colours: nothing else in the picture has them."""

# Okabe and Ito's colours, safe for the colour-blind; their black is the ink, their yellow does not show on white.
VERMILLION, BLUE, GREEN, PINK, ORANGE, SKY = "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
COLOURS = (VERMILLION, BLUE, GREEN, PINK, ORANGE, SKY)
GREY = "#868686"
DPI = 150

Dashes = tuple[float, tuple[float, ...]]
SOLID: Dashes = (0, ())

_SCHEME_COLOURS = {
    "conventional": INK,
    "conventional-full-batch": GREY,
    "drop-slowest": GREY,
    "coded-fedl": ORANGE,
    "coded-padded": VERMILLION,
    "coded-keys": BLUE,
    "role-keys": PINK,
    "one-shot": GREEN,
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">", "p", "d")
"""Told apart at the size of a printed point; the first are those of schemes."""
_SCHEME_MARKERS = dict(zip(_SCHEME_COLOURS, MARKERS, strict=False))
_SOLVER_DASHES: dict[str, Dashes] = {
    "nesterov": (0, (6, 1.5, 1, 1.5)),
    "cg": (0, (4, 1.5)),
    "block-krylov": (0, (1.5, 1.2)),
}
_SCHEME_DASHES: dict[str, Dashes] = {"drop-slowest": (0, (1, 1.2))}  # shares its colour with another baseline
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
    "pdf.fonttype": 42,  # letters as TrueType: publishers refuse Type 3
}
COLUMN_INCHES = 3.5
"""The width of one column of a two-column paper."""
_COLUMN_RC: dict[Any, Any] = {
    **_RC,
    "font.size": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


@dataclass(frozen=True)
class Pictures:
    """One figure for the screen, and for the column of a paper where somebody would print it."""

    png: bytes
    svg: str
    pdf: bytes | None = None

    def files(self, name: str) -> dict[str, bytes]:
        """By the names of their files."""
        printed = {} if self.pdf is None else {f"{name}.pdf": self.pdf}
        return {f"{name}.png": self.png, f"{name}.svg": self.svg.encode(), **printed}


@dataclass(frozen=True)
class Look:
    """How a curve is drawn and what is written at its end."""

    name: str
    color: str
    dashes: Dashes = SOLID
    width: float = 1.6
    marker: str = "o"


def look_of(scheme: str, solver: str) -> Look:
    """The scheme's colour and marker, the solver's line style; solid is gradient descent."""
    dashes = _SCHEME_DASHES.get(scheme) or _SOLVER_DASHES.get(solver, SOLID)
    colour, marker = _SCHEME_COLOURS.get(scheme, SKY), _SCHEME_MARKERS.get(scheme, MARKERS[-1])
    return Look(method_name(scheme, solver), colour, dashes, marker=marker)


def house_style(*, column: bool = False) -> AbstractContextManager[None]:
    """Draw and render within it; ``column`` has the smaller letters of a figure in the column of a paper."""
    return mpl.rc_context(_COLUMN_RC if column else _RC)


def blank(width: float, height: float) -> Figure:
    """A figure of ``width`` by ``height`` inches that needs no display."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(figure: Figure, columns: int) -> list[Axes]:
    """Side by side, with one height axis."""
    return list(figure.subplots(1, columns, sharey=True, squeeze=False)[0])


def laid_out(figure: Figure) -> RendererBase:
    """Settle the layout; what is placed in pixels comes after it."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer: RendererBase = canvas.get_renderer()  # type: ignore[no-untyped-call]
    return renderer


def light_grid(axes: Axes) -> None:
    """Lines to read values by, behind the curves."""
    axes.grid(True, which="major", color=INK, alpha=0.1, linewidth=0.6)


def count_ticks(axis: Axis, text: Callable[[float], str] = count) -> None:
    """Plain numbers in place of matplotlib's powers."""
    axis.set_major_formatter(FuncFormatter(lambda value, _position: text(value)))


def log_ticks(axis: Axis, text: Callable[[float], str] = count) -> None:
    """1, 2, 5, 10, ... in plain numbers. The axis must be logarithmic already."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_formatter(NullFormatter())
    count_ticks(axis, text)


def fixed_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Width ticks at these values only; what lies right of the last is room for names, so the axis ends there."""
    axes.set_xticks(values)
    axes.xaxis.set_minor_locator(NullLocator())
    count_ticks(axes.xaxis)
    axes.spines["bottom"].set_bounds(values[0], values[-1])


class MarkStyle(TypedDict, total=False):
    """How points are marked, and the line through them, in matplotlib's words."""

    linestyle: Literal["-", "--", "none"]
    marker: str
    markersize: float
    markerfacecolor: str
    markeredgecolor: str
    markeredgewidth: float


def hollow(marker: str, size: float, width: float = 1.2) -> MarkStyle:
    """A mark around what is drawn already."""
    return {
        "linestyle": "none",
        "marker": marker,
        "markersize": size,
        "markerfacecolor": "none",
        "markeredgecolor": INK,
        "markeredgewidth": width,
    }


def title(axes: Axes, text: str) -> None:
    """Above the panel, at its left edge."""
    axes.set_title(text, loc="left", fontsize=1.2 * mpl.rcParams["font.size"], fontweight="bold")


def pictures(
    draw: Callable[[Figure, bool], None], size: tuple[float, float], column: tuple[float, float] | None = None
) -> Pictures:
    """What ``draw`` draws in ``size`` inches; told True it draws once more for ``column``, that of a paper."""
    with house_style():
        figure = blank(*size)
        draw(figure, False)
        made = render(figure)
    if column is None:
        return made
    with house_style(column=True):
        figure = blank(*column)
        draw(figure, True)
        return replace(made, pdf=render_pdf(figure))


def render(figure: Figure) -> Pictures:
    """For the screen: the same bytes for the same figure: no dates, no versions."""
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    figure.savefig(svg, format="svg", facecolor=PAPER, metadata=dict.fromkeys(_SVG_METADATA))
    return Pictures(png.getvalue(), svg.getvalue().decode())


def render_pdf(figure: Figure) -> bytes:
    """The figure as PDF, for print."""
    pdf = io.BytesIO()
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return pdf.getvalue()


GAP = 6.0  # points between a curve's end and a name beside it
COLUMN = 3 * GAP  # points from the rightmost end to the column of names
LINE = 1.35  # height of a line of text, in font sizes


@dataclass(frozen=True, eq=False)
class EndLabel:
    """A name for the end of the curve through ``points`` (n x 2, data coordinates)."""

    text: str
    color: str
    points: Floats


def write_end_labels(figure: Figure, labels: Mapping[Axes, Sequence[EndLabel]], fontsize: float = 8.0) -> None:
    """Write every name right of its curve, with a line back to it; the limits of the axes must be final."""
    renderer = laid_out(figure)
    for axes, of_panel in labels.items():
        _write_column(axes, renderer, of_panel, fontsize)


def _write_column(axes: Axes, renderer: RendererBase, labels: Sequence[EndLabel], fontsize: float) -> None:
    points = 1.0 / cast(float, renderer.points_to_pixels(1.0))  # typed as whatever it is given
    frame = axes.get_window_extent(renderer)
    ends = points * np.array([axes.transData.transform(label.points[-1]) for label in labels]).reshape(-1, 2)
    line = LINE * fontsize
    heights = spread(ends[:, 1], line, points * frame.y0 + line / 2, points * frame.y1 - line / 2)
    column = ends[:, 0].max(initial=0.0) + COLUMN
    leader: dict[str, Any] = {"arrowstyle": "-", "lw": 0.6, "shrinkA": 1, "shrinkB": 2, "relpos": (0.0, 0.5)}
    for label, end, height in zip(labels, ends, heights, strict=True):
        axes.annotate(
            label.text,
            (float(label.points[-1, 0]), float(label.points[-1, 1])),
            xytext=(column - end[0], height - end[1]),
            textcoords="offset points",
            va="center",
            fontsize=fontsize,
            color=label.color,
            arrowprops={**leader, "color": label.color},
            annotation_clip=False,
        )


def spread(wanted: Floats, gap: float, low: float, high: float) -> Floats:
    """Heights near the ``wanted`` ones, in their order, ``gap`` apart and from ``low`` to ``high`` if there is room.

    The nearest in the mean square: an isotonic regression of what is left when each has made room for those below it.
    """
    order = np.argsort(wanted, kind="stable")
    below = gap * np.arange(len(wanted))
    free = np.clip(wanted[order] - below, low, max(low, high - below[-1:].sum()))
    heights = np.empty(len(wanted))
    for place, name in enumerate(order):
        means = (min(free[first:last].mean() for last in range(place + 1, len(free) + 1)) for first in range(place + 1))
        heights[name] = below[place] + max(means)
    return heights
