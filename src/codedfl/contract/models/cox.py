"""Cox's model of the hazard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, Target, TimedModel, check_penalty, register_model
from codedfl.contract.models.glm import check_bound
from codedfl.errors import InvalidInput


@register_model
@dataclass(frozen=True)
class CoxModel(TimedModel):
    """Hazard ratios, by Cox's partial likelihood with Efron's rule for ties on the public grid. The target is the time.

    entry: a column of numbers that says when a row begins to be at risk, on the scale of the target, for rows that are
        parts of a person's time; "" where all begin at the start.
    strata: a category whose levels have a baseline hazard each; "" is one for all.
    regularisation: the weight of half the squared coefficients, of columns scaled as for a linear model, against the
        partial log-likelihood per row. With it there are no standard errors.
    bound: of the linear predictor, as for ``logistic``.

    >>> CoxModel("death", ("age",), "died", (30.0, 60.0), strata="ward").uses
    ('died', 'ward')
    """

    entry: str = ""
    strata: str = ""
    regularisation: float = 0.0
    bound: float = 10.0

    kind: ClassVar[str] = "cox"
    at_points: ClassVar[tuple[str, ...]] = ("cox",)
    points: ClassVar[int] = 12

    @property
    def groups(self) -> str:
        """Counts are by stratum."""
        return self.strata

    @property
    def begin(self) -> str:
        """When a row begins."""
        return self.entry

    @property
    def uses(self) -> tuple[str, ...]:
        """Events, beginnings and strata."""
        return tuple(filter(None, (self.event, self.entry, self.strata)))

    @property
    def unmerged(self) -> tuple[str, ...]:
        """Strata may be joined."""
        return tuple(one for one in self.uses if one != self.strata)

    def check(self, columns: Named, target: Target) -> None:
        """A beginning is a number, strata are a category."""
        super().check(columns, target)
        check_penalty(self.name, self.regularisation)
        check_bound(self.name, self.bound)
        for name in self.columns:
            if not columns[name].width:
                raise InvalidInput(f"columns of the model {self.name!r} must be in_model, got {name!r}, which is not")
        if self.entry and (columns[self.entry].range is None or columns[self.entry].missing is not None):
            raise InvalidInput(
                f"entry of the model {self.name!r} must be a number without missing values, got {self.entry!r}"
            )
        if self.strata and columns[self.strata].range is not None:
            raise InvalidInput(f"strata of the model {self.name!r} must be a category, got {self.strata!r}")
