"""The comparison as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from codedfl.errors import InvalidInput
from codedfl.report.rows import kinds, rows_at, target_text, unreached
from codedfl.study.results import SchemeResult


def comparison_table(
    schemes: Sequence[SchemeResult],
    target: float,
    *,
    title: str = "",
    sharing: str | None = None,
    step: str | None = None,
    score_name: str = "accuracy",
) -> Table:
    """One row a scheme, fastest first. ``sharing`` and ``step`` choose the table; None takes the results' first."""
    if not schemes:
        raise InvalidInput("schemes must hold at least one entry, got none")
    first_sharing, first_step = kinds(schemes)[0]
    sharing, step = sharing or first_sharing, step or first_step
    rows = rows_at(schemes, target, sharing, step, score_name)
    if not rows:
        raise InvalidInput(f"schemes must hold target {target:g} with sharing {sharing} and step {step}, got none")
    table = Table(
        title=f"{title}: time to {target_text(target, score_name)}" if title else None,
        caption="\n".join(
            (
                f"Virtual seconds, median over seeds, 5th to 95th percentile. Sharing {sharing}, step {step}.",
                *(f"Seeds that reach the target: {phrase}." for phrase in unreached(rows)),
            )
        ),
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),  # nine columns in 80 characters
    )
    table.add_column("scheme", overflow="fold")
    for heading in ("epochs", "time", "p5–p95", "times\nfaster", "to\nshare", "one\nepoch", "final"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("server\nsees")
    for row in rows:
        cells = (
            row.name, row.epochs, row.time, row.time_range, row.speedup, row.sharing, row.epoch, row.final,
            row.server_sees,
        )  # fmt: skip
        # Text, not markup: labels are data.
        table.add_row(*(Text(cell) for cell in cells), style="bold" if row.fastest else None)
    return table
