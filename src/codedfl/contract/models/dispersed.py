"""Generalised linear models whose variance is known but for a factor, the dispersion: quasi-Poisson and Gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, Target, check_number, register_model
from codedfl.contract.models.glm import GlmModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.errors import InvalidInput


@register_model
@dataclass(frozen=True)
class QuasiPoissonModel(PoissonModel):
    """As ``poisson``, with errors for a variance that is the mean times a dispersion, which is estimated.

    >>> QuasiPoissonModel("visits", ("age",)).dispersed
    True
    """

    kind: ClassVar[str] = "quasi-poisson"
    dispersed: ClassVar[bool] = True


@register_model
@dataclass(frozen=True)
class GammaModel(GlmModel):
    """The log of the mean of a number above 0, such as a cost, whose deviation grows with its mean.

    >>> GammaModel("cost", ("age",)).statistics
    ('newton', 'sandwich')
    """

    kind: ClassVar[str] = "gamma"
    family: ClassVar[str] = "gamma"
    dispersed: ClassVar[bool] = True

    def check(self, columns: Named, target: Target) -> None:
        """Numbers above 0."""
        super().check(columns, target)
        check_number(self.name, target)
        low = getattr(target, "range", (0.0,))[0]
        if low <= 0:
            raise InvalidInput(
                f"the range of the target {target.name!r} must begin above 0 for the model {self.name!r}, got {low:g}"
            )
