"""Residuals of a linear model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, StudyModel, Target, check_number, register_model


@register_model
@dataclass(frozen=True)
class ResidualsModel(StudyModel):
    """The residuals of a linear model: a histogram in residual deviations, and the points of a normal QQ plot.

    >>> ResidualsModel("stay", ("age",)).statistics
    ('residuals',)
    """

    kind: ClassVar[str] = "residuals"
    at_points: ClassVar[tuple[str, ...]] = ("residuals",)
    points: ClassVar[int] = 1

    def check(self, columns: Named, target: Target) -> None:
        """A number to predict."""
        super().check(columns, target)
        check_number(self.name, target)
