"""Text tables with any common separator, as spreadsheets and statistics programs write them.

By Python's own reader: a device then needs nothing heavy to read its rows, and messages can say what is wrong where.
The separator is the one that the first line has most of. A column is numbers if every cell is one or empty; with the
separator ";" a decimal comma counts too, and what may be thousands then is refused: 1.971 may be two numbers. Text is
UTF-8, or UTF-16 with its mark; other alphabets are refused, since the same bytes are other letters in each.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from codedfl.data.tables.table import FALSE, TRUE, RawTable
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows

SEPARATORS = (",", ";", "\t", "|")
# How programs write that there is no value.
GAPS = frozenset(("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "?", "."))
_NAN = dict.fromkeys(GAPS, "nan")

# Rows parsed at a time: their text takes far more memory than their numbers.
BLOCK = 4096
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")
MOST_INFLATION = 200  # a table that gzip packs more tightly is no table of data


def read_csv(path: Path) -> RawTable:
    """A table of separated text, plain or compressed; the separator is found, and columns of numbers are numbers."""
    try:
        names, blocks = _read(path, as_text=())
        parts_of = zip(*blocks, strict=True) if blocks else [()] * len(names)
        mixed = {name for name, parts in zip(names, parts_of, strict=True) if _is_mixed(parts)}
        if mixed:  # numbers in one block and text in another: once more, for the text of the numbers
            names, blocks = _read(path, as_text=mixed)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path.name} must be text in UTF-8, {_undecodable(path)}") from error
    except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path.name} must be separated text in UTF-8, got {error}") from error
    if not blocks:
        return RawTable(path.name, {name: np.empty(0) for name in names})
    columns = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return RawTable(path.name, {name: _truth(values) for name, values in zip(names, columns, strict=True)})


def _read(path: Path, as_text: Collection[str]) -> tuple[list[str], list[list[Rows]]]:
    with _opened(path) as stream:
        first = stream.readline()
        separator = max(SEPARATORS, key=first.count)  # in a draw the first, which is the comma
        stream.seek(0)
        lines = csv.reader(stream, delimiter=separator, strict=True, skipinitialspace=separator != "\t")
        names = _header(path, next(lines, []))
        blocks: list[list[Rows]] = []
        marks = _DecimalMarks()
        for rows in _blocks(path, lines, len(names)):
            cells = list(zip(*rows, strict=True))
            if separator == ";":
                marks.see(names, cells, BLOCK * len(blocks))
            blocks.append([_column(one, name in as_text, separator) for name, one in zip(names, cells, strict=True)])
    marks.check(path)
    return names, blocks


class _DecimalMarks:
    """Which mark the numbers of each column have; 1.971 has a point for thousands where others have a decimal comma."""

    def __init__(self) -> None:
        self.commas: set[str] = set()
        self.points: set[str] = set()
        self.thousands: dict[str, tuple[str, int]] = {}

    def see(self, names: list[str], cells: list[tuple[str, ...]], before: int) -> None:
        """Cells of each column; ``before``: rows that were seen already."""
        for name, column in zip(names, cells, strict=True):
            for row, cell in enumerate(column, before + 1):
                if "." in cell and _THOUSANDS.fullmatch(cell.strip()):
                    self.thousands.setdefault(name, (cell.strip(), row))
                elif "." in cell and _is_number(cell):
                    self.points.add(name)
                elif "," in cell and _is_number(cell.replace(",", ".")):
                    self.commas.add(name)

    def check(self, path: Path) -> None:
        """Refuse a cell that is one number with a decimal point, and another with a point for thousands."""
        for name, (cell, row) in self.thousands.items():
            if name in self.commas or (self.commas and name not in self.points):
                raise InvalidInput(
                    f"column {name!r} of {path.name} must have no points for thousands beside decimal commas, got"
                    f" {cell!r} in row {row}: write {cell.replace('.', '')} or {cell.replace('.', ',')}, as it is meant"
                )


def _opened(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        with gzip.open(path, "rb") as packed:
            most = MOST_INFLATION * path.stat().st_size
            content = packed.read(most + 1)
        if len(content) > most:
            raise InvalidInput(
                f"{path.name} must unpack to at most {MOST_INFLATION} times its size, got more: unpack it first"
            )
        return io.TextIOWrapper(io.BytesIO(content), encoding=_encoding(content[:2]), newline="")
    with path.open("rb") as raw:
        encoding = _encoding(raw.read(2))
    return path.open(newline="", encoding=encoding)


def _encoding(start: bytes) -> str:
    """UTF-16 begins with a mark of its own."""
    return "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def _undecodable(path: Path) -> str:
    """The first byte that is no UTF-8, and where it is."""
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with opener(path, "rb") as raw:
        for number, line in enumerate(raw, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start]
                return f"got the byte 0x{byte:02x} in line {number}, as Windows' cp1252 has: save it as CSV UTF-8"
    return "got half a letter of UTF-16: save it as CSV UTF-8"


def _header(path: Path, cells: list[str]) -> list[str]:
    names = [name.strip() for name in cells]
    if not any(names) or all(_is_number(name) for name in names):
        raise InvalidInput(f"the first line of {path.name} must name the columns, got {','.join(names)!r}")
    names = [name or f"unnamed {number}" for number, name in enumerate(names, 1)]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(f"{path.name} must name each column once, got {repeated!r} twice")
    return names


def _blocks(path: Path, lines: Iterator[list[str]], width: int) -> Iterator[list[list[str]]]:
    def cells() -> Iterator[list[str]]:
        for row in lines:
            if not row:  # a blank line, usually the last
                continue
            if len(row) != width:
                number = lines.line_num  # type: ignore[attr-defined]  # csv's reader counts lines
                raise InvalidInput(f"line {number} of {path.name} must have {width} cells, got {len(row)}")
            yield row

    source = cells()
    while block := list(islice(source, BLOCK)):
        yield block


def _column(cells: tuple[str, ...], as_text: bool, separator: str) -> Rows:
    if not as_text:
        numbers = _numbers(cells)
        if numbers is None and separator == ";":
            numbers = _numbers([cell.replace(",", ".") for cell in cells])
        if numbers is not None:
            return numbers
    texts = [cell.strip() for cell in cells]
    if separator == ";":  # a column of numbers in which a cell is none, such as "<5"
        texts = [text.replace(",", ".") if _is_number(text.replace(",", ".")) else text for text in texts]
    return np.array(["" if text in GAPS else text for text in texts], dtype=np.str_)


def _numbers(cells: list[str] | tuple[str, ...]) -> Floats | None:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        pass
    try:  # missing values are text to numpy
        return np.array([_NAN.get(cell.strip(), cell) for cell in cells], dtype=np.float64)
    except ValueError:
        return None


def _is_mixed(parts: tuple[Rows, ...]) -> bool:
    """Numbers in one block, text in another; a block with every value missing fits both, and is read as numbers."""
    return len({part.dtype.kind for part in parts}) > 1


def _truth(values: Rows) -> Rows:
    """Truth values in lower case, however the program wrote them."""
    if values.dtype.kind != "U":
        return values
    lower = np.char.lower(values)
    return lower if np.isin(lower, (FALSE, TRUE, "")).all() and (lower != "").any() else values


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
