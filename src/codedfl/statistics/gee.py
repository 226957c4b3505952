"""What a step of generalised estimating equations needs: scores and products within clusters that correlate alike."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.matched import MOST_IN_SET
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import NumberTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.families import target_values
from codedfl.statistics.newton import Newton, n_coefficients, scaled_design
from codedfl.statistics.rounded import cluster_sums, products, row_sums
from codedfl.statistics.sandwich import MOST_PEARSON
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Integers, Wholes

MOST_ALPHA = 0.95
COUNTS = 5  # numbers before the score


@register_statistic
class Gee(Newton):
    """Sums over clusters of n rows whose residuals correlate by alpha.

    The vector is: how many clusters, how many terms were cut off, pairs of rows of one cluster, the sum of squared
    Pearson residuals, and that of their products over pairs; the score; the upper triangle of D'V^-1 D, and that of the
    products of clusters' scores. The point is that of ``newton`` and alpha.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.gee import GeeModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> from codedfl.statistics.gee import Gee
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> person = NumberColumn("person", (0.0, 999.0), 1.0, in_model=False)
    >>> model = GeeModel("ill", ("age",), cluster="person")
    >>> study = Study("s", (age, person), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3, models=(model,))
    >>> Gee(study, np.zeros(3), model).length
    13
    """

    name: ClassVar[str] = "gee"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points", "clusters"})
    shows: ClassVar[str] = (
        "Products of columns within clusters, weighted by what the coefficients predict and by how far rows are from"
        " it. A malicious server chooses these, within the bound; with few clusters it sees sums of single clusters."
    )
    summed: ClassVar[str] = (
        "sums of the columns and of their products within clusters, weighted by what the model predicts and by"
        " residuals"
    )
    points: ClassVar[str] = "points"
    by: ClassVar[str] = ", by {0.cluster}"
    term: ClassVar[str] = "the squared scores of the model {name!r}"
    remedy: ClassVar[str] = "give the study fewer max_rows, or the target a narrower range"

    def _begin(self) -> None:
        """As for ``newton``, and alpha within limits."""
        super()._begin()
        if not 0 <= self.alpha <= MOST_ALPHA:
            raise InvalidInput(
                f"the correlation of {self.model.name!r} must be from 0 to {MOST_ALPHA:g}, got {self.alpha:g}"
            )

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """One more than for ``newton``."""
        return n_coefficients(study, model) + 1

    @property
    def alpha(self) -> float:
        """The correlation of two rows of a cluster."""
        return float(self.point[-1])

    @property
    def length(self) -> int:
        """Counts, the score and two triangles."""
        d = len(self.point) - 1
        return COUNTS + d + d * (d + 1)

    @property
    def _cut(self) -> float:
        """The largest score of a cluster."""
        target = self.study.target
        return MOST_IN_SET * (max(1.0, target.range[1]) if isinstance(target, NumberTarget) else 1.0)

    @cached_property
    def largest(self) -> int:
        """From where scores and residuals are cut off, and from the largest variance."""
        variance = np.exp(self._glm.bound) / (1.0 - MOST_ALPHA)
        return int(np.ceil(self.study.max_rows * max(self._cut**2, MOST_PEARSON, variance)))

    def vector(self, rows: Snapshot) -> Wholes:
        """Clusters are added up in whole numbers first, so that the order of their rows does not matter."""
        rows = rows.part(held_out=False)
        X, mean = scaled_design(self.study, self._glm, rows.codes), self.family.mean(self.predictor(rows.codes))
        variance = self.family.variance(mean)
        root, slope = np.sqrt(variance), target_values(self.study, rows.target) - mean
        residual = np.clip(slope / root, -(MOST_PEARSON**0.5), MOST_PEARSON**0.5)
        of_rows = (np.ones((len(X), 1)), np.stack((residual, residual * residual), axis=1))
        sums = cluster_sums(np.hstack((*of_rows, root[:, None] * X, slope[:, None] * X)), self._clusters(rows))
        (n, total, squares), S, scores = sums[:, :3].T, *np.hsplit(sums[:, 3:], 2)
        share = self.alpha / (1.0 + (n - 1.0) * self.alpha)
        scores = (scores - (share * total)[:, None] * S) / (1.0 - self.alpha)
        cut = (np.abs(scores) > self._cut).any(axis=1)
        scores = np.clip(scores, -self._cut, self._cut)
        counts = (np.ones(len(n)), cut, n * (n - 1.0) / 2.0, squares, (total * total - squares) / 2.0)
        bread = row_sums(products(X, variance / (1.0 - self.alpha)), self.bits)
        bread = bread - row_sums(products(S, share / (1.0 - self.alpha)), self.bits)
        known = row_sums(np.column_stack((*counts, scores)), self.bits)
        return np.concatenate((known, bread, row_sums(products(scores, np.ones(len(n))), self.bits)))

    def _clusters(self, rows: Snapshot) -> Integers:
        return np.asarray(rows.codes[:, self.study.table_columns.names.index(self._glm.cluster)])


def moments(numbers: Floats, coefficients: int, rows: int) -> tuple[float, float]:
    """The dispersion, and the correlation that the residuals of a total have.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.gee import moments
    >>> moments(np.array([10.0, 0.0, 12.0, 36.0, 5.0]), coefficients=2, rows=20)
    (2.0, 0.25)
    """
    _, _, pairs, squares, of_pairs = numbers[:COUNTS].tolist()
    dispersion = squares / (rows - coefficients)
    return dispersion, of_pairs / dispersion / (pairs - coefficients)
