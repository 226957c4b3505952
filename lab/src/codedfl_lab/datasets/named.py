"""A data set that can be asked for by its name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from codedfl.typing import FileProgress
from codedfl_lab.datasets.source import Source
from codedfl_lab.problems.dataset import Dataset


@dataclass(frozen=True)
class NamedDataset:
    """A data set that can be asked for by name; `codedfl_lab.datasets` holds the list.

    load: takes the user's folder (or None), a progress callback (or None) and whether it may download.
    source: the files it needs, None when it needs none.
    archive: in their place the way to one archive, called as ``load``; the archive's path by its name.
    """

    name: str
    description: str
    licence: str
    load: Callable[[Path | None, FileProgress | None, bool], Dataset]
    source: Source | None = None
    archive: Callable[[Path | None, FileProgress | None, bool], dict[str, Path]] | None = None
