"""A device's rows for inference: the target goes in as one more column of X, so that X'X holds X'X, X'y and y'y."""

from __future__ import annotations

import numpy as np

from codedfl.typing import Floats, Rows


def inference_rows(X: Rows, Y: Floats) -> Floats:
    """The rows whose total of X'X is all that inference needs."""
    return np.hstack((X.astype(np.float64), Y))
