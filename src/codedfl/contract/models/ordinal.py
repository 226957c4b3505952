"""Proportional odds of ordered classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, StudyModel, Target, register_model
from codedfl.contract.models.glm import check_bound
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput


@register_model
@dataclass(frozen=True)
class ProportionalOddsModel(StudyModel):
    """The log odds of a higher class, the same wherever classes are cut. Classes are in the order of the study file.

    bound: of the linear predictor and of the thresholds, as for ``logistic``.

    >>> ProportionalOddsModel("stage", ("age",)).statistics
    ('ordinal',)
    """

    bound: float = 10.0

    kind: ClassVar[str] = "proportional-odds"
    at_points: ClassVar[tuple[str, ...]] = ("ordinal",)
    points: ClassVar[int] = 14
    iterates: ClassVar[bool] = True

    def check(self, columns: Named, target: Target) -> None:
        """Three classes or more, and every column in the model."""
        super().check(columns, target)
        check_bound(self.name, self.bound)
        if not isinstance(target, ClassTarget) or len(target.classes) < 3:
            raise InvalidInput(
                f"the target {target.name!r} must have three classes or more for the model {self.name!r}"
            )
        for name in self.columns:
            if not columns[name].width:
                raise InvalidInput(f"columns of the model {self.name!r} must be in_model, got {name!r}, which is not")
