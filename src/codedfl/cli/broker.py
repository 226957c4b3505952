"""``codedfl broker``: a message broker of one's own, with certificates and access lists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli import broker_options
from codedfl.cli.exit_codes import INTERRUPTED
from codedfl.cli.screen import Screen
from codedfl.logs import use_console

Folder = Annotated[Path, typer.Argument(help="The broker's folder.")]


def new(
    folder: Folder,
    host: Annotated[
        list[str], typer.Option(metavar="NAME", help="Name or address under which it is reached; can be repeated.")
    ],
    device: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A device that gets a certificate; can be repeated.")
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", help="To listen at.")] = 8883,
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="Address of the interface to listen at.")] = "0.0.0.0",
) -> None:
    """Write a broker's folder: TLS, a certificate for each party, access lists, limits.

    It holds the authority's key: keep it where only the broker's operator reads. parties/ has what each device needs.

    Example: `codedfl broker new broker --host broker.example --device site-1 --device site-2`
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.broker_folder import SERVER_NAME, BrokerFolder

    screen = Screen()
    made = BrokerFolder.create(folder, host, device or [], port, listen)
    screen.say("to carry to each machine, the .key in secret:")
    for name in (SERVER_NAME, *(device or [])):
        party = made.party(name)
        screen.say(f"  {name}: {party.authority} {party.certificate} {party.key}")
    screen.say(f"start it with: codedfl broker start {folder} ({made.program()})")


def add(folder: Folder, name: Annotated[str, typer.Argument(help="The device.")]) -> None:
    """Make a certificate for another device.

    Example: `codedfl broker add broker site-3`
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.broker_folder import BrokerFolder

    party = BrokerFolder(folder).add(name)
    Screen().say(f"{name}: {party.authority} {party.certificate} {party.key}")


def renew(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The device, or codedfl-server.", show_default="the broker itself")] = "",
) -> None:
    """Make a new certificate in time.

    The former stays valid until it expires, so there is time to carry the new one to its machine.

    Example: `codedfl broker renew broker site-1`
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.broker_folder import BrokerFolder

    found, screen = BrokerFolder(folder), Screen()
    if name:
        party = found.renew(name)
        screen.say(f"{name}: {party.authority} {party.certificate} {party.key}, from the next start of its join on")
    else:
        found.renew_own()
        screen.say("the broker has a new certificate from its next start on")


def revoke(folder: Folder, name: Annotated[str, typer.Argument(help="The device.")]) -> None:
    """Refuse a device's certificate from now on, for example because it was lost.

    Restart the broker then.

    Example: `codedfl broker revoke broker site-1`
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.broker_folder import BrokerFolder

    BrokerFolder(folder).revoke(name)
    Screen().say(f"{name} is revoked from the next start of the broker on")


def start(
    folder: Folder,
    program: Annotated[
        str, typer.Option(metavar="NAME", help="mosquitto or small.", show_default="mosquitto if installed")
    ] = "",
) -> None:
    """Start the broker in this folder: mosquitto where it is installed, else a small one of codedfl's own.

    Example: `codedfl broker start broker`
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.broker_folder import BrokerFolder

    use_console(Screen().remarks)
    try:
        BrokerFolder(folder).start(program)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
