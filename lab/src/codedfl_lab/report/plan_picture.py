"""Time to the target against alpha, as the planner sees it: a curve a scheme and solver, the winner marked.

Conventional FL has no alpha and is a horizontal line. Plans that a limit leaves out are part of the picture, as open
points. Fleets planned in groups have a panel for each number of groups; alpha then counts within a group.
"""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from codedfl.errors import InvalidInput
from codedfl.report.text import seconds
from codedfl_lab.comparing.names import full_name
from codedfl_lab.comparing.timed_scheme import TimedScheme
from codedfl_lab.planning.planner import CurveKey, Planning, time_against_alpha
from codedfl_lab.report import canvas
from codedfl_lab.report.canvas import INK, PAPER, EndLabel, Pictures, look_of
from codedfl_lab.report.rows import target_text

Points = list[tuple[int, float]]
Curves = dict[CurveKey, Points]

ROOM = 0.5  # part of the width, for names right of the curves
TICKS = 7
_STEPS = [lead * 10**power for power in range(6) for lead in (1, 2, 5)]

_LEFT_OUT: canvas.MarkStyle = {"marker": "o", "markersize": 4, "markerfacecolor": PAPER, "linestyle": "none"}
_KEPT: canvas.MarkStyle = {"marker": "o", "markersize": 4, "linestyle": "none"}
_WINNER = canvas.hollow("o", 11, 1.4)


def plan_figure(planning: Planning, *, title: str = "", score_name: str = "accuracy") -> Pictures:
    """Draw every plan that was tried; the height is logarithmic."""
    everything = _thinned(time_against_alpha(planning))
    kept = time_against_alpha(Planning(planning.target, planning.plans))
    uncoded = list({made.scheme: made for made in reversed(planning.everything) if made.alpha is None}.values())
    if not everything and not uncoded:
        raise InvalidInput("planning must hold at least one plan, got none")
    groups = sorted({curve.groups for curve in everything}) or [1]
    best = planning.recommended

    def draw(figure: Figure, _column: bool) -> None:
        labels = {}
        for axes, group in zip(canvas.panels(figure, len(groups)), groups, strict=True):
            shown = {curve: points for curve, points in everything.items() if curve.groups == group}
            labels[axes] = _draw(axes, shown, kept, uncoded)
            if best is not None:
                _mark(axes, best, shown)
            whose = "devices of its group" if group > 1 else "devices"
            axes.set_xlabel(f"α, the number of {whose} whose data a device can answer for")
            grouped = [f"{group} groups"] if group > 1 else []
            words = [title, *grouped] if title else grouped or [f"Time to {target_text(planning.target, score_name)}"]
            canvas.title(axes, ", ".join(words))
        figure.axes[0].set_ylabel(f"mean time to {target_text(planning.target, score_name)}, virtual seconds")
        figure.legend(
            handles=_marks(best, has_left_out=bool(planning.left_out)),
            loc="outside lower left",
            ncols=3,
            frameon=False,
            fontsize=8.5,
            title="Each scheme with its fastest solver; those with an α with descent too.",
            title_fontsize=8.5,
            alignment="left",
        )
        canvas.write_end_labels(figure, labels)

    return canvas.pictures(draw, (8.2 if len(groups) == 1 else 5.6 * len(groups), 5.2))


def _thinned(curves: Curves) -> Curves:
    """Each scheme with descent and with the solver of its fastest plan: all of them together cannot be told apart."""
    fastest: dict[tuple[str, int], CurveKey] = {}
    for curve in sorted(curves, key=lambda one: min(time for _, time in curves[one])):
        fastest.setdefault((curve.scheme, curve.groups), curve)
    return {curve: points for curve, points in curves.items() if curve.solver == "gd" or curve in fastest.values()}


def _draw(axes: Axes, curves: Curves, kept: Curves, uncoded: list[TimedScheme]) -> list[EndLabel]:
    """The curves and lines of one panel; returns the names to be written at their ends."""
    last = max((alpha for points in curves.values() for alpha, _ in points), default=1)
    axes.set_yscale("log")
    labels = []
    for curve, points in curves.items():
        look = look_of(curve.scheme, curve.solver)
        inside = set(kept.get(curve, ()))
        axes.plot(*zip(*points, strict=True), color=look.color, linestyle=look.dashes, linewidth=look.width)
        for style, chosen in ((_KEPT, inside), (_LEFT_OUT, set(points) - inside)):
            xs, ys = [alpha for alpha, _ in sorted(chosen)], [time for _, time in sorted(chosen)]
            axes.plot(xs, ys, color=look.color, **style)
        labels.append(EndLabel(look.name, look.color, np.array(points, dtype=float)))
    for made in uncoded:
        look = look_of(made.scheme, made.solver)
        line = np.array([(1.0, made.seconds_mean), (last, made.seconds_mean)])
        axes.plot(*line.T, color=look.color, linestyle=look.dashes, linewidth=look.width)
        labels.append(EndLabel(full_name(made), look.color, line))
    axes.set_xlim(1 - 0.03 * last, last * (1 + ROOM))
    canvas.fixed_ticks(axes, _ticks(last))
    canvas.log_ticks(axes.yaxis)
    canvas.light_grid(axes)
    return labels


def _mark(axes: Axes, best: TimedScheme, curves: Curves) -> None:
    """A ring around the winner, in the panel it belongs to; one that is not coded is marked where its line begins."""
    if best.alpha is None or any((best.alpha, best.seconds_mean) in points for points in curves.values()):
        axes.plot([best.alpha or 1], [best.seconds_mean], **_WINNER)


def _marks(best: TimedScheme | None, *, has_left_out: bool) -> list[Line2D]:
    found = []
    if best is not None:
        found.append(Line2D([], [], label=f"the winner: {full_name(best)}, {seconds(best.seconds_mean)}", **_WINNER))
    if has_left_out:
        found.append(Line2D([], [], color=INK, label="keeps to the limits", **_KEPT))
        found.append(Line2D([], [], color=INK, label="left out by a limit", **_LEFT_OUT))
    return found


def _ticks(last: int) -> list[int]:
    """Round values of alpha, and the first and the last."""
    step = next(step for step in _STEPS if TICKS * step >= last)
    between = range(step, last, step)
    return sorted({1, last, *(alpha for alpha in between if alpha > step / 2 and last - alpha > step / 2)})
