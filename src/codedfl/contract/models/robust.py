"""Linear models with robust standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, StudyModel, Target, check_number, register_model
from codedfl.contract.models.glm import check_errors

HC = ("HC0", "HC1", "HC2", "HC3")


@register_model
@dataclass(frozen=True)
class RobustModel(StudyModel):
    """A linear model with standard errors that hold whatever the variance of the residuals, by one more total.

    errors: "HC0", "HC1", "HC2" or "HC3"; "cluster" for rows that depend on each other within clusters.
    cluster: for the last, the column that says which cluster a row is in; no cluster is on two devices.

    >>> RobustModel("stay", ("age",)).errors
    'HC3'
    """

    errors: str = "HC3"
    cluster: str = ""

    kind: ClassVar[str] = "robust"
    at_points: ClassVar[tuple[str, ...]] = ("robust",)
    counted: ClassVar[frozenset[str]] = frozenset({"clusters"})
    points: ClassVar[int] = 1

    @property
    def uses(self) -> tuple[str, ...]:
        """The clusters."""
        return tuple(filter(None, (self.cluster,)))

    def check(self, columns: Named, target: Target) -> None:
        """A number to predict, and clusters if they are wanted."""
        super().check(columns, target)
        check_errors(self.name, self.errors, self.cluster, (*HC, "cluster"))
        check_number(self.name, target)
