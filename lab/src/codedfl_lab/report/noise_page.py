"""The study of noise for people and machines: results.json, a page, and accuracy against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from codedfl.errors import InvalidInput
from codedfl.report import canvas
from codedfl.report.canvas import BLUE, GREY, VERMILLION, Pictures
from codedfl_lab.report import page
from codedfl_lab.report.rows import dataset_name
from codedfl_lab.reproduce.noise import NoiseResults, NoiseRow

HEADINGS = ("data", "features", "epsilon", "ridge alone", "cleared", "before", "membership", "at most")
ABOUT = (
    "Test accuracy, means over the seeds. Ridge alone is AdaSSP's, all that products allow (role-keys); cleared takes"
    " the noise out of the spectrum of X'X first (role-sums); before is cleared as it was measured with continuous"
    " noise. Membership is the advantage of a test by the fit of a row, at most the bound."
)
ADVERSARY = "An adversary that knows all but one row and the honest devices' noise, over many runs of a small problem."


def write_noise_report(folder: Path, results: NoiseResults) -> dict[str, Path]:
    """Write results.json, report.html, noise.png and noise.svg; return them by these names."""
    pictures = noise_figure(results.rows)
    made = {"results.json": results.json_bytes(), "report.html": noise_page(results, pictures.svg).encode()}
    return page.write_all(folder, made | pictures.files("noise"))


def noise_cells(rows: Sequence[NoiseRow]) -> list[tuple[str, ...]]:
    """One line per row, as people read it."""
    return [
        (
            dataset_name(row.dataset),
            str(row.n_features),
            "none" if row.epsilon is None else f"{row.epsilon:g}",
            f"{100 * row.ridge:.1f} %",
            f"{100 * row.shrunken:.1f} %",
            "-" if row.expected is None else f"{row.expected:.1f} %",
            f"{row.membership:.3f}",
            f"{row.bound:.3f}",
        )
        for row in rows
    ]


def noise_page(results: NoiseResults, svg: str) -> str:
    """The report."""
    rows: list[page.Line] = [(cells, "") for cells in noise_cells(results.rows)]
    audits: list[page.Line] = [
        ((one.fault, f"{one.epsilon:g}", f"{one.shown:.2f}", f"{one.advantage:.3f}", f"{one.bound:.3f}"), "")
        for one in results.audits
    ]
    heads = ("planted fault", "stated epsilon", "epsilon shown", "advantage", "at most")
    return page.page(
        "Noise: what it costs and what it hides",
        [],
        (
            page.section("What holds", page.claims_table(results.claims)),
            page.section("Accuracy", page.table(HEADINGS, rows, ABOUT), page.figure(svg, "Accuracy against epsilon.")),
            page.section("Planted faults", page.table(heads, audits, ADVERSARY)),
            page.how_made(
                command=results.command,
                devices=f"{results.n_devices}, noise made for {results.honest} honest ones, delta = {results.delta:g}",
                seeds=", ".join(map(str, results.seeds)),
                took=f"{results.seconds:.0f} s" + ". A quick look, on less than the study has." * results.quick,
            ),
        ),
    )


def noise_figure(rows: Sequence[NoiseRow]) -> Pictures:
    """One panel a data set; a line for each number of features and way of solving."""
    names = list(dict.fromkeys(row.dataset for row in rows))
    if not names:
        raise InvalidInput("rows must hold at least one data set, got none")

    def draw(figure: Figure, _column: bool) -> None:
        panels = canvas.panels(figure, len(names))
        for axes, name in zip(panels, names, strict=True):
            sizes = sorted({row.n_features for row in rows if row.dataset == name})
            for size in sizes:
                mine = [row for row in rows if (row.dataset, row.n_features) == (name, size)]
                noisy = [row for row in mine if row.epsilon is not None]
                dashes = canvas.SOLID if size == sizes[-1] else (0, (4, 1.5))
                places = [row.epsilon or 0.0 for row in noisy]
                for color, label, heights in (
                    (BLUE, "spectrum cleared", [row.shrunken for row in noisy]),
                    (VERMILLION, "ridge alone", [row.ridge for row in noisy]),
                    (GREY, "no noise", [row.shrunken for row in mine if row.epsilon is None] * len(noisy)),
                ):
                    shown, words = [100 * height for height in heights], f"{label}, d = {size}"
                    axes.plot(places, shown, color=color, label=words, linestyle=dashes, marker="o", markersize=3)
            axes.set_xscale("log")
            canvas.fixed_ticks(axes, places)
            axes.set_xlabel("epsilon")
            axes.set_title(dataset_name(name))
        panels[0].set_ylabel("test accuracy in per cent")
        panels[0].legend(frameon=False, fontsize=7.5)

    return canvas.pictures(draw, (4.6 * len(names), 3.8))
