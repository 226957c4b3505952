"""What the standard errors of a generalised linear model are made of beside X'WX: Pearson's sum, and sums of scores."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models.glm import GlmModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import NumberTarget
from codedfl.statistics.families import family_of, target_values
from codedfl.statistics.newton import Newton, scaled_design
from codedfl.statistics.rounded import cluster_sums, products, row_sums
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Wholes

MOST_RESIDUAL = 4.0  # largest targets, beyond which a slope is cut off; of a Gamma model in means
MOST_PEARSON = float(1 << 20)  # beyond which a squared Pearson residual is cut off


@register_statistic
class Sandwich(Newton):
    """Sums over the training rows for standard errors, at the coefficients that an iteration ended in.

    The vector is: how many clusters, how many terms were cut off, the sum of squared Pearson residuals, and the upper
    triangle of a matrix: with robust errors the sum of s s' over the scores of rows, or of clusters; else of a Gamma
    model the expected X'WX, where ``newton`` has the observed one; else none. The point is that of ``newton``, and
    within the same bound.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.poisson import PoissonModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.sandwich import Sandwich
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> model = PoissonModel("visits", ("age",), errors="HC0")
    >>> study = Study("stays", (age,), NumberTarget("visits", (0.0, 60.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> Sandwich(study, np.zeros(2), model).length
    6
    """

    name: ClassVar[str] = "sandwich"
    version: ClassVar[int] = 2
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points", "clusters"})
    shows: ClassVar[str] = (
        "Products of columns weighted by how far rows are from what the coefficients predict. A malicious server"
        " chooses these, within the bound; with few clusters it sees sums of single clusters."
    )

    term: ClassVar[str] = "the squared scores of the model {name!r}"
    remedy: ClassVar[str] = "give the study fewer max_rows or max_rows_per_device, or the target a narrower range"

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = [one for one in study.models if isinstance(one, GlmModel) and cls.name in one.statistics]
        each = "; ".join(f"{one.name}, errors = {one.errors}" for one in models)
        return (
            "the sum of squared residuals over their variance and, for robust errors, the products of the columns"
            f" weighted by squared residuals, of a model that the server names ({each})"
        )

    @property
    def expected(self) -> bool:
        """Whether the triangle is the expected X'WX."""
        return self._glm.family == "gamma" and not self.robust

    @property
    def robust(self) -> bool:
        """Whether the triangle is of sums of scores."""
        return self._glm.errors != "model"

    @property
    def length(self) -> int:
        """Three numbers and perhaps a triangle."""
        d = len(self.point)
        return 3 + (d * (d + 1) // 2 if self.expected or self.robust else 0)

    @property
    def _cut(self) -> float:
        """The largest slope of a row."""
        target = self.study.target
        if isinstance(target, NumberTarget) and self._glm.family != "gamma":
            return MOST_RESIDUAL * max(1.0, target.range[1])
        return 16.0 * MOST_RESIDUAL

    @cached_property
    def largest(self) -> int:
        """From where slopes and Pearson's terms are cut off."""
        rows, weight = self.study.max_rows, max(self.most_weight, 1.0)
        squares = self._cut**2 * weight
        if self._glm.cluster:
            squares *= weight * self.study.max_rows_per_device
        return int(np.ceil(rows * max(squares, MOST_PEARSON * weight)))

    def vector(self, rows: Snapshot) -> Wholes:
        """Clusters are added up in whole numbers first, so that the order of their rows does not matter."""
        rows = rows.part(held_out=False)
        X, weight, predictor = (
            make(rows.codes)
            for make in (lambda codes: scaled_design(self.study, self._glm, codes), self.weight, self.predictor)
        )
        y, family = target_values(self.study, rows.target), family_of(self.study, self._glm)
        mean = family.mean(predictor)
        pearson = (y - mean) * (y - mean) / family.variance(mean)
        slope = family.terms(y, predictor).slope
        cut = (pearson > MOST_PEARSON) | (np.abs(slope) > self._cut)
        pearson, slope = np.minimum(pearson, MOST_PEARSON), np.clip(slope, -self._cut, self._cut)
        terms = [np.stack((np.zeros(len(X)), cut, weight * pearson), axis=1)]
        if self.expected:
            terms.append(products(X, weight))
        if self.robust and not self._glm.cluster:
            terms.append(products(X, weight * slope * slope))
        sums = row_sums(np.hstack(terms), self.bits)
        if self._glm.cluster:
            scores = self._cluster_scores((weight * slope)[:, None] * X, rows)
            sums[0] = len(scores) << self.bits
            sums = np.concatenate((sums, row_sums(products(scores, np.ones(len(scores))), self.bits)))
        return sums

    def _cluster_scores(self, scores: Floats, rows: Snapshot) -> Floats:
        place = self.study.table_columns.names.index(self._glm.cluster)
        return cluster_sums(scores, rows.codes[:, place])
