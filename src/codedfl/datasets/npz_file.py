"""Arrays from .npz archives that may come from anywhere: no pickles, and no room made for more than the file can hold.

numpy allocates an array from the shape that its header claims before it reads a byte of it. So what is claimed is held
against the archive's directory first, and the directory against the size of the file.
"""

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput

MOST_INFLATION = 1032  # how many bytes deflate can make of one
# What zipfile and numpy raise on damaged archives; numpy parses headers with Python's tokenizer.
_DAMAGE = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, OverflowError, NotImplementedError, RuntimeError),
    *(SyntaxError, tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error),
)


def open_npz(path: Path) -> Any:
    try:
        archive = np.load(path, allow_pickle=False)
    except _DAMAGE as error:
        raise InvalidInput(f"{path.name} must be a readable .npz file, got {_one_line(error)}") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise InvalidInput(f"{path.name} must be an .npz archive, got a single array")
    return archive


def read_array(path: Path, archive: Any, name: str) -> NDArray[Any]:
    """One array of an open archive."""
    try:
        entry = archive.zip.getinfo(f"{name}.npy")
        stored = entry.compress_type == zipfile.ZIP_STORED
        possible = path.stat().st_size * (1 if stored else MOST_INFLATION)
        with archive.zip.open(entry) as stream:
            claimed, holds_objects = _claimed_bytes(stream)
    except _DAMAGE as error:
        raise InvalidInput(f"array {name!r} of {path.name} must be readable, got {_one_line(error)}") from error
    if holds_objects:
        raise InvalidInput(f"array {name!r} of {path.name} must hold plain numbers or text, got objects")
    if claimed > min(entry.file_size, possible):
        raise InvalidInput(
            f"array {name!r} of {path.name} must be whole, got {min(entry.file_size, possible)} bytes at most for the"
            f" {claimed} that its shape needs"
        )
    try:
        array: NDArray[Any] = archive[name]
    except _DAMAGE as error:
        raise InvalidInput(f"array {name!r} of {path.name} must be readable, got {_one_line(error)}") from error
    return array


def _claimed_bytes(stream: Any) -> tuple[int, bool]:
    """What the header says: bytes of data, and whether they are pickled objects."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if any(size < 0 for size in shape):
        raise ValueError(f"a negative size in the shape {shape}")
    claimed = dtype.itemsize
    for size in shape:  # Python integers: numpy's would wrap around
        claimed *= int(size)
    return claimed, dtype.hasobject


def _one_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
