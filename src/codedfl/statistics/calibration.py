"""How good a logistic model's chances are: counts by class and by tenths of the chance, at its coefficients."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.exact.portable import portable_exp
from codedfl.statistics.newton import Newton
from codedfl.statistics.score import BINS, class_counts
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Wholes


@register_statistic
class Calibration(Newton):
    """The confusion matrix and a histogram of the chance by class, over held-out rows or, if none are, training rows.

    The point is that of ``newton``, and within the same bound.

    Examples
    --------
    >>> from codedfl.statistics.calibration import Calibration
    >>> sorted(Calibration.tells)
    ['classes', 'points']
    """

    name: ClassVar[str] = "calibration"
    tells: ClassVar[frozenset[str] | None] = frozenset({"points", "classes"})
    shows: ClassVar[str] = (
        "A malicious server names other coefficients, so that the counts divide the rows where it likes, in"
        f" {BINS} parts."
    )

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = ", ".join(one.name for one in study.models if isinstance(one, LogisticModel))
        kept = "held-out rows" if study.held_out else "rows"
        what = f"how many {kept} of each class have a chance in each of {BINS} parts"
        return f"{what}, by a model that the server names ({models})"

    @property
    def length(self) -> int:
        """A confusion matrix, and two histograms."""
        return 4 + 2 * BINS

    def vector(self, rows: Snapshot) -> Wholes:
        """As the score of two classes, whose scores are the chances."""
        rows = rows.part(held_out=self.study.held_out > 0)
        chance = 1.0 / (1.0 + portable_exp(-self.predictor(rows.codes)))
        return class_counts(np.stack((1.0 - chance, chance), axis=1), rows.target)
