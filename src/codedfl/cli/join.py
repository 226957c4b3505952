"""``codedfl site join``: take part in a study with this machine's rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codedfl.cli import broker_options
from codedfl.cli.exit_codes import INTERRUPTED
from codedfl.cli.screen import Screen
from codedfl.errors import InvalidInput
from codedfl.logs import use_console
from codedfl.on_demand import loading
from codedfl.private_files import default_state_dir

if TYPE_CHECKING:
    from codedfl.contract.kit import Kit
    from codedfl.device.membership import Membership
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
    screen, kits, address, membership = at_broker(kit, state)
    with loading():
        from codedfl.device.joining import join

    try:
        with broker_options.disk_failures_told(_GOES_ON):
            join([one.study for one in kits], address, membership, once=once)
    except KeyboardInterrupt:
        screen.remark(f"left: {_GOES_ON}")
        raise typer.Exit(INTERRUPTED) from None


def at_broker(paths: list[Path], state: Path | None) -> tuple[Screen, list[Kit], BrokerAddress, Membership]:
    """What ``site join`` and ``site check`` begin with."""
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
