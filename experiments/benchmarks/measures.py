"""What benchmarks are told by: concordance, and intervals of scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd

from codedfl.typing import Floats, Integers

_STUDENT_4 = 2.776445  # of 95 %, with five seeds
FEWEST_PAIRS = "the concordance needs two rows that can be compared"


class Score(NamedTuple):
    """A score with its interval of 95 %."""

    value: float
    low: float
    high: float

    def text(self) -> str:
        """Three digits."""
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def concordance(time: Floats, event: Floats, risk: Floats) -> float:
    """Of pairs of which it is known who had the event first, the share in which that row has the higher risk.

    Equal risks count half, as in lifelines, which FLamby takes.

    >>> concordance(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0]), np.array([2.0, 0.0, 1.0]))
    0.6666666666666666
    """
    won = pairs = 0.0
    for row in np.flatnonzero(event == 1):
        later = (time > time[row]) | ((time == time[row]) & (event == 0))
        pairs += later.sum()
        won += (risk[row] > risk[later]).sum() + 0.5 * (risk[row] == risk[later]).sum()
    return float(won / pairs) if pairs else float("nan")


def resampled(rows: int, score: Callable[[Integers], float], times: int = 1000) -> Score:
    """A score of test rows, with the percentiles of scores of rows drawn again."""
    rng = np.random.default_rng(0)
    drawn = [score(rng.integers(0, rows, rows)) for _ in range(times)]
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return Score(score(np.arange(rows)), float(low), float(high))


def over_seeds(found: pd.DataFrame, method: str) -> Score:
    """FLamby's score of the pooled test rows, over its five seeds."""
    scores = found[(found["Method"] == method) & (found["Test"] == "Pooled Test")]["Metric"]
    reach = _STUDENT_4 * float(scores.std(ddof=1)) / len(scores) ** 0.5
    return Score(float(scores.mean()), float(scores.mean()) - reach, float(scores.mean()) + reach)
