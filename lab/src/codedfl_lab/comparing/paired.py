"""Two schemes on the same seeds and the same draws: how many times faster one is, and how sure that is.

Feature seeds differ far more from one another than schemes do on one seed, so schemes are compared within a seed: the
ratio of their mean times over the same latency draws (``epoch_end_times`` has what is the same in a draw). The
estimate is the median of these ratios over the seeds. Its interval is the percentile bootstrap: seeds and draws are
drawn again with replacement, the same ones for both schemes. With five seeds it is about the range of the seeds, which
is what the sign test would give: a claim holds where all five agree.

Times are (seeds, draws) arrays; a seed that never reaches the target has infinity in every draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from codedfl.typing import Floats

CONFIDENCE = 0.95
RESAMPLES = 2000
_NORMAL = 1.96  # standard errors of a mean on each side
LEAST_SEEDS = 3
"""With fewer, an interval would say nothing."""


@dataclass(frozen=True)
class Interval:
    """A median over seeds between ``low`` and ``high``, which are None with fewer than three seeds.

    ``median`` is None, and ``seeds`` 0, where no seed says anything.
    """

    median: float | None
    low: float | None
    high: float | None
    seeds: int


def times_faster(mine: Floats, theirs: Floats) -> Interval:
    """``theirs`` over ``mine``: 0 where only ``mine`` never gets there, infinite where only ``theirs`` does not.

    A seed in which neither gets there says nothing and is left out.
    """
    either = np.isfinite(mine[:, 0]) | np.isfinite(theirs[:, 0])
    mine, theirs = mine[either], theirs[either]
    return _interval(_means(theirs) / _means(mine), _means(theirs, again=True) / _means(mine, again=True))


def difference(mine: Floats, theirs: Floats) -> Interval:
    """``mine`` less ``theirs``, a number for each seed."""
    gap = mine - theirs
    return _interval(gap, np.broadcast_to(gap[:, None], (len(gap), RESAMPLES)))


def mean_gap(mine: Floats, theirs: Floats) -> tuple[float, float]:
    """95 % interval of the mean of ``mine`` less ``theirs`` over the same draws; both ends alike for one draw."""
    gap = mine - theirs
    spread = float(gap.std(ddof=1)) * _NORMAL / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
    return float(gap.mean()) - spread, float(gap.mean()) + spread


def _means(seconds: Floats, *, again: bool = False) -> Floats:
    """Over the draws: one mean for each seed, or ``again`` and again one for each resample of the draws."""
    draws = seconds.shape[1]
    weights = _draws_again(draws) if again else np.full(draws, 1 / draws)
    # Infinity times a weight of 0 would be no number; a seed is late in every draw or in none.
    late = np.isinf(seconds[:, 0])
    means: Floats = np.where(late[:, None], 0.0, seconds) @ weights
    means[late] = np.inf
    return means


def _interval(of_seed: Floats, resampled: Floats) -> Interval:
    seeds = len(of_seed)
    if seeds == 0:
        return Interval(None, None, None, 0)
    median = float(np.median(of_seed))
    if seeds < LEAST_SEEDS:
        return Interval(median, None, None, seeds)
    medians = np.sort(np.median(np.take_along_axis(resampled, _seeds_again(seeds), axis=0), axis=0))
    cut = round((1 - CONFIDENCE) / 2 * RESAMPLES)
    return Interval(median, float(medians[cut]), float(medians[-1 - cut]), seeds)


@lru_cache(maxsize=8)
def _draws_again(draws: int) -> Floats:
    """(draws, resamples): how often each draw is drawn, as a share. The same for every pair, and in every run."""
    counts = np.random.default_rng(0).multinomial(draws, np.full(draws, 1 / draws), RESAMPLES)
    return np.ascontiguousarray(counts.T / draws)


@lru_cache(maxsize=8)
def _seeds_again(seeds: int) -> NDArray[np.int64]:
    """(seeds, resamples): which seeds are drawn."""
    return np.random.default_rng(1).integers(seeds, size=(seeds, RESAMPLES))
