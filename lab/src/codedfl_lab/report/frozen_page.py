"""The benchmark of frozen features for people and machines: results.json, a page, two pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from codedfl.report import canvas
from codedfl.report.canvas import BLUE, COLOURS, INK, Pictures
from codedfl_lab.report import page
from codedfl_lab.reproduce.frozen_results import FrozenResults, FrozenRow, KernelRow, Lead, half_width

HEADINGS = (
    *("rows", "devices", "method", "accuracy", "seeds", "rounds", "sent", "both ways", "seconds", "with X'X"),
    *("lead at the end", "passes ours", "the server sees"),
)
SHOWN = 10  # of them on a screen
AT_EQUAL = ("rows", "devices", "ours", "against", "at equal bytes", "at equal time", "with X'X")
KERNELS = ("data set", "features", "numbers", "accuracy", "target", "sent", "seconds", "with X'X")
ABOUT_KERNELS = (
    "One upload over 25 devices. Test accuracy in per cent, with half a 95 % interval over seeds of the features;"
    " held-out rows say whether the target is reached. Sent: MB of a device. Seconds as above."
)
ABOUT = (
    "Test accuracy in per cent, with half a 95 % interval over seeds."
    " Sent: MB of a device, the mean; both ways: of the device that sends and gets most."
    " Seconds are on the paper's fleet: embeddings are there for every method, and X'X is charged in the second column."
    " Leads: by how many points ours is ahead of a gradient method after all its rounds, with half a 95 % interval"
    " paired by seed; a minus is behind. Passes ours: the first round in which its mean over seeds is above ours, with"
    " the MB of a device and the seconds until then."
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
            f"{100 * row.accuracy:.2f}" + _within(row.half_width),
            str(len(row.accuracies)),
            str(row.rounds),
            f"{row.up / 1e6:.2f}",
            f"{row.most / 1e6:.2f}",
            f"{row.seconds:.0f}",
            f"{row.charged:.0f}",
            _lead(row.at_end),
            _crossing(row),
            row.sees,
        )
        for row in rows
    ]


def at_equal_cells(rows: Sequence[FrozenRow]) -> list[tuple[str, ...]]:
    """One line for each gradient method and each of our rows, with the rounds that the gradient method had."""
    return [
        (
            row.split,
            str(row.devices),
            one.ours,
            row.method,
            *(f"{_lead(lead)} ({lead.rounds} rounds)" for lead in (one.bytes, one.seconds, one.charged)),
        )
        for row in rows
        for one in row.at_equal
    ]


def kernel_cells(rows: Sequence[KernelRow]) -> list[tuple[str, ...]]:
    """One line per row of random features."""
    return [
        (
            row.dataset,
            row.kind,
            str(row.width),
            f"{100 * row.accuracy:.2f}" + _within(half_width(row.accuracies) if len(row.accuracies) > 1 else None),
            f"{100 * row.target:g}" + (" reached" if row.reaches else " not reached"),
            f"{row.up / 1e6:.2f}",
            f"{row.seconds:.1f}",
            f"{row.charged:.0f}",
        )
        for row in rows
    ]


def _within(half_width: float | None) -> str:
    return "" if half_width is None else f" ± {100 * half_width:.2f}"


def _lead(lead: Lead | None) -> str:
    return "" if lead is None else f"{100 * lead.lead:+.2f}{_within(lead.half_width)}"


def _crossing(row: FrozenRow) -> str:
    if not row.curve:
        return ""
    if row.crossing is None:
        return "never"
    share = row.crossing / row.rounds
    return f"round {row.crossing}, {row.most * share / 1e6:.1f} MB, {row.seconds * share:.0f} s"


def verdicts(results: FrozenResults) -> list[str]:
    """What held and what did not, in sentences."""
    rivals = [row for row in results.rows if row.at_end is not None]
    same, compared = results.exact
    lines = [f"The sum over devices was that of pooled rows, number for number, in {same} of {compared} splits."]
    for place, ours in enumerate(one.ours for one in rivals[0].at_equal):
        against = [row.at_equal[place] for row in rivals]
        for words, leads in (
            ("at equal bytes", [one.bytes for one in against]),
            ("at equal time, X'X at hand", [one.seconds for one in against]),
            ("at equal time with X'X charged", [one.charged for one in against]),
        ):
            lines.append(_counted(ours, words, leads))
    return [*lines, _counted("ours", "after all rounds", [row.at_end for row in rivals if row.at_end is not None])]


def _counted(ours: str, words: str, leads: Sequence[Lead]) -> str:
    found = Counter(one.verdict for one in leads)
    counted = ", ".join(f"{found[verdict]} {verdict}" for verdict in ("ahead", "level", "behind"))
    return f"{ours[0].upper()}{ours[1:]} against {len(leads)} gradient rows {words}: {counted}."


def frozen_page(results: FrozenResults, svg: str) -> str:
    """The report."""
    rows: list[page.Line] = [(cells, "") for cells in frozen_cells(results.rows)]
    equal: list[page.Line] = [(cells, "") for cells in at_equal_cells(results.rows)]
    heads: list[page.Line] = [
        ((name, f"{weight:.3g}", f"{100 * judged:.2f}", f"{100 * tested:.2f}"), "")
        for name, weight, judged, tested in results.heads
    ]
    return page.page(
        "Frozen features: one secure sum beside gradient methods",
        verdicts(results),
        (
            page.section("Rows", page.table(HEADINGS, rows, ABOUT, text_columns=(0, 2, 11, 12))),
            page.section(
                "At equal use",
                page.table(AT_EQUAL, equal, EQUAL, text_columns=(0, 2, 3)),
            ),
            page.section("The crossing", page.figure(svg, CROSSING)),
            *_kernel_section(results.kernels),
            page.section("Heads", page.table(("head", "weight", "held-out rows", "test rows"), heads, HEADS)),
            page.how_made(
                command=results.command,
                data=f"{results.dataset}, {results.n_train} training rows of {results.width} numbers",
                seeds=str(results.seeds),
                took=f"{results.seconds:.0f} s",
            ),
        ),
    )


def _kernel_section(rows: Sequence[KernelRow]) -> list[str]:
    lines: list[page.Line] = [(cells, "") for cells in kernel_cells(rows)]
    if not lines:
        return []
    return [page.section("The paper's data sets", page.table(KERNELS, lines, ABOUT_KERNELS, text_columns=(0, 1, 4)))]


CROSSING = (
    "Test accuracy against bytes of the device that sends and gets most, both ways; curves are means over seeds. A row"
    " of panels is one way to spread rows, each column a number of devices."
)
EQUAL = (
    "By how many points ours is ahead of a gradient method that has had no more bytes (of the device with the most,"
    " both ways), and no more seconds; in brackets the rounds that these were enough for."
)
HEADS = "First seed. The head with the most right predictions on held-out rows is ours; the test rows chose nothing."


def crossing_figure(results: FrozenResults) -> Pictures:
    """Accuracy against bytes: a point for ours, a curve for each gradient method; a panel for each split and size."""
    splits, sizes = (list(dict.fromkeys(getattr(row, one) for row in results.rows)) for one in ("split", "devices"))

    def draw(figure: Figure, _column: bool) -> None:
        axes = figure.subplots(len(splits), len(sizes), squeeze=False, sharex=True)
        for (i, split), (j, devices) in product(enumerate(splits), enumerate(sizes)):
            _draw_panel(axes[i, j], [row for row in results.rows if (row.split, row.devices) == (split, devices)])
            axes[i, j].set_title(f"{split}, {devices} devices")
        for one in axes[-1]:
            one.set_xlabel("MB of a device, both ways")
        for one in axes[:, 0]:
            one.set_ylabel("test accuracy in per cent")
        axes[0, 0].legend(frameon=False, fontsize=7.5)

    return canvas.pictures(draw, (3.3 * len(sizes), 2.7 * len(splits)))


def _draw_panel(axes: Axes, rows: Sequence[FrozenRow]) -> None:
    ours, *narrower = [row for row in rows if row.tuned and not row.curve]
    for row, colour in zip((row for row in rows if row.curve), COLOURS, strict=False):
        each = row.most / row.rounds / 1e6
        places = [each * (1 + place) for place in range(len(row.curve))]
        axes.plot(places, [100 * one for one in row.curve], color=colour, label=row.method)
    axes.plot(ours.most / 1e6, 100 * ours.accuracy, "o", color=BLUE, label="ours, one upload")
    for row in narrower:
        axes.plot(row.most / 1e6, 100 * row.accuracy, "o", color=BLUE, markerfacecolor="w")
    axes.axhline(100 * ours.accuracy, color=INK, linewidth=0.6, linestyle=(0, (2, 2)))
    axes.set_ylim(100 * ours.accuracy - 4, 100 * ours.accuracy + 1.5)


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
