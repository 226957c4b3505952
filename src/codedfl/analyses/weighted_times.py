"""The hazard ratio of a treatment by inverse probability weighting: one table by arm, and errors of both steps.

Of one column that is 0 or 1 Cox's model needs no iteration over totals: weights at risk and with the event, by arm and
time, are all of it. The score is a function of these sums, so its slopes by them say what each row adds to the errors.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.glm_errors import triangle
from codedfl.analyses.inference import Inference
from codedfl.analyses.maximum import maximise
from codedfl.analyses.survival import times_of
from codedfl.analyses.weighting import Chance
from codedfl.contract.models.weighting import IptwCoxModel
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.statistics.weighted_times import MOST_SCORE, WeightedScores, WeightedTimes
from codedfl.typing import Floats, Integers, JsonObject

_MOST_STEPS, _MOST_LOG_RATIO = 60, 10.0


@dataclass(frozen=True, eq=False)
class ArmTimes:
    """Weights at risk and with the event, by arm and time, and how many have the event.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.weighted_times import ArmTimes
    >>> found = ArmTimes(np.array([[4.0], [4.0]]), np.array([[1.0], [0.0]]), np.array([1]))
    >>> found.at(0.0)[:2]
    (-0.5, 0.25)
    """

    at_risk: Floats
    with_event: Floats
    events: Integers

    def at(self, beta: float) -> tuple[float, float, Floats, Floats]:
        """Score, information, and slopes of the score by weights at risk and with the event; ties by Efron's rule."""
        score, information, ratio = 0.0, 0.0, math.exp(beta)
        of_risk, of_event = np.zeros_like(self.at_risk), np.zeros_like(self.with_event)
        for place in np.flatnonzero(self.events).tolist():
            (r0, r1), (d0, d1), count = self.at_risk[:, place], self.with_event[:, place], int(self.events[place])
            share = np.arange(count) / count
            whole, treated = r0 + ratio * r1 - share * (d0 + ratio * d1), ratio * (r1 - share * d1)
            mean, each = treated / whole, (d0 + d1) / count
            score += d1 - each * mean.sum()
            information += each * (mean * (1 - mean)).sum()
            one, other = mean / whole, -ratio * (1 - mean) / whole
            of_risk[:, place] = each * one.sum(), each * other.sum()
            of_event[:, place] = -mean.mean() - each * np.array([(share * one).sum(), (share * other).sum()])
            of_event[1, place] += 1.0
        return float(score), float(information), of_risk, of_event


@dataclass(frozen=True)
class HazardFit:
    """The weighting as a whole.

    events: rows with the event within the grid. times: how many end an interval. iterations: of the propensity.

    Examples
    --------
    >>> from codedfl.analyses.weighted_times import HazardFit
    >>> HazardFit("days", "drug", 90, 40, 12, 4).facts()[1]
    ('Treatment', 'drug')
    """

    target: str
    treatment: str
    rows: int
    events: int
    times: int
    iterations: int

    title: ClassVar[str] = "Cox's model, inverse probability weights"
    ratio: ClassVar[str] = "hazard ratio"
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def method(self) -> str:
        """Both steps."""
        return (
            f"The hazard ratio of {self.treatment} over {self.target} was estimated by Cox regression of the treatment"
            f" alone ({self.events} events, Efron's rule for ties, {self.times} times), with rows weighted by the"
            " inverse probability of their treatment from a logistic model; standard errors are those of both steps"
            " together."
        )

    def facts(self) -> list[tuple[str, str]]:
        """As papers list them."""
        return [
            ("Target", self.target),
            ("Treatment", self.treatment),
            ("Rows, events", f"{self.rows}, {self.events}"),
            ("Ties", f"Efron, {self.times} times"),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self)}


@dataclass(frozen=True, eq=False)
class HazardFinding:
    """The log hazard ratio, and weighted curves without and with the treatment.

    Examples
    --------
    See ``iptw_cox``, which ends in it.
    """

    name: str
    inference: Inference
    times: Floats
    shares: Floats

    def to_dict(self) -> JsonObject:
        """For JSON."""
        known: JsonObject = {"name": self.name, "kind": IptwCoxModel.kind, "inference": self.inference.to_dict()}
        return {**known, "times": self.times.tolist(), "untreated": self.shares[0].tolist(), "treated": self._treated}

    @property
    def _treated(self) -> list[float]:
        return [float(one) for one in self.shares[1]]

    def lines(self) -> list[str]:
        """The table, and the curves."""
        rows = zip(self.times, *self.shares, strict=True)
        return [
            *self.inference.summary().splitlines(),
            "weighted share without the event:",
            "      time  untreated    treated",
            *(f"{time:>10.6g} {one:>10.4f} {other:>10.4f}" for time, one, other in rows),
        ]


@register_analysis(IptwCoxModel.kind)
def iptw_cox(totals: Totals, model: IptwCoxModel) -> Generator[Ask, Any, Finding]:
    """Join intervals, find the propensity, then ask for weights by arm and time, and for the scores.

    Examples
    --------
    See ``codedfl.analyses.study_analysis.conduct``, which makes the totals it starts from.
    """
    totals.refuse_clipped((*model.columns, *model.uses))
    check_columns(totals, model)
    times, counts = yield from times_of(totals, model)
    problem = Chance(totals, model)
    found = yield from maximise(totals, problem, np.zeros(problem.spread.width), close=1e-7)
    point, final = found.beta, totals.final_of(model)
    integers: list[int] = yield totals.ask(WeightedTimes.name, model, point)
    leaving, dying = WeightedTimes(totals.final, point, final).reals(integers).reshape(2, 2, -1)
    at_risk = np.cumsum(leaving[:, ::-1], axis=1)[:, ::-1][:, :-1]
    arms = ArmTimes(at_risk, dying[:, :-1], counts[1, 0, :-1])
    beta = _log_ratio(model, arms)
    _, information, of_risk, of_event = arms.at(beta)
    most = np.abs(of_risk).sum(axis=1).max() + np.abs(of_event).max()
    if most > MOST_SCORE:
        raise InvalidInput(f"hazards of the model {model.name!r} must be smaller for its errors: take earlier times")
    point = np.append(point, np.vstack((of_risk, of_event)))
    integers = yield totals.ask(WeightedScores.name, model, point)
    values, width = WeightedScores(totals.final, point, final).reals(integers), len(found.beta)
    slopes = np.zeros((width + 1, width + 1))
    slopes[:width, :width], slopes[width, :width] = found.sums.information, values[:width]
    slopes[width, width] = information
    places = np.append(problem.spread.place, width)
    back = np.linalg.inv(slopes[np.ix_(places, places)])
    middle = triangle(values[width:], width + 1)[np.ix_(places, places)]
    variance = (back @ middle @ back.T)[-1:, -1:]
    events = int(arms.events.sum())
    fit = HazardFit(
        totals.study.target.name, model.treatment, totals.counts.rows.rows, events, len(times), found.iterations
    )
    inference = Inference((model.treatment,), np.array([beta]), variance, math.inf, fit)
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.where(at_risk > 0, 1.0 - dying[:, :-1] / at_risk, 1.0)
    shares: Floats = np.asarray(np.cumprod(left, axis=1), dtype=np.float64)
    return HazardFinding(model.name, inference, times, shares)


def _log_ratio(model: IptwCoxModel, arms: ArmTimes) -> float:
    """Newton's iteration at home."""
    if not (arms.with_event.sum(axis=1) > 0).all():
        raise InvalidInput(
            f"{model.event!r} must be 1 in some row without and with {model.treatment!r} within the times of the model"
            f" {model.name!r}, got an arm without"
        )
    beta = 0.0
    for _ in range(_MOST_STEPS):
        score, information, *_ = arms.at(beta)
        step = score / information if information > 0 else math.inf
        beta += max(-1.0, min(1.0, step))
        if abs(step) < 1e-12 or abs(beta) > _MOST_LOG_RATIO:
            break
    if abs(beta) > _MOST_LOG_RATIO:
        raise InvalidInput(f"the hazard ratio of the model {model.name!r} must be finite, got one that grows")
    return beta
