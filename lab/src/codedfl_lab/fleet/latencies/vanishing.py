"""Devices that vanish and return: while one is away, nothing of what it does continues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Seconds
from codedfl_lab.fleet.altered import Altered, by_chance, spread
from codedfl_lab.fleet.latency import Now
from codedfl_lab.fleet.latency_models import register_latency


@register_latency
@dataclass(frozen=True)
class Vanishing(Altered):
    """In each period a device is away with some probability; what it had begun continues when it is back.

    probability: that a device is away in a period.
    period: in seconds. With 0.2 and 30 a device that is away stays away for 37 s on average.
    seed: of who is away when, which is the same for every scheme.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Fleet, FleetLatency
    >>> from codedfl_lab.fleet.latencies.vanishing import Vanishing
    >>> fleet, rng = FleetLatency(Fleet.load("paper")), np.random.default_rng
    >>> usual, away = fleet.compute_times(25e6, 9, rng(0)), Vanishing(fleet, 0.5).compute_times(25e6, 9, rng(0))
    >>> bool((away >= usual).all()), bool((away == usual).any())
    (True, True)
    """

    probability: float = 0.2
    period: float = 30.0
    seed: int = 0
    name: ClassVar[str] = "vanishing"

    def __post_init__(self) -> None:
        if not 0 <= self.probability < 1 or not self.period > 0:
            raise InvalidInput(
                "vanishing must have a probability in [0, 1) and a period above 0, got"
                f" {self.probability} and {self.period}"
            )

    def longer(self, usual: Seconds, rng: np.random.Generator, now: Now) -> Seconds:  # noqa: ARG002
        """The time that passes until a device was there for ``usual`` seconds; at least one period at a time."""
        draws, device = len(usual), np.arange(usual.shape[-1])
        begun = spread(now, usual.shape)
        at, left = begun.copy(), usual.copy()
        period = np.floor(begun / self.period)
        while (left > 0).any():
            here = by_chance(self.seed, draws, device, period) >= self.probability
            end = (period + 1) * self.period
            worked = np.where(here, np.minimum(left, end - at), 0.0)
            done = left > 0
            finished = done & here & (left <= end - at)
            at = np.where(finished, at + left, np.where(done, end, at))
            left = np.where(finished, 0.0, left - worked)
            period = period + 1
        return at - begun

    def mean_factor(self) -> float:
        """Of what takes much longer than a period."""
        return 1 / (1 - self.probability)
