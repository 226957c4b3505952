"""The study of fleets for people and machines: results.json, a page, and a picture of who waits for what."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from codedfl.report import canvas
from codedfl.report.canvas import BLUE, GREY, VERMILLION, Pictures
from codedfl.report.text import number, seconds
from codedfl_lab.report import page
from codedfl_lab.report.rows import span
from codedfl_lab.reproduce.fleets import DEALT, EARLY, SIZES, USUAL, FleetRow, FleetsResults

HEADINGS = ("fleet", "scheme", "features", "epochs", "before\nthem", "to target", "times\nfaster", "95 %", "")
ABOUT = (
    "Simulated seconds to the target, uploads and answers drawn in packets. Times faster than the strongest baseline on"
    " the same features, paired by seed and draw; a scheme wins or loses where the whole 95 % interval says so."
)
NOTES = (
    "Every coded scheme waits for uploads once, and for the fastest answers from then on; a baseline has no upload and"
    " waits in every epoch. Whole groups first begins without the eighth of the groups that is last and adds them"
    " later: its first model lacks their rows, and where that does not reach the target, the model of all rows does,"
    " when the line above has it. Epochs are those of the first model.",
    "Low frequencies: 1000 features of a picture's 2-D DCT, a quarter of the upload, for the baseline too.",
)


def write_fleets_report(folder: Path, results: FleetsResults) -> dict[str, Path]:
    """Write results.json, report.html, and fleets as .png and .svg; return them by these names."""
    pictures = fleets_figure(results)
    made = {"results.json": results.json_bytes(), "report.html": fleets_page(results, pictures.svg).encode()}
    return page.write_all(folder, made | pictures.files("fleets"))


def fleet_cells(rows: Sequence[FleetRow]) -> list[tuple[str, ...]]:
    """One line per row, as people read it."""
    return [
        (
            row.fleet,
            row.words,
            row.features,
            "–" if row.epochs is None else f"{row.epochs:g}",
            seconds(row.sharing_s),
            seconds(row.seconds),
            number(row.faster) if row.seconds is not None else "–",
            span(row.low, row.high) if row.seconds is not None else "–",
            row.verdict,
        )
        for row in rows
    ]


def losses(results: FleetsResults) -> list[str]:
    """Where coded schemes do not win, in words."""
    found = []
    for devices in SIZES:
        for fleet in results.latency_models:
            rows = [row for row in results.of(fleet, devices) if row.features == USUAL and row.private]
            for row in rows:
                if row.verdict in ("loses", "tie", "never"):
                    share = "" if row.seconds is None else f", of {seconds(row.seconds)} to the target"
                    said = {"loses": "loses", "tie": "ties", "never": "never gets there"}[row.verdict]
                    sharing = f"sharing takes {seconds(row.sharing_s)}{share}"
                    found.append(f"{fleet}, {devices} devices: {row.words} {said}; {sharing}.")
    return found


def fleets_page(results: FleetsResults, svg: str) -> str:
    """The report."""
    models = [f"{name}: {', '.join(models) or 'as in the paper'}" for name, models in results.latency_models.items()]
    sections = [
        page.section("Who waits for what", page.figure(svg, "Simulated seconds to the target, and of sharing."))
    ]
    for devices in SIZES:
        lines: list[page.Line] = [
            (cells, "") for cells in fleet_cells([row for row in results.rows if row.devices == devices])
        ]
        sections.append(page.section(f"{devices} devices", page.table(HEADINGS, lines, ABOUT)))
    sections.append(page.section("Where coded schemes do not win", *[page.paragraph(one) for one in losses(results)]))
    sections.append(page.section("Notes", *[page.paragraph(one) for one in (*NOTES, *models)]))
    return page.page(
        "Fleets with other stragglers",
        [],
        (
            *sections,
            page.how_made(
                command=results.command,
                devices=" and ".join(map(str, SIZES)),
                seeds=", ".join(map(str, results.seeds)),
                took=f"{results.seconds:.0f} s" + ". A quick look, on less than the study has." * results.quick,
            ),
        ),
    )


def fleets_figure(results: FleetsResults) -> Pictures:
    """One panel a size: for each fleet the strongest baseline, role keys with blocks, and these begun early."""
    shown = (
        ("strongest baseline", GREY),
        (DEALT, BLUE),
        (EARLY, VERMILLION),
    )
    names = list(results.latency_models)

    def draw(figure: Figure, _column: bool) -> None:
        panels = canvas.panels(figure, len(SIZES))
        for axes, devices in zip(panels, SIZES, strict=True):
            for offset, (words, color) in enumerate(shown):
                rows = [_shown(results.of(name, devices), words) for name in names]
                heights = [float("nan") if row is None or row.seconds is None else row.seconds for row in rows]
                sharing = [float("nan") if row is None else row.sharing_s for row in rows]
                places = [place + 0.27 * (offset - 1) for place in range(len(names))]
                axes.bar(places, heights, 0.25, color=color, label=words)
                axes.bar(places, sharing, 0.25, color="none", edgecolor="black", hatch="////", linewidth=0.5)
            axes.set_yscale("log")
            canvas.log_ticks(axes.yaxis)
            axes.set_xticks(range(len(names)), [name.replace("-", "\n") for name in names], fontsize=7)
            axes.set_title(f"{devices} devices (hatched: before the first epoch)", fontsize=8)
        panels[0].set_ylabel("simulated seconds to the target")
        panels[0].legend(frameon=False, fontsize=7)

    return canvas.pictures(draw, (4.6 * len(SIZES), 3.8))


def _shown(rows: Sequence[FleetRow], words: str) -> FleetRow | None:
    usual = [row for row in rows if row.features == USUAL and row.seconds is not None]
    if words == "strongest baseline":
        return min(
            (row for row in usual if row.verdict == "baseline"), key=lambda row: row.seconds or 0.0, default=None
        )
    return next((row for row in usual if row.words == words), None)
