"""Names in a column right of the curves' ends, moved up and down so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase

from codedfl.typing import Floats

GAP = 6.0  # points between a curve's end and a name beside it
COLUMN = 3 * GAP  # points from the rightmost end to the column of names
LINE = 1.35  # height of a line of text, in font sizes


@dataclass(frozen=True, eq=False)
class EndLabel:
    """A name for the end of the curve through ``points`` (n x 2, data coordinates)."""

    text: str
    color: str
    points: Floats


def write_end_labels(axes: Axes, renderer: RendererBase, labels: Sequence[EndLabel], fontsize: float) -> None:
    """Write every name, with a line back to its curve; call when the limits of the axes are final."""
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
