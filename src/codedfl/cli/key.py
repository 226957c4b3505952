"""``codedfl key``: the public key under which a device is known, as a line of the roster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from codedfl.cli.screen import Screen
from codedfl.engine.keys import DEVICE_KEY, load_identity, roster_text
from codedfl.engine.private_files import default_state_dir
from codedfl.errors import InvalidInput


def show_key(
    name: Annotated[str, typer.Argument(help="The device's name, as in its certificate.", show_default=False)],
    state: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The --state of codedfl join.", show_default="~/.local/state"),
    ] = None,
) -> None:
    """Print a device's line for the roster: its name and its public key, which is no secret.

    Makes the key if there is none yet. A roster is these lines of all devices in one file, the same everywhere.
    """
    if Path(name).name != name or name in ("", ".."):
        raise InvalidInput(f"the device's name must do as the name of a folder, got {name!r}")
    identity = load_identity((state or default_state_dir()) / name / DEVICE_KEY)
    Screen().say(roster_text({name: identity.public}).rstrip())
