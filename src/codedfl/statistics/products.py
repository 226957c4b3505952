"""Products with X'X of random features: answered epoch by epoch by role keys, or with noise in one closed form."""

from __future__ import annotations

import hashlib
from typing import ClassVar

import numpy as np

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.features import Principal
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.exact.fitted_rows import fitted
from codedfl.exact.scales import Scales
from codedfl.statistics.statistic import Statistic, register_statistic
from codedfl.sum.layout import Layout, Words
from codedfl.typing import Floats, Wholes

_TOLERANCE = 1e-6


@register_statistic
class Products(Statistic):
    """X'X e in every epoch, over the training rows. The point is the principal components, where the study has any.

    There is one point over the life of the study.

    It is a vector with a matrix behind it, of which holders reply with products: ``words``.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.products import Products
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> Products(Study("stays", (age,), days, 5000, 1000, 3, features="rbf", n_features=50)).length
    51
    """

    name: ClassVar[str] = "products"
    tells: ClassVar[frozenset[str] | None] = frozenset({"rows", "features", "classes"})
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
        """X'Y and how many rows there are; with noise, which hides how many, X'Y and the triangle of X'X."""
        d = self.study.feature_count
        outputs = d * self.study.target.labels().n_outputs
        return outputs + (d * (d + 1) // 2 if self.study.noise is not None else 1)

    def scales(self, n_owners: int) -> Scales:
        """The grids of X'X and X'Y, with the noise that there is."""
        return self.study.scales(self.recipe, n_owners)

    def layout(self, n_owners: int) -> Layout:
        """A vector, and a matrix to be multiplied with; with noise the matrix may be seen, so all is one vector."""
        scales = self.scales(n_owners)
        bits = (scales.modulus - 1).bit_length()
        if scales.noise is not None:
            return Layout(bits, length=self.length, limit=max(scales.cross_limit, scales.gram_limit))
        return Layout(
            bits,
            length=self.length,
            limit=max(scales.cross_limit, self.study.max_rows),
            size=scales.n_features,
            columns=self.recipe.n_outputs,
            room=scales.limit // scales.gram_limit,
        )

    def vector(self, rows: Snapshot) -> Wholes:
        """It has a matrix behind it: ``words``."""
        del rows
        raise InvalidInput("products must be answered epoch by epoch, got a question for one vector")

    def words(self, rows: Snapshot, n_owners: int, noise_seed: bytes) -> Words:
        """X'Y and the rows' count, and X'X of the training rows, each rounded once; with noise if it is asked for."""
        train, scales = rows.part(held_out=False), self.scales(n_owners)
        gram = np.zeros(scales.n_features * (scales.n_features + 1) // 2, dtype=np.int64)
        cross = np.zeros((scales.n_features, self.recipe.n_outputs), dtype=np.int64)
        if len(train):
            made = self.recipe.rows(self.study.matrix(train.codes), self.study.target.values(train.target))
            budget = self.study.noise
            noise = None if budget is None else budget.noise(scales.n_features, self.recipe.feature_map.bound)
            X, Y, _ = fitted(made.X.astype(np.float64), made.Y, scales.bounds, noise)
            gram, cross = scales.gram(X).astype(np.int64), scales.cross(X, Y).astype(np.int64)
        layout = self.layout(n_owners)
        if scales.noise is None:
            return layout.words_of(np.append(cross.ravel(), len(train)), gram)
        from codedfl.crypto.noise import cross_noise, gram_noise

        # Invariant: seed and label are the same for the same study and point, so noise cannot be averaged away.
        label = hashlib.sha256(self.study.digest() + self.point.tobytes()).hexdigest()
        cross += cross_noise(scales, self.recipe.n_outputs, noise_seed, label)
        gram += gram_noise(scales, noise_seed, label)
        return layout.words_of(np.concatenate((cross.ravel(), gram)))


def principal_length(study: Study) -> int:
    """How many numbers tell the principal components of a study: none where it has none.

    Examples
    --------
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.products import principal_length
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
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
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.products import principal_from
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
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
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers so large that they are none of any components
        off = float(np.abs(components.T @ components - np.eye(components.shape[1])).max())
    if not off <= _TOLERANCE:
        raise InvalidInput(f"components must be orthonormal to {_TOLERANCE:g}, got ones that are off by {off:.1e}")
    return Principal(centre, components)
