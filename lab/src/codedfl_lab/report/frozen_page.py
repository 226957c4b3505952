"""The benchmark of frozen features for people and machines: results.json, a page, two pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from codedfl_lab.report import canvas, page
from codedfl_lab.report.canvas import BLUE, COLOURS, INK, Pictures
from codedfl_lab.reproduce.frozen import FrozenResults, FrozenRow

HEADINGS = (
    *("rows", "devices", "method", "accuracy", "seeds", "rounds", "sent", "got", "seconds", "with X'X"),
    *("at equal bytes", "at equal time", "with X'X", "the server sees"),
)
ABOUT = (
    "Test accuracy in per cent, with half a 95 % interval: over seeds where there are several, else of the test rows."
    " Sent and got are MB of a device, the mean; a device that answers for its role sends its upload's size once more."
    " Seconds are on the paper's fleet: embeddings are there for every method, and X'X is charged in the second column."
    " At equal bytes and time: what a gradient method has reached when it has used as much as ours."
)


def write_frozen_report(folder: Path, results: FrozenResults) -> dict[str, Path]:
    """Write results.json, report.html, crossing and confusion as pictures; return them by these names."""
    crossing, confusion = crossing_figure(results), confusion_figure(results)
    made = {"results.json": results.json_bytes(), "report.html": frozen_page(results, crossing.svg).encode()}
    return page.write_all(folder, made | crossing.files("crossing") | confusion.files("confusion"))


def frozen_cells(rows: Sequence[FrozenRow]) -> list[tuple[str, ...]]:
    """One line per row, as people read it."""
    return [
        (
            row.split,
            str(row.devices),
            row.method + (f" ({row.tuned})" if row.tuned else ""),
            f"{100 * row.accuracy:.2f} ± {100 * row.half_width:.2f}",
            str(len(row.accuracies)),
            str(row.rounds),
            f"{row.up / 1e6:.2f}",
            f"{row.down / 1e6:.2f}",
            f"{row.seconds:.0f}",
            f"{row.charged:.0f}",
            *(_percent(one) for one in (row.at_equal_bytes, row.at_equal_seconds, row.at_equal_charged)),
            row.sees,
        )
        for row in rows
    ]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def verdicts(results: FrozenResults) -> list[str]:
    """What held and what did not, in sentences."""
    ours = {(row.split, row.devices): row for row in results.rows if row.method == "ours"}
    pairs = [(ours[row.split, row.devices], row) for row in results.rows if row.curve]
    same, compared = results.exact
    lines = [f"The sum over devices was that of pooled rows, number for number, in {same} of {compared} splits."]
    for words, ahead in (
        ("at equal bytes", [mine.accuracy > (row.at_equal_bytes or 0) for mine, row in pairs]),
        ("at equal time, X'X at hand", [mine.accuracy > (row.at_equal_seconds or 0) for mine, row in pairs]),
        ("at equal time with X'X charged", [mine.accuracy > (row.at_equal_charged or 0) for mine, row in pairs]),
        ("after all rounds", [mine.accuracy > row.accuracy for mine, row in pairs]),
    ):
        lines.append(f"Ours is ahead of {sum(ahead)} of {len(ahead)} gradient rows {words}.")
    return lines


def frozen_page(results: FrozenResults, svg: str) -> str:
    """The report."""
    rows: list[page.Line] = [(cells, "") for cells in frozen_cells(results.rows)]
    heads: list[page.Line] = [
        ((name, f"{weight:.3g}", f"{100 * judged:.2f}", f"{100 * tested:.2f}"), "")
        for name, weight, judged, tested in results.heads
    ]
    return page.page(
        "Frozen features: one secure sum beside gradient methods",
        verdicts(results),
        (
            page.section("Rows", page.table(HEADINGS, rows, ABOUT, text_columns=(0, 2, 13))),
            page.section("The crossing", page.figure(svg, "Test accuracy against bytes of a device, sorted by label.")),
            page.section("Heads", page.table(("head", "weight", "held-out rows", "test rows"), heads, HEADS)),
            page.how_made(
                command=results.command,
                data=f"{results.dataset}, {results.n_train} training rows of {results.width} numbers",
                seeds=str(results.seeds),
                took=f"{results.seconds:.0f} s",
            ),
        ),
    )


HEADS = "First seed. The head with the most right predictions on held-out rows is ours; the test rows chose nothing."


def crossing_figure(results: FrozenResults) -> Pictures:
    """Accuracy against bytes on rows sorted by label: a point for ours, a curve for each gradient method."""

    def draw(figure: Figure, _column: bool) -> None:
        sizes = sorted({row.devices for row in results.rows})
        for axes, devices in zip(canvas.panels(figure, len(sizes)), sizes, strict=True):
            mine = [row for row in results.rows if (row.split, row.devices) == ("sorted", devices)]
            ours = next(row for row in mine if row.method == "ours")
            for row, colour in zip((row for row in mine if row.curve), COLOURS, strict=False):
                each = (row.up + row.down) / row.rounds / 1e6
                places = [each * (1 + place) for place in range(len(row.curve))]
                axes.plot(places, [100 * one for one in row.curve], color=colour, label=row.method)
            axes.plot((ours.up + ours.down) / 1e6, 100 * ours.accuracy, "o", color=BLUE, label="ours, one upload")
            axes.axhline(100 * ours.accuracy, color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
            axes.set_title(f"{devices} devices")
            axes.set_xlabel("MB of a device, both ways")
            axes.set_ylim(bottom=max(0.0, 100 * ours.accuracy - 15))
        figure.axes[0].set_ylabel("test accuracy in per cent")
        figure.axes[0].legend(frameon=False, fontsize=7.5)

    return canvas.pictures(draw, (3.6 * len({row.devices for row in results.rows}), 3.6))


def confusion_figure(results: FrozenResults) -> Pictures:
    """Test rows of each class by the class they were taken for."""

    def draw(figure: Figure, _column: bool) -> None:
        axes, size, names = figure.subplots(), len(results.confusion), results.classes
        largest = max(map(max, results.confusion))
        axes.imshow(results.confusion, cmap="Blues", vmin=0, vmax=largest)
        for place, counts in enumerate(results.confusion):
            for other, count in enumerate(counts):
                dark = count > largest / 2
                axes.text(other, place, str(count), ha="center", va="center", fontsize=7, color="w" if dark else INK)
        axes.set_xticks(range(size), names, rotation=45, ha="right", fontsize=8)
        axes.set_yticks(range(size), names, fontsize=8)
        axes.set_xlabel("taken for")
        axes.set_ylabel("is")

    return canvas.pictures(draw, (5.4, 5.0))
