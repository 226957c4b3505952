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
    port: Annotated[int, typer.Option(metavar="N", help="To listen at.")] = 8883,
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="Address of the interface to listen at.")] = "0.0.0.0",
) -> None:
    """Write a broker's folder: its authority and certificate, access lists, limits.

    It holds the authority's key: keep it where only the broker's operator reads. Parties make their own keys and send
    requests (codedfl site enrol), which codedfl study kit signs with this folder.

    Example: `codedfl broker new broker --host broker.example`
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.broker_folder import BrokerFolder

    made = BrokerFolder.create(folder, host, port, listen)
    Screen().say(f"start it with: codedfl broker start {folder} ({made.program()}), at {made.url}")


def renew(folder: Folder) -> None:
    """Make the broker a new certificate in time.

    Its names and authority stay, so nobody else notices. Parties get theirs by request: codedfl site enrol.

    Example: `codedfl broker renew broker`
    """
    broker_options.require_mqtt()
    from codedfl.mqtt.broker_folder import BrokerFolder

    BrokerFolder(folder).renew_own()
    Screen().say("the broker has a new certificate from its next start on")


def revoke(folder: Folder, name: Annotated[str, typer.Argument(help="The device.")]) -> None:
    """Refuse a device's certificate from now on, for example because its key was lost.

    Restart the broker then. Its key is never admitted again; a new request is for a new one.

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
