"""How much an attacker knows about one device beyond what the total says.

On label-sorted data the total alone resembles a device's class mean. So the population's mean image of the class (and
the grey level) is removed from the picture and from the truth, and what is left is correlated: 1 is the device's own
deviation from the population, 0 is nothing. The yardstick is the same score for an attacker who has only the total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CLEARLY = 0.2  # so far above the yardstick, and beyond chance, a scheme gives a device away
SIGMAS = 4.0  # standard errors: what chance explains when a hundred attempts are made


def residual_correlation(picture: Floats, truth: Floats, population: Floats) -> float:
    """Correlation of what is left of both after a least-squares fit of the population's mean and a constant."""
    common = np.column_stack([population, np.ones_like(population)])
    left = [values - common @ np.linalg.lstsq(common, values, rcond=None)[0] for values in (picture, truth)]
    lengths = [float(np.linalg.norm(values)) for values in left]
    # Rounding leaves something of a picture that is the population's own: that is nothing, not a direction.
    if min(lengths) <= 1e-9 * float(np.linalg.norm(truth)):
        return 0.0
    return float(left[0] @ left[1]) / (lengths[0] * lengths[1])


@dataclass(frozen=True)
class Score:
    """Residual correlations over targets. ``attempted`` counts the targets, also those where nothing was found."""

    mean: float
    standard_error: float
    attempted: int
    found: int

    @classmethod
    def of(cls, correlations: Sequence[float | None]) -> Score:
        """None is a target for which the attack found nothing: it counts as 0."""
        values = np.array([0.0 if value is None else value for value in correlations])
        error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
        return cls(float(values.mean()), error, len(values), sum(value is not None for value in correlations))

    def gives_away(self, yardstick: Score) -> bool:
        return self.mean - yardstick.mean > max(CLEARLY, self._chance(yardstick))

    def gives_nothing(self, yardstick: Score) -> bool:
        """Not above the yardstick by more than chance explains."""
        return self.mean - yardstick.mean <= self._chance(yardstick)

    def _chance(self, yardstick: Score) -> float:
        return SIGMAS * float(np.hypot(self.standard_error, yardstick.standard_error))
