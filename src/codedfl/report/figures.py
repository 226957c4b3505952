"""Figures of a paper, made of result.json alone: forest plots, survival, residuals, calibration and ROC curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from codedfl.report import canvas
from codedfl.report.canvas import BLUE, COLOURS, GREY, INK, MARKERS, Pictures
from codedfl.report.effects import Effect, effects_of, p_text
from codedfl.report.result_parts import models_of, named, slugs
from codedfl.typing import Unchecked

_WIDTH = 6.4  # inches
_ROW = 0.27
_FURTHEST = math.log(100.0)  # a ratio beyond is an arrow
_RISK_SHARE = 0.24  # of a row of numbers at risk, in inches
_FEWEST_TICKS = 3  # of an axis of ratios
_RISK_ROOM = 0.12  # of the axis, for one of these numbers


@dataclass(frozen=True)
class DrawnFigure:
    """A figure with the name of its files and its caption."""

    name: str
    caption: str
    pictures: Pictures

    @property
    def inline(self) -> str:
        """For a page, in its colours."""
        return canvas.inline_svg(self.pictures.svg, self.name)


def figures_of(result: Unchecked) -> list[DrawnFigure]:
    """Every figure of a result, in its order."""
    found = [
        one
        for model in models_of(result)
        for one in _of_model(model, result["classes"], result.get("target_label") or "Time")
    ]
    return [DrawnFigure(name, one.caption, one.pictures) for name, one in zip(slugs(found), found, strict=True)]


def _of_model(model: Unchecked, classes: Sequence[object], time: str) -> Iterator[DrawnFigure]:
    found, name = model.get("inference") or model, model["name"]
    if found.get("coefficients"):
        effects = [one for one in effects_of(found) if one.is_reference or one.low is not None]
        if any(not one.is_reference for one in effects):
            yield DrawnFigure(f"forest {name}", *forest(named(name, "effects"), found, effects))
    if model.get("curves"):
        groups = [Steps.of(one["group"], one["curve"]) for one in model["curves"]]
        p = p_text(model["log_rank"]["p"])
        said = f"log-rank p{p if p.startswith('<') else f' = {p}'}"
        what = "Kaplan-Meier estimates at the ends of the study's intervals, with 95 % bands, numbers at risk and, in"
        what += " brackets, censored so far"
        caption = f"{named(name, 'survival')}: {what}; {said}."
        yield DrawnFigure(f"survival {name}", caption, survival(groups, said, time=time))
    if model.get("baseline"):
        yield DrawnFigure(f"baseline {name}", *_baseline(model, time))
    if model.get("untreated"):
        groups = [Steps(one, model["times"], model[one]) for one in ("untreated", "treated")]
        caption = f"{named(name, 'survival')}: curves weighted by the inverse probability of the treatment."
        yield DrawnFigure(f"survival {name}", caption, survival(groups, time=time))
    if model.get("qq"):
        yield DrawnFigure(
            f"residuals {name}", f"{named(name, 'residuals')}: histogram and normal QQ plot.", _residuals(model)
        )
    score = model.get("score") or {}
    if score.get("calibration"):
        rows = f"{score['rows']} {'held-out rows' if score['held_out'] else 'rows of the fit'}"
        caption = f"{named(name, 'score')}: calibration and ROC curve on {rows}."
        yield DrawnFigure(f"score {name}", caption, _score(score, classes))


# -- forest plots


def forest(title: str, found: Unchecked, effects: Sequence[Effect]) -> tuple[str, Pictures]:
    """Estimates with intervals on one axis with its null line, per about one deviation of a number."""
    ratio = str(found.get("ratio") or "")
    level = f"{100 * found.get('level', 0.95):g} %"
    rows = [one.per_spread(ratio=bool(ratio)) for one in effects]
    what = ratio or "difference"
    measure = f"{what} ({level} interval)"

    def draw(figure: Figure) -> None:
        axes, text = figure.subplots(1, 2, sharey=True, gridspec_kw={"width_ratios": [1.0, 1.05]})
        places = np.arange(len(rows))[::-1]
        null = 1.0 if ratio else 0.0
        if ratio:
            axes.set_xscale("log")
        low, high = _ends(rows, null, ratio=bool(ratio))
        axes.axvline(null, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        text.text(0.0, len(rows) - 0.1, f"{measure[0].upper()}{measure[1:]}", fontweight="bold", va="center")
        text.text(0.95, len(rows) - 0.1, "p", fontweight="bold", va="center", ha="right")
        for place, one in zip(places, rows, strict=True):
            _interval(axes, float(place), one, (low, high), null)
            text.text(0.0, place, one.text, va="center")
            text.text(0.95, place, p_text(one.p), va="center", ha="right")
        text.set_axis_off()
        axes.set_yticks(places, [one.label for one in rows])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, len(rows) + 0.3)
        axes.set_xlim(low, high)
        if ratio:
            canvas.fixed_ticks(axes, ratio_ticks(low, high))
        else:
            axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(f"{what[0].upper()}{what[1:]}{' (log scale)' if ratio else ''}")
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")

    per = ", ".join(f"{one.column} per {one.per:g}" for one in effects if one.per != 1.0)
    caption = f"{title}: {what} with {level} interval{f' ({per})' if per else ''}; the dashed line is no effect."
    return caption, canvas.printed(draw, (_WIDTH, 0.95 + _ROW * len(rows)))


def _ends(rows: Sequence[Effect], null: float, *, ratio: bool) -> tuple[float, float]:
    """Ends of the axis with some room; far intervals are cut."""
    known = [
        end for one in rows for end in one.ends if end is not None and math.isfinite(end) and (end > 0 or not ratio)
    ]
    if not ratio:
        low, high = min(null, *known), max(null, *known)
        room = 0.05 * ((high - low) or 1.0)
        return low - room, high + room
    logs = [max(-_FURTHEST, min(_FURTHEST, math.log(one))) for one in known]
    low, high = min(0.0, *logs), max(0.0, *logs)
    room = 0.05 * ((high - low) or 1.0)
    return math.exp(low - room), math.exp(high + room)


def _interval(axes: Axes, place: float, one: Effect, view: tuple[float, float], null: float) -> None:
    if one.is_reference:
        axes.plot([null], [place], marker="s", color=GREY, markersize=3.5, fillstyle="none", linestyle="none")
        return
    if one.estimate is None:
        return
    low, high = (end if end is not None else view[at] for at, end in enumerate((one.low, one.high)))
    axes.plot([max(low, view[0]), min(high, view[1])], [place, place], color=BLUE, linewidth=1.5, zorder=2)
    for end, inside, marker in ((low, low >= view[0], "<"), (high, high <= view[1], ">")):
        if not inside:
            axes.plot(
                [max(view[0], min(view[1], end))], [place], marker=marker, color=BLUE, markersize=5, clip_on=False
            )
    if view[0] <= one.estimate <= view[1]:
        axes.plot([one.estimate], [place], marker="s", color=BLUE, markersize=5, zorder=3)


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios within a logarithmic axis, 1 among them.

    >>> ratio_ticks(0.4, 6.0), ratio_ticks(0.6, 3.6), ratio_ticks(0.93, 1.31)
    ([0.5, 1.0, 2.0, 5.0], [0.7, 1.0, 1.5, 2.0, 3.0], [1.0, 1.1, 1.2, 1.3])
    """
    if high / low > 4:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
            found = [float(f"{step * 10.0**power:.3g}") for power in powers for step in steps]
            if sum(low <= one <= high for one in found) >= _FEWEST_TICKS:
                break
    else:
        found = [float(f"{one:.6g}") for one in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high)]
    return sorted({1.0, *(one for one in found if low <= one <= high)})


# -- survival


class Steps(NamedTuple):
    """A curve of shares that stays as it is until the next time; the rest where it is known.

    censored: people of each interval whose time ended without the event.
    """

    name: str
    times: Sequence[float]
    share: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    at_risk: Sequence[int] = ()
    censored: Sequence[int] = ()

    @classmethod
    def of(cls, name: str, rows: Sequence[Unchecked]) -> Steps:
        """From the rows of a curve in result.json."""
        columns = (tuple(row[key] for row in rows) for key in ("time", "share", "low", "high", "at_risk", "censored"))
        return cls(str(name), *columns)


def survival(
    groups: Sequence[Steps], said: str = "", y_name: str = "Share without the event", time: str = "Time"
) -> Pictures:
    """Curves with bands, and below them how many of each group are at risk when an interval of the grid begins."""
    counted = [one for one in groups if one.at_risk]
    tall = 3.0 + (0.35 + _RISK_SHARE * len(counted) if counted else 0.0)

    def draw(figure: Figure) -> None:
        last = max(one.times[-1] for one in groups)
        if counted:
            ratios = [3.0, _RISK_SHARE * (len(counted) + 1)]
            axes, table = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": ratios})
        else:
            axes = figure.add_subplot()
        for place, one in enumerate(groups):
            colour, dashes = (
                COLOURS[(place + 1) % len(COLOURS)],
                (canvas.SOLID, (0, (5, 1.5)), (0, (1.5, 1.2)))[place % 3],
            )
            x = [0.0, *one.times]
            axes.step(x, [1.0, *one.share], where="post", color=colour, linestyle=dashes, linewidth=1.6, label=one.name)
            if one.low:
                ends = ([1.0, *one.low], [1.0, *one.high])
                axes.fill_between(x, *ends, step="post", color=colour, alpha=0.15, linewidth=0)
        axes.set_xlim(0.0, 1.02 * last)
        axes.set_ylim(0.0, 1.02)
        axes.set_ylabel(y_name)
        if len(groups) > 1 or groups[0].name:
            axes.legend(frameon=False, loc="lower left")
        if said:
            axes.text(0.98, 0.96, said, transform=axes.transAxes, ha="right", va="top")
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 1.5, 2, 3, 5, 6, 10]))
        axes.set_xlabel(time)
        if counted:
            axes.tick_params(labelbottom=True)
            _at_risk(table, counted, last)

    return canvas.printed(draw, (_WIDTH, tall))


def beginnings(times: Sequence[float]) -> list[int]:
    """Which intervals have room for the number at risk as they begin: where it is known, and not in between.

    >>> beginnings([30.0, 33.0, 60.0, 100.0])
    [0, 1, 3]
    """
    found, begins = list[int](), [0.0, *times[:-1]]
    for place, begin in enumerate(begins):
        if not found or begin - begins[found[-1]] >= _RISK_ROOM * times[-1]:
            found.append(place)
    return found


def _at_risk(axes: Axes, groups: Sequence[Steps], last: float) -> None:
    """A row for each group."""
    censored = " (number censored)" if any(one.censored for one in groups) else ""
    axes.set_title(f"Number at risk{censored}", fontsize="medium", fontweight="normal", loc="left")
    axes.set_ylim(-0.5, len(groups) - 0.5)
    shown = beginnings([*max((one.times for one in groups), key=len)[:-1], last])
    for place, one in enumerate(reversed(groups)):
        for at in shown:
            if at < len(one.times):
                begin = one.times[at - 1] if at else 0.0
                gone = f" ({sum(one.censored[:at])})" if one.censored else ""
                axes.text(begin, place, f"{one.at_risk[at]}{gone}", ha="center", va="center", clip_on=False)
    axes.set_yticks(range(len(groups)), [one.name for one in reversed(groups)])
    axes.tick_params(axis="both", length=0, labelbottom=False, pad=26 if censored else 16)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _baseline(model: Unchecked, time: str) -> tuple[str, Pictures]:
    groups = []
    for one in model["baseline"]:
        share, errors = np.array(one["share"]), one["standard_error"]
        ends: tuple[list[float], list[float]] = ([], [])
        if errors is not None:
            reach = 1.959963984540054 * np.array(errors) / np.maximum(share, 1e-12)
            ends = (share * np.exp(-reach)).tolist(), np.minimum(share * np.exp(reach), 1.0).tolist()
        groups.append(Steps(str(one["stratum"]), one["times"], one["share"], *ends))
    bands = " with 95 % bands" if groups[0].low else ""
    caption = f"{named(model['name'], 'baseline')}: share without the event where every column is at its mean{bands}."
    return caption, survival(groups, time=time)


# -- residuals and scores


def _residuals(model: Unchecked) -> Pictures:
    """Open ends of the histogram are drawn one deviation wide."""
    edges = [model["edges"][0] - 1.0, *model["edges"], model["edges"][-1] + 1.0]
    heights = [count / (high - low) for count, low, high in zip(model["counts"], edges, edges[1:], strict=False)]

    def draw(figure: Figure) -> None:
        bars, points = figure.subplots(1, 2)
        bars.bar(edges[:-1], heights, width=np.diff(edges), align="edge", color=BLUE, edgecolor=canvas.PAPER)
        bars.set_xlabel("Residual, in SD")
        bars.set_ylabel("Rows per SD")
        normal, found = zip(*model["qq"], strict=True)
        reach = max(map(abs, (*normal, *found))) * 1.05
        points.plot([-reach, reach], [-reach, reach], color=GREY, linestyle=(0, (4, 3)), linewidth=1)
        points.plot(normal, found, linestyle="none", marker=MARKERS[0], markersize=4, color=BLUE)
        points.set_xlabel("Normal quantile")
        points.set_ylabel("Residual, in SD")

    return canvas.printed(draw, (_WIDTH, 2.9))


def _score(score: Unchecked, classes: Sequence[object]) -> Pictures:
    bands = [(*map(float, band.split(" to ")), share) for band, _, share in score["calibration"]]
    known = [((low + high) / 2, float(share.removesuffix(" %")) / 100) for low, high, share in bands if share != "-"]

    def draw(figure: Figure) -> None:
        roc = score.get("roc")
        panels = list(figure.subplots(1, 2 if roc else 1, squeeze=False)[0])
        for axes in panels:
            axes.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=1)
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1.01)
            axes.set_aspect("equal")
        panels[0].plot(*zip(*known, strict=True), marker=MARKERS[0], markersize=4, color=BLUE, linewidth=1)
        panels[0].set_xlabel(f"Predicted chance of {classes[1]}")
        panels[0].set_ylabel(f"Observed share of {classes[1]}")
        if roc:
            panels[1].plot(*zip(*roc, strict=True), color=BLUE, linewidth=1.6)
            panels[1].set_xlabel("False positive rate")
            panels[1].set_ylabel("True positive rate")
            if score.get("auc_interval"):
                text = "AUC {:.3f}\n({:.3f} to {:.3f})".format(score["auc"], *score["auc_interval"])
                panels[1].text(0.97, 0.05, text, ha="right", va="bottom")

    return canvas.printed(draw, (_WIDTH, 3.3))
