"""Data sets that come as one archive, from any of several places, each known by its SHA-256.

Looked for in the folder that the user names, in the one of CODEDFL_DATA, and in the cache of an earlier fetch, below
the data set's name or not. Only an archive with an address of its own is fetched; of the others the command is said.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codedfl.errors import DataUnavailable, InvalidInput
from codedfl.files import cache_folder, write_whole
from codedfl.typing import FileProgress
from codedfl_lab.datasets.fetch import ENVIRONMENT_VARIABLE, TIMEOUT_S

_BLOCK = 1 << 20


@dataclass(frozen=True)
class Archive:
    """One file to look for.

    how: the command that gets it, or its address.
    """

    name: str
    sha256: str
    size: int
    how: str

    @property
    def fetched(self) -> bool:
        """Whether it is fetched from an address."""
        return self.how.startswith("https://")


def find_archive(
    dataset: str,
    archives: tuple[Archive, ...],
    data_dir: Path | None = None,
    progress: FileProgress | None = None,
    use_network: bool = True,
) -> tuple[Archive, Path]:
    """The first that is here, its hash checked; or one that is fetched."""
    tried = []
    for folder in _folders(dataset, data_dir):
        for one in archives:
            path = folder / one.name
            if path.is_file() and _hash(path) == one.sha256:
                return one, path
        tried.append((str(folder), "no archive of a known hash"))
    for one in archives:
        if one.fetched and use_network:
            try:
                return one, _fetch(one, cache_folder() / dataset / one.name, progress)
            except (OSError, InvalidInput) as error:
                tried.append((one.how, str(error)))
    lines = [f"data set {dataset} is not available here"]
    lines += [f"  {place}: {why}" for place, why in tried]
    ways = "; or ".join(f"{one.name} ({one.size / 1e6:.0f} MB, SHA-256 {one.sha256}) by {one.how}" for one in archives)
    lines.append(f"  What helps: get {ways}; put it into a folder and name that by {ENVIRONMENT_VARIABLE}")
    raise DataUnavailable("\n".join(lines), tried)


def _folders(dataset: str, data_dir: Path | None) -> Iterator[Path]:
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    for folder in (data_dir, Path(named) if named else None, cache_folder()):
        if folder is not None:
            yield from (folder / dataset, folder)


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _fetch(archive: Archive, target: Path, progress: FileProgress | None) -> Path:
    request = urllib.request.Request(archive.how, headers={"User-Agent": "codedfl"})

    def write(part: Path) -> None:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response, part.open("wb") as stream:
            while (block := response.read(_BLOCK)) and stream.tell() <= archive.size:
                stream.write(block)
                if progress is not None:
                    progress(archive.name, stream.tell(), archive.size)
        if _hash(part) != archive.sha256:
            raise InvalidInput(f"{archive.name} must have the SHA-256 {archive.sha256}, got another")

    write_whole(target, write)
    return target


def members(path: Path, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """Some files of a tar archive, by the end of their names."""
    found: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for entry in archive:
            name = next((one for one in wanted if entry.name.endswith(one)), None)
            stream = archive.extractfile(entry) if name is not None else None
            if name is not None and stream is not None:
                found[name] = stream.read()
    if missing := sorted(set(wanted) - set(found)):
        raise InvalidInput(f"{path.name} must hold {', '.join(wanted)}, got none of {missing[0]}")
    return found
