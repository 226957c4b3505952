"""Which rows of a data set are for training and which for its test."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.task import Task
from codedfl.errors import InvalidInput

Indices = NDArray[np.int64]


def split_rows(y: NDArray[Any], task: Task, test_fraction: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Draw test rows, the same fraction of each class; return (training rows, test rows), each ascending.

    Every class keeps at least one training row, so a class of a single row is never tested.
    For regression the rows are drawn as if of one class.
    """
    if not 0 < test_fraction < 1:
        raise InvalidInput(f"test_fraction must lie strictly between 0 and 1, got {test_fraction}")
    groups = np.unique(y, return_inverse=True)[1] if task == "classification" else np.zeros(len(y), np.int64)
    test = np.zeros(len(y), dtype=bool)
    for group in range(int(groups.max(initial=-1)) + 1):
        members = rng.permutation(np.flatnonzero(groups == group))
        test[members[: min(round(test_fraction * len(members)), len(members) - 1)]] = True
    if not test.any():
        raise InvalidInput(f"test_fraction must leave at least one test row of {len(y)}, got {test_fraction}")
    return np.flatnonzero(~test), np.flatnonzero(test)
