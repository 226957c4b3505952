"""Survival curves, and the test that they are one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, Target, TimedModel, register_model
from codedfl.errors import InvalidInput


@register_model
@dataclass(frozen=True)
class SurvivalModel(TimedModel):
    """Survival curves of the groups of one category (Kaplan and Meier) and the log-rank test. The target is the time.

    >>> SurvivalModel("relapse", ("ward",), "relapsed", (30.0, 60.0, 90.0)).uses
    ('relapsed',)
    """

    kind: ClassVar[str] = "survival"
    needs_gram: ClassVar[bool] = False

    @property
    def groups(self) -> str:
        """The one category."""
        return self.columns[0]

    def check(self, columns: Named, target: Target) -> None:
        """One category."""
        if len(self.columns) == 1 and self.columns[0] in columns and columns[self.columns[0]].range is not None:
            raise InvalidInput(f"columns of the model {self.name!r} must be one category, got {list(self.columns)}")
        super().check(columns, target)
        if len(self.columns) != 1:
            raise InvalidInput(f"columns of the model {self.name!r} must be one category, got {list(self.columns)}")
