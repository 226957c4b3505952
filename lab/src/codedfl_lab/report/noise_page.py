"""The study of noise for people and machines: results.json, a table in Markdown, and accuracy against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from codedfl.errors import InvalidInput
from codedfl.files import write_bytes
from codedfl_lab.report import canvas
from codedfl_lab.report.canvas import BLUE, GREY, VERMILLION, Pictures
from codedfl_lab.report.rows import dataset_name
from codedfl_lab.reproduce.noise import NoiseResults, NoiseRow

Cells = tuple[str, ...]

HEADINGS = ("data", "features", "epsilon", "ridge alone", "cleared", "before", "membership", "at most")


def write_noise_report(folder: Path, results: NoiseResults) -> dict[str, Path]:
    """Write results.json, report.md, noise.png and noise.svg; return them by these names."""
    pictures = noise_figure(results.rows)
    contents = {
        "results.json": results.json_bytes(),
        "report.md": noise_page(results).encode(),
        "noise.png": pictures.png,
        "noise.svg": pictures.svg.encode(),
    }
    for name, content in contents.items():
        write_bytes(folder / name, content)
    return {name: folder / name for name in contents}


def noise_cells(rows: Sequence[NoiseRow]) -> list[Cells]:
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


def noise_page(results: NoiseResults) -> str:
    """The report."""
    lines = [
        "# Noise: what it costs and what it hides",
        "",
        f"Command: `{results.command}`. {results.n_devices} devices, noise made for {results.honest} honest ones,"
        f" delta = {results.delta:g}, seeds {', '.join(map(str, results.seeds))}; {results.seconds:.0f} s."
        + (" A quick look, on fewer features or rows than the study." if results.quick else ""),
        "",
        "Test accuracy, means over the seeds. *Ridge alone* is AdaSSP's, all that products allow (role-keys); *cleared*"
        " takes the noise out of the spectrum of X'X first (role-sums); *before* is *cleared* as it was measured with"
        " continuous noise. *Membership* is the advantage of a test by the fit of a row, *at most* the bound.",
        "",
        *_markdown(HEADINGS, noise_cells(results.rows)),
        "",
        "![accuracy against epsilon](noise.svg)",
        "",
        "An adversary that knows all but one row and the honest devices' noise, over many runs of a small problem:",
        "",
        *_markdown(
            ("planted fault", "stated epsilon", "epsilon shown", "advantage", "at most"),
            [
                (one.fault, f"{one.epsilon:g}", f"{one.shown:.2f}", f"{one.advantage:.3f}", f"{one.bound:.3f}")
                for one in results.audits
            ],
        ),
        "",
        *(f"- {'holds' if holds else 'fails'}: {statement}" for holds, statement in results.verdicts),
    ]
    return "\n".join(lines) + "\n"


def noise_figure(rows: Sequence[NoiseRow]) -> Pictures:
    """One panel a data set; a line for each number of features and way of solving."""
    names = list(dict.fromkeys(row.dataset for row in rows))
    if not names:
        raise InvalidInput("rows must hold at least one data set, got none")
    with canvas.house_style():
        figure = canvas.blank(4.6 * len(names), 3.8)
        for axes, name in zip(canvas.panels(figure, len(names)), names, strict=True):
            sizes = sorted({row.n_features for row in rows if row.dataset == name})
            for size in sizes:
                mine = [row for row in rows if (row.dataset, row.n_features) == (name, size)]
                noisy = [row for row in mine if row.epsilon is not None]
                look: canvas.MarkStyle = {
                    "marker": "o",
                    "markersize": 3,
                    "linestyle": "-" if size == sizes[-1] else "--",
                }
                places = [row.epsilon or 0.0 for row in noisy]
                for color, label, heights in (
                    (BLUE, "spectrum cleared", [row.shrunken for row in noisy]),
                    (VERMILLION, "ridge alone", [row.ridge for row in noisy]),
                    (GREY, "no noise", [row.shrunken for row in mine if row.epsilon is None] * len(noisy)),
                ):
                    shown = [100 * height for height in heights]
                    axes.plot(places, shown, color=color, label=f"{label}, d = {size}", **look)
            axes.set_xscale("log")
            canvas.fixed_ticks(axes, [row.epsilon for row in noisy if row.epsilon is not None])
            canvas.light_grid(axes)
            axes.set_xlabel("epsilon")
            canvas.title(axes, dataset_name(name))
        figure.axes[0].set_ylabel("test accuracy in per cent")
        figure.axes[0].legend(frameon=False, fontsize=7.5)
        return canvas.render(figure)


def _markdown(headings: Cells, cells: Sequence[Cells]) -> list[str]:
    lines = [headings, ("---",) * len(headings), *cells]
    return [f"| {' | '.join(line)} |" for line in lines]
