"""Logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, Target, register_model
from codedfl.contract.models.glm import GlmModel, check_two_classes


@register_model
@dataclass(frozen=True)
class LogisticModel(GlmModel):
    """The log odds of the second of two classes.

    >>> LogisticModel("ill", ("age",)).bound
    10.0
    """

    kind: ClassVar[str] = "logistic"
    at_points: ClassVar[tuple[str, ...]] = ("newton", "sandwich", "calibration", "calibration-line")
    of_held_out: ClassVar[tuple[str, ...]] = ("calibration-line",)
    points: ClassVar[int] = GlmModel.points + 1
    family: ClassVar[str] = "binomial"

    def check(self, columns: Named, target: Target) -> None:
        """Two classes."""
        super().check(columns, target)
        check_two_classes(self.name, target)
