"""Correlated stragglers: devices share places, and a congested place slows all of its devices at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Seconds
from codedfl_lab.fleet.altered import Slowed, by_chance
from codedfl_lab.fleet.latency_models import register_latency


@register_latency
@dataclass(frozen=True)
class Places(Slowed):
    """In each period a place is congested with some probability; what its devices then begin takes longer.

    count: of places. Device i is at place i modulo ``count``, so that each has fast and slow devices.
    probability: that a place is congested in a period.
    factor: how many times as long everything then takes.
    period: in seconds.
    seed: of the congestion, which is the same for every scheme.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Fleet, FleetLatency
    >>> from codedfl_lab.fleet.latencies.places import Places
    >>> slow = Places(FleetLatency(Fleet.load("paper")), count=5).factors(4, np.zeros((4, 25)))
    >>> bool((slow[:, 0] == slow[:, 5]).all()), sorted(set(slow.ravel().tolist()))  # one place, one fate
    (True, [1.0, 20.0])
    """

    count: int = 5
    probability: float = 0.1
    factor: float = 20.0
    period: float = 30.0
    seed: int = 0
    name: ClassVar[str] = "places"

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.probability <= 1 or self.factor < 1 or not self.period > 0:
            raise InvalidInput(
                "places must have a count from 1, a probability in [0, 1], a factor from 1 and a period above 0, got"
                f" {self.count}, {self.probability}, {self.factor}, {self.period}"
            )

    def factors(self, draws: int, now: Seconds) -> Seconds:
        place = np.arange(now.shape[-1]) % self.count
        congested = by_chance(self.seed, draws, place, np.floor(now / self.period)) < self.probability
        return np.where(congested, self.factor, 1.0)

    def mean_factor(self) -> float:
        return 1 + self.probability * (self.factor - 1)
