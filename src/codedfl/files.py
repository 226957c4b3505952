"""Files that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a name beside ``path``, then move what it wrote into place.

    A crash leaves the old file or the new one, never half of one. The folder is made if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    write(partial)
    partial.replace(path)


def write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
    write_whole(path, lambda partial: partial.write_bytes(content))


def write_text(path: Path, text: str) -> None:
    """The same for text, in UTF-8."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))
