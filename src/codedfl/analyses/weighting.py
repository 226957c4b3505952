"""The effect of a treatment by inverse probability weighting: propensity, weighted means and honest errors in one."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.glm import GlmProblem
from codedfl.analyses.glm_errors import triangle
from codedfl.analyses.inference import CONSTANT, Inference
from codedfl.analyses.maximum import Fitted, maximise
from codedfl.contract.models.weighting import IptwModel
from codedfl.contract.study import Study
from codedfl.data.columns import ClassTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.statistics.weighting import Propensity, Weighted
from codedfl.typing import Floats, JsonObject


@dataclass(frozen=True)
class IptwFit:
    """What the weighting as a whole came to.

    means, mean_errors: of the target without and with the treatment, or the risks of the class modelled.
    difference, difference_error: of the second less the first.
    effective: how many rows without weights would say as much, without and with the treatment.
    balance: for each column of the propensity the difference of its weighted means, in its deviations.

    Examples
    --------
    >>> from codedfl.analyses.weighting import IptwFit
    >>> balance = {"age": 0.01}
    >>> IptwFit("ill", "yes", "drug", 90, 4, (0.5, 0.25), (0.1, 0.1), -0.25, 0.1, (40.0, 31.5), balance).facts()[-1]
    ('Largest imbalance', '0.0100 SD (age)')
    """

    target: str
    modelled: str
    treatment: str
    rows: int
    iterations: int
    means: tuple[float, float]
    mean_errors: tuple[float, float]
    difference: float
    difference_error: float
    effective: tuple[float, float]
    balance: dict[str, float]

    title: ClassVar[str] = "Inverse probability weighting"
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def ratio(self) -> str:
        """Of classes."""
        return "odds ratio" if self.modelled else ""

    @property
    def method(self) -> str:
        """Both steps."""
        what = f"{self.target} = {self.modelled}" if self.modelled else self.target
        return (
            f"The average effect of {self.treatment} on {what} was estimated with rows weighted by the inverse"
            " probability of their treatment from a logistic model; standard errors are those of both steps together."
        )

    def facts(self) -> list[tuple[str, str]]:
        """As papers list them."""
        worst = max(self.balance, key=lambda name: abs(self.balance[name]))
        return [
            ("Target", self.target),
            ("Treatment", self.treatment),
            *([("Class modelled", self.modelled)] if self.modelled else []),
            ("Rows", str(self.rows)),
            ("Untreated, treated", ", ".join(f"{one:.4g}" for one in self.means)),
            ("Difference", f"{self.difference:.4g} (std err {self.difference_error:.2g})"),
            ("Effective rows", ", ".join(f"{one:.0f}" for one in self.effective)),
            ("Largest imbalance", f"{self.balance[worst]:.4f} SD ({worst})"),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self)}


@dataclass(frozen=True, eq=False)
class IptwFinding:
    """The effect: a constant and the treatment, log odds of two classes, else in the target's unit.

    propensity: coefficients of the model of the treatment by name, in the units of the columns.

    Examples
    --------
    See ``iptw``, which ends in it.
    """

    name: str
    inference: Inference
    propensity: dict[str, float]

    def to_dict(self) -> JsonObject:
        """For JSON."""
        rows: list[JsonObject] = [{"name": name, "coefficient": one} for name, one in self.propensity.items()]
        return {"name": self.name, "kind": IptwModel.kind, "inference": self.inference.to_dict(), "propensity": rows}

    def lines(self) -> list[str]:
        """The table."""
        return self.inference.summary().splitlines()


class Chance(GlmProblem):
    """The likelihood of the propensity.

    Examples
    --------
    See ``iptw``, which maximises it.
    """

    statistic = Propensity
    model: IptwModel

    def beyond(self, beta: Floats) -> str:
        """Some could only have had one treatment."""
        return (
            f"the linear predictor of the model {self.model.name!r} must stay within {self.model.bound:g} over the"
            f" ranges, got a likelihood that grows towards {self.reach(beta) * self.model.bound:.3g}: columns that tell"
            f" {self.model.treatment!r} without error (no overlap), or ranges far wider than the values; leave columns"
            " out, keep rows that might have had either treatment, or give it a larger bound"
        )


@register_analysis(IptwModel.kind)
def iptw(totals: Totals, model: IptwModel) -> Generator[Ask, Any, Finding]:
    """The propensity by iteration, weighted means by one more total, and their errors by another.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.weighting import iptw
    >>> ANALYSES["iptw"] is iptw
    True
    """
    totals.refuse_clipped((*model.columns, *model.uses))
    check_columns(totals, model)
    problem = Chance(totals, model)
    found = yield from maximise(totals, problem, np.zeros(problem.spread.width), close=1e-7)
    if problem.reach(found.beta) > 1:
        raise InvalidInput(
            f"bound must be larger for the weights of the model {model.name!r}: the last step needs more"
        )
    first = yield from _sums(totals, model, found.beta, np.zeros(2))
    means = np.array([one.score / one.weight for one in first.arms])
    sums = yield from _sums(totals, model, found.beta, np.clip(means, -1.0, 1.0))
    return _finding(totals, model, problem, found, means, sums)


@dataclass(frozen=True, eq=False)
class _Arm:
    """Of the rows without the treatment, or with it: sums of w x, w (y - mean), w^2, and the slope of the second."""

    sums: Floats
    score: float
    squares: float
    slope: Floats

    @property
    def weight(self) -> float:
        return float(self.sums[0])


@dataclass(frozen=True, eq=False)
class _Sums:
    """What a total of ``weighted`` says."""

    arms: tuple[_Arm, _Arm]
    products: Floats


def _sums(totals: Totals, model: IptwModel, beta: Floats, means: Floats) -> Generator[Ask, Any, _Sums]:
    point = np.append(beta, means)
    integers: list[int] = yield totals.ask(Weighted.name, model, point)
    final = totals.final_of(model)
    numbers, d = Weighted(totals.final, point, final).reals(integers), len(beta)
    arms = []
    for part in numbers[: 2 * (2 * d + 2)].reshape(2, -1):
        arms.append(_Arm(part[:d], float(part[d]), float(part[d + 1]), part[d + 2 :]))
    if min(one.weight for one in arms) <= 0:
        raise InvalidInput(f"{model.treatment!r} of the model {model.name!r} must be 0 in some rows and 1 in others")
    return _Sums((arms[0], arms[1]), triangle(numbers[2 * (2 * d + 2) :], d + 2))


def _finding(
    totals: Totals, model: IptwModel, problem: GlmProblem, found: Fitted, means: Floats, sums: _Sums
) -> IptwFinding:
    """Errors of both steps together, by the scores of both; then the units of the target."""
    kept, width = problem.spread.place, len(found.beta)
    places = np.append(kept, [width, width + 1])
    slopes = np.zeros((width + 2, width + 2))
    slopes[:width, :width] = found.sums.information
    for arm, one in enumerate(sums.arms):
        slopes[width + arm, :width], slopes[width + arm, width + arm] = one.slope, one.weight
    back = np.linalg.inv(slopes[np.ix_(places, places)])
    covariance = (back @ sums.products[np.ix_(places, places)] @ back.T)[-2:, -2:]
    zero, scale = _unit(totals.study)
    means, covariance = zero + scale * means, scale**2 * covariance
    errors = np.sqrt(np.diag(covariance))
    less = np.array([-1.0, 1.0])
    effective = tuple(one.weight**2 / one.squares for one in sums.arms)
    fit = IptwFit(
        totals.study.target.name,
        getattr(totals.study.target, "modelled", ""),
        model.treatment,
        totals.counts.rows.rows,
        found.iterations,
        (float(means[0]), float(means[1])),
        (float(errors[0]), float(errors[1])),
        float(less @ means),
        float(less @ covariance @ less) ** 0.5,
        (effective[0], effective[1]),
        _balance(totals, model, sums),
    )
    coefficients, change = _as_coefficients(totals.study, model, means)
    names = (CONSTANT, model.treatment)
    inference = Inference(names, coefficients, change @ covariance @ change.T, math.inf, fit)
    part, spread = totals.present(model.columns)
    propensity = spread.only(problem.in_units(found.beta))
    named = dict(zip((CONSTANT, *part.study.design_names), propensity.tolist(), strict=True))
    return IptwFinding(model.name, inference, named)


def _unit(study: Study) -> tuple[float, float]:
    """A scaled target of 0, and what 1 more is, in the target's unit."""
    if isinstance(study.target, ClassTarget):
        return 0.0, 1.0
    units = study.target_units
    return float(units.zero[0]), float(units.step[0] * units.limit[0])


def _as_coefficients(study: Study, model: IptwModel, means: Floats) -> tuple[Floats, Floats]:
    """A constant and the effect, and their slopes by both means: log odds of classes."""
    if not isinstance(study.target, ClassTarget):
        return np.array([means[0], means[1] - means[0]]), np.array([[1.0, 0.0], [-1.0, 1.0]])
    if means.min() <= 0 or means.max() >= 1:
        raise InvalidInput(
            f"both classes of {study.target.name!r} must occur without and with {model.treatment!r} for the model"
            f" {model.name!r}, got one that does not"
        )
    odds, slope = np.log(means / (1 - means)), 1 / (means * (1 - means))
    return np.array([odds[0], odds[1] - odds[0]]), np.array([[slope[0], 0.0], [-slope[0], slope[1]]])


def _balance(totals: Totals, model: IptwModel, sums: _Sums) -> dict[str, float]:
    """Differences of weighted means, in deviations over all rows."""
    linear, spread = totals.present(model.columns)
    untreated, treated = (spread.only(one.sums / one.weight)[1:] for one in sums.arms)
    units = linear.study.units
    difference = (treated - untreated) * units.step * units.limit / np.sqrt(linear.moments().variance)
    return dict(zip(linear.study.design_names, difference.tolist(), strict=True))
