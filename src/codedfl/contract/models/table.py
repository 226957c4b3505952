"""Logistic and Poisson models of one cross-table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, StudyModel, Target, register_model
from codedfl.contract.models.glm import check_counts, check_two_classes
from codedfl.data.columns import ClassTarget


@register_model
@dataclass(frozen=True)
class TableModel(StudyModel):
    """A logistic or Poisson model of columns with few combinations, from one cross-table: exact, without iterations.

    Two classes make it logistic, counts make it Poisson.

    >>> TableModel("ill", ("ward",)).statistics
    ('contingency',)
    """

    kind: ClassVar[str] = "table"
    totals: ClassVar[tuple[str, ...]] = ("contingency",)
    counted: ClassVar[frozenset[str]] = frozenset({"combinations"})

    def check(self, columns: Named, target: Target) -> None:
        """Two classes, or whole numbers from 0."""
        super().check(columns, target)
        if isinstance(target, ClassTarget):
            check_two_classes(self.name, target)
        else:
            check_counts(self.name, target)
