"""Poisson regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, Target, register_model
from codedfl.contract.models.glm import GlmModel, check_counts


@register_model
@dataclass(frozen=True)
class PoissonModel(GlmModel):
    """The log of the mean of a count.

    >>> PoissonModel("visits", ("age",), offset="log years").uses
    ('log years',)
    """

    kind: ClassVar[str] = "poisson"

    def check(self, columns: Named, target: Target) -> None:
        """Whole numbers from 0."""
        super().check(columns, target)
        check_counts(self.name, target)
