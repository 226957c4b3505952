"""Names written at the ends of curves, moved so that none covers another name or a curve.

Every name has a list of places, nearest first. Names are placed one after the other, then moved one at a time while
that helps, from a few fixed orders; the best outcome is drawn. Nothing is random, so the same curves always get the
same picture.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

from codedfl.typing import Floats

Box = tuple[float, float, float, float]  # left, bottom, right, top, in pixels
Point = tuple[float, float]

GAP = 6.0  # points between a curve's end and its name
RISE = 11.0  # points from one height to the next
MARGIN = 2.0  # points kept free around a name
# Offsets in points and alignment: beside the end, then higher and higher, then lower.
Places = tuple[tuple[float, float, str], ...]
PLACES: Places = (
    (GAP, 0.0, "left"),
    *(
        (shift, sign * (GAP + RISE * level), align)
        for sign, levels in ((1, range(4)), (-1, range(1, 6)))
        for level in levels
        for shift, align in ((0.0, "center"), (GAP, "left"), (-GAP, "right"), (4 * GAP, "left"), (-4 * GAP, "right"))
    ),
)
# For curves that all end at the right edge: names in a column there, moved up or down.
BESIDE: Places = (
    (GAP, 0.0, "left"),
    *((4 * GAP, sign * 0.5 * RISE * level, "left") for level in range(1, 13) for sign in (1, -1)),
)
LEADER_POINTS = 10  # of a line back to its curve, which must not lie in another name
STRIDE = 3  # orders begin with every third name: the search is greedy, and other orders find other outcomes
ALIGNMENT = {"left": 0.0, "center": 0.5, "right": 1.0}
# What is wrong with a place, from worst to least: a name on a name, out of the frame, a leader through a name, a name
# right above or below another curve's end (whose own leader may want to pass), on a curve, far from its curve.
ON_NAME, OUTSIDE, THROUGH_NAME, BLOCKS, ON_CURVE, FAR = 1e6, 1e3, 1e2, 4.0, 1.0, 0.2


@dataclass(frozen=True, eq=False)
class EndLabel:
    """A name for the end of the curve through ``points`` (n x 2, data coordinates)."""

    text: str
    color: str
    points: Floats


@dataclass(frozen=True)
class _Place:
    """One of the places for one name: where it lies, the line back to the curve, and its cost if it were alone."""

    x: float
    y: float
    align: str
    box: Box
    leader: tuple[Point, ...]
    cost: float


def write_end_labels(
    axes: Axes,
    renderer: RendererBase,
    labels: Sequence[EndLabel],
    avoid: Sequence[Floats],
    fontsize: float,
    places: Places = PLACES,
) -> None:
    """Write every name; call when the limits of the axes are final. ``avoid`` are more lines to keep clear of."""
    lines = [*(label.points for label in labels), *avoid]
    ink = np.concatenate([_dense(np.asarray(axes.transData.transform(line))) for line in lines])
    ends = np.array([axes.transData.transform(label.points[-1]) for label in labels])
    choices = [_places(axes, renderer, label, ends, ink, fontsize, places) for label in labels]
    for label, place in zip(labels, _arrange(choices), strict=True):
        line: dict[str, Any] = {"arrowstyle": "-", "color": label.color, "lw": 0.6, "shrinkA": 1, "shrinkB": 2}
        line["relpos"] = (ALIGNMENT[place.align], 0.5 if abs(place.y) < abs(place.x) else float(place.y < 0))
        axes.annotate(
            label.text,
            (float(label.points[-1, 0]), float(label.points[-1, 1])),
            xytext=(place.x, place.y),
            textcoords="offset points",
            ha=place.align,
            va="center",
            fontsize=fontsize,
            color=label.color,
            arrowprops=line if place.leader else None,
            annotation_clip=False,
        )


def _places(
    axes: Axes, renderer: RendererBase, label: EndLabel, ends: Floats, ink: Floats, fontsize: float, offered: Places
) -> list[_Place]:
    pixels = cast(float, renderer.points_to_pixels(1.0))  # typed as whatever it is given
    frame = axes.get_window_extent(renderer)
    probe = axes.text(0, 0, label.text, fontsize=fontsize)
    size = probe.get_window_extent(renderer)
    probe.remove()
    end_x, end_y = (float(value) for value in axes.transData.transform(label.points[-1]))
    places: list[_Place] = []
    for rank, (x, y, align) in enumerate(offered):
        box = _box(end_x + pixels * x, end_y + pixels * y, size, align, pixels * MARGIN)
        # Names next to their curve need no line back to it.
        steps = range(1, LEADER_POINTS + 1) if max(abs(x), abs(y)) > GAP else ()
        leader = tuple((end_x + pixels * x * k / LEADER_POINTS, end_y + pixels * y * k / LEADER_POINTS) for k in steps)
        outside = max(frame.x0 - box[0], frame.y0 - box[1], box[2] - frame.x1, box[3] - frame.y1, 0.0)
        covered = int(((ink > box[:2]) & (ink < box[2:])).all(axis=1).sum())
        blocked = int(((ends[:, 0] > box[0]) & (ends[:, 0] < box[2]) & (ends[:, 0] != end_x)).sum())
        cost = OUTSIDE * outside + BLOCKS * blocked + ON_CURVE * covered + FAR * rank
        places.append(_Place(x, y, align, box, leader, cost))
    return places


def _arrange(choices: Sequence[Sequence[_Place]]) -> list[_Place]:
    """One place for each name, together of least cost as far as the search finds."""
    by_end = sorted(range(len(choices)), key=lambda name: choices[name][0].box)
    by_width = sorted(by_end, key=lambda name: choices[name][0].box[2] - choices[name][0].box[0])
    every = [place for places in choices for place in places]
    starts = np.cumsum([0, *(len(places) for places in choices)])
    alone, conflicts = np.array([place.cost for place in every]), _conflicts(every)
    found: list[tuple[float, list[int]]] = []
    orders = (by_end, by_end[::-1], by_width, by_width[::-1])
    for order in (one[first:] + one[:first] for one in orders for first in range(0, len(one), STRIDE)):
        chosen: dict[int, int] = {}
        before = None
        while before != chosen:
            before = dict(chosen)
            for name in order:
                others = [place for other, place in chosen.items() if other != name]
                own = slice(starts[name], starts[name + 1])
                chosen[name] = int(starts[name] + np.argmin(alone[own] + conflicts[own, others].sum(axis=1)))
        places = [chosen[name] for name in range(len(choices))]
        cost = alone[places].sum() + conflicts[np.ix_(places, places)].sum() / 2.0
        found.append((float(cost), places))
    return [every[place] for place in min(found, key=lambda one: one[0])[1]]


def _conflicts(places: Sequence[_Place]) -> Floats:
    """What each pair of places costs together; symmetric, and meaningless for two places of one name."""
    left, bottom, right, top = np.array([place.box for place in places]).T
    overlap = (left[:, None] < right) & (left < right[:, None]) & (bottom[:, None] < top) & (bottom < top[:, None])
    # A place without a leader has points nowhere: no comparison with them holds.
    nowhere = ((np.nan, np.nan),) * LEADER_POINTS
    leaders = np.array([place.leader or nowhere for place in places])
    through = np.zeros((len(places), len(places)))
    for x, y in leaders.transpose(1, 2, 0):
        through += (left < x[:, None]) & (x[:, None] < right) & (bottom < y[:, None]) & (y[:, None] < top)
    crossing = _crossing(leaders[:, 0], leaders[:, -1])
    conflicts: Floats = ON_NAME * overlap + THROUGH_NAME * (through + through.T + crossing)
    return conflicts


def _crossing(start: Floats, end: Floats) -> NDArray[np.bool_]:
    """Whether each two straight leaders meet: the ends of each lie on both sides of the other."""
    along = end - start

    def side(point: Floats) -> Floats:
        gap = point[None] - start[:, None]
        sides: Floats = along[:, None, 0] * gap[..., 1] - along[:, None, 1] * gap[..., 0]
        return sides

    apart = side(start) * side(end) <= 0
    return apart & apart.T


def _box(x: float, y: float, size: Bbox, align: str, margin: float) -> Box:
    left = x - ALIGNMENT[align] * size.width
    half = size.height / 2
    return left - margin, y - half, left + size.width + margin, y + half


def _dense(points: Floats, step: float = 2.0) -> Floats:
    """Points along the polyline at most about ``step`` pixels apart, so that no box slips between two of them."""
    pieces = [points[:1]]
    for start, stop in itertools.pairwise(points):
        count = max(1, int(np.ceil(np.hypot(*(stop - start)) / step)))
        pieces.append(start + (stop - start) * (np.arange(1, count + 1) / count)[:, None])
    return np.concatenate(pieces)
