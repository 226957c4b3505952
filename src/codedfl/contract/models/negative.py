"""The negative binomial model of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, Target, register_model
from codedfl.contract.models.poisson import PoissonModel
from codedfl.errors import InvalidInput


@register_model
@dataclass(frozen=True)
class NegativeBinomialModel(PoissonModel):
    """The log of the mean of a count whose variance is the mean plus alpha times its square; alpha is estimated.

    >>> NegativeBinomialModel("visits", ("age",)).statistics
    ('negative',)
    """

    kind: ClassVar[str] = "negative-binomial"
    at_points: ClassVar[tuple[str, ...]] = ("negative",)
    points: ClassVar[int] = 17

    def check(self, columns: Named, target: Target) -> None:
        """Its errors are those of its own variance."""
        super().check(columns, target)
        if self.errors != "model":
            raise InvalidInput(
                f"errors of the model {self.name!r} must be model, got {self.errors!r}: for robust ones take kind ="
                " 'poisson'"
            )
