"""Tables from .npz archives that may come from anywhere: no pickles, no room made for more than the file can hold.

numpy allocates an array from the shape that its header claims before it reads a byte of it. So what is claimed is held
against the archive's directory first, and the directory against the size of the file.
"""

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from codedfl.data.tables.table import RawTable, plain_column
from codedfl.errors import InvalidInput

MOST_INFLATION = 1032  # how many bytes deflate can make of one
# What zipfile and numpy raise on damaged archives; numpy parses headers with Python's tokenizer.
_DAMAGE = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, OverflowError, NotImplementedError, RuntimeError),
    *(SyntaxError, tokenize.TokenError, struct.error, zipfile.BadZipFile, zlib.error),
)


class NpzFile:
    """An open archive; ``files`` are the names of its arrays. To be used in a ``with`` statement."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            if stream.read(6) == np.lib.format.MAGIC_PREFIX:
                raise InvalidInput(f"{path.name} must be an .npz archive, got a single array")
        try:
            self._zip = zipfile.ZipFile(path)
        except _DAMAGE as error:
            raise InvalidInput(f"{path.name} must be a readable .npz file, got {_one_line(error)}") from error
        self._path = path
        self.files = [name.removesuffix(".npy") for name in self._zip.namelist()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def read(self, name: str) -> NDArray[Any]:
        try:
            entry = self._zip.getinfo(f"{name}.npy")
            with self._zip.open(entry) as stream:
                self._check_claim(name, entry, *_claim(stream))
            with self._zip.open(entry) as stream:
                array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        except InvalidInput:
            raise
        except _DAMAGE as error:
            where = f"array {name!r} of {self._path.name}"
            raise InvalidInput(f"{where} must be readable, got {_one_line(error)}") from error
        return array

    def _check_claim(self, name: str, entry: zipfile.ZipInfo, claimed: int, holds_objects: bool) -> None:
        if holds_objects:
            raise InvalidInput(
                f"array {name!r} of {self._path.name} must hold plain numbers or text, got objects:"
                " save it as text, by astype(str)"
            )
        stored = entry.compress_type == zipfile.ZIP_STORED
        possible = min(entry.file_size, self._path.stat().st_size * (1 if stored else MOST_INFLATION))
        if claimed > possible:
            raise InvalidInput(
                f"array {name!r} of {self._path.name} must be whole, got {possible} bytes at most for the {claimed}"
                " that its shape needs"
            )


def read_npz(path: Path) -> RawTable:
    """One array per column, or a matrix X (columns x0, x1, ...) with one-dimensional arrays such as y beside it.

    A test part of its own (X_test, y_test) is left alone.
    """
    with NpzFile(path) as archive:
        if "X" not in archive.files:
            columns = {name: archive.read(name) for name in archive.files}
            for name, values in columns.items():
                if values.ndim > 1:
                    raise InvalidInput(
                        f"{name} of {path.name} must hold one value per row, got shape {values.shape}: save a matrix as"
                        " X with labels y beside it" + f", here X={name}.reshape({len(values)}, -1)" * (values.ndim > 2)
                    )
            return RawTable(path.name, {name: plain_column(path.name, name, one) for name, one in columns.items()})
        return matrix_table(path, archive, "X", [name for name in archive.files if name not in ("X", *TEST_PART)])


ENCODER = "encoder"  # codedfl site encode says here by which digest it made X
TEST_PART = ("X_test", "y_test")


def matrix_table(path: Path, archive: NpzFile, matrix: str, beside: list[str]) -> RawTable:
    """One matrix of the archive as columns x0, x1, ..., and the vectors of the same length beside it."""
    X = archive.read(matrix)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        flat = f": save pictures as {matrix}.reshape({len(X)}, -1)" if X.ndim > 2 else ""
        raise InvalidInput(
            f"{matrix} of {path.name} must be a matrix of numbers, got {X.ndim} dimension(s) of {X.dtype}{flat}"
        )
    columns: dict[str, NDArray[Any]] = {f"x{j}": X[:, j].astype(np.float64) for j in range(X.shape[1])}
    encoder = ""
    for name in beside:
        values = archive.read(name)
        if name == ENCODER and values.ndim == 0 and values.dtype.kind == "U":
            encoder = str(values)
        if values.ndim != 1:  # something else that somebody keeps there
            continue
        if len(values) != len(X):
            raise InvalidInput(
                f"{name} of {path.name} must hold one value per row ({len(X)}), got shape {values.shape}"
            )
        columns[name] = plain_column(path.name, name, values)
    return RawTable(path.name, columns, positional=True, encoder=encoder)


def _claim(stream: Any) -> tuple[int, bool]:
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
