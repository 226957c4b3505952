"""``codedfl site join`` and ``check``: take part in a study with this machine's rows, and see whether it is ready."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from codedfl.cli import broker_options
from codedfl.cli.exit_codes import INTERRUPTED, NOT_READY
from codedfl.cli.screen import Screen
from codedfl.cli.screen import table as plain_table
from codedfl.data.tables import read_file
from codedfl.errors import InvalidInput
from codedfl.logs import use_console
from codedfl.on_demand import loading
from codedfl.private_files import default_state_dir

if TYPE_CHECKING:
    from codedfl.contract.kit import Kit
    from codedfl.device.membership import Membership
    from codedfl.device.readiness import Point
    from codedfl.mqtt.address import BrokerAddress

_GOES_ON = "started again, it continues where it was"

KitFiles = Annotated[
    list[Path], typer.Argument(metavar="KIT...", help="The kit that the coordinator sent, or several of one device.")
]


def join_study(
    kit: KitFiles,
    state: broker_options.State = None,
    once: Annotated[bool, typer.Option("--once", help="Leave when all studies are over; else stay.")] = False,
) -> None:
    """Take part in studies: a process that stays, replies through a broker, and survives restarts.

    A study must be approved on this machine (codedfl site approve), which froze the rows that it uses. They never
    leave this machine. What must survive is on the disk before a reply leaves: start it again after anything, and it
    continues. Ctrl-C ends it, and so does SIGTERM.

    Example: `codedfl site join hospital-3.kit`
    """
    screen, kits, address, membership = _at_broker(kit, state)
    with loading():
        from codedfl.device.joining import join

    try:
        with broker_options.disk_failures_told(_GOES_ON):
            join([one.study for one in kits], address, membership, once=once)
    except KeyboardInterrupt:
        screen.remark(f"left: {_GOES_ON}")
        raise typer.Exit(INTERRUPTED) from None


def check_site(
    kit: KitFiles,
    state: broker_options.State = None,
    table: Annotated[Path | None, typer.Option(metavar="FILE", help="Also compare with the frozen rows.")] = None,
) -> None:
    """Say whether this machine is ready to join: certificate, clock, disk, approval, rows and broker.

    Each point is ok or NO with the reason; ends with 1 where one is NO. Nothing is sent but a connection to the broker.

    Example: `codedfl site check hospital-3.kit`
    """
    screen, kits, address, membership = _at_broker(kit, state)
    from codedfl.device.readiness import readiness

    rows = None if table is None else read_file(table)
    with screen.busy("checking"):
        points = [point for one in kits for point in readiness(one.study, address, membership, rows)]
    _show(screen, points)


def _at_broker(paths: list[Path], state: Path | None) -> tuple[Screen, list[Kit], BrokerAddress, Membership]:
    """What both commands begin with."""
    broker_options.require_mqtt()
    with loading():
        from codedfl.contract.kit import load_kit
        from codedfl.device.membership import TLS_FOLDER, Membership
        from codedfl.mqtt.address import BrokerAddress

    screen = Screen()
    use_console(screen.remarks)
    kits, states = [load_kit(path) for path in paths], state or default_state_dir()
    membership = Membership.by_kits(kits, states)
    newest = max(kits, key=lambda one: one.until.timestamp() if one.until else 0.0)
    if [one for one in kits if (one.broker, one.authority) != (newest.broker, newest.authority)]:
        raise InvalidInput("all kits must be for one broker, got several: one process each joins them")
    if not newest.broker:
        raise InvalidInput("the kit must name a broker, got one without: a SuperNode takes it (docs/deploy.md)")
    with broker_options.disk_failures_told(_GOES_ON):
        folder = membership.folder / TLS_FOLDER
        address = BrokerAddress.laid_out(newest.broker, newest.authority, newest.certificate, folder)
    return screen, kits, address, membership


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
