"""Heads: linear classifiers that follow from one sum, X'X with the sums and counts of each class.

Whoever has that sum makes all of them, exactly, without asking for anything more. A head is a function under
``@register_head``; a new one needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codedfl.analyses.penalised import gcv_choice
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Integers

# Penalties around the one that generalised cross-validation finds: held-out rows may want much less of it.
_AROUND = (0.1, 1.0)
_LEAST = 1e-12  # of a variance: a column that never varies says nothing
_SHARES = (0.003, 0.03)  # of the mean variance within classes: how far that matrix is shrunk


@dataclass(frozen=True, eq=False)
class ClassSums:
    """What is known of rows and their classes, about the mean.

    rows: of all classes. counts: of each class.
    mean: of the columns. covariance: of the columns, divided by the number of rows.
    means: of the columns in each class, less ``mean``, one row per class.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.heads import ClassSums
    >>> sums = ClassSums.of(np.array([[0.0], [2.0], [9.0], [11.0]]), np.array([0, 0, 1, 1]), 2)
    >>> sums.means.tolist(), sums.within.tolist()
    ([[-4.5], [4.5]], [[1.0]])
    """

    rows: int
    counts: Floats
    mean: Floats
    covariance: Floats
    means: Floats

    def __post_init__(self) -> None:
        if not (self.counts > 0).all():
            raise InvalidInput("every class must have a row to train on, got one without")

    @classmethod
    def of(cls, X: Floats, places: Integers, n_classes: int) -> ClassSums:
        """From rows themselves, for tests and for a centre that has them."""
        hot = np.eye(n_classes)[places]
        mean, counts = X.mean(axis=0), hot.sum(axis=0)
        centred = X - mean
        return cls(
            len(X), counts, mean, centred.T @ centred / len(X), hot.T @ centred / np.maximum(counts, 1.0)[:, None]
        )

    @cached_property
    def shares(self) -> Floats:
        """Of the classes."""
        return self.counts / self.rows

    @cached_property
    def cross(self) -> Floats:
        """X'Y / n of centred columns and indicators of classes."""
        return self.means.T * self.shares

    @cached_property
    def within(self) -> Floats:
        """The covariance within classes, which all classes share."""
        found: Floats = self.covariance - self.cross @ self.means
        return (found + found.T) / 2


@dataclass(frozen=True, eq=False)
class Head:
    """Scores = constants + x slopes; the class of the largest is the prediction.

    name: the kind, with its weight where it has one.
    slopes: columns x classes.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.heads import Head
    >>> Head("ridge", 0.1, np.ones((2, 3)), np.zeros(3))
    <Head ridge, weight 0.1>
    """

    name: str
    weight: float
    slopes: Floats
    constants: Floats

    def __repr__(self) -> str:
        return f"<Head {self.name}, weight {self.weight:.3g}>"


Maker = Callable[[ClassSums], Iterator[Head]]
HEADS: dict[str, Maker] = {}


def register_head(name: str) -> Callable[[Maker], Maker]:
    """Make a kind of head known by its name; serves as a decorator.

    Examples
    --------
    >>> from codedfl.analyses.heads import HEADS
    >>> list(HEADS)
    ['ridge', 'balanced-ridge', 'lda', 'nearest-mean']
    """

    def register(maker: Maker) -> Maker:
        if name in HEADS:
            raise InvalidInput(f"the name of a head must be new, got {name!r} again")
        HEADS[name] = maker
        return maker

    return register


def all_heads(sums: ClassSums) -> list[Head]:
    """Every head that follows from the sums: candidates, of which held-out rows choose.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.heads import ClassSums, all_heads
    >>> sums = ClassSums.of(np.array([[0.0], [2.0], [9.0], [11.0]]), np.array([0, 0, 1, 1]), 2)
    >>> all_heads(sums)[-1]
    <Head nearest-mean, weight 0>
    """
    return [head for maker in HEADS.values() for head in maker(sums)]


class ShrunkenHead:
    """Solutions of (matrix + weight) x = right for many weights, from one decomposition.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.heads import ShrunkenHead
    >>> ShrunkenHead(np.diag([1.0, 3.0])).solve(np.array([[2.0], [4.0]]), 1.0).round(12).tolist()
    [[1.0], [1.0]]
    """

    def __init__(self, matrix: Floats) -> None:
        values, self._vectors = np.linalg.eigh(matrix)
        self._values = np.maximum(values, 0.0)

    def solve(self, right: Floats, weight: float) -> Floats:
        """x for one weight above 0."""
        found: Floats = self._vectors @ ((self._vectors.T @ right) / (self._values + weight)[:, None])
        return found


def _ridges(covariance: Floats, means: Floats, shares: Floats, rows: int) -> Iterator[tuple[float, Floats]]:
    """Slopes of indicators of the classes on centred columns, where classes have these shares and means."""
    cross = means.T * shares
    best = gcv_choice(covariance, cross, float(shares @ (1.0 - shares)), rows)
    solutions = ShrunkenHead(covariance)
    for factor in _AROUND:
        yield best * factor, solutions.solve(cross, best * factor)


@register_head("ridge")
def ridge(sums: ClassSums) -> Iterator[Head]:
    """Ridge regression on indicators of the classes; the penalty by generalised cross-validation, and larger ones.

    Examples
    --------
    See ``all_heads``, which makes it.
    """
    for weight, slopes in _ridges(sums.covariance, sums.means, sums.shares, sums.rows):
        yield Head("ridge", weight, slopes, sums.shares - sums.mean @ slopes)


@register_head("balanced-ridge")
def balanced_ridge(sums: ClassSums) -> Iterator[Head]:
    """The ridge of as many rows of every class, where all classes have the covariance that they have in common.

    Weights on single rows would need a matrix of each class. This one needs nothing beyond the sum.

    Examples
    --------
    See ``all_heads``, which makes it.
    """
    shares = np.full(len(sums.counts), 1.0 / len(sums.counts))
    centre = shares @ sums.means
    means = sums.means - centre
    for weight, slopes in _ridges(sums.within + (means.T * shares) @ means, means, shares, sums.rows):
        yield Head("balanced-ridge", weight, slopes, shares - (sums.mean + centre) @ slopes)


@register_head("lda")
def lda(sums: ClassSums) -> Iterator[Head]:
    """Linear discriminant analysis: normal classes with one covariance, shrunk towards a multiple of the identity.

    Examples
    --------
    See ``all_heads``, which makes it.
    """
    within = sums.within
    solutions, size = ShrunkenHead(within), float(np.trace(within)) / len(within)
    for share in _SHARES:
        weight = max(share * size, _LEAST)
        slopes = solutions.solve(sums.means.T, weight)
        constants = np.log(sums.shares) - np.einsum("kj,jk->k", sums.means, slopes) / 2
        yield Head("lda", weight, slopes, constants - sums.mean @ slopes)


@register_head("nearest-mean")
def nearest_mean(sums: ClassSums) -> Iterator[Head]:
    """The class whose mean is nearest, every column in units of its deviation within classes.

    Examples
    --------
    See ``all_heads``, which makes it.
    """
    slopes = (sums.means / np.maximum(np.diag(sums.within), _LEAST)).T
    constants = -np.einsum("kj,jk->k", sums.means, slopes) / 2
    yield Head("nearest-mean", 0.0, slopes, constants - sums.mean @ slopes)
