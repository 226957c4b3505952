"""What commands that reach a broker share: their state, and what a disk or a missing package does to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from codedfl.errors import CodedFLError, InvalidInput
from codedfl.private_files import STATE_DIR

State = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Keys, and what must survive a restart.", show_default=STATE_DIR),
]


@contextmanager
def disk_failures_told(what_then: str) -> Iterator[None]:
    """A disk that is full or read-only ends the command with one line that says what then; nothing was said unsaved."""
    try:
        yield
    except OSError as error:
        raise CodedFLError(f"the disk must be writable and have room, got {error}; {what_then}") from None


def require_mqtt() -> None:
    """MQTT is an extra: say so in one line where it is missing."""
    if not all(find_spec(package) for package in ("paho", "mqtt5")):
        raise InvalidInput("MQTT must be installed for this command: pip install 'codedfl[mqtt]'")
