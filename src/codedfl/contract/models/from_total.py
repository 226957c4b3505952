"""What the study's one total holds beside linear models: correlations, components, tests of groups and of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, StudyModel, Target, check_number, register_model
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput


@register_model
@dataclass(frozen=True)
class CorrelationModel(StudyModel):
    """Pearson's correlations of columns, and of the target if it is a number, with tests: nobody sends anything for it.

    >>> CorrelationModel("correlations", ("age", "bmi")).statistics
    ()
    """

    kind: ClassVar[str] = "correlation"


@register_model
@dataclass(frozen=True)
class ComponentsModel(StudyModel):
    """Principal components of columns scaled to a variance of 1: nobody sends anything for it.

    >>> ComponentsModel("components", ("age", "bmi")).statistics
    ()
    """

    kind: ClassVar[str] = "pca"

    def check(self, columns: Named, target: Target) -> None:
        """Two columns or more."""
        super().check(columns, target)
        if len(self.columns) < 2:
            raise InvalidInput(f"columns of the model {self.name!r} must be at least two, got {len(self.columns)}")


@register_model
@dataclass(frozen=True)
class AnovaModel(StudyModel):
    """Means of the target by the levels of one category, and the test that they are one: Student's t of two levels.

    >>> AnovaModel("stay by ward", ("ward",)).statistics
    ()
    """

    kind: ClassVar[str] = "anova"

    def check(self, columns: Named, target: Target) -> None:
        """One category, and a number."""
        super().check(columns, target)
        check_number(self.name, target)
        if len(self.columns) != 1 or columns[self.columns[0]].range is not None:
            raise InvalidInput(f"columns of the model {self.name!r} must be one category, got {list(self.columns)}")


@register_model
@dataclass(frozen=True)
class AssociationModel(StudyModel):
    """Whether two categories depend on each other: chi^2 of their table, and Fisher's test of two by two.

    columns: two categories; or one, beside a target of classes.

    >>> AssociationModel("ward by sex", ("ward", "sex")).statistics
    ()
    """

    kind: ClassVar[str] = "chi2"

    def check(self, columns: Named, target: Target) -> None:
        """Two categories in all."""
        super().check(columns, target)
        there = len(self.columns) + isinstance(target, ClassTarget) * (len(self.columns) == 1)
        if there != 2 or any(columns[name].range is not None for name in self.columns):
            raise InvalidInput(
                f"columns of the model {self.name!r} must be two categories, or one beside a target of classes, got"
                f" {list(self.columns)}"
            )
