"""What a solver has to know of the noise in X'X: how wide its spectrum is, and how much ridge bears it.

The noise of all owners is a symmetric matrix of deviation ``sigma`` on the diagonal and sigma / sqrt(2) off it, whose
eigenvalues fill the interval of +- sqrt(2 d) sigma (Wigner). Where the server has the noisy X'X itself it can cut that
interval out (``shrunken``); where it has products only, a ridge has to outweigh it: that of AdaSSP (Wang 2018), with
nothing spent on the smallest eigenvalue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codedfl.errors import InvalidInput

if TYPE_CHECKING:  # solvers need numpy only
    from codedfl.exact.scales import Scales

_FAILURE = 0.05  # AdaSSP's rho: the ridge is too small with at most this probability


@dataclass(frozen=True)
class NoiseLevel:
    """The noise in the total of X'X.

    Parameters
    ----------
    sigma : float
        Standard deviation of the sum of all owners' noise, on the diagonal.
    n_features : int
        d, the number of rows of X'X.
    samples : int
        What stands for m (the public bound): solvers divide by it.
    """

    sigma: float
    n_features: int
    samples: int

    @classmethod
    def of(cls, format_: Scales) -> NoiseLevel:
        """The level if every device is in the total; with fewer of them it is a little lower."""
        if format_.noise is None:
            raise InvalidInput("the scales of a sum must include its noise, got some without")
        units = format_.noise.off_diagonal * math.sqrt(2 * format_.n_devices)
        return cls(math.ldexp(units, -format_.gram_bits), format_.n_features, format_.bounds.samples)

    @property
    def radius(self) -> float:
        """The spectral radius of the noise."""
        return math.sqrt(2 * self.n_features) * self.sigma

    @property
    def ridge(self) -> float:
        """What AdaSSP adds to X'X / m."""
        return self.sigma * math.sqrt(self.n_features * math.log(2 * self.n_features**2 / _FAILURE)) / self.samples
