"""A long study keeps what it has finished, a file a part: another call continues where the first one stopped."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codedfl.files import write_text
from codedfl.version import __version__


class Parts:
    """Finished parts of one study.

    Examples
    --------
    >>> from codedfl_lab.reproduce.parts import Parts
    >>> parts = Parts()
    >>> parts.get("closed, seed 0", lambda: [1, 2])
    [1, 2]

    Parameters
    ----------
    folder: where they are kept; None keeps nothing.
    of: what all of them depend on, such as the digest of the rows: a part of other rows is made again.
    """

    def __init__(self, folder: Path | None = None, of: str = "") -> None:
        self._folder, self._of = folder, f"{__version__} {of}"
        self.seconds = 0.0  # what all parts took, whenever that was

    def get(self, name: str, make: Callable[[], Any], of: str = "") -> Any:
        """A part as JSON has it, made if it is not there. ``of``: what this one depends on beside its name."""
        of = hashlib.sha256(f"{self._of} {of}".encode()).hexdigest()
        path = None if self._folder is None else self._folder / f"{re.sub('[^a-z0-9.]+', '-', name.lower())}.json"
        kept = None if path is None else _kept(path, of)
        if kept is None:
            began = time.perf_counter()
            found = json.loads(json.dumps(make(), allow_nan=False))
            kept = {"part": name, "of": of, "seconds": time.perf_counter() - began, "found": found}
            if path is not None:
                write_text(path, json.dumps(kept) + "\n")
        self.seconds += kept["seconds"]
        return kept["found"]


def _kept(path: Path, of: str) -> dict[str, Any] | None:
    """What is there, unless it is of something else or was damaged."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found if (found["of"], "found" in found, found["seconds"] >= 0) == (of, True, True) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
