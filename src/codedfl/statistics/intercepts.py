"""What a random intercept takes from the products of columns, at a ratio of variances that the server names."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.intercepts import RandomInterceptModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput
from codedfl.exact.portable import portable_exp, portable_log
from codedfl.statistics.newton import n_coefficients, scaled_design
from codedfl.statistics.rounded import Rounded, cluster_sums, products, row_sums
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Wholes

MOST_LOG_RATIO = 10.0
_LARGEST_LOG = 64.0  # of 1 + ratio times rows


@register_statistic
class Intercepts(Rounded):
    """Sums over clusters of n rows, whose sums of a constant, the scaled columns and the target are s.

    The vector is: how many clusters, the logarithms of 1 + ratio n, and the upper triangle of ratio / (1 + ratio n)
    s s'. The point is the logarithm of the ratio: the variance of the intercepts by that of the residuals.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.intercepts import RandomInterceptModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.intercepts import Intercepts
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> clinic = NumberColumn("clinic", (0.0, 99.0), 1.0, in_model=False)
    >>> model = RandomInterceptModel("stay", ("age",), "clinic")
    >>> study = Study("s", (age, clinic), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> Intercepts(study, np.zeros(1), model).length
    8
    """

    name: ClassVar[str] = "intercepts"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns", "points"})
    shows: ClassVar[str] = (
        "Products of what clusters sum up to, weighted by their sizes. As many totals as there are sizes would give the"
        " sums of each size back, so points bound them well below, or each size has several clusters."
    )
    no_noise: ClassVar[str] = "no bound on one row's part is stated"
    term: ClassVar[str] = "the logarithms of sizes in the model {name!r}"
    remedy: ClassVar[str] = "give the study fewer max_rows"

    def _begin(self) -> None:
        """A ratio within reason."""
        assert isinstance(self.model, RandomInterceptModel)
        self._mixed = self.model
        if abs(self.point[0]) > MOST_LOG_RATIO:
            raise InvalidInput(
                f"the logarithm of the ratio of {self._mixed.name!r} must be at most {MOST_LOG_RATIO:g} in size, got"
                f" {self.point[0]:g}"
            )
        super()._begin()

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = [one for one in study.models if isinstance(one, RandomInterceptModel)]
        each = "; ".join(f"{one.name}, by {one.cluster}" for one in models)
        return (
            "products of what clusters sum up to, weighted by their sizes, for at most"
            f" {study.most_points} ratios of variances of the server's choice ({each})"
        )

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """The ratio."""
        del study, model
        return 1

    @property
    def length(self) -> int:
        """Two numbers and a triangle."""
        d = n_coefficients(self.study, self._mixed) + 1
        return 2 + d * (d + 1) // 2

    @property
    def largest(self) -> int:
        """A cluster's part is at most its rows."""
        return int(_LARGEST_LOG) * self.study.max_rows

    def vector(self, rows: Snapshot) -> Wholes:
        """Clusters are added up in whole numbers first."""
        rows = rows.part(held_out=False)
        place = self.study.table_columns.names.index(self._mixed.cluster)
        target = self.study.target.design(rows.target) / float(self.study.target_units.limit[0])
        values = np.hstack((scaled_design(self.study, self._mixed, rows.codes), target))
        sums = cluster_sums(values, rows.codes[:, place])
        ratio = float(portable_exp(self.point)[0])
        inside = 1.0 + ratio * sums[:, 0]
        terms = (np.ones((len(sums), 1)), portable_log(inside)[:, None], products(sums, ratio / inside))
        return row_sums(np.hstack(terms), self.bits)
