"""Kaplan and Meier's curves with Greenwood's errors, and the log-rank test, on a public grid of times."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.distributions import distributions
from codedfl.contract.models import TimedModel
from codedfl.contract.models.survival import SurvivalModel
from codedfl.contract.timing import n_groups
from codedfl.data.columns import CategoryColumn
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, Integers, JsonObject

_NORMAL = 1.959963984540054  # standard errors on either side of a 95 % interval


@dataclass(frozen=True, eq=False)
class SurvivalCurve:
    """The share of a group that is still without the event after each time.

    at_risk, events: people at risk just before each time, and events in the interval that ends with it.
    left: people whose time goes beyond the last.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.survival import SurvivalCurve
    >>> found = SurvivalCurve("a", np.array([30.0, 60.0]), np.array([10, 5]), np.array([2, 1]))
    >>> found.share, found.standard_errors.round(4)
    (array([0.8 , 0.64]), array([0.1265, 0.1753]))
    """

    group: str
    times: Floats
    at_risk: Integers
    events: Integers
    left: int = 0

    @property
    def censored(self) -> Integers:
        """People whose time ended without the event, by interval; none of those whose time goes beyond the last.

        >>> SurvivalCurve("a", np.array([30.0, 60.0]), np.array([10, 5]), np.array([2, 1]), left=1).censored
        array([3, 3])
        """
        return np.asarray(self.at_risk - self.events - np.append(self.at_risk[1:], self.left), dtype=np.int64)

    @property
    def share(self) -> Floats:
        """Kaplan and Meier's product."""
        return np.asarray(np.cumprod(1.0 - self.events / np.maximum(self.at_risk, 1)), dtype=np.float64)

    @property
    def standard_errors(self) -> Floats:
        """By Greenwood's formula; 0 where nobody is left."""
        left = self.at_risk - self.events
        terms = np.where(left > 0, self.events / np.maximum(self.at_risk * left, 1), 0.0)
        return np.asarray(self.share * np.sqrt(np.cumsum(terms)))

    def band(self) -> tuple[Floats, Floats]:
        """Both ends of each share's 95 % interval, on the scale of log(-log), so that it stays between 0 and 1.

        >>> found = SurvivalCurve("a", np.array([30.0, 60.0]), np.array([10, 5]), np.array([2, 1]))
        >>> [end.round(4).tolist() for end in found.band()]
        [[0.4087, 0.2263], [0.9459, 0.8745]]
        """
        share = self.share
        inside = (share > 0) & (share < 1)
        logs = np.log(np.where(inside, share, 0.5))
        reach = np.exp(_NORMAL * self.standard_errors / np.where(inside, share, 0.5) / np.abs(logs))
        low, high = (np.where(inside, np.exp(logs * power), share) for power in (reach, 1.0 / reach))
        return low, high

    @property
    def median(self) -> tuple[float | None, float | None, float | None]:
        """The first time at which at most half are without the event, and where the band says the same; None is later.

        >>> SurvivalCurve("a", np.array([30.0, 60.0]), np.array([10, 5]), np.array([2, 3])).median
        (60.0, 30.0, None)
        """
        first = []
        for ends in (self.share, *self.band()):
            below = np.flatnonzero(ends <= 0.5 + 1e-12)
            first.append(float(self.times[below[0]]) if len(below) else None)
        return first[0], first[1], first[2]

    def to_dict(self) -> JsonObject:
        """For JSON."""
        columns = (
            *(self.times, self.at_risk, self.events, self.censored),
            *(self.share, self.standard_errors, *self.band()),
        )
        keys = ("time", "at_risk", "events", "censored", "share", "standard_error", "low", "high")
        rows = zip(*(one.tolist() for one in columns), strict=True)
        median = dict(zip(("time", "low", "high"), self.median, strict=True))
        return {"group": self.group, "median": median, "curve": [dict(zip(keys, row, strict=True)) for row in rows]}


@dataclass(frozen=True, eq=False)
class SurvivalFinding:
    """A curve per group, and whether they differ.

    chi_squared, freedom, p: of the log-rank test.
    merged: times that the study lists and no curve has: rows of theirs count as ending at the next time that is left.

    Examples
    --------
    See ``log_rank``, which makes the test.
    """

    name: str
    curves: tuple[SurvivalCurve, ...]
    chi_squared: float
    freedom: int
    p: float
    merged: tuple[float, ...] = ()

    def note(self) -> str:
        """What became of times that no curve has; empty where each of them has its own."""
        times = ", ".join(f"{one:g}" for one in self.merged)
        return f"times merged into the next one, since too few rows end there: {times}" if times else ""

    def to_dict(self) -> JsonObject:
        """For JSON."""
        test = {"chi_squared": self.chi_squared, "freedom": self.freedom, "p": self.p}
        curves = [one.to_dict() for one in self.curves]
        return {
            "name": self.name,
            "kind": SurvivalModel.kind,
            "method": "Survival was estimated by Kaplan and Meier's product on a public grid of times, with Greenwood's"
            " errors and intervals on the scale of log(-log), and compared by the log-rank test.",
            "log_rank": test,
            "merged": list(self.merged),
            "curves": curves,
        }

    def lines(self) -> list[str]:
        """A table per group, and the test."""
        found = []
        for one in self.curves:
            median, low, high = ("not reached" if time is None else f"{time:g}" for time in one.median)
            found.append(f"{one.group}, {int(one.at_risk[0])} rows, median {median} (95 % interval {low} to {high})")
            found += ["      time  at risk   events    share  std err"]
            columns = (one.times, one.at_risk, one.events, one.share, one.standard_errors)
            for time, risk, events, share, error in zip(*columns, strict=True):
                found.append(f"{time:>10.6g} {risk:>8d} {events:>8d} {share:>8.4f} {error:>8.4f}")
        found.append(f"log-rank test: chi^2 {self.chi_squared:.4f} on {self.freedom}, p {self.p:.4g}")
        return [*found, *filter(None, [self.note()])]


@register_analysis(SurvivalModel.kind)
def survival(totals: Totals, model: SurvivalModel) -> Generator[Ask, Any, Finding]:
    """Count where times end, join intervals in which few do, ask for events in those that are left, and join again.

    Examples
    --------
    See ``codedfl.analyses.cells.joined``, which says what is joined.
    """
    totals.refuse_clipped((*model.columns, model.event))
    study = totals.final
    times, (others, events) = yield from times_of(totals, model)
    ends = others + events
    at_risk = np.cumsum(ends[:, ::-1], axis=1)[:, ::-1]
    (column,) = (one for one in study.columns if one.name == model.columns[0])
    assert isinstance(column, CategoryColumn)
    curves = tuple(
        SurvivalCurve(level, times, at_risk[place, :-1], events[place, :-1], int(at_risk[place, -1]))
        for place, level in enumerate(column.levels)
    )
    merged = tuple(one for one in model.times if one not in times)
    return SurvivalFinding(model.name, curves, *log_rank(at_risk[:, :-1], events[:, :-1]), merged)


def times_of(totals: Totals, model: TimedModel) -> Generator[Ask, Any, tuple[Floats, Integers]]:
    """The times that end an interval after the census, and censored times and events: 2 x groups x intervals.

    Examples
    --------
    See ``survival``, which begins with it.
    """
    final = next((one for one in totals.final.models if one.name == model.name), None)
    if not isinstance(final, TimedModel):
        raise InvalidInput(_withheld(model, totals.study.smallest_cell))
    counts: list[int] = yield totals.ask("survival", model)
    return np.array(final.times), np.array(counts).reshape(2, n_groups(totals.final, final), -1)


def _withheld(model: TimedModel, smallest: int) -> str:
    return (
        f"times of the model {model.name!r} must leave an interval in which, as after it, every group has none or at"
        f" least {smallest} people with the event (smallest_cell) and as many censored, by the census, got none such:"
        " take fewer and longer times, or join groups"
    )


def log_rank(at_risk: Integers, events: Integers) -> tuple[float, int, float]:
    """Chi^2, its degrees of freedom and p of the hypothesis that all groups have one curve.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.survival import log_rank
    >>> chi_squared, freedom, p = log_rank(np.array([[10, 5], [10, 9]]), np.array([[5, 2], [1, 3]]))
    >>> round(chi_squared, 4), freedom
    (2.5806, 1)
    """
    groups = len(at_risk)
    together, all_events = at_risk.sum(axis=0), events.sum(axis=0)
    used = together > 1
    share = at_risk[:, used] / together[used]
    n, d = together[used].astype(np.float64), all_events[used].astype(np.float64)
    difference = (events[:, used] - d * share).sum(axis=1)
    weight = d * (n - d) / (n - 1)
    covariance = np.diag((weight * share).sum(axis=1)) - (weight * share) @ share.T
    keep = slice(0, groups - 1)
    found = float(difference[keep] @ np.linalg.pinv(covariance[keep, keep]) @ difference[keep])
    return found, groups - 1, float(distributions().chi2.sf(found, groups - 1))
