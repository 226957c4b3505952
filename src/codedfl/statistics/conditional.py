"""What a step of Newton's iteration for a conditional logistic model needs: sums over matched sets."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.conditional_logit import ConditionalLogitModel
from codedfl.contract.models.matched import MOST_IN_SET
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.exact.portable import portable_exp, portable_log
from codedfl.statistics.newton import Iterated, linear_predictor, n_coefficients, scaled_design
from codedfl.statistics.rounded import row_sums
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Wholes


@register_statistic
class Conditional(Iterated):
    """Likelihood, gradient and curvature over matched sets, laid out as those of ``newton``; the weight counts sets.

    A set says something where it has rows of both classes: its likelihood is the chance that of all its rows just these
    are of the second class. The point is a coefficient per design column, each divided by its largest size.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.conditional_logit import ConditionalLogitModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> from codedfl.statistics.conditional import Conditional
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> sets = NumberColumn("set", (0.0, 99.0), 1.0, in_model=False)
    >>> model = ConditionalLogitModel("ill", ("age",), "set")
    >>> study = Study("s", (age, sets), ClassTarget("ill", ("no", "yes")), 5000, 1000, 3, models=(model,))
    >>> Conditional(study, np.zeros(1), model).length
    5
    """

    name: ClassVar[str] = "conditional"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points", "classes", "clusters"})
    shows: ClassVar[str] = (
        "Sums over matched sets, weighted by what the coefficients predict for their rows. A malicious server chooses"
        " these, within the bound and the number of points that the study states; with few sets it sees sums of single"
        " ones."
    )
    summed: ClassVar[str] = (
        "sums of the columns and of their products within matched sets, weighted by what the model predicts"
    )
    by: ClassVar[str] = ", sets by {0.strata}"

    def _begin(self) -> None:
        assert isinstance(self.model, ConditionalLogitModel)
        self._matched = self.model
        super()._begin()

    @property
    def beta(self) -> Floats:
        """Without a constant."""
        return np.append(0.0, self.point)

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """Coefficients without a constant."""
        return n_coefficients(study, model) - 1

    @cached_property
    def largest(self) -> int:
        """Of the rows of a set, each adds at most the size of a set to any product."""
        return int(np.ceil(self.study.max_rows * max(MOST_IN_SET, 2.0 * self._matched.bound + 1.0)))

    def vector(self, rows: Snapshot) -> Wholes:
        """Set by set; rows of a set in an order that follows from their values."""
        rows = rows.part(held_out=False)
        X = scaled_design(self.study, self._matched, rows.codes)[:, 1:]
        predictor = linear_predictor(X, self.point)
        sets = rows.codes[:, self.study.table_columns.names.index(self._matched.strata)]
        order = np.lexsort((*X.T, rows.target, sets))
        ends = np.flatnonzero(np.diff(sets[order])) + 1
        terms = [self._set(X[one], predictor[one], rows.target[one] == 1) for one in np.split(order, ends) if len(one)]
        return row_sums(np.array(terms).reshape(-1, self.length), self.bits)

    def _set(self, X: Floats, predictor: Floats, case: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
        """Of a set of both classes; ``sums[k]`` is over all choices of k rows, with its slopes and curvature."""
        cases, d = int(case.sum()), X.shape[1]
        if not 0 < cases < len(X):
            return np.zeros(self.length)
        top = predictor.max()
        sums, slopes, bends = np.zeros(cases + 1), np.zeros((cases + 1, d)), np.zeros((cases + 1, d, d))
        sums[0] = 1.0
        for x, weight in zip(X, portable_exp(predictor - top), strict=True):
            across = slopes[:-1, :, None] * x
            bends[1:] += weight * (
                bends[:-1] + across + across.transpose(0, 2, 1) + sums[:-1, None, None] * (x[:, None] * x)
            )
            slopes[1:] += weight * (slopes[:-1] + sums[:-1, None] * x)
            sums[1:] += weight * sums[:-1]
        mean = slopes[-1] / sums[-1]
        likelihood = predictor[case].sum() - cases * top - portable_log(sums[-1:])[0]
        information = (bends[-1] / sums[-1] - mean[:, None] * mean)[np.triu_indices(d)]
        return np.concatenate(([1.0, likelihood, 0.0], X[case].sum(axis=0) - mean, information))
