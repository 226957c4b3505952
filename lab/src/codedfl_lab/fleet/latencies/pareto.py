"""Heavy tails: whatever a device does may take many times as long as usual, drawn each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Seconds
from codedfl_lab.fleet.altered import Altered
from codedfl_lab.fleet.latency import Now
from codedfl_lab.fleet.latency_models import register_latency


@register_latency
@dataclass(frozen=True)
class Pareto(Altered):
    """Every computation and every transfer takes a Pareto number of times as long: P(more than x times) = x^-shape.

    shape: the smaller, the heavier the tail; above 1, or there is no mean. With 1.5 the mean is three times the least,
    and of 25 devices the slowest takes about 12 times as long as usual.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Fleet, FleetLatency
    >>> from codedfl_lab.fleet.latencies.pareto import Pareto
    >>> usual = FleetLatency(Fleet.load("paper"))
    >>> float(Pareto(usual, shape=1.5).mean_compute_times(25e6)[0] / usual.mean_compute_times(25e6)[0])
    3.0
    """

    shape: float = 1.5
    name: ClassVar[str] = "pareto"

    def __post_init__(self) -> None:
        if not 1 < self.shape < np.inf:
            raise InvalidInput(f"shape of pareto must be above 1, or times have no mean, got {self.shape}")

    def longer(self, usual: Seconds, rng: np.random.Generator, now: Now) -> Seconds:  # noqa: ARG002
        return usual * (1 + rng.pareto(self.shape, usual.shape))

    def mean_factor(self) -> float:
        return self.shape / (self.shape - 1)
