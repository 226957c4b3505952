"""``codedfl site key`` and ``server key``: the public keys under which a device and a server are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli.screen import Screen
from codedfl.contract.names import checked_name
from codedfl.crypto.key_files import DEVICE_KEY, SERVER_KEY, load_identity
from codedfl.private_files import STATE_DIR, default_state_dir

State = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The --state of codedfl site join.", show_default=STATE_DIR),
]


def show_key(
    name: Annotated[str, typer.Argument(help="The device's name, as in its certificate.")],
    state: State = None,
) -> None:
    """Print a device's name and its public key, which is no secret.

    codedfl roster new takes the line. Makes the key if there is none yet.

    Example: `codedfl site key hospital-a`
    """
    Screen().say(f"{name}={own_key(name, state).hex()}")


def show_server_key(state: State = None) -> None:
    """Print the line of a study that names the server of this machine.

    Makes the key if there is none yet.

    Example: `codedfl server key`
    """
    public = load_identity((state or default_state_dir()) / SERVER_KEY).public
    Screen().say(f'server_key = "{public.hex()}"')


def own_key(name: str, state: Path | None) -> bytes:
    """The public key of a device on this machine."""
    checked_name(name, "the device's name")
    return load_identity((state or default_state_dir()) / name / DEVICE_KEY).public
