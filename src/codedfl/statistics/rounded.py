"""Statistics of numbers that are rounded row by row, so that no order of rows and no split of them changes a bit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.snapshot import Snapshot
from codedfl.errors import InvalidInput
from codedfl.exact.scales import HEADROOM
from codedfl.statistics.statistic import Statistic
from codedfl.typing import Floats, Integers, Wholes

LEAST_BITS, _MOST_BITS = 30, 36  # fraction bits of a row's terms
_CLUSTER_BITS = 30
_NUMBERS_AT_ONCE = 1 << 21
_ROOM = (1 << 72) - 1  # for a total, with its headroom


class Rounded(Statistic):
    """A statistic whose terms are rounded to 2^-bits each: as fine as there is room for, within limits.

    term: what the largest total rests on. remedy: what to do where it leaves too little room.

    Examples
    --------
    See ``codedfl.statistics.newton.Newton``, which is one.
    """

    of_model: ClassVar[bool] = True
    term: ClassVar[str] = "what the model {name!r} can predict"
    remedy: ClassVar[str] = "give it a smaller bound, or the study fewer max_rows"

    def _begin(self) -> None:
        """Refuse totals that leave too few bits; kinds call it when ``largest`` is known."""
        if HEADROOM * self.largest << LEAST_BITS > _ROOM:
            raise InvalidInput(
                f"max_rows times {self.term.format(name=self.model.name)} must leave {LEAST_BITS} bits, got up to"
                f" {self.largest}: {self.remedy}"
            )

    @property
    @abstractmethod
    def largest(self) -> int:
        """A bound on the size of any total of the terms, before they are rounded."""

    @property
    def bits(self) -> int:
        """Fraction bits of every term."""
        return fraction_bits(self.largest)

    @property
    def limit(self) -> int:
        """In units of the last bit."""
        return self.largest << self.bits

    def reals(self, integers: Sequence[int]) -> Floats:
        """What a total of it says."""
        return np.array([one / 2**self.bits for one in integers])


class SumOfRows(Rounded):
    """The sum over the training rows of terms that each row has by itself.

    Examples
    --------
    See ``codedfl.statistics.ordinal.Ordinal``, which is one.
    """

    held_out: ClassVar[bool] = False  # the rows that it is of

    def vector(self, rows: Snapshot) -> Wholes:
        """Blocks of rows are added up in whole numbers."""
        rows = rows.part(held_out=self.held_out)
        sums = np.zeros(self.length, dtype=object)
        block = max(1, _NUMBERS_AT_ONCE // self.length)
        for first in range(0, len(rows), block):
            terms = self.terms(rows.codes[first : first + block], rows.target[first : first + block])
            sums += row_sums(terms, self.bits)
        return sums

    @abstractmethod
    def terms(self, codes: Integers, target: Integers) -> Floats:
        """n x length numbers: what each row adds, before it is rounded."""


def fraction_bits(largest: int) -> int:
    """How fine the terms of rows are whose total is at most ``largest``: as there is room, within limits.

    Examples
    --------
    >>> from codedfl.statistics.rounded import fraction_bits
    >>> fraction_bits(2**20), fraction_bits(2**34)
    (36, 33)
    """
    room = _ROOM // (HEADROOM * largest)
    return min(_MOST_BITS, max(LEAST_BITS, room.bit_length() - 2))


def row_sums(terms: Floats, bits: int) -> NDArray[Any]:
    """The sum of each column of terms, every term rounded by itself to 2^-bits: Python's integers of that unit.

    Invariant: halves of 31 bits and more are added up apart, so that no sum of up to 2^31 rows passes 2^63.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.rounded import row_sums
    >>> row_sums(np.array([[0.5, -3.0], [0.26, 1.0]]), bits=1).tolist()
    [2, -4]
    """
    whole = np.rint(np.ldexp(terms, bits)).astype(np.int64)
    high, low = whole >> 31, whole & ((1 << 31) - 1)
    return np.asarray((high.sum(axis=0).astype(object) << 31) + low.sum(axis=0).astype(object))


def cluster_sums(values: Floats, clusters: Integers) -> Floats:
    """A row for each cluster: the sum of its rows, each rounded to 2^-30 first, so that their order does not matter.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.rounded import cluster_sums
    >>> cluster_sums(np.array([[1.0], [2.0], [0.5]]), np.array([7, 9, 7])).ravel()
    array([1.5, 2. ])
    """
    names, places = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(names), values.shape[1]), dtype=np.int64)
    np.add.at(sums, places, np.rint(np.ldexp(values, _CLUSTER_BITS)).astype(np.int64))
    return np.ldexp(sums.astype(np.float64), -_CLUSTER_BITS)


def products(X: Floats, weight: Floats) -> Floats:
    """The upper triangle of weight x x' of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.statistics.rounded import products
    >>> products(np.array([[1.0, 3.0]]), np.array([2.0]))
    array([[ 2.,  6., 18.]])
    """
    first, second = np.triu_indices(X.shape[1])
    return (weight[:, None] * X)[:, first] * X[:, second]
