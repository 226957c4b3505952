"""How much an attacker knows about one device beyond what the total says.

On label-sorted data the total alone resembles a device's class mean. So the population's mean image of the class (and
the grey level) is removed from the picture and from the truth, and what is left is correlated: 1 is the device's own
deviation from the population, 0 is nothing. The yardstick is the same score for an attacker who has only the total;
both are compared target by target, so that targets that are easy for everybody do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from experiments.attacks.setting import Target

Floats = NDArray[np.float64]

CLEARLY = 0.2  # so far above the yardstick, and beyond chance, a scheme gives a device away
SIGMAS = 4.0  # standard errors: what chance explains when a hundred attempts are made
MOST_BY_CHANCE = 0.1  # but never more than this: with few targets, chance would explain anything
ROUNDING = 0.005  # the total that comes off the ring is rounded, that of the yardstick is not


def residual_correlation(picture: Floats, truth: Floats, population: Floats) -> float:
    """Correlation of what is left of both after a least-squares fit of the population's mean and a constant."""
    common = np.column_stack([population, np.ones_like(population)])
    left = [values - common @ np.linalg.lstsq(common, values, rcond=None)[0] for values in (picture, truth)]
    lengths = [float(np.linalg.norm(values)) for values in left]
    # Rounding leaves something of a picture that is the population's own: that is nothing, not a direction.
    if min(lengths) <= 1e-9 * float(np.linalg.norm(truth)):
        return 0.0
    return float(left[0] @ left[1]) / (lengths[0] * lengths[1])


@dataclass(frozen=True, eq=False)
class Score:
    """The residual correlation of each target; None where the attack found nothing, which counts as 0."""

    correlations: Mapping[Target, float | None]

    @cached_property
    def mean(self) -> float:
        return _mean_and_error(list(self._values.values()))[0]

    @cached_property
    def standard_error(self) -> float:
        return _mean_and_error(list(self._values.values()))[1]

    @property
    def found(self) -> int:
        """How many targets the attack found anything of."""
        return sum(value is not None for value in self.correlations.values())

    @cached_property
    def _values(self) -> dict[Target, float]:
        return {target: value or 0.0 for target, value in self.correlations.items()}

    def summary(self) -> dict[str, float]:
        """For results files."""
        numbers = {"attempted": len(self.correlations), "found": self.found}
        return {"mean": self.mean, "standard_error": self.standard_error, **numbers}

    def above(self, yardstick: Score) -> tuple[float, float]:
        """Mean and standard error of the differences to the yardstick, over the targets of this score."""
        return _mean_and_error([value - yardstick._values[target] for target, value in self._values.items()])

    def gives_away(self, yardstick: Score) -> bool:
        difference, error = self.above(yardstick)
        return difference > max(CLEARLY, SIGMAS * error)

    def gives_nothing(self, yardstick: Score) -> bool:
        """Not above the yardstick by more than chance and rounding explain."""
        difference, error = self.above(yardstick)
        return difference <= min(MOST_BY_CHANCE, max(ROUNDING, SIGMAS * error))


def _mean_and_error(values: list[float]) -> tuple[float, float]:
    """The mean with its standard error; 0 for a single value."""
    numbers = np.array(values)
    error = float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else 0.0
    return float(numbers.mean()), error
