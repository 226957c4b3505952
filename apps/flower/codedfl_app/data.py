"""Where a node's rows come from, and what the server scores models on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from codedfl.data import datasets
from codedfl.data.model import TrainedModel
from codedfl.data.partition import partition
from codedfl.engine.learning import setting
from codedfl.errors import InvalidInput

FILES = "files"
ENDINGS = (".npz", ".csv", ".parquet")


def load_local_data(context: Context) -> tuple[NDArray[Any], NDArray[Any]]:
    """The node's part of a named data set, or all files in its folder."""
    if context.run_config["data"] == FILES:
        names = setting(context.run_config, "column-names", str, "")
        columns = tuple(name.strip() for name in names.split(",")) if names else None
        folder = Path(setting(context.node_config, "data-dir", str, ""))
        return load_folder(folder, str(context.run_config["label"]), columns)
    data = datasets.load(str(context.run_config["data"]), use_network=False)
    rng = np.random.default_rng(int(context.run_config["partition-seed"]))
    number, count = (setting(context.node_config, key, int) for key in ("partition-id", "num-partitions"))
    rows = partition(str(context.run_config["partition"]), data.y_train, count, rng)[number]
    return data.X_train[rows], data.y_train[rows]


def load_folder(folder: Path, label: str, columns: tuple[str, ...] | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows of all data files of a folder, one after the other.

    columns: their columns, in this order; None takes those of the first file, in its order.
    """
    files = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS) if folder.is_dir() else []
    if not files:
        raise InvalidInput(f"data-dir must be a folder with {', '.join(ENDINGS)} files, got {str(folder)!r}")
    first = datasets.read_table(files[0], label, columns=columns)
    tables = [first, *(datasets.read_table(path, label, columns=first.columns) for path in files[1:])]
    X, y = (np.concatenate(parts) for parts in zip(*((table.X, table.y) for table in tables), strict=True))
    return X, y


def make_score(context: Context) -> Callable[[TrainedModel], float] | None:
    """Accuracy (or R^2) on the test rows of a named data set; the server has none of the nodes' files."""
    if context.run_config["data"] == FILES:
        return None
    data = datasets.load(str(context.run_config["data"]), use_network=False)
    return lambda model: model.score(data.X_test, data.y_test)
