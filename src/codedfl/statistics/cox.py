"""What a step of Newton's iteration for Cox's model needs: sums over those at risk at each time of the public grid."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.models import NO_MODEL, StudyModel
from codedfl.contract.models.cox import CoxModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.contract.timing import begins_of, ends_of, groups_of, n_groups
from codedfl.exact.portable import portable_exp
from codedfl.statistics.newton import (
    linear_predictor,
    n_coefficients,
    refuse_beyond,
    scaled_design,
)
from codedfl.statistics.rounded import Rounded, products
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Floats, Integers, Wholes

_NUMBERS_AT_ONCE = 1 << 21


@register_statistic
class Cox(Rounded):
    """Sums over the rows at risk, and over those with an event, at each time that is kept, stratum by stratum.

    For each stratum and time: events, their sum of columns, and exp(predictor) times 1, x and x x' over those at risk
    and over those with an event. Behind them is how many events are of rows that begin and end in one interval, which
    are never at risk. The point is a coefficient per design column of the model, each column divided by its largest
    size.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.contract.models.cox import CoxModel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.cox import Cox
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> died = NumberColumn("died", (0.0, 1.0), 1.0, in_model=False)
    >>> model = CoxModel("death", ("age",), "died", (30.0, 60.0))
    >>> study = Study("s", (age, died), NumberTarget("days", (0.0, 90.0), 1.0), 5000, 1000, 3, models=(model,))
    >>> Cox(study, np.array([0.5]), model).length
    17
    """

    name: ClassVar[str] = "cox"
    tells: ClassVar[frozenset[str] | None] = frozenset({"times", "columns", "points"})
    shows: ClassVar[str] = (
        "Sums of columns and products over those who leave between two times, enough people by the census, weighted by"
        " what coefficients predict. A malicious server chooses these, within the bound and the number of points that"
        " the study states."
    )
    no_noise: ClassVar[str] = "no bound on one row's part in the coefficients is stated"

    def _begin(self) -> None:
        """Coefficients within the bound."""
        assert isinstance(self.model, CoxModel)
        self._cox, self._d = self.model, n_coefficients(self.study, self.model) - 1
        self._beta, self._times = self.point, np.array(self._cox.times)
        self._strata = n_groups(self.study, self._cox)
        refuse_beyond(self.study, self._cox, np.append(0.0, self._beta), self._cox.bound)
        super()._begin()

    @classmethod
    def leaves(cls, study: Study) -> str:
        """For each model."""
        models = [one for one in study.models if isinstance(one, CoxModel)]
        each = "; ".join(f"{one.name}, linear predictor up to {one.bound:g}, {len(one.times)} times" for one in models)
        return (
            "sums of the columns and of their products over those at risk and those with the event at each time,"
            f" weighted by what the model predicts, for at most {study.most_points} points of the server's choice in"
            f" all ({each})"
        )

    @classmethod
    def point_length(cls, study: Study, model: StudyModel = NO_MODEL) -> int:
        """Coefficients without a constant."""
        assert isinstance(model, CoxModel)
        return n_coefficients(study, model) - 1

    @property
    def _each(self) -> int:
        """Numbers of a weighted sum: 1, x and x x'."""
        return 1 + self._d + self._d * (self._d + 1) // 2

    @property
    def length(self) -> int:
        """For each stratum and time, and one more."""
        return self._strata * len(self._times) * (1 + self._d + 2 * self._each) + 1

    @cached_property
    def largest(self) -> int:
        """From the bound on the linear predictor."""
        return int(np.ceil(self.study.max_rows * np.exp(self._cox.bound)))

    def vector(self, rows: Snapshot) -> Wholes:
        """Rows are added up by the interval in which they end, and by that in which they begin, in whole numbers."""
        rows = rows.part(held_out=False)
        place = self._places(rows)
        shape = (self._strata, len(self._times) + 1)
        leaving, coming, dying = (_Buckets.of(shape, self._each) for _ in range(3))
        events = _Buckets.of(shape, 1 + self._d)
        for first in range(0, len(rows), block := max(1, _NUMBERS_AT_ONCE // self._each)):
            part = slice(first, first + block)
            X = scaled_design(self.study, self._cox, rows.codes[part])
            weight = portable_exp(linear_predictor(X[:, 1:], self._beta))
            terms, here = self._whole(self._terms(X, weight)), place.part(part)
            leaving.add(here.stratum, here.end, terms, here.at_risk)
            coming.add(here.stratum, here.begin, terms, here.at_risk)
            dying.add(here.stratum, here.end, terms, here.dies)
            events.add(here.stratum, here.end, self._whole(X), here.dies)
        # At risk at a time: who came by then, less who left before it.
        left = np.cumsum(leaving.sums(), axis=1)
        risk = np.cumsum(coming.sums(), axis=1) - np.concatenate((np.zeros_like(left[:, :1]), left[:, :-1]), axis=1)
        parts = (events.sums(), risk, dying.sums())
        sums = np.concatenate(parts, axis=2)[:, :-1].reshape(-1)
        return np.append(sums, int(place.lost.sum()) << self.bits)

    def _places(self, rows: Snapshot) -> _Places:
        ends = ends_of(self.study, rows, self._times)
        begins = np.minimum(begins_of(self.study, self._cox, rows, self._times), len(self._times))
        event = rows.codes[:, self.study.table_columns.names.index(self._cox.event)] == 1
        event &= ends < len(self._times)
        return _Places(groups_of(self.study, self._cox, rows), begins, ends, event)

    def _terms(self, X: Floats, weight: Floats) -> Floats:
        """What each row adds at every time at which it is at risk."""
        x = X[:, 1:]
        return np.hstack((weight[:, None] * X, products(x, weight)))

    def _whole(self, terms: Floats) -> Integers:
        return np.rint(np.ldexp(terms, self.bits)).astype(np.int64)


class _Places(NamedTuple):
    """Of each row the stratum, the times from and until which it is at risk, and whether it ends with the event."""

    stratum: Integers
    begin: Integers
    end: Integers
    event: NDArray[np.bool_]

    @property
    def at_risk(self) -> NDArray[np.bool_]:
        """Some row that begins and ends in one interval is at risk at no time."""
        return self.begin <= self.end

    @property
    def dies(self) -> NDArray[np.bool_]:
        """Has the event while at risk."""
        return self.event & self.at_risk

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Has the event, and is never at risk."""
        return self.event & ~self.at_risk

    def part(self, rows: slice) -> _Places:
        """Of some rows."""
        return _Places(self.stratum[rows], self.begin[rows], self.end[rows], self.event[rows])


class _Buckets(NamedTuple):
    """Sums by stratum and time, of halves of 31 bits and more apart, so that no sum of up to 2^31 rows passes 2^63."""

    high: NDArray[np.int64]
    low: NDArray[np.int64]

    @classmethod
    def of(cls, shape: tuple[int, int], width: int) -> _Buckets:
        """Empty."""
        return cls(np.zeros((*shape, width), dtype=np.int64), np.zeros((*shape, width), dtype=np.int64))

    def add(self, stratum: Integers, time: Integers, terms: Integers, chosen: NDArray[np.bool_]) -> None:
        """Rows that are chosen."""
        where = (stratum[chosen], time[chosen])
        np.add.at(self.high, where, terms[chosen] >> 31)
        np.add.at(self.low, where, terms[chosen] & ((1 << 31) - 1))

    def sums(self) -> NDArray[Any]:
        """As Python's integers."""
        return np.asarray((self.high.astype(object) << 31) + self.low.astype(object))
