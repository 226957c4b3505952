"""Squared residuals times products of columns: the middle of the sandwich that robust standard errors are made of."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.robust import RobustModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.statistics.newton import (
    MOST_PREDICTION,
    linear_predictor,
    n_coefficients,
    refuse_beyond,
    scaled_design,
)
from codedfl.statistics.rounded import Rounded, cluster_sums, products, row_sums
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Integers, Wholes

MOST_RESIDUAL = 8.0  # half ranges of the target, beyond which a residual is cut off
MOST_LEVERAGE = 0.99  # likewise
_POWER = {"HC2": 1, "HC3": 2}


@register_statistic
class Robust(Rounded):
    """The number of clusters, and the upper triangle of the sum of e^2 x x' over rows, or of s s' over clusters.

    The point is the coefficients of a constant and the scaled columns, which predict the target in half ranges; for HC2
    and HC3 also the upper triangle of (X'X)^-1 of these columns, of which leverages are made.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.robust import RobustModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.robust import Robust
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> model = RobustModel("stay", ("age",))
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> Robust(study, np.zeros(5), model).length
    4
    """

    name: ClassVar[str] = "robust"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points", "clusters"})
    shows: ClassVar[str] = (
        "Products of columns weighted by squared residuals. A malicious server chooses the coefficients, so that rows"
        " far from what they predict weigh most; with few clusters it sees sums of single clusters."
    )
    no_noise: ClassVar[str] = "no bound on one row's part in the errors is stated"
    term: ClassVar[str] = "the squared residuals of the model {name!r}"
    remedy: ClassVar[str] = "give the study fewer max_rows or max_rows_per_device, or the model other errors"

    def _begin(self) -> None:
        """The point is cut into its two parts: coefficients within a bound, a matrix without negative squares."""
        assert isinstance(self.model, RobustModel)
        self._robust = self.model
        self._d = n_coefficients(self.study, self.model)
        self._beta, triangle = np.split(self.point, [self._d])
        self._inverse = np.zeros((self._d, self._d))
        if len(triangle):
            self._inverse[np.triu_indices(self._d)] = triangle
            self._inverse += np.triu(self._inverse, 1).T
            squares = np.linalg.eigvalsh(self._inverse)
            if squares[0] < -1e-9 * max(1.0, float(squares[-1])):
                raise InvalidInput(f"the matrix in a point of {self.name} must be positive semi-definite, got another")
        # Invariant: no step between two people, of whom one has no residual and all others have the largest.
        refuse_beyond(self.study, self._robust, self._beta, MOST_PREDICTION)
        super()._begin()

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = [one for one in study.models if isinstance(one, RobustModel)]
        each = "; ".join(f"{one.name}, {one.errors}" for one in models)
        return f"the products of the columns, weighted by squared residuals of a model that the server names ({each})"

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """Coefficients, and the matrix where it is needed."""
        assert isinstance(model, RobustModel)
        d = n_coefficients(study, model)
        return d + (d * (d + 1) // 2 if model.errors in _POWER else 0)

    @property
    def length(self) -> int:
        """A count and a triangle."""
        return 1 + self._d * (self._d + 1) // 2

    @cached_property
    def largest(self) -> int:
        """From the bounds on residuals and leverages."""
        each = MOST_RESIDUAL**2
        if self._robust.cluster:
            each *= self.study.max_rows_per_device
        return int(np.ceil(self.study.max_rows * each * (1 - MOST_LEVERAGE) ** -_POWER.get(self._robust.errors, 0)))

    def vector(self, rows: Snapshot) -> Wholes:
        """Clusters are added up in whole numbers first, so that the order of their rows does not matter."""
        rows = rows.part(held_out=False)
        X = scaled_design(self.study, self._robust, rows.codes)
        residual = self._residuals(X, rows.target)
        if not self._robust.cluster:
            weight = self._weights(X) * residual * residual
            return row_sums(self._terms(X, weight), self.bits)
        place = self.study.table_columns.names.index(self._robust.cluster)
        scores = cluster_sums(residual[:, None] * X, rows.codes[:, place])
        return row_sums(self._terms(scores, np.ones(len(scores))), self.bits)

    def _residuals(self, X: Floats, target: Integers) -> Floats:
        predicted = linear_predictor(X, self._beta)
        truth = self.study.target.design(target)[:, 0] / float(self.study.target_units.limit[0])
        return np.asarray(np.clip(truth - predicted, -MOST_RESIDUAL, MOST_RESIDUAL))

    def _weights(self, X: Floats) -> Floats:
        """Powers of 1 / (1 - leverage)."""
        leverage = np.zeros(len(X))
        for first, column in enumerate(X.T):
            for second, other in enumerate(X.T):
                leverage = leverage + column * other * self._inverse[first, second]
        left = 1.0 - np.clip(leverage, 0.0, MOST_LEVERAGE)
        return np.asarray((1.0, 1.0 / left, 1.0 / (left * left))[_POWER.get(self._robust.errors, 0)] * np.ones(len(X)))

    @staticmethod
    def _terms(X: Floats, weight: Floats) -> Floats:
        return np.hstack((np.ones((len(X), 1)), products(X, weight)))
