"""``codedfl key``: the public key under which a device is known, as ``codedfl roster`` takes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli.screen import Screen
from codedfl.contract.names import checked_name
from codedfl.crypto.key_files import DEVICE_KEY, SERVER_KEY, load_identity
from codedfl.errors import InvalidInput
from codedfl.private_files import STATE_DIR, default_state_dir

State = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The --state of codedfl join.", show_default=STATE_DIR),
]


def show_key(
    name: Annotated[
        str, typer.Argument(help="The device's name, as in its certificate.", show_default="none, with --server")
    ] = "",
    server: Annotated[bool, typer.Option("--server", help="The server's key instead, as a study names it.")] = False,
    state: State = None,
) -> None:
    """Print a device's name and its public key, which is no secret, as codedfl roster new takes them.

    With --server, the line of a study that names the server of this machine. Makes the key if there is none yet.
    """
    if server == bool(name):
        raise InvalidInput(f"NAME must be {'left out with' if server else 'given without'} --server, got {name!r}")
    if server:
        public = load_identity((state or default_state_dir()) / SERVER_KEY).public
        Screen().say(f'server_key = "{public.hex()}"')
    else:
        Screen().say(f"{name}={own_key(name, state).hex()}")


def own_key(name: str, state: Path | None) -> bytes:
    """The public key of a device on this machine."""
    checked_name(name, "the device's name")
    return load_identity((state or default_state_dir()) / name / DEVICE_KEY).public
