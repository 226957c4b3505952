"""Products with X'X of random features: answered epoch by epoch by role keys, or with noise in one closed form."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.features import Principal
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.typing import Floats, Wholes

_TOLERANCE = 1e-6


@register_statistic
class Products(Statistic):
    """X'X e in every epoch, over the training rows. The point is the principal components, where the study has any.

    There is one point over the life of the study.

    It is no single vector, so ``vector`` refuses: the run itself makes the sums, from the rows of ``recipe``.

    Examples
    --------
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.statistics.products import Products
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> Products(Study("stays", (age,), days, 5000, 1000, 3, features="rbf", n_features=50)).length
    50
    """

    name: ClassVar[str] = "products"
    shows: ClassVar[str] = "One direction of the total X'X per epoch; as many epochs as features show all of it."
    no_noise: ClassVar[str] = ""

    def _begin(self) -> None:
        """The components must be orthonormal and their centre within the columns' ranges."""
        self.principal = principal_from(self.study, self.point)

    @classmethod
    def leaves(cls, study: Study) -> str:
        """An upload, and then answers."""
        d = study.feature_count
        numbers = d * (d + 1) // 2 + d * len(study.target.units)
        return (
            "the products of the features with each other and with the target, under pads; in each exchange the server"
            f" learns what the total X'X does to one more direction of its choice ({numbers} numbers, once, then"
            f" {study.epochs - 1} exchanges)"
        )

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """A centre of each design column, and the components; none without them."""
        del model
        return principal_length(study)

    @property
    def recipe(self) -> Recipe:
        """How the study's matrix becomes X and Y; by the public ranges alone."""
        return self.study.recipe(self.principal)

    @property
    def length(self) -> int:
        """Numbers in an answer."""
        return self.study.feature_count * self.study.target.labels().n_outputs

    @property
    def limit(self) -> int:
        """The run's own parameters bound its totals."""
        raise InvalidInput("products must be bounded by the parameters of their run, got a question for one bound")

    def vector(self, rows: Snapshot) -> Wholes:
        """There is no one vector."""
        del rows
        raise InvalidInput("products must be answered epoch by epoch, got a question for one vector")


def principal_length(study: Study) -> int:
    """How many numbers tell the principal components of a study: none where it has none.

    Examples
    --------
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.statistics.products import principal_length
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> principal_length(Study("stays", (age,), days, 5000, 1000, 3, features="pca-rbf", components=1))
    2
    """
    return len(study.design_names) * (1 + (study.components or 0)) if study.needs_covariance else 0


def principal_from(study: Study, numbers: Floats) -> Principal | None:
    """The components that these numbers say; others than orthonormal ones within the ranges are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.statistics.products import principal_from
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> study = Study("stays", (age,), days, 5000, 1000, 3, features="pca-rbf", components=1)
    >>> principal_from(study, np.array([0.5, 1.0])).centre
    array([0.5])
    """
    if not study.needs_covariance:
        return None
    centre, flat = np.split(numbers, [len(study.design_names)])
    components = flat.reshape(len(centre), -1)
    scaling = study.preprocessing()
    if not ((scaling.low <= centre) & (centre <= scaling.high)).all():
        raise InvalidInput("the centre must lie within the ranges of the columns, got one outside")
    off = float(np.abs(components.T @ components - np.eye(components.shape[1])).max())
    if not off <= _TOLERANCE:
        raise InvalidInput(f"components must be orthonormal to {_TOLERANCE:g}, got ones that are off by {off:.1e}")
    return Principal(centre, components)
