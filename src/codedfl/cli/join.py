"""``codedfl site join`` and ``check``: take part in a study with this machine's rows, and see whether it is ready."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.text import Text

from codedfl.cli import broker_options
from codedfl.cli.exit_codes import INTERRUPTED, NOT_READY
from codedfl.cli.screen import Screen
from codedfl.cli.screen import table as plain_table
from codedfl.contract.toml_file import load_study
from codedfl.data.tables import read_file
from codedfl.logs import use_console
from codedfl.on_demand import loading
from codedfl.private_files import default_state_dir

if TYPE_CHECKING:
    from codedfl.device.membership import Membership
    from codedfl.device.readiness import Point
    from codedfl.mqtt.address import BrokerAddress

_GOES_ON = "started again, it continues where it was"


Studies = Annotated[list[Path], typer.Argument(help="The study file (TOML), or several.")]
Name = Annotated[str, typer.Option(metavar="NAME", help="This device's name, as on the roster.")]
Rosters = Annotated[
    list[Path],
    typer.Option(metavar="FILE", help="All devices, their keys and disclosure groups; one for each roster in use."),
]


def join_study(
    study: Studies,
    broker: broker_options.Broker,
    name: Name,
    roster: Rosters,
    authority: broker_options.Authority = None,
    certificate: broker_options.Certificate = None,
    key: broker_options.Key = None,
    state: broker_options.State = None,
    once: Annotated[bool, typer.Option("--once", help="Leave when all studies are over; else stay.")] = False,
) -> None:
    """Take part in studies: a process that stays, replies through a broker, and survives restarts.

    A study must be approved on this machine (codedfl site approve), which froze the rows that it uses. They never
    leave this machine. What must survive is on the disk before a reply leaves: start it again after anything, and it
    continues. Ctrl-C ends it, and so does SIGTERM.

    Example: `codedfl site join study.toml --broker mqtts://broker.example:8883 --name site-1 --roster roster.toml`
    """
    screen, address, membership = _at_broker(BrokerAt(broker, authority, certificate, key), name, roster, state)
    with loading():
        from codedfl.device.joining import join

    try:
        with broker_options.disk_failures_told(_GOES_ON):
            join([load_study(path) for path in study], address, membership, once=once)
    except KeyboardInterrupt:
        screen.remark(f"left: {_GOES_ON}")
        raise typer.Exit(INTERRUPTED) from None


def check_site(
    study: Studies,
    broker: broker_options.Broker,
    name: Name,
    roster: Rosters,
    authority: broker_options.Authority = None,
    certificate: broker_options.Certificate = None,
    key: broker_options.Key = None,
    state: broker_options.State = None,
    table: Annotated[Path | None, typer.Option(metavar="FILE", help="Also compare with the frozen rows.")] = None,
) -> None:
    """Say whether this machine is ready to join: certificate, clock, disk, approval, rows and broker.

    Each point is ok or NO with the reason; ends with 1 where one is NO. Nothing is sent but a connection to the broker.

    Example: `codedfl site check study.toml --broker mqtts://broker.example:8883 --name site-1 --roster roster.toml`
    """
    screen, address, membership = _at_broker(BrokerAt(broker, authority, certificate, key), name, roster, state)
    from codedfl.device.readiness import readiness

    rows = None if table is None else read_file(table)
    with screen.busy("checking"):
        points = [point for path in study for point in readiness(load_study(path), address, membership, rows)]
    _show(screen, points)


def _at_broker(
    given: BrokerAt, name: str, roster: list[Path], state: Path | None
) -> tuple[Screen, BrokerAddress, Membership]:
    """What both commands begin with."""
    broker_options.require_mqtt()
    with loading():
        from codedfl.device.membership import Membership
        from codedfl.mqtt.address import BrokerAddress

    screen = Screen()
    use_console(screen.remarks)
    address = BrokerAddress.parse(given.url, given.authority, given.certificate, given.key)
    return screen, address, Membership(name, state or default_state_dir(), tuple(roster))


class BrokerAt(NamedTuple):
    """A broker as it is typed."""

    url: str
    authority: Path | None
    certificate: Path | None
    key: Path | None


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
