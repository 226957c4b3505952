"""What each party learns, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from codedfl.errors import InvalidInput
from codedfl.report.text import terminal_table
from codedfl_lab.privacy.rows import PrivacyRow


def privacy_table(rows: Sequence[PrivacyRow], title: str = "") -> Table:
    """One row per party or collusion; ``rows`` come from ``Scheme.privacy_rows``."""
    if not rows:
        raise InvalidInput("rows must hold at least one party, got none")
    caption = f"Exposed: single devices whose sums it learns, its own members' not counted. {_how(rows)}"
    table = terminal_table(title, caption)
    for heading in ("who", "sees", "what follows"):
        table.add_column(heading, overflow="fold")
    table.add_column("exposed", justify="right", no_wrap=True)
    for row in rows:
        cells = (row.party, row.sees, row.follows, str(row.exposed))
        # Text, not markup: what is said may hold brackets.
        table.add_row(*(Text(cell) for cell in cells), style="bold" if row.exposed else None)
    return table


def _how(rows: Sequence[PrivacyRow]) -> str:
    if rows[0].gram_functionals is None:
        return "By the scheme's own rule for whom a collusion exposes."
    return (
        "Computed from what each party reads in a run, modulo a prime: a combination says something where all streams"
        " that the parties do not know drop out of it. In a study two sums differ by whole disclosure groups, never by"
        " one device."
    )
