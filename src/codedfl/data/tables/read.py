"""Any table file by its ending, whatever the case: .csv, .tsv, .txt (also .gz), .parquet, .npz."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codedfl.data.tables.table import RawTable
from codedfl.errors import InvalidInput

ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet", ".npz")
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
    table = _reader(ending)(path)
    if not len(table) and not empty:
        raise InvalidInput(f"{path.name} must have at least one row, got none")
    return table


def _reader(ending: str) -> Callable[[Path], RawTable]:
    """What reads such files; the other readers are not loaded."""
    if ending == ".parquet":
        from codedfl.data.tables.parquet_file import read_parquet

        return read_parquet
    if ending == ".npz":
        from codedfl.data.tables.npz_file import read_npz

        return read_npz
    from codedfl.data.tables.csv_file import read_csv

    return read_csv


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
