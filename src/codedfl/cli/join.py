"""``codedfl join``: take part in a study with this machine's rows."""

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
from codedfl.contract.toml_file import load_study
from codedfl.data.tables import read_file
from codedfl.errors import InvalidInput
from codedfl.logs import use_console
from codedfl.on_demand import loading
from codedfl.private_files import default_state_dir

if TYPE_CHECKING:
    from codedfl.device.readiness import Point

_GOES_ON = "started again, it goes on where it was"


def join_study(
    study: Annotated[list[Path], typer.Argument(help="The study file (TOML), or several.")],
    broker: broker_options.Broker,
    name: Annotated[str, typer.Option(metavar="NAME", help="This device's name, as on the roster.")],
    roster: Annotated[
        list[Path], typer.Option(metavar="FILE", help="All devices, their keys and pods; one for each roster in use.")
    ],
    authority: broker_options.Authority = None,
    certificate: broker_options.Certificate = None,
    key: broker_options.Key = None,
    state: broker_options.State = None,
    once: Annotated[bool, typer.Option("--once", help="Leave when all studies are over; else stay.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether this machine is ready; ends with 1 where it is not.")
    ] = False,
    table: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --check: compare with the frozen rows.")
    ] = None,
) -> None:
    """Take part in studies: a process that stays, answers their servers through a broker, and survives restarts.

    A study must be approved on this machine (codedfl study approve), which froze the rows that it uses. They never
    leave this machine. What must survive is on the disk before an answer leaves; start it again after anything, and it
    goes on. Ctrl-C ends it, and so does SIGTERM. --check looks at certificate, clock, disk, approval, rows and broker.
    """
    broker_options.require_mqtt()
    with loading():
        from codedfl.device.joining import join
        from codedfl.device.membership import Membership
        from codedfl.mqtt.address import BrokerAddress

    screen = Screen()
    use_console(screen.remarks)
    address = BrokerAddress.parse(broker, authority, certificate, key)
    studies, membership = (
        [load_study(path) for path in study],
        Membership(name, state or default_state_dir(), tuple(roster)),
    )
    if table is not None and not check:
        raise InvalidInput(f"--table must go with --check: join reads the frozen rows, got {str(table)!r}")
    if check:
        from codedfl.device.readiness import readiness

        read = None if table is None else read_file(table)
        _check(screen, [point for one in studies for point in readiness(one, address, membership, read)])
        return
    try:
        with broker_options.disk_failures_told(_GOES_ON):
            join(studies, address, membership, once=once)
    except KeyboardInterrupt:
        screen.remark(f"left: {_GOES_ON}")
        raise typer.Exit(INTERRUPTED) from None


def _check(screen: Screen, points: Sequence[Point]) -> None:
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
