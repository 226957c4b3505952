"""Logistic and Poisson models of rows that are alike within clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, Target, register_model
from codedfl.contract.models.glm import GlmModel, check_counts, check_two_classes
from codedfl.contract.models.matched import too_large
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput
from codedfl.typing import Integers


@register_model
@dataclass(frozen=True)
class GeeModel(GlmModel):
    """A logistic or Poisson model of rows that are alike within clusters: generalised estimating equations.

    The rows of a cluster are taken to correlate alike (exchangeable). Errors are robust: they hold whatever the
    correlation. Two classes make it logistic, counts make it Poisson.

    cluster: the column that says which cluster a row is in; no cluster is on two devices, or has more than 50 rows.

    >>> GeeModel("attacks", ("age",), cluster="person").statistics
    ('gee',)
    """

    errors: str = "cluster"

    kind: ClassVar[str] = "gee"
    at_points: ClassVar[tuple[str, ...]] = ("gee",)
    points: ClassVar[int] = 20
    family: ClassVar[str] = ""  # by the target

    @property
    def most_points(self) -> int:
        """All are of one statistic."""
        return self.points

    def check(self, columns: Named, target: Target) -> None:
        """Clusters, and none of the keys that have no meaning here."""
        if not self.cluster:
            raise InvalidInput(f"cluster of the model {self.name!r} must be a column, got none")
        for key in ("weights", "regularisation"):
            if getattr(self, key):
                raise InvalidInput(f"{key} must be left out of the model {self.name!r}, got {getattr(self, key)!r}")
        if self.errors != "cluster":
            raise InvalidInput(f"errors must be left out of the model {self.name!r}: they are robust")
        super().check(columns, target)
        if isinstance(target, ClassTarget):
            check_two_classes(self.name, target)
        else:
            check_counts(self.name, target)

    def objection(self, codes: Mapping[str, Integers], points: int, smallest: int) -> str:
        """Clusters are small."""
        del points, smallest
        return too_large(self.name, self.cluster, codes)
