"""A table in memory: named columns, each of numbers or of text, in which values may be missing.

A missing number is NaN, a missing text is "". Numbers are float64, truth values the texts "false" and "true", dates are
text. Which of them a model uses, and how, is ``codedfl.data.columns``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Rows

FALSE, TRUE = "false", "true"


@dataclass(frozen=True, eq=False, repr=False)
class RawTable:
    """Columns by name, all equally long.

    name: what to call the table in messages, such as the name of its file.
    positional: the columns had no names of their own (a matrix): they are taken in order, whatever names are asked for.
    encoder: the digest of the encoder whose embeddings the columns are; "" if they are none.
    """

    name: str
    columns: dict[str, Rows]
    positional: bool = False
    encoder: str = ""

    def __post_init__(self) -> None:
        lengths = {name: len(values) for name, values in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(f"all columns of {self.name} must be equally long, got {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __repr__(self) -> str:
        return f"<RawTable {self.name}: {len(self)} rows, {len(self.columns)} columns>"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def listed(self) -> str:
        """The names of the columns, for messages; not all of very many."""
        shown = ", ".join(repr(name) for name in self.names[:10])
        return shown + (f" and {len(self.names) - 10} more" if len(self.names) > 10 else "")

    def column(self, name: str, role: str | None = None) -> Rows:
        """The values of a column; ``role`` is what the user calls it, where that is not its name."""
        if name not in self.columns:
            if role is None:
                raise InvalidInput(f"{self.name} must have the column {name!r}, got {self.listed()}")
            raise InvalidInput(f"{role} must be a column of {self.name} ({self.listed()}), got {name!r}")
        return self.columns[name]

    def without(self, names: Iterable[str]) -> RawTable:
        left_out = set(names)
        kept = {name: values for name, values in self.columns.items() if name not in left_out}
        return RawTable(self.name, kept, self.positional, self.encoder)

    def rows(self, chosen: NDArray[Any]) -> RawTable:
        """Some rows, by their numbers or by a mask."""
        columns = {name: values[chosen] for name, values in self.columns.items()}
        return RawTable(self.name, columns, self.positional, self.encoder)


def is_table(data: object) -> bool:
    """Whether ``as_raw_table`` takes it: columns with names, not a plain matrix."""
    return isinstance(data, RawTable | Mapping) or hasattr(data, "columns")


def as_raw_table(data: Any, name: str = "the table") -> RawTable:
    """A mapping from names to columns, or a data frame (of pandas, polars and others), as a table."""
    if isinstance(data, RawTable):
        return data
    return RawTable(name, {str(column): plain_column(name, str(column), data[column]) for column in _names(data)})


def _names(data: Any) -> list[Any]:
    names = list(data) if isinstance(data, Mapping) else list(data.columns)
    repeated = {str(name) for name in names if [str(one) for one in names].count(str(name)) > 1}
    if repeated:
        raise InvalidInput(f"a table must name each column once, got {min(repeated)!r} twice")
    return names


def plain_column(table: str, name: str, values: Any) -> Rows:
    """Values of any type as a table holds them: float64 with NaN, or text with ""."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(
            f"column {name!r} of {table} must hold one value per row, got {array.ndim} dimension(s) of {array.dtype}"
        )
    if array.dtype.kind == "b":
        return np.where(array, TRUE, FALSE)
    if array.dtype.kind in "iuf":
        return array.astype(np.float64)
    if array.dtype.kind in "UM":
        return np.where(array == array, array.astype(np.str_), "") if array.dtype.kind == "M" else array
    if array.dtype.kind in "OT":
        return _of_objects(table, name, array.tolist())
    raise InvalidInput(f"column {name!r} of {table} must hold numbers or text, got {array.dtype}")


def _of_objects(table: str, name: str, values: list[Any]) -> Rows:
    gap = [value is None or value != value or type(value).__name__ in ("NAType", "NaTType") for value in values]
    kinds = {type(value) for value, missing in zip(values, gap, strict=True) if not missing}
    if all(issubclass(kind, bool | np.bool_) for kind in kinds) and kinds:
        return np.array(["" if missing else str(bool(v)).lower() for v, missing in zip(values, gap, strict=True)])
    if all(issubclass(kind, int | float | np.number) for kind in kinds):
        return np.array([np.nan if missing else float(v) for v, missing in zip(values, gap, strict=True)])
    odd = [kind.__name__ for kind in kinds if issubclass(kind, bytes | list | dict | set | tuple)]
    if odd:
        raise InvalidInput(f"column {name!r} of {table} must hold numbers or text, got {odd[0]}")
    return np.array(["" if missing else str(v) for v, missing in zip(values, gap, strict=True)], dtype=np.str_)
