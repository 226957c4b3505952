"""The user's own data: .npz, .csv or .parquet with a label column and, if wanted, a device column.

A table is columns with names. All columns but the label and the device must hold numbers: turning text into
numbers needs a list of categories that is public, so it is left to the user. An .npz file holds either one
array per column or a matrix X with labels y (and X_test, y_test if it has its own test part).
Nothing is unpickled.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.datasets.dataset import Dataset, Task, as_labels, check_rows, split_rows
from codedfl.data.datasets.npz_file import NpzFile
from codedfl.errors import InvalidInput

# Rows parsed at a time: their text takes far more memory than their numbers.
_CSV_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers X with the names of their columns; y and device as the file has them, None if not asked for."""

    X: NDArray[np.float64]
    columns: tuple[str, ...]
    y: NDArray[Any] | None
    device: NDArray[Any] | None


@dataclass(frozen=True)
class _Wanted:
    """Which columns to read. columns None: all but label and device, in the file's order."""

    label: str | None
    device: str | None
    columns: tuple[str, ...] | None

    def numbers(self, path: Path, available: list[str]) -> list[str]:
        """The names of the columns of X, after checking that everything wanted is there."""
        if len(set(available)) < len(available):
            repeated = next(name for name in available if available.count(name) > 1)
            raise InvalidInput(f"{path.name} must name each column once, got {repeated!r} twice")
        for role, name in (("label", self.label), ("device", self.device)):
            if name is not None and name not in available:
                raise InvalidInput(f"{role} must be a column of {path.name} ({_listed(available)}), got {name!r}")
        if self.columns is None:
            return [name for name in available if name not in (self.label, self.device)]
        missing = [name for name in self.columns if name not in available]
        if missing:
            raise InvalidInput(f"{path.name} must have the column {missing[0]!r}, got {_listed(available)}")
        return list(self.columns)


def load_file(
    path: Path,
    label: str | None = None,
    device: str | None = None,
    task: Task | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> Dataset:
    """Read a data set from a file.

    label: the label column, "label" unless named ("y" in an .npz with a matrix X).
    device: the column that says who holds each row; None if the rows are still to be split.
    task: None decides by the labels, see `as_labels`.
    test_fraction, seed: how many rows to set apart for testing and how to draw them; an .npz with X_test and
        y_test has its own test part, and these are not used.
    """
    test: Table | None = None
    if path.suffix == ".npz" and _has_matrix(path):
        table = _matrix(path, "X", label or "y", device)
        with NpzFile(path) as archive:
            has_test = "X_test" in archive.files
        test = _matrix(path, "X_test", "y_test", None) if has_test else None
    else:
        table = read_table(path, label or "label", device)
    y, task = _labels(path, table, task)
    if test is None:
        train_rows, test_rows = split_rows(y, task, test_fraction, np.random.default_rng(seed))
        X_test, y_test = table.X[test_rows], y[test_rows]
    else:
        train_rows = np.arange(len(y))
        X_test, (y_test, _) = test.X, _labels(path, test, task)
    return Dataset(
        name=path.stem,
        X_train=table.X[train_rows],
        y_train=y[train_rows],
        X_test=X_test,
        y_test=y_test,
        task=task,
        device=None if table.device is None else table.device[train_rows],
        columns=table.columns,
    )


def read_table(
    path: Path, label: str | None = None, device: str | None = None, columns: tuple[str, ...] | None = None
) -> Table:
    """Read a file whole, without splitting it, for prediction as well as for training.

    columns: exactly these, in this order (those a model was trained on); others in the file are left out.
    """
    wanted = _Wanted(label, device, columns)
    if not path.is_file():
        raise InvalidInput(f"data file must exist, got {str(path)!r}")
    if path.suffix == ".csv":
        table = _read_csv(path, wanted)
    elif path.suffix == ".parquet":
        table = _read_parquet(path, wanted)
    elif path.suffix == ".npz":
        table = _read_npz(path, wanted)
    else:
        raise InvalidInput(f"data file must end in .npz, .csv or .parquet, got {path.name!r}")
    check_rows(path.name, table.X)
    return table


def _labels(path: Path, table: Table, task: Task | None) -> tuple[NDArray[Any], Task]:
    assert table.y is not None
    try:
        return as_labels(table.y, task)
    except ValueError as error:
        raise InvalidInput(f"{path.name}: {error}") from error


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _as_numbers(path: Path, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise InvalidInput(
            f"column {name!r} of {path.name} must hold one number per row, "
            f"got {values.ndim} dimension(s) of {values.dtype}"
        )
    return values.astype(np.float64)


def _stack(path: Path, columns: dict[str, NDArray[Any]], names: list[str], wanted: _Wanted) -> Table:
    """Put columns that were read whole side by side."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"all columns of {path.name} must be equally long, got {lengths}")
    X = np.empty((max(lengths.values(), default=0), len(names)))
    for j, name in enumerate(names):
        X[:, j] = _as_numbers(path, name, columns[name])
    return Table(
        X,
        tuple(names),
        None if wanted.label is None else columns[wanted.label],
        None if wanted.device is None else columns[wanted.device],
    )


def _read_csv(path: Path, wanted: _Wanted) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.reader(stream, strict=True, skipinitialspace=True)
            header = [name.strip() for name in next(lines, [])]
            if not header or all(_is_number(name) for name in header):
                raise InvalidInput(f"the first line of {path.name} must name the columns, got {','.join(header)!r}")
            names = wanted.numbers(path, header)
            places = [header.index(name) for name in names]
            blocks = [np.empty((0, len(places)))]
            labels: list[str] = []
            devices: list[str] = []
            for block in _blocks(path, lines, len(header)):
                blocks.append(_parse(path, header, places, block))
                if wanted.label is not None:
                    labels += _texts(path, header, wanted.label, block)
                if wanted.device is not None:
                    devices += _texts(path, header, wanted.device, block)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path.name} must be comma-separated text in UTF-8, got {error}") from error
    return Table(
        np.concatenate(blocks),
        tuple(names),
        None if wanted.label is None else _numbers_or_texts(labels),
        None if wanted.device is None else _numbers_or_texts(devices),
    )


# A data line of a CSV file and its number, for error messages.
_Line = tuple[int, list[str]]


def _blocks(path: Path, lines: Any, width: int) -> Iterator[list[_Line]]:
    def cells() -> Iterator[_Line]:
        for row in lines:
            if not row:  # a blank line, usually the last
                continue
            if len(row) != width:
                raise InvalidInput(f"line {lines.line_num} of {path.name} must have {width} cells, got {len(row)}")
            yield lines.line_num, row

    source = cells()
    while block := list(islice(source, _CSV_BLOCK)):
        yield block


def _parse(path: Path, header: list[str], places: list[int], block: list[_Line]) -> NDArray[np.float64]:
    try:
        return np.array([[row[j] for j in places] for _, row in block], dtype=np.float64)
    except ValueError:
        # Found again cell by cell, slowly, only to say where it is.
        number, name, cell = next(
            (number, header[j], row[j]) for number, row in block for j in places if not _is_number(row[j])
        )
        raise InvalidInput(f"column {name!r} of {path.name} must hold numbers, got {cell!r} in line {number}") from None


def _texts(path: Path, header: list[str], name: str, block: list[_Line]) -> list[str]:
    place = header.index(name)
    texts = [row[place].strip() for _, row in block]
    if "" in texts:
        number = block[texts.index("")][0]
        raise InvalidInput(f"column {name!r} of {path.name} must have no gaps, got one in line {number}")
    return texts


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _numbers_or_texts(cells: list[str]) -> NDArray[Any]:
    for kind in (np.int64, np.float64):
        try:
            return np.array(cells).astype(kind)
        except (ValueError, OverflowError):
            continue
    return np.array(cells)


def _read_parquet(path: Path, wanted: _Wanted) -> Table:
    try:
        # Only users of this format need pyarrow, which is larger than everything else together.
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidInput(f"reading {path.name} needs pyarrow: pip install 'codedfl[parquet]'") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = wanted.numbers(path, list(file.schema_arrow.names))
            extra = [name for name in (wanted.label, wanted.device) if name is not None]
            table = file.read(columns=[*names, *extra])
        columns = {}
        for name in table.column_names:
            column = table.column(name)
            if column.null_count:
                raise InvalidInput(f"column {name!r} of {path.name} must have no gaps, got {column.null_count}")
            if pyarrow.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            values = column.to_numpy()
            is_text = pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type)
            columns[name] = values.astype(np.str_) if is_text else values
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # names and texts are decoded late
        first_line = str(error).partition("\n")[0]
        raise InvalidInput(f"{path.name} must be a Parquet file, got {first_line}") from error
    return _stack(path, columns, names, wanted)


def _has_matrix(path: Path) -> bool:
    if not path.is_file():
        raise InvalidInput(f"data file must exist, got {str(path)!r}")
    with NpzFile(path) as archive:
        return "X" in archive.files


def _matrix(path: Path, matrix: str, label: str | None, device: str | None) -> Table:
    with NpzFile(path) as archive:
        for role, name in (("label", label), ("device", device)):
            if name is not None and name not in archive.files:
                raise InvalidInput(f"{role} must be an array of {path.name} ({_listed(archive.files)}), got {name!r}")
        X = archive.read(matrix)
        check_rows(f"{matrix} of {path.name}", X)
        y = None if label is None else archive.read(label)
        ids = None if device is None else archive.read(device)
    for name, values in ((label, y), (device, ids)):
        if values is not None and values.shape != (len(X),):
            raise InvalidInput(
                f"{name} of {path.name} must hold one value per row ({len(X)}), got shape {values.shape}"
            )
    return Table(X.astype(np.float64), tuple(f"x{j}" for j in range(X.shape[1])), y, ids)


def _read_npz(path: Path, wanted: _Wanted) -> Table:
    if _has_matrix(path):
        table = _matrix(path, "X", wanted.label, wanted.device)
        wanted_columns = table.columns if wanted.columns is None else wanted.columns
        if len(wanted_columns) != len(table.columns):
            raise InvalidInput(f"X of {path.name} must have {len(wanted_columns)} columns, got {len(table.columns)}")
        return table
    with NpzFile(path) as archive:
        names = wanted.numbers(path, archive.files)
        extra = [name for name in (wanted.label, wanted.device) if name is not None]
        columns = {name: archive.read(name) for name in [*names, *extra]}
    return _stack(path, columns, names, wanted)
