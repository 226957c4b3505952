"""How good predictions are: one number for each task."""

from __future__ import annotations

import numpy as np

from codedfl.typing import Rows


def score_of(predicted: Rows, truth: Rows, task: str) -> float:
    """Accuracy, or R^2 = 1 - (squared error)/(variance) for regression; 0 where the truth is constant."""
    if task == "classification":
        return float(np.mean(predicted == truth))
    spread = float(np.sum((truth - truth.mean()) ** 2))
    return 1.0 - float(np.sum((truth - predicted) ** 2)) / spread if spread > 0 else 0.0
