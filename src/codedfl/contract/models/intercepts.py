"""A linear model whose constant varies from cluster to cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.contract.models import Named, StudyModel, Target, check_number, register_model
from codedfl.typing import Integers


@register_model
@dataclass(frozen=True)
class RandomInterceptModel(StudyModel):
    """A linear mixed model with a random intercept for each cluster, by restricted maximum likelihood.

    Every ratio of variances that is tried is one total of what clusters of each size sum up to. As many ratios as there
    are sizes give these sums back, so the ratios are few, and a device refuses clusters that they could tell.

    cluster: the column that says which cluster a row is in; no cluster is on two devices. Not the device itself.

    >>> RandomInterceptModel("stay", ("age",), "clinic").uses
    ('clinic',)
    """

    cluster: str

    kind: ClassVar[str] = "random-intercept"
    at_points: ClassVar[tuple[str, ...]] = ("intercepts",)
    points: ClassVar[int] = 8

    @property
    def uses(self) -> tuple[str, ...]:
        """The clusters."""
        return (self.cluster,)

    def check(self, columns: Named, target: Target) -> None:
        """A number to predict."""
        super().check(columns, target)
        check_number(self.name, target)

    def objection(self, codes: Mapping[str, Integers], points: int, smallest: int) -> str:
        """Sums of the clusters of one size must be of enough clusters, or hidden among those of many sizes."""
        _, sizes = np.unique(codes[self.cluster], return_counts=True)
        _, clusters = np.unique(sizes, return_counts=True)
        if clusters.min(initial=smallest) >= smallest or len(clusters) >= 2 * points:
            return ""
        return (
            f"clusters {self.cluster!r} of the model {self.name!r} must have each size at least {smallest} times in"
            f" this table, or at least {2 * points} sizes, twice the points of the study, got {len(clusters)} sizes,"
            f" one of {clusters.min()} clusters: as many totals as sizes give back what these clusters sum up to; for a"
            " constant of each site take site_effects"
        )
