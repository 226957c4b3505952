"""Whether estimates of several results differ by more than chance: Cochran's Q, I^2, and a pooled estimate.

Each result is of other disclosure groups. Of a single site there is none: a total over one site is never made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from codedfl.analyses.distributions import distributions
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject


@dataclass(frozen=True)
class Heterogeneity:
    """What several estimates of one number have in common.

    q, freedom, p: of the hypothesis that all are of one number.
    i_squared: the share of the variance that is not chance.
    tau_squared: the variance between results, by DerSimonian and Laird.
    fixed, random: pooled estimates with standard errors, without and with that variance.

    Examples
    --------
    >>> from codedfl.analyses.heterogeneity import heterogeneity
    >>> found = heterogeneity([0.1, 0.3, 0.8], [0.1, 0.1, 0.2])
    >>> round(found.q, 3), found.freedom, round(found.i_squared, 3), round(found.tau_squared, 4)
    (10.0, 2, 0.8, 0.06)
    """

    q: float
    freedom: int
    p: float
    i_squared: float
    tau_squared: float
    fixed: tuple[float, float]
    random: tuple[float, float]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return asdict(self)


def heterogeneity(estimates: Sequence[float], standard_errors: Sequence[float]) -> Heterogeneity:
    """Of estimates of independent results.

    Examples
    --------
    See ``Heterogeneity``.
    """
    found, errors = np.array(estimates, dtype=np.float64), np.array(standard_errors, dtype=np.float64)
    if len(found) < 2 or found.shape != errors.shape or not (errors > 0).all():
        raise InvalidInput(f"estimates must be two or more with standard errors above 0, got {len(found)}")
    weight = 1.0 / errors**2
    fixed = _pooled(found, weight)
    q, freedom = float(weight @ (found - fixed[0]) ** 2), len(found) - 1
    tau_squared = max(0.0, (q - freedom) / float(weight.sum() - (weight**2).sum() / weight.sum()))
    i_squared = max(0.0, 1.0 - freedom / q) if q > 0 else 0.0
    p = float(distributions().chi2.sf(q, freedom))
    return Heterogeneity(q, freedom, p, i_squared, tau_squared, fixed, _pooled(found, 1.0 / (errors**2 + tau_squared)))


def _pooled(found: Floats, weight: Floats) -> tuple[float, float]:
    return float(weight @ found / weight.sum()), float(weight.sum() ** -0.5)
