"""Logistic models of matched sets, and of rows that depend on each other within clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.contract.models import (
    GlmModel,
    Named,
    StudyModel,
    Target,
    check_bound,
    check_counts,
    check_two_classes,
    register_model,
)
from codedfl.contract.study_columns import ClassTarget
from codedfl.errors import InvalidInput
from codedfl.typing import Integers

MOST_IN_SET = 50  # rows of a set or a cluster, which bound what it adds


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
    totals: ClassVar[tuple[str, ...]] = ("crosstable",)
    at_points: ClassVar[tuple[str, ...]] = ("conditional",)
    points: ClassVar[int] = 16

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


@register_model
@dataclass(frozen=True)
class GeeModel(GlmModel):
    """A logistic or Poisson model of rows that are alike within clusters: generalised estimating equations.

    The rows of a cluster are taken to correlate alike (exchangeable). Errors are robust: they hold whatever the
    correlation. Two classes make it logistic, counts make it Poisson.

    cluster: the column that says which cluster a row is in; no cluster is on two devices, or has more than 50 rows.

    >>> GeeModel("attacks", ("age",), cluster="person").statistics
    ('crosstable', 'gee')
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


def too_large(name: str, sets: str, codes: Mapping[str, Integers]) -> str:
    """Why these sets are too large for a model; "" if they are not.

    >>> too_large("m", "set", {"set": np.array([1, 1, 2])})
    ''
    """
    most = int(np.unique(codes[sets], return_counts=True)[1].max(initial=0))
    if most <= MOST_IN_SET:
        return ""
    return f"{sets!r} of the model {name!r} must have at most {MOST_IN_SET} rows of one value, got {most}"
