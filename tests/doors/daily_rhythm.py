"""A latency model from outside: links that crawl in the evening, computing as usual."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from codedfl.typing import Seconds
from codedfl_lab import LatencyModel
from codedfl_lab.fleet.latency import Direction, Now

DAY = 86_400.0


@dataclass(frozen=True)
class DailyRhythm:
    """Around 20:00 a transfer takes up to ``crowd`` times as long; a run begins at ``begins`` o'clock."""

    usual: LatencyModel
    crowd: float = 4.0
    begins: float = 20.0
    name: ClassVar[str] = "daily-rhythm"

    def compute_times(self, macs: ArrayLike, draws: int, rng: Generator, now: Now = 0.0) -> Seconds:
        return self.usual.compute_times(macs, draws, rng, now)

    def mean_compute_times(self, macs: ArrayLike) -> Seconds:
        return self.usual.mean_compute_times(macs)

    def transfer_times(
        self,
        bits: ArrayLike,
        direction: Direction,
        draws: int,
        rng: Generator,
        chunk_bits: float | None = None,
        now: Now = 0.0,
    ) -> Seconds:
        return self.usual.transfer_times(bits, direction, draws, rng, chunk_bits, now) * self.slower(now)

    def mean_transfer_times(self, bits: ArrayLike, direction: Direction) -> Seconds:
        return self.usual.mean_transfer_times(bits, direction) * self.slower(0.0)

    def slower(self, now: Now) -> Seconds:
        """1 in the morning, ``crowd`` in the evening; as of ``now`` for each draw and device."""
        hours_from_evening = 2 * np.pi * (np.asarray(now) / DAY + (self.begins - 20) / 24)
        return 1 + (self.crowd - 1) * (1 + np.cos(hours_from_evening)) / 2
