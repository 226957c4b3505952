"""Refuse what is not a number, a vector or a matrix as it must be, naming the argument and the first bad cell.

NaN and infinity have no place in a ring (paper II-A); they are caught where data come in.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput


def check_matrix(argument: str, X: NDArray[Any], n_columns: int | None = None) -> None:
    """n_columns: None accepts any number. No rows are no error here: one may predict for none."""
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InvalidInput(f"{argument} must be a matrix of numbers, got {X.ndim} dimension(s) of {X.dtype}")
    if n_columns is not None and X.shape[1] != n_columns:
        raise InvalidInput(f"{argument} must have {n_columns} columns, got {X.shape[1]}")
    finite = np.isfinite(X)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InvalidInput(f"{argument} must be finite, got {X[row, column]} in row {row}, column {column}")


def check_vector(argument: str, y: NDArray[Any]) -> None:
    """Refuse what is not a vector of finite numbers."""
    if y.ndim != 1 or y.dtype.kind not in "biuf":
        raise InvalidInput(f"{argument} must be a vector of numbers, got {y.ndim} dimension(s) of {y.dtype}")
    finite = np.isfinite(y)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise InvalidInput(f"{argument} must be finite, got {y[row]} in row {row}")


def check_at_least(lowest: float, **values: float | None) -> None:
    """Refuse arguments below ``lowest``; None is not said, and passes."""
    for name, value in values.items():
        if value is not None and value < lowest:
            raise InvalidInput(f"{name} must be at least {lowest}, got {value}")


def check_positive(**values: float) -> None:
    """Refuse arguments that are not finite and above 0."""
    for name, value in values.items():
        if not 0 < value < np.inf:
            raise InvalidInput(f"{name} must be a positive number, got {value}")
