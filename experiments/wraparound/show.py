"""What was counted, as a table, a figure and a file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, LogLocator, NullLocator
from rich import box
from rich.table import Table

from experiments.wraparound.cases import Report

# Okabe and Ito's palette, told apart with every kind of colour blindness.
SPOILT_COLOUR = "#D55E00"
SOUND_COLOUR = "#B37A00"  # their orange, darker: small points and text on white
EXACT_COLOUR = "#0072B2"
GREY = "#595959"


def as_table(report: Report) -> Table:
    setting, counts = report.setting, report.wrong_entries_per_pad
    q = setting.datatype
    table = Table(
        title=f"X'X e retrieved from padded data ({report.images} images)\n"
        f"d = {setting.n_features}, D = {setting.devices}, alpha = {setting.alpha}, k = {q.k}, f = {q.f}",
        caption="expected: from |x| / 2^(k-f) for each number, on average over all pads\n"
        f"device 0: the worst of {len(counts)} pads; {sum(map(bool, counts))} of them wrap,"
        f" {np.mean(counts):.3f} entries a pad\n"
        f"decoded total: the worst of {report.survivor_sets} survivor sets;"
        f" the paper spoils {report.spoilt_sets} of them\n"
        f"size of the true total: {report.median_gradient:.2g} (median of its rows)",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
    )
    for heading in ("arithmetic", "X'X of"):
        table.add_column(heading, no_wrap=True)
    for heading in ("wrong\nentries", "\nexpected", "spoilt\nrows", "largest\nerror", "in sound\nrows"):
        table.add_column(heading, justify="right", no_wrap=True)
    for outcome in report.outcomes:
        table.add_row(
            outcome.arithmetic,
            outcome.case,
            str(outcome.wrong_entries),
            "-" if outcome.expected_wrong is None else f"{outcome.expected_wrong:.2f}",
            str(len(outcome.spoilt_rows)),
            _scientific(outcome.largest_error),
            _scientific(outcome.largest_error_elsewhere),
        )
    return table


def _scientific(value: float) -> str:
    return "0" if value == 0 else f"{value:.1e}"


def draw(report: Report) -> Figure:
    """Error of each row of the decoded total on a log axis; below it, at a zero of its own, that of the exact ring."""
    paper, ring = (
        next(one for one in report.outcomes if (one.arithmetic, one.case) == (arithmetic, "decoded total"))
        for arithmetic in ("paper", "exact ring")
    )
    figure = Figure(figsize=(10.0, 5.2), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": [8, 1]})
    rows = np.arange(len(report.row_errors))
    spoilt = np.isin(rows, paper.spoilt_rows)
    upper.set_yscale("log")
    upper.plot(rows[~spoilt], report.row_errors[~spoilt], ".", color=SOUND_COLOUR, markersize=2)
    upper.vlines(rows[spoilt], paper.tolerance, report.row_errors[spoilt], color=SPOILT_COLOUR, linewidth=1)
    upper.plot(rows[spoilt], report.row_errors[spoilt], "o", color=SPOILT_COLOUR, markersize=6)
    for height, style in ((report.median_gradient, "solid"), (paper.tolerance, "dotted")):
        upper.axhline(height, color=GREY, linewidth=1, linestyle=style, zorder=0)
    _label(upper, report.median_gradient, "size of the true total\n(median of its rows)", GREY)
    _label(upper, paper.tolerance, "the most that truncation\nand the rounded code explain", GREY)
    _label(upper, float(np.median(report.row_errors)), "sound rows", SOUND_COLOUR)
    if paper.spoilt_rows:
        _label(upper, paper.largest_error, "spoilt rows", SPOILT_COLOUR)
    q = report.setting.datatype
    name = f"Q\u27e8{q.k},{q.f}\u27e9, decoded from the worst of {report.survivor_sets} survivor sets:"
    upper.set_title(
        f"{name} {len(paper.spoilt_rows)} of {len(rows)} rows spoilt", loc="left", fontsize=11, color=SPOILT_COLOUR
    )
    upper.margins(x=0.01)
    upper.set_ylabel("largest error of the row")
    upper.yaxis.set_major_locator(LogLocator(100.0, numticks=20))
    upper.yaxis.set_minor_locator(NullLocator())

    sound = np.setdiff1d(rows, ring.spoilt_rows)
    lower.plot(sound, np.zeros(len(sound)), ".", color=EXACT_COLOUR, markersize=3)
    lower.set_title(
        f"exact ring: {len(sound)} of {len(rows)} rows have an error of exactly 0",
        loc="left",
        fontsize=11,
        color=EXACT_COLOUR,
    )
    lower.set_ylim(-1, 1)
    lower.yaxis.set_major_locator(FixedLocator([0]))
    lower.yaxis.set_major_formatter(FixedFormatter(["0"]))
    lower.set_xlabel(f"row of the total gradient (d = {len(rows)})")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _label(axes: Axes, height: float, text: str, colour: str) -> None:
    """To the right of the axes, where it covers nothing."""
    where = axes.get_yaxis_transform()
    axes.annotate(text, (1.01, height), xycoords=where, va="center", color=colour, fontsize=9, annotation_clip=False)


def save(report: Report, out: Path) -> list[Path]:
    """JSON with everything measured (but for the errors row by row, which are the figure) and the figure."""
    out.mkdir(parents=True, exist_ok=True)
    written = [out / "wraparound.json", out / "wraparound.png"]
    record = asdict(report)
    del record["row_errors"]
    written[0].write_text(json.dumps(record, indent=1) + "\n")
    draw(report).savefig(written[1], dpi=160)
    return written
