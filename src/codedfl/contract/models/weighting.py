"""The effect of a treatment, with rows weighted by the inverse of the chance of the treatment that they had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, Target, TimedModel, check_zero_or_one, register_model
from codedfl.contract.models.glm import GlmModel, check_two_classes
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput


@register_model
@dataclass(frozen=True)
class IptwModel(GlmModel):
    """The average effect of a treatment on the target: means, or risks of the second of two classes, by weighting.

    The columns say the chance of the treatment, by a logistic model (the propensity). Devices make the weights of its
    coefficients, which every device receives. Errors are those of both steps together.

    treatment: a column of numbers that is 1 where a row was treated and else 0, beside the model's columns.
    bound: as for ``logistic``; no weight is larger than 1 + exp(bound).

    >>> IptwModel("effect", ("age",), treatment="drug").statistics
    ('propensity', 'weighted')
    """

    bound: float = 6.0
    treatment: str = ""

    kind: ClassVar[str] = "iptw"
    at_points: ClassVar[tuple[str, ...]] = ("propensity", "weighted")
    points: ClassVar[int] = 15
    family: ClassVar[str] = "binomial"

    @property
    def uses(self) -> tuple[str, ...]:
        """The treatment."""
        return (self.treatment,)

    def check(self, columns: Named, target: Target) -> None:
        """A treatment of 0 or 1, and none of the keys that have no meaning here."""
        super().check(columns, target)
        for key in ("weights", "offset", "cluster", "regularisation"):
            if getattr(self, key):
                raise InvalidInput(f"{key} must be left out of the model {self.name!r}, got {getattr(self, key)!r}")
        if self.errors != "model":
            raise InvalidInput(f"errors must be left out of the model {self.name!r}: they are those of both steps")
        check_zero_or_one("treatment", self.name, columns[self.treatment])
        if isinstance(target, ClassTarget):
            check_two_classes(self.name, target)


@register_model
@dataclass(frozen=True)
class IptwCoxModel(IptwModel, TimedModel):
    """The hazard ratio of a treatment by weighting: Cox's model of the treatment alone. The target is the time.

    >>> IptwCoxModel("effect", ("age",), "died", (30.0, 60.0), treatment="drug").uses
    ('drug', 'died')
    """

    kind: ClassVar[str] = "iptw-cox"
    totals: ClassVar[tuple[str, ...]] = ("survival",)
    counted: ClassVar[frozenset[str]] = frozenset({"times"})
    at_points: ClassVar[tuple[str, ...]] = ("propensity", "weighted-times", "weighted-scores")
    points: ClassVar[int] = 15

    @property
    def uses(self) -> tuple[str, ...]:
        """The treatment, and what says how a time ended."""
        return (self.treatment, self.event)
