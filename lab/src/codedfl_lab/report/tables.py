"""The comparison as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from codedfl.errors import InvalidInput
from codedfl.report.text import terminal_table
from codedfl_lab.comparing.results import SchemeResult
from codedfl_lab.report.rows import STEP_WORDS, kinds, remarks, rows_at, target_text


def comparison_table(
    schemes: Sequence[SchemeResult],
    target: float,
    *,
    title: str = "",
    sharing: str | None = None,
    step: str | None = None,
    score_name: str = "accuracy",
) -> Table:
    """One row per scheme, fastest first. ``sharing`` and ``step`` choose the table; None takes the results' first."""
    if not schemes:
        raise InvalidInput("schemes must hold at least one entry, got none")
    first_sharing, first_step = kinds(schemes)[0]
    sharing, step = sharing or first_sharing, step or first_step
    rows = rows_at(schemes, target, sharing, step, score_name)
    if not rows:
        raise InvalidInput(f"schemes must hold target {target:g} with sharing {sharing} and step {step}, got none")
    table = terminal_table(
        f"{title}: time to {target_text(target, score_name)}" if title else "",
        "\n".join(
            (
                "Simulated seconds, median over seeds, 5th to 95th percentile; the sharing phase is timed by the rule"
                f" {sharing!r}, descent takes {STEP_WORDS[step]}. Times faster than conventional FL (below 1: slower),"
                " as what the solver brings × what the code brings.",
                *remarks(rows),
            )
        ),
    )
    # Two lines per row, so that ten facts fit 80 characters and no word is broken.
    table.add_column("scheme", min_width=15)  # names wrap, between words
    for heading in ("epochs\nfinal", "time\np5–p95", "faster\nsolver × code", "sharing\nepoch"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("server\nsees", no_wrap=True)
    for row in rows:
        cells = (
            f"{row.title}\n{row.variant}".strip(),
            f"{row.epochs}\n{row.final}",
            f"{row.time}\n{row.time_range}",
            f"{row.speedup}\n{row.gain}",
            f"{row.sharing}\n{row.epoch}",
            row.server_sees,
        )
        # Text, not markup: labels are data.
        table.add_row(*(Text(cell) for cell in cells), style="bold" if row.fastest else None)
    return table
