"""Small pictures as SVG text: an interval, bars, points and steps. Colours are those of the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

_WIDTH, _HEIGHT = 360.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 10.0, 10.0, 40.0


def interval(ends: tuple[float, float, float], reach: float, label: str) -> str:
    """One line of a forest plot: low end, middle and high end on an axis from -reach to reach, with a mark at zero.

    >>> "from -1 to 1" in interval((-1.0, 0.0, 1.0), 2.0, "from -1 to 1")
    True
    """
    low, middle, high = (f"{50 + 50 * one / reach:.2f}%" for one in ends)
    return (
        f'<svg role="img" aria-label="{escape(label)}" height="16">'
        '<line class="zero" x1="50%" x2="50%" y1="0" y2="16"/>'
        f'<line class="reach" x1="{low}" x2="{high}" y1="8" y2="8"/><circle cx="{middle}" cy="8" r="4"/></svg>'
    )


class Chart:
    """Two axes to draw on; ``svg`` has all of it.

    >>> chart = Chart("days", "rows", (0.0, 10.0), (0.0, 4.0))
    >>> chart.bars([0.0, 5.0, 10.0], [4.0, 1.0])
    >>> chart.svg().count("<rect")
    2
    """

    def __init__(self, x_name: str, y_name: str, x_ends: tuple[float, float], y_ends: tuple[float, float]) -> None:
        self._names, self._x_ends, self._y_ends = (x_name, y_name), x_ends, y_ends
        self._parts: list[str] = []

    def bars(self, edges: Sequence[float], heights: Sequence[float]) -> None:
        """A histogram: one bar between two edges each."""
        floor = self._y(self._y_ends[0])
        for low, high, height in zip(edges, edges[1:], heights, strict=False):
            x, y = self._x(low), self._y(height)
            width = max(self._x(high) - x - 1, 0.5)
            self._parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{floor - y:.1f}"/>')

    def points(self, x: Sequence[float], y: Sequence[float]) -> None:
        """A mark each."""
        self._parts += [
            f'<circle cx="{self._x(a):.1f}" cy="{self._y(b):.1f}" r="3.5"/>' for a, b in zip(x, y, strict=True)
        ]

    def curve(self, x: Sequence[float], y: Sequence[float], kind: str = "curve", name: str = "") -> None:
        """A line through points; ``kind`` is a class of the page's style, ``name`` stands at its end."""
        path = " ".join(f"{self._x(a):.1f},{self._y(b):.1f}" for a, b in zip(x, y, strict=True))
        self._parts.append(f'<polyline class="{kind}" points="{path}"/>')
        if name:
            at = f'x="{self._x(x[-1]):.1f}" y="{self._y(y[-1]) - 6:.1f}" text-anchor="end"'
            self._parts.append(f'<text class="name" {at}>{escape(name)}</text>')

    def steps(self, x: Sequence[float], y: Sequence[float], kind: str = "curve", name: str = "") -> None:
        """A curve that keeps its height until the next point, as survival does."""
        xs, ys = [x[0]], [y[0]]
        for a, b in zip(x[1:], y[1:], strict=True):
            xs += [a, a]
            ys += [ys[-1], b]
        self.curve(xs, ys, kind, name)

    def svg(self) -> str:
        """With axes and their names."""
        foot, left = _HEIGHT - _BOTTOM, _LEFT
        axes = [f'<path class="axis" d="M{left} {_TOP}V{foot}H{_WIDTH - _RIGHT}"/>']
        for value in ticks(*self._x_ends):
            axes.append(f'<text x="{self._x(value):.1f}" y="{foot + 15}" text-anchor="middle">{value:g}</text>')
        for value in ticks(*self._y_ends):
            axes.append(f'<text x="{left - 5}" y="{self._y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
        x_name, y_name = map(escape, self._names)
        middle = (left + _WIDTH - _RIGHT) / 2
        axes.append(f'<text class="name" x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{x_name}</text>')
        high = (_TOP + foot) / 2
        axes.append(
            f'<text class="name" transform="translate(11 {high}) rotate(-90)" text-anchor="middle">{y_name}</text>'
        )
        about = f'viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{y_name} against {x_name}"'
        return f'<svg class="chart" {about}>{"".join(axes + self._parts)}</svg>'

    def _x(self, value: float) -> float:
        low, high = self._x_ends
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (value - low) / (high - low)

    def _y(self, value: float) -> float:
        low, high = self._y_ends
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * (value - low) / (high - low)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two ends.

    >>> ticks(0.0, 1.0), ticks(-3.0, 17.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0, 15.0])
    """
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * one for one in (1, 2, 5, 10) if power * one >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [float(f"{step * place:.12g}") for place in range(first, math.floor(high / step + 1e-9) + 1)]
