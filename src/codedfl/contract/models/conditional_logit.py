"""Logistic models of matched sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, StudyModel, Target, register_model
from codedfl.contract.models.glm import check_bound, check_two_classes
from codedfl.contract.models.matched import too_large
from codedfl.errors import InvalidInput
from codedfl.typing import Integers


@register_model
@dataclass(frozen=True)
class ConditionalLogitModel(StudyModel):
    """The log odds of the second of two classes within matched sets, whose own odds cancel (clogit).

    strata: the column that says which set a row is in; no set is on two devices, or has more than 50 rows.
    bound: of the linear predictor, as for ``logistic``.

    >>> ConditionalLogitModel("exposure", ("smoker",), "set").uses
    ('set',)
    """

    strata: str
    bound: float = 10.0

    kind: ClassVar[str] = "conditional-logit"
    counted: ClassVar[frozenset[str]] = frozenset({"clusters"})
    at_points: ClassVar[tuple[str, ...]] = ("conditional",)
    points: ClassVar[int] = 16
    iterates: ClassVar[bool] = True
    discordant: ClassVar[bool] = True

    @property
    def cluster(self) -> str:
        """Rows that belong together, as other kinds call it."""
        return self.strata

    @property
    def uses(self) -> tuple[str, ...]:
        """The sets."""
        return (self.strata,)

    def check(self, columns: Named, target: Target) -> None:
        """Two classes, and every column in the model."""
        super().check(columns, target)
        check_bound(self.name, self.bound)
        check_two_classes(self.name, target)
        for name in self.columns:
            if not columns[name].width:
                raise InvalidInput(f"columns of the model {self.name!r} must be in_model, got {name!r}, which is not")

    def objection(self, codes: Mapping[str, Integers], points: int, smallest: int) -> str:
        """Sets are small."""
        del points, smallest
        return too_large(self.name, self.strata, codes)
