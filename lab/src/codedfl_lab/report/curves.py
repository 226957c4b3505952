"""Rows of traces.csv as curves: accuracy against training time, the median over seeds and its spread.

The seeds of a scheme share one time axis (``comparison`` draws latencies apart from models), so the median is taken
epoch by epoch. A seed stops a little after it has reached the last target; from then on it counts as it ended, or the
slow seeds alone would make up the rest of the curve. The curve ends where half of the seeds have stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from codedfl.typing import Floats
from codedfl_lab.comparing.names import full_name
from codedfl_lab.comparing.results import TraceRow


@dataclass(frozen=True, eq=False)
class Curve:
    """One scheme by its ``full_name``; ``low`` and ``high`` are the least and the greatest score over the seeds."""

    name: str
    seconds: Floats
    median: Floats
    low: Floats
    high: Floats

    def reaches(self, target: float) -> float:
        """Seconds at which the median curve first meets the target; infinity if it never does."""
        met = np.flatnonzero(self.median >= target)
        return float(self.seconds[met[0]]) if len(met) else float("inf")


def curves_of(traces: Iterable[TraceRow], dataset: str, step: str) -> list[Curve]:
    """The curves of one data set and one step, in the order of the traces."""
    points: dict[str, dict[int, dict[int, tuple[float, float]]]] = {}
    for row in traces:
        if row.dataset == dataset and row.step == step:
            of_seed = points.setdefault(full_name(row), defaultdict(dict))
            of_seed[row.seed][row.epoch] = (row.seconds, row.accuracy)
    return [_curve(name, of_seed) for name, of_seed in points.items()]


def _curve(name: str, of_seed: Mapping[int, Mapping[int, tuple[float, float]]]) -> Curve:
    last = float(np.median([max(epochs) for epochs in of_seed.values()]))
    seconds = {epoch: at[0] for epochs in of_seed.values() for epoch, at in epochs.items()}
    grid = np.array(sorted(epoch for epoch in seconds if epoch <= last), dtype=np.float64)
    scores = []
    for epochs in of_seed.values():
        known = np.array(sorted(epochs), dtype=np.float64)
        # Outside the epochs of this seed np.interp holds its first and last value.
        scores.append(np.interp(grid, known, [epochs[int(epoch)][1] for epoch in known]))
    stacked = np.array(scores)
    return Curve(
        name,
        np.array([seconds[int(epoch)] for epoch in grid]),
        np.median(stacked, axis=0),
        stacked.min(axis=0),
        stacked.max(axis=0),
    )
