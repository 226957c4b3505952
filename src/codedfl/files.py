"""Files that are whole or not there: written beside their place, then moved into it. Folders that one process uses."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from codedfl.errors import InvalidInput


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a name beside ``path``, then move what it wrote into place.

    A crash leaves the old file or the new one, never half of one; a full disk leaves the old one, and nothing beside
    it. The folder is made if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    try:
        write(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes, whole or not at all."""
    write_whole(path, lambda partial: partial.write_bytes(content))


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8, whole or not at all."""
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


@contextmanager
def sole_user(path: Path, what: str) -> Iterator[None]:
    """Keep a folder to this process: a second one that wants it is refused, and not made to wait."""
    import fcntl  # not on every system, and most who read this module lock nothing

    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(f"{what} must not be in use by another process, got {str(path)!r}") from None
        yield
    finally:
        os.close(handle)


def cache_folder() -> Path:
    """Where files are kept that can be made or fetched again: the place this platform has for caches, below codedfl."""
    if "XDG_CACHE_HOME" in os.environ:
        return Path(os.environ["XDG_CACHE_HOME"]) / "codedfl"
    if sys.platform == "win32" and "LOCALAPPDATA" in os.environ:
        return Path(os.environ["LOCALAPPDATA"]) / "codedfl" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "codedfl"
    return Path.home() / ".cache" / "codedfl"


_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def harmless(text: str) -> str:
    r"""A text of somebody else's as a cell of a CSV: no spreadsheet runs it, and no terminal obeys it.

    >>> harmless("=cmd|' /C calc'!A0"), harmless("ward\x1b[2J")
    ("'=cmd|' /C calc'!A0", 'ward\ufffd[2J')
    """
    shown = "".join(one if one.isprintable() else "\ufffd" for one in text)
    return f"'{shown}" if text.startswith(_FORMULAS) else shown
