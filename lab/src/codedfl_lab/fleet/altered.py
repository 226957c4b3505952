"""What latency models on top of another one share: they ask the usual model, and make its times longer.

A model keeps no state: what a device meets at a time is a function of a seed, the draw, the device and the time, so
that every scheme meets the same fleet in the same draw.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codedfl.typing import Floats, Seconds
from codedfl_lab.fleet.latency import Direction, LatencyModel, Now


@dataclass(frozen=True)
class Altered:
    """A latency model on top of ``usual``: a subclass says how much longer a computation or a transfer takes.

    name: what a user calls it. ``mean_factor``: how many times as long as usual things take on average.
    """

    usual: LatencyModel

    name: ClassVar[str]

    @abstractmethod
    def longer(self, usual: Seconds, rng: np.random.Generator, now: Now) -> Seconds:
        """How long it takes what usually takes ``usual`` seconds, (draws, D), and begins ``now``."""

    @abstractmethod
    def mean_factor(self) -> float: ...

    def compute_times(self, macs: ArrayLike, draws: int, rng: np.random.Generator, now: Now = 0.0) -> Seconds:
        return self.longer(self.usual.compute_times(macs, draws, rng, now), rng, now)

    def transfer_times(
        self,
        bits: ArrayLike,
        direction: Direction,
        draws: int,
        rng: np.random.Generator,
        chunk_bits: float | None = None,
        now: Now = 0.0,
    ) -> Seconds:
        return self.longer(self.usual.transfer_times(bits, direction, draws, rng, chunk_bits, now), rng, now)

    def mean_compute_times(self, macs: ArrayLike) -> Seconds:
        return self.usual.mean_compute_times(macs) * self.mean_factor()

    def mean_transfer_times(self, bits: ArrayLike, direction: Direction) -> Seconds:
        return self.usual.mean_transfer_times(bits, direction) * self.mean_factor()


@dataclass(frozen=True)
class Slowed(Altered):
    """Whatever a device begins takes ``factors`` times as long, by when it begins."""

    @abstractmethod
    def factors(self, draws: int, now: Seconds) -> Seconds:
        """(draws, D), for beginnings ``now`` of that shape."""

    def longer(self, usual: Seconds, rng: np.random.Generator, now: Now) -> Seconds:  # noqa: ARG002
        return usual * self.factors(len(usual), spread(now, usual.shape))


def spread(now: Now, shape: tuple[int, ...]) -> Seconds:
    """Beginnings as (draws, D), whether one is given for all or one each."""
    return np.broadcast_to(np.asarray(now, dtype=np.float64), shape)


def by_chance(seed: int, draws: int, device: NDArray[np.int64], period: Floats) -> Floats:
    """(draws, D) uniform numbers in [0, 1), each a function of seed, draw, device and period.

    By splitmix64's mixing of 64 bits, so that any period can be asked for at any time. For simulations alone.
    """
    mixed = np.full((draws, len(device)), np.uint64(seed % 2**64))
    for part in (np.arange(draws)[:, None], device[None, :], period.astype(np.int64)):
        mixed = _mixed(mixed ^ np.asarray(part, dtype=np.int64).view(np.uint64))
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One step of splitmix64 (Steele, Lea, Flood 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = words ^ (words >> np.uint64(31))
    return mixed
