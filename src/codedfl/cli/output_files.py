"""Where a command writes: looked at before the work starts."""

from __future__ import annotations

import os
from pathlib import Path

import click

from codedfl.errors import InvalidInput
from codedfl.files import sole_user


def check_writable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written, making its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{option} must be in a folder that can be made, got {str(path)!r} ({error.strerror})"
        ) from None
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidInput(f"{option} must be a file that can be written, got {str(path)!r}")


def make_folder(option: str, path: Path) -> Path:
    """The folder, made if need be and this command's alone until it ends.

    What cannot be made or written, or is another command's, is refused under the name of its option.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{option} must be a folder that can be made, got {str(path)!r} ({error.strerror})"
        ) from None
    if not os.access(path, os.W_OK):
        raise InvalidInput(f"{option} must be a folder that can be written, got {str(path)!r}")
    click.get_current_context().with_resource(sole_user(path, option))
    return path
