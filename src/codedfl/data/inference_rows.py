"""A device's rows for inference: the target goes in as one more column of X, so that X'X holds X'X, X'y and y'y."""

from __future__ import annotations

import numpy as np

from codedfl.typing import Floats, Rows


def inference_rows(X: Rows, Y: Floats) -> tuple[Floats, Floats]:
    """X and Y of the run that inference is made of: the total of X'X is all it needs, so Y is zero."""
    return np.hstack((X.astype(np.float64), Y)), np.zeros((len(X), 1))
