"""What all figures share: colours, axes, and the way from a figure to PNG, SVG and PDF; needs matplotlib.

A figure for the screen is PNG and SVG; the same drawn for the column of a paper is PDF. Files are the same byte for
byte in every run.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codedfl.errors import InvalidInput
from codedfl.report.text import count

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
except ImportError:
    raise InvalidInput("matplotlib must be installed for figures: pip install 'codedfl[report]'") from None

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

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*", ">", "p", "d")
"""Distinct at the size of a printed point; the first are those of schemes."""
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
    "axes.titlelocation": "left",
    "axes.titlesize": 10.8,
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.1,
    "grid.linewidth": 0.6,
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
    "axes.titlesize": 8.4,
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


def panels(figure: Figure, columns: int) -> list[Axes]:
    """Side by side, with one height axis."""
    return list(figure.subplots(1, columns, sharey=True, squeeze=False)[0])


def count_ticks(axis: Axis, text: Callable[[float], str] = count) -> None:
    """Plain numbers in place of matplotlib's powers."""
    axis.set_major_formatter(FuncFormatter(lambda value, _position: text(value)))


def log_ticks(axis: Axis, text: Callable[[float], str] = count) -> None:
    """1, 2, 5, 10, ... in plain numbers. The axis must be logarithmic already."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_minor_formatter(NullFormatter())
    count_ticks(axis, text)


def fixed_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Width ticks at these values only."""
    axes.set_xticks(values)
    axes.xaxis.set_minor_locator(NullLocator())
    count_ticks(axes.xaxis)


def pictures(
    draw: Callable[[Figure, bool], None], size: tuple[float, float], column: tuple[float, float] | None = None
) -> Pictures:
    """What ``draw`` draws in ``size`` inches; called with True it draws once more for ``column``, that of a paper.

    Nothing needs a display, and the same figure gives the same bytes: no dates, no versions.
    """
    pdf = None
    with mpl.rc_context(_RC):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure, False)
        png, svg = _saved(figure, "png"), _saved(figure, "svg")
    if column is not None:
        with mpl.rc_context(_COLUMN_RC):
            figure = Figure(figsize=column, layout="constrained")
            draw(figure, True)
            pdf = _saved(figure, "pdf")
    return Pictures(png, svg.decode(), pdf)


def printed(draw: Callable[[Figure], None], size: tuple[float, float]) -> Pictures:
    """What ``draw`` draws in ``size`` inches, once, in all three formats; PNG as finely as publishers ask for."""
    with mpl.rc_context(_RC):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # laid out once for all three
        return Pictures(_saved(figure, "png", 300), _saved(figure, "svg").decode(), _saved(figure, "pdf"))


def _saved(figure: Figure, kind: str, dpi: int = DPI) -> bytes:
    stream = io.BytesIO()
    if kind == "svg":
        figure.savefig(stream, format=kind, facecolor=PAPER, metadata=dict.fromkeys(_SVG_METADATA))
    elif kind == "pdf":
        figure.savefig(stream, format=kind, metadata={"CreationDate": None, "Creator": None, "Producer": None})
    else:
        figure.savefig(stream, format=kind, dpi=dpi, metadata={"Software": None})
    return stream.getvalue()


def inline_svg(svg: str, name: str) -> str:
    """The figure as part of a page: no prologue and no namespaces (HTML has them), the page's own colours.

    Identifiers get ``name`` in front: they must be unique in a page, and two figures may use the same ones.
    """
    drawing = svg[svg.index("<svg") :]
    drawing = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", drawing)
    drawing = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{name}-", drawing)
    return drawing.replace(INK, "currentColor").replace(PAPER, "none")
