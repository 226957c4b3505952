"""Parquet files, by pyarrow; only users of this format need it, and it is larger than everything else together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from codedfl.data.tables.table import RawTable, plain_column
from codedfl.errors import InvalidInput
from codedfl.typing import Rows


def read_parquet(path: Path) -> RawTable:
    """A table from a Parquet file; needs the extra ``parquet``."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InvalidInput(f"reading {path.name} needs pyarrow: pip install 'codedfl[parquet]'") from error
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            table = file.read()
        names = [str(name) for name in table.column_names]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(f"{path.name} must name each column once, got {repeated!r} twice")
        columns = {name: _column(path.name, name, table.column(name)) for name in names}
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:  # names and texts are decoded late
        first_line = str(error).partition("\n")[0]
        raise InvalidInput(f"{path.name} must be a Parquet file, got {first_line}") from error
    return RawTable(path.name, columns)


def _column(table: str, name: str, column: Any) -> Rows:
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_temporal(column.type):
        column = column.cast(pyarrow.string())
    if pyarrow.types.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    if pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type):
        return np.asarray(column.to_numpy(), dtype=np.float64)  # missing values become NaN
    if pyarrow.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if pyarrow.types.is_nested(column.type):
        raise InvalidInput(f"column {name!r} of {table} must hold numbers or text, got {column.type}")
    return plain_column(table, name, np.array(column.to_pylist(), dtype=object))
