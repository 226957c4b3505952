"""What a study says of heads: the best of several linear classifiers of one total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, StudyModel, Target, register_model
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput


@register_model
@dataclass(frozen=True)
class HeadsModel(StudyModel):
    """The best of several linear classifiers of the same total, by its right predictions on held-out rows.

    Ridge, the same for classes of equal size, linear discriminant analysis, nearest class mean. Each costs one
    score, a count per pair of classes, and nothing is uploaded again. Columns that are not said are all there are.

    candidates: at most how many are tried.

    >>> HeadsModel("best", ("x0", "x1")).most_points
    7
    """

    candidates: int = 7

    kind: ClassVar[str] = "heads"
    all_columns: ClassVar[bool] = True
    points: ClassVar[int] = 7

    @property
    def most_points(self) -> int:
        """One for each candidate."""
        return self.candidates

    def check(self, columns: Named, target: Target) -> None:
        """Classes, and no more candidates than there are."""
        super().check(columns, target)
        if not 1 <= self.candidates <= self.points:
            raise InvalidInput(
                f"candidates of the model {self.name!r} must be between 1 and {self.points}, got {self.candidates}"
            )
        if not isinstance(target, ClassTarget):
            raise InvalidInput(f"the target {target.name!r} must have classes for the model {self.name!r}")
