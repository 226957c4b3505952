"""Files that only their owner can read, written so that a crash leaves the old content or the new one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from codedfl.errors import InvalidInput
from codedfl.files import sole_user as sole_user  # who keeps private files keeps their folder to himself

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


STATE_DIR = "~/.local/state/codedfl, or codedfl in XDG_STATE_HOME"  # as help texts say it


def default_state_dir() -> Path:
    """Where the system wants programs to keep state: XDG_STATE_HOME, or .local/state in the home folder."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "codedfl"


def make_private_folder(path: Path) -> Path:
    """The folder with mode 0700, made if it is not there; one that others can look into is refused.

    Missing folders above it get the same mode: one of them may be asked for next, by another party on this machine.
    """
    for folder in (*reversed(path.parents), path):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.is_dir():
        raise InvalidInput(f"the private folder must be a folder, got {str(path)!r}")
    check_private(path, "the private folder")
    return path


def check_private(path: Path, what: str) -> None:
    """Refuse what other users can read, or own: whoever owns a file can open it to himself again."""
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise InvalidInput(
            f"{what} must belong to the user who runs this ({os.geteuid()}), got one of user {found.st_uid}: {path}"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & _OTHERS:
        raise InvalidInput(f"{what} must be closed to other users (chmod go= {path}), got mode {mode:04o}")


def write_private(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file of mode 0600 in one stroke: it is on the disk before it takes its name."""
    partial = path.with_name(path.name + ".part")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        for piece in pieces:
            stream.write(piece)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path)


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut, not just the files' contents."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
