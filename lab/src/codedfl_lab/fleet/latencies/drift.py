"""Speeds that drift: a device is now faster and now slower than its class, slowly."""

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
class Drift(Slowed):
    """The logarithm of a device's slowness swings with a period and a phase of its own.

    Who was fast when roles were dealt, by mean times, need not be fast when an epoch is waited for.

    swing: at its worst a device takes this number of times as long as its class, at its best that part.
    period: in seconds, of a swing on average; a device's own is up to half as long again or shorter.
    seed: of the phases, which are the same for every scheme.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Fleet, FleetLatency
    >>> from codedfl_lab.fleet.latencies.drift import Drift
    >>> drift = Drift(FleetLatency(Fleet.load("paper")), swing=10, period=60)
    >>> slow = drift.factors(1, np.zeros((1, 25)))
    >>> bool(0.1 <= slow.min() < 1 < slow.max() <= 10)
    True
    """

    swing: float = 10.0
    period: float = 60.0
    seed: int = 0
    name: ClassVar[str] = "drift"

    def __post_init__(self) -> None:
        if not 1 <= self.swing < np.inf or not self.period > 0:
            raise InvalidInput(
                f"drift must have a swing from 1 and a period above 0, got {self.swing} and {self.period}"
            )

    def factors(self, draws: int, now: Seconds) -> Seconds:
        device = np.arange(now.shape[-1])
        phase, pace = (by_chance(self.seed, draws, device, np.full(now.shape, which)) for which in (-1.0, -2.0))
        swung = np.log(self.swing) * np.sin(2 * np.pi * (now / (self.period * (0.5 + pace)) + phase))
        slower: Seconds = np.exp(swung)
        return slower

    def mean_factor(self) -> float:
        return float(np.i0(np.log(self.swing)))
