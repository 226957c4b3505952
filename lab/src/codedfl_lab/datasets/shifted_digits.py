"""The digits of scikit-learn, each also shifted by one pixel in every direction: 16 173 rows without a download.

Nine times the rows of ``digits``, so that a device of 25 has hundreds of them, as in the paper's experiment (section
V): the embedded problem in which coding pays. Test rows are shifts of test images only, never of training images.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from codedfl.typing import FileProgress, Floats
from codedfl_lab.datasets.digits import DIGITS
from codedfl_lab.datasets.named import NamedDataset
from codedfl_lab.problems.dataset import Dataset

NAME = "digits-shifted"
SIDE = 8
SHIFTS = tuple(product((-1, 0, 1), repeat=2))


def shifted(images: Floats, down: int, right: int) -> Floats:
    """Rows of SIDE x SIDE pixels moved by that many; what comes in is 0, what leaves is lost."""
    padded = np.pad(images.reshape(-1, SIDE, SIDE), ((0, 0), (1, 1), (1, 1)))
    moved = padded[:, 1 - down : 1 - down + SIDE, 1 - right : 1 - right + SIDE]
    return np.ascontiguousarray(moved).reshape(-1, SIDE * SIDE)


def _load(data_dir: Path | None, progress: FileProgress | None, use_network: bool) -> Dataset:
    digits = DIGITS.load(data_dir, progress, use_network)
    X_train, X_test = (
        np.concatenate([shifted(np.asarray(X, dtype=np.float64), *shift) for shift in SHIFTS])
        for X in (digits.X_train, digits.X_test)
    )
    return replace(
        digits,
        name=NAME,
        X_train=X_train,
        y_train=np.tile(digits.y_train, len(SHIFTS)),
        X_test=X_test,
        y_test=np.tile(digits.y_test, len(SHIFTS)),
    )


SHIFTED_DIGITS = NamedDataset(
    name=NAME,
    description="the same digits, each also shifted by one pixel in every direction: 16 173 images",
    licence=DIGITS.licence,
    load=_load,
)
