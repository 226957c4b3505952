"""The rows of the benchmark of frozen features, and how they are spread over devices."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from codedfl.typing import Integers, Singles

SPLITS: dict[str, float | None] = {"sorted": None, "Dirichlet 0.1": 0.1, "Dirichlet 0.05": 0.05, "Dirichlet 0.01": 0.01}
_HELD_OUT = 0.1


@dataclass(frozen=True, eq=False)
class Embedded:
    """Embeddings on the encoder's grid, and their classes by number.

    classes: what these are called.
    """

    name: str
    classes: tuple[str, ...]
    X: Singles
    y: NDArray[np.int64]
    X_test: Singles
    y_test: NDArray[np.int64]
    low: float
    high: float
    step: float

    @property
    def n_classes(self) -> int:
        """How many there are."""
        return len(self.classes)

    def codes(self, rows: Integers) -> Singles:
        """Whole numbers about the middle of the range, as they are summed."""
        middle = round((self.high - self.low) / self.step) // 2
        found: Singles = np.rint((self.X[rows] - np.float32(self.low)) / np.float32(self.step)) - np.float32(middle)
        return found

    @cached_property
    def digest(self) -> str:
        """Of every number and class: what was computed of other rows is of other rows."""
        found = hashlib.sha256(repr((self.classes, self.low, self.high, self.step)).encode())
        for one in (self.X, self.y, self.X_test, self.y_test):
            found.update(np.ascontiguousarray(one).tobytes())
        return found.hexdigest()


def split_rows(y: NDArray[np.int64], split: str, devices: int, seed: int) -> list[Integers]:
    """Rows of each device that has any. A draw may leave devices without: they help with keys alone."""
    concentration = SPLITS[split]
    if concentration is None:
        return list(np.array_split(np.argsort(y, kind="stable"), devices))
    rng = np.random.default_rng([seed, devices, round(1000 * concentration)])
    pieces: list[list[Integers]] = [[] for _ in range(devices)]
    for one in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == one))
        shares = rng.dirichlet(np.full(devices, concentration))
        cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
        for place, piece in enumerate(np.split(rows, cuts)):
            pieces[place].append(piece)
    return [rows for rows in map(np.concatenate, pieces) if len(rows)]


def held_out_rows(n: int, seed: int) -> tuple[Integers, Integers]:
    """Rows to train on and rows to choose by, the same for every method and split."""
    order = np.random.default_rng([seed, n]).permutation(n)
    cut = round(_HELD_OUT * n)
    return np.sort(order[cut:]), np.sort(order[:cut])
