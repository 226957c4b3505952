"""Counts on held-out rows at a model that the server names: which classes were taken for which, and how surely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.gram import gram_triangle
from codedfl.statistics.products import principal_from, principal_length
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Floats, Integers, Wholes

# Of the score of the second of two classes, from 0 to 1; what lies beyond counts at the ends. A malicious server sees
# this histogram of any linear combination of the columns, so there are no more bins than calibration needs.
BINS = 10
MOST_STEEP = 1e4


@register_statistic
class Score(Statistic):
    """For classes the confusion matrix, for two of them also a histogram of scores; for a number sums of products.

    The point is the principal components, where the study has any, and then Theta, row by row. With linear features
    Theta is of a constant and of the design columns divided by their largest size, which every device knows.

    For a number it is the upper triangle of the Gram matrix of [1, y, e], where e is the error of the prediction in
    whole steps of the target. Linear features need no such score: the held-out Gram matrix has it.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import ClassTarget, NumberColumn
    >>> from codedfl.statistics.score import Score
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), ClassTarget("ill", ("a", "b", "c")), 5000, 1000, 3)
    >>> Score(study, np.zeros(6)).length
    9
    """

    name: ClassVar[str] = "score"
    tells: ClassVar[frozenset[str] | None] = frozenset({"points", "classes"})
    shows: ClassVar[str] = (
        "A malicious server sends another model, chosen so that the counts divide the held-out rows where it likes: in"
        f" {BINS} parts for two classes."
    )

    def _begin(self) -> None:
        """The components are checked as for products."""
        principal, theta = np.split(self.point, [principal_length(self.study)])
        self._principal = principal_from(self.study, principal)
        self._theta = theta.reshape(-1, len(self.study.target.units))
        # Invariant: no step so steep that it picks out a person. Columns are at most 1 in size, features bounded.
        steepest = float(np.abs(self._theta).sum(axis=0).max(initial=0.0))
        if steepest > MOST_STEEP:
            raise InvalidInput(f"a point of {self.name} must have a sum of sizes of at most {MOST_STEEP:g}, got more")

    @classmethod
    def leaves(cls, study: Study) -> str:
        """At a point."""
        what = "sums of squares and products of the target and the errors on held-out rows"
        if isinstance(study.target, ClassTarget):
            scores = f", and how many scores lie in each of {BINS} parts" if len(study.target.classes) == 2 else ""
            what = f"how many held-out rows of each class are taken for each class{scores}"
        return f"{what}, for at most {study.most_points} model(s) of the server's choice"

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """The length of principal components and Theta together."""
        del model
        rows = 1 + len(study.design_names) if study.features == "linear" else study.feature_count
        return principal_length(study) + rows * len(study.target.units)

    @property
    def length(self) -> int:
        """Six sums of a number."""
        target = self.study.target
        if not isinstance(target, ClassTarget):
            return 6
        size = len(target.classes)
        return size * size + (2 * BINS if size == 2 else 0)

    @property
    def limit(self) -> int:
        """Every row counts once; an error of a number is cut off at the width of its range."""
        if isinstance(self.study.target, ClassTarget):
            return self.study.max_rows
        return self.study.max_rows * self._most_error**2

    def vector(self, rows: Snapshot) -> Wholes:
        """The statistic of the held-out rows."""
        codes, target = rows.codes[rows.held_out], rows.target[rows.held_out]
        scores = self._scores(codes)
        if isinstance(self.study.target, ClassTarget):
            return class_counts(scores, target)
        truth = self.study.target.design(target)[:, 0]
        unit = self.study.target_units
        predicted = (self.study.target.labels().decode(scores) - unit.zero) / unit.step
        errors = np.rint(np.clip(truth - predicted, -self._most_error, self._most_error)).astype(np.int64)
        return gram_triangle(np.column_stack((np.ones_like(truth), truth, errors)))

    @property
    def _most_error(self) -> int:
        return 2 * int(self.study.target_units.limit[0])

    def _scores(self, codes: Integers) -> Floats:
        if self.study.features != "linear":
            return self.study.recipe(self._principal).scores(self._theta, self.study.matrix(codes))[0]
        columns = self.study.design(codes) / self.study.units.limit
        return np.asarray(self._theta[0] + columns @ self._theta[1:])


def class_counts(scores: Floats, truth: Integers) -> Integers:
    """The confusion matrix, true classes in rows; of two classes also histograms of the score by class.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.score import class_counts
    >>> class_counts(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1]))[:4]
    array([1, 0, 0, 1])
    """
    size = scores.shape[1]
    confusion = np.bincount(truth * size + scores.argmax(axis=1), minlength=size * size)
    if size != 2:
        return confusion
    # The two scores are one number: the second's share of the margin.
    margin = np.clip((scores[:, 1] - scores[:, 0] + 1) / 2, 0, 1)
    places = np.minimum((margin * BINS).astype(np.int64), BINS - 1)
    return np.concatenate((confusion, *(np.bincount(places[truth == one], minlength=BINS) for one in (0, 1))))
