"""Where the files of a public data set come from, and how to recognise them whatever way they came.

A file is known by two published hashes: SHA-256 of the .gz as first published, and MD5 of the content for
copies that someone unpacked or compressed again. MD5 is enough for that: forging a second file for a given
MD5 is not feasible, only making two files alike is.
"""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path

from codedfl_lab.datasets.packages import Package

_GZIP_MAGIC = b"\x1f\x8b"


class WrongContentError(Exception):
    """A file that is not the one published; the message says how it differs."""


@dataclass(frozen=True)
class SourceFile:
    """One published file. name: without .gz; size: bytes of the content; hashes in lower-case hex."""

    name: str
    size: int
    sha256_of_gz: str
    md5_of_content: str

    def check(self, path: Path) -> None:
        """Raise WrongContentError unless path holds this file, compressed or not, whatever it is called."""
        with path.open("rb") as stream:
            compressed = stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            stream.seek(0)
            if compressed:
                if hashlib.file_digest(stream, "sha256").hexdigest() == self.sha256_of_gz:
                    return
                stream.seek(0)
                try:
                    # One byte more than the true content shows it is too long; a bomb is never unpacked.
                    content = gzip.GzipFile(fileobj=stream).read(self.size + 1)
                except (OSError, EOFError, zlib.error) as error:
                    raise WrongContentError(f"{path.name} is a damaged gzip file ({error})") from error
            else:
                content = stream.read(self.size + 1)
        if len(content) != self.size:
            held = f"more than {self.size}" if len(content) > self.size else str(len(content))
            raise WrongContentError(f"{path.name} must hold {self.size} bytes of content, got {held}")
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if md5 != self.md5_of_content:
            raise WrongContentError(f"{path.name} must have content of MD5 {self.md5_of_content}, got {md5}")


@dataclass(frozen=True)
class Source:
    """All files of a data set and the ways to them.

    torchvision_folder: its name in torchvision's layout, <root>/<torchvision_folder>/raw/.
    mirror: the address of a folder with the .gz files, ending in a slash.
    package: a package of an ordinary registry that holds the files, None if there is none.
    """

    name: str
    files: tuple[SourceFile, ...]
    torchvision_folder: str
    mirror: str
    package: Package | None
