"""Any table file by its ending, whatever the case: .csv, .tsv, .txt (also .gz), .parquet, .npz."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from codedfl.data.tables.table import RawTable
from codedfl.errors import InvalidInput

# Ending -> what reads it, in a module of its own that is loaded for the first such file.
_READERS = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"), "csv"),
    ".parquet": "parquet",
    ".npz": "npz",
}
ENDINGS = tuple(_READERS)
_SHEETS = (".xlsx", ".xls", ".xlsm", ".ods")


def read_file(path: Path, empty: bool = False) -> RawTable:
    """The whole table of a file; one that has a header and no rows is refused unless it may be ``empty``."""
    ending = next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)
    if ending is None:
        sheet = ": save its sheet as CSV UTF-8" if path.suffix.lower() in _SHEETS else ""
        raise InvalidInput(
            f"data file must end in .csv, .csv.gz, .tsv, .txt, .parquet or .npz, got {path.name!r}{sheet}"
        )
    if not path.is_file():
        raise InvalidInput(f"data file must exist, got {str(path)!r}")
    kind = _READERS[ending]
    table: RawTable = getattr(import_module(f"codedfl.data.tables.{kind}_file"), f"read_{kind}")(path)
    if not len(table) and not empty:
        raise InvalidInput(f"{path.name} must have at least one row, got none")
    return table


def table_files(folder: Path) -> dict[str, Path]:
    """The table files of a folder, one per device, by their names without the ending."""
    files = sorted(path for path in folder.iterdir() if path.name.lower().endswith(ENDINGS)) if folder.is_dir() else []
    if not files:
        raise InvalidInput(f"tables must be a folder of table files, one per device, got {str(folder)!r}")
    found = {path.name.partition(".")[0]: path for path in files}
    if len(found) < len(files):
        raise InvalidInput(f"tables must have one file per device, got several of one name in {str(folder)!r}")
    return found


def no_tables(folder: Path) -> list[str]:
    """Names of what else is in a folder of tables, and not read; hidden files are nobody's tables."""
    others = (path.name for path in folder.iterdir() if not path.name.lower().endswith(ENDINGS))
    return sorted(name for name in others if not name.startswith("."))
