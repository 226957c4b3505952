"""``codedfl site check``: see whether this machine is ready to take part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from codedfl.cli import broker_options
from codedfl.cli.exit_codes import NOT_READY
from codedfl.cli.join import KitFiles, at_broker
from codedfl.cli.screen import Screen
from codedfl.cli.screen import table as plain_table
from codedfl.data.tables import read_file

if TYPE_CHECKING:
    from codedfl.device.readiness import Point


def check_site(
    kit: KitFiles,
    state: broker_options.State = None,
    table: Annotated[Path | None, typer.Option(metavar="FILE", help="Also compare with the frozen rows.")] = None,
) -> None:
    """Say whether this machine is ready to join: certificate, clock, disk, approval, rows and broker.

    Each point is ok or NO with the reason; ends with 1 where one is NO. Nothing is sent but a connection to the broker.

    Example: `codedfl site check hospital-3.kit`
    """
    screen, kits, address, membership = at_broker(kit, state)
    from codedfl.device.readiness import readiness

    rows = None if table is None else read_file(table)
    with screen.busy("checking"):
        points = [point for one in kits for point in readiness(one.study, address, membership, rows)]
    _show(screen, points)


def _show(screen: Screen, points: Sequence[Point]) -> None:
    """One screen, and the code that a script reads."""
    shown = plain_table("", "", "", left=2, last_wraps=True)
    shown.show_header = False
    for one in points:
        shown.add_row("ok" if one.ready else "NO", one.what, Text(one.found))
    screen.show(shown)
    bad = [one.what for one in points if not one.ready]
    screen.say(f"not ready: {', '.join(bad)}" if bad else "ready")
    if bad:
        raise typer.Exit(NOT_READY)
