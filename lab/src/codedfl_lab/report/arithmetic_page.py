"""The paper's arithmetic beside ours, for people and machines: results.json, a page, and accuracy against epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich.table import Table

from codedfl.report import canvas
from codedfl.report.canvas import BLUE, INK, SOLID, VERMILLION, Dashes, Pictures
from codedfl.report.text import terminal_table
from codedfl_lab.report import page
from codedfl_lab.report.rows import percent
from codedfl_lab.reproduce.arithmetic import OURS, ArithmeticResults, ArithmeticRow

ABOUT = (
    "Wrapped: padded numbers that left the range, and how many were expected to. Spoilt: with a row whose error"
    " neither truncation nor the rounded code explains; of devices' answers and of survivor sets at the exact model's"
    " update, and of the epochs of a training in this arithmetic. Ours is the exact ring. Distance: of the last model"
    " from ours, over the size of ours."
)
_HEADS = ("wrapped\nexpected", "answers\nspoilt", "sets\nspoilt", "epochs\nspoilt", "accuracy\nours", "distance")
_LOOKS: tuple[tuple[str, Dashes], ...] = ((INK, SOLID), (VERMILLION, (0, (4, 1.5))), (BLUE, (0, (1.5, 1.2))))


def arithmetic_table(rows: Sequence[ArithmeticRow]) -> Table:
    """One row a size and datatype, for the terminal."""
    table = terminal_table("The paper's arithmetic beside ours", ABOUT)
    table.add_column("data\nand arithmetic", no_wrap=True)
    for heading in _HEADS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        style = "bold red" if row.answers_spoilt or row.sets_spoilt or row.epochs_spoilt else None
        name = f"{row.dataset}, D = {row.devices}\nd = {row.n_features}, {row.datatype}"
        table.add_row(name, *_cells(row, "\n"), style=style)
    return table


def _cells(row: ArithmeticRow, apart: str) -> list[str]:
    return [
        f"{row.wrapped}{apart}{row.expected:.1g}",
        f"{row.answers_spoilt} of {row.answers}",
        f"{row.sets_spoilt} of {row.sets}",
        f"{row.epochs_spoilt} of {row.epochs}",
        f"{percent(row.accuracy)}{apart}{percent(row.exact_accuracy)}",
        f"{row.distance:.1e}",
    ]


def write_arithmetic_report(folder: Path, results: ArithmeticResults) -> dict[str, Path]:
    """Write results.json, report.html and accuracy as .png, .svg and .pdf; return them by these names."""
    pictures = _figure(results)
    page_ = _page(results, pictures.svg).encode()
    return page.write_all(
        folder, {"results.json": results.json_bytes(), "report.html": page_, **pictures.files("accuracy")}
    )


def _page(results: ArithmeticResults, svg: str) -> str:
    lines: list[page.Line] = [([f"{row.words}, {row.datatype}", *_cells(row, " / ")], "") for row in results.rows]
    heads = (heading.replace("\nspoilt", " spoilt").replace("\n", " / ") for heading in _HEADS)
    caption = f"Test accuracy against epochs, in the arithmetic of {', '.join(next(iter(results.scores.values())))}."
    return page.page(
        "The paper's arithmetic beside ours",
        [arithmetic_headline(results)],
        (
            page.section("Proposition by proposition", page.claims_table(results.claims)),
            page.section("What was counted", page.table(("data and arithmetic", *heads), lines, ABOUT)),
            page.section("Trained", page.figure(svg, caption)),
            page.how_made(
                command=results.command,
                took=f"{results.seconds:.0f} s" + ", a quick look without the paper's size" * results.quick,
                versions=", ".join(f"{name} {version}" for name, version in results.versions.items()),
            ),
        ),
    )


def arithmetic_headline(results: ArithmeticResults) -> str:
    """In one sentence, of the largest size in the paper's own datatype."""
    row = max((one for one in results.rows if one.k == results.rows[0].k), key=lambda one: one.n_features)
    start = f"{row.words}: in {row.datatype} {row.sets_spoilt} of {row.sets} survivor sets give a spoilt gradient"
    return f"{start}, and training ends at {percent(row.accuracy)} instead of {percent(row.exact_accuracy)}."


def _figure(results: ArithmeticResults) -> Pictures:
    """One panel a size: a curve for each arithmetic, distinguished in print by its dashes."""

    def draw(figure: Figure, _column: bool) -> None:
        panels = canvas.panels(figure, len(results.scores))
        for axes, (size, curves) in zip(panels, results.scores.items(), strict=True):
            for (name, scores), (colour, dashes) in zip(curves.items(), _LOOKS, strict=True):
                wide = 3.0 if name == OURS else 1.4  # ours shows behind a curve that covers it
                shown = [100 * score for score in scores]
                axes.plot(range(1, len(scores) + 1), shown, color=colour, linestyle=dashes, label=name, linewidth=wide)
            axes.set_xlabel("epoch")
            axes.set_title(size.replace(", D", "\nD"))
        panels[0].set_ylabel("test accuracy in per cent")
        panels[0].legend(frameon=False)

    return canvas.pictures(draw, (3.4 * len(results.scores), 3.2), (canvas.COLUMN_INCHES, 2.0))
