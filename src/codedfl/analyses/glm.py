"""Logistic and Poisson models: Newton's iteration over secure totals, from the start that the Gram matrix gives."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.cells import no_score as no_score_of
from codedfl.analyses.inference import CONSTANT, Inference
from codedfl.analyses.scoring import ClassScore
from codedfl.contract.combinations import FEW_CELLS, count_cells, mostly_own
from codedfl.contract.models import GlmModel, LogisticModel, PoissonModel, StudyModel
from codedfl.contract.study import NumberTarget, Study
from codedfl.contract.study_columns import Units
from codedfl.data.labels import MeanLabels
from codedfl.data.model import TrainedModel
from codedfl.errors import InvalidInput
from codedfl.statistics.newton import Newton, column_reaches, columns_of, predictor_range
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject

_CLOSE = 1e-5  # the last step in standard errors: what is left then is about its square
_WIDEST = 3  # columns that are named where the predictor is too wide
_WITHIN = 0.98  # of the bound, where a step that would go beyond ends
_DEPENDENT = 1e-11  # of the largest eigenvalue of the scaled X'WX
_NAMED = 0.2


@dataclass(frozen=True, eq=False)
class NewtonSums:
    """What a total of ``newton`` says: weights, likelihood, the best there could be, gradient and X'WX.

    Examples
    --------
    >>> from codedfl.analyses.glm import NewtonSums
    >>> NewtonSums.of([4, -2, 0, 1, 0, 2, 0, 8], bits=1).information.tolist()
    [[1.0, 0.0], [0.0, 4.0]]
    """

    weight: float
    likelihood: float
    best: float
    gradient: Floats
    information: Floats

    @classmethod
    def of(cls, integers: Sequence[int], bits: int) -> NewtonSums:
        """From the integers of the total, whose unit is 2^-bits."""
        numbers = np.array([one / 2**bits for one in integers])
        d = round((math.sqrt(8 * (len(numbers) - 3) + 9) - 3) / 2)
        triangle = np.zeros((d, d))
        triangle[np.triu_indices(d)] = numbers[3 + d :]
        information = triangle + np.triu(triangle, 1).T
        return cls(float(numbers[0]), float(numbers[1]), float(numbers[2]), numbers[3 : 3 + d], information)


@dataclass(frozen=True)
class GlmFit:
    """A generalised linear model as a whole.

    target: the name of what is predicted. kind: as the study says. rows: training rows. coefficients: how many.
    iterations: how many totals were asked for at coefficients; 0 where a cross-table was enough.
    log_likelihood, deviance: the former at its maximum, and twice how far it is from the best there could be.
    modelled: the class whose odds it tells; "" of a count.

    Examples
    --------
    >>> from codedfl.analyses.glm import GlmFit
    >>> GlmFit("ill", "logistic", 50, 2, 3, log_likelihood=-20.0, deviance=40.0).aic
    44.0
    """

    target: str
    kind: str
    rows: int
    coefficients: int
    iterations: int
    log_likelihood: float
    deviance: float
    modelled: str = ""

    title: ClassVar[str] = "Generalised linear model"

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2 * self.coefficients - 2 * self.log_likelihood

    def facts(self) -> list[tuple[str, str]]:
        """As statistics programs list them."""
        return [
            ("Target", self.target),
            ("Model", self.kind),
            *([("Class modelled", self.modelled)] if self.modelled else []),
            ("Rows", str(self.rows)),
            ("Log-likelihood", f"{self.log_likelihood:.6g}"),
            ("Iterations", str(self.iterations)),
            ("Deviance, AIC", f"{self.deviance:.6g}, {self.aic:.6g}"),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self), "aic": self.aic}


@dataclass(frozen=True, eq=False)
class GlmFinding:
    """A generalised linear model in the units of the columns; the first coefficient is the constant.

    names, coefficients: of the constant and the design columns.
    inference: with standard errors; None with a penalty, which has none.
    model: predicts the chance of the second class, or the expected count, from raw tables.
    score, no_score: of a logistic model: how good its chances are, or why that is not known; else None and "".

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.glm import GlmFinding, GlmFit
    >>> fit = GlmFit("ill", "logistic", 50, 1, 3, -20.0, 40.0)
    >>> GlmFinding("m", ("constant",), np.array([2.0]), fit, None).lines()[-1]
    'constant  2'
    """

    name: str
    names: tuple[str, ...]
    coefficients: Floats
    fit: GlmFit
    inference: Inference | None
    model: TrainedModel | None = None
    score: ClassScore | None = None
    no_score: str = ""

    def to_dict(self) -> JsonObject:
        """For JSON."""
        score = None if self.score is None else self.score.to_dict()
        of_score: JsonObject = {"score": score, "no_score": self.no_score}
        known: JsonObject = {"name": self.name, "kind": self.fit.kind, **self.fit.to_dict(), **of_score}
        if self.inference is not None:
            return {**known, "inference": self.inference.to_dict()}
        rows = [
            {"name": name, "coefficient": b} for name, b in zip(self.names, self.coefficients.tolist(), strict=True)
        ]
        return {**known, "coefficients": rows}

    def lines(self) -> list[str]:
        """A table as statistics programs print it."""
        if self.inference is not None:
            return [*self.inference.summary().splitlines(), *self._scored()]
        width = max(map(len, self.names))
        head = [f"{name}: {value}" for name, value in self.fit.facts()]
        table = [f"{name:<{width}}  {b:.4g}" for name, b in zip(self.names, self.coefficients.tolist(), strict=True)]
        return [*head, "coefficients, without standard errors since there is a penalty:", *table, *self._scored()]

    def _scored(self) -> list[str]:
        if self.score is None:
            return [f"no calibration: {self.no_score}"] if self.no_score else []
        area = "" if self.score.auc is None else f", area under the ROC curve {self.score.auc:.4f}"
        bands = [
            f"  chance {chance}: {rows} rows, {share} of them"
            for chance, rows, share in self.score.shown_calibration() or ()
        ]
        why = [self.score.withheld] if self.score.withheld else []
        rows = f"{self.score.rows} held-out rows" if self.score.held_out else f"the {self.score.rows} rows of the fit"
        return [f"accuracy {self.score.shown_accuracy()} on {rows}{area}", *bands, *why]


@register_analysis(LogisticModel.kind)
@register_analysis(PoissonModel.kind)
def glm(totals: Totals, model: GlmModel) -> Generator[Ask, Any, Finding]:
    """Fit a generalised linear model: a count of combinations where there are few, then totals at coefficients.

    Examples
    --------
    See ``codedfl.analyses.study_analysis.conduct``, which makes the totals it starts from.
    """
    if clipped := totals.counts.clipped.objection(totals.study, (*model.columns, *model.uses)):
        raise InvalidInput(clipped)
    _check_weights(totals, model)
    yield from check_cells(totals, model)
    first = start(totals, model)
    found = yield from _iterate(totals, model, first)
    made = in_units(totals, model, found, rows=totals.counts.rows.rows, penalised=model.regularisation > 0)
    if not isinstance(model, LogisticModel):
        return made
    score, no_score = yield from _calibration(totals, model, found.beta)
    return replace(made, score=score, no_score=no_score)


def _calibration(
    totals: Totals, model: LogisticModel, beta: Floats
) -> Generator[Ask, Any, tuple[ClassScore | None, str]]:
    """On held-out rows where the study has any, else on those that the model was made of."""
    study = totals.study
    if why := no_score_of(study, totals.counts) if study.held_out else "":
        return None, why
    if len(totals.asked) >= study.most_points:
        return None, f"points must be more than {study.most_points} for it"
    if max(map(abs, predictor_range(totals.final, _final(totals, model), beta))) > model.bound:
        return None, "the last step went beyond the bound"
    counts: list[int] = yield totals.ask("calibration", model, beta)
    return ClassScore.of(counts, 2, study.smallest_cell, held_out=bool(study.held_out)), ""


def check_cells(totals: Totals, model: StudyModel) -> Generator[Ask, Any, None]:
    """Refuse columns of few combinations some of which are rare: what is asked next would tell their rows.

    Iterations do not where most rows have a combination of their own: the rule that a device has for columns with many
    combinations (``iteration_objection``), so that a wider range of the same rows changes nothing.

    Examples
    --------
    See ``glm``, which begins with it.
    """
    if count_cells(totals.study, model) > FEW_CELLS:
        return
    numbers: list[int] = yield totals.ask("crosstable", model)
    rows, devices = np.array(numbers).reshape(2, -1)
    smallest, least = totals.study.smallest_cell, totals.study.colluders + 2
    if isinstance(model, GlmModel) and mostly_own(int((rows > 0).sum()), int(rows.sum())):
        return
    rare = int(((rows > 0) & ((rows < smallest) | (devices < least))).sum())
    if rare:
        raise InvalidInput(
            f"combinations of columns that occur in the model {model.name!r} must each have at least {smallest} rows on"
            f" {least} devices, since their number would be told, got {rare} with fewer: take coarser steps, join"
            " levels, or leave a column out"
        )


def check_columns(totals: Totals, model: StudyModel) -> None:
    """Refuse columns that do not vary, or that depend on each other, by name.

    Examples
    --------
    See ``start``, which begins with it.
    """
    linear, _ = totals.present(model.columns)
    names, variance = linear.study.design_names, linear.moments().variance
    if not variance.all():
        still = [name for name, one in zip(names, variance, strict=True) if not one]
        raise InvalidInput(
            f"columns of the model {model.name!r} must vary, got ones that do not: {', '.join(still)}; leave them out"
        )
    deviation = np.sqrt(variance)
    _refuse_dependent(linear.covariance() / np.outer(deviation, deviation), names, model.name)


def start(totals: Totals, model: GlmModel) -> Floats:
    """The coefficients after Newton's first step from a constant alone, which the Gram matrix holds.

    Examples
    --------
    See ``glm``, which starts there.
    """
    check_columns(totals, model)
    linear, spread = totals.present(model.columns)
    on_design = linear.on_design(linear.ridge(1e-9))[:, -1]
    target = totals.study.target
    constant, slopes = float(on_design[0]), on_design[1:]
    units = linear.study.units
    middle = (linear.moments().mean - units.zero) / (units.step * units.limit)
    mean = constant + float(middle @ slopes)
    if isinstance(target, NumberTarget):
        half = (target.range[1] - target.range[0]) / 2
        mean, slopes = target.range[0] + half * (mean + 1.0), half * slopes
        if mean <= 0:
            raise InvalidInput(f"the target {target.name!r} must not be 0 in all rows for the model {model.name!r}")
        level, slopes = math.log(mean), slopes / mean
    else:
        level, slopes = math.log(mean / (1.0 - mean)), slopes / (mean * (1.0 - mean))
    if model.offset:
        offset = next(one for one in totals.final.columns if one.column.name == model.offset)
        level -= sum(offset.grid.range) / 2
    old, new = np.append(level, np.zeros(len(slopes))), np.append(level - middle @ slopes, slopes)
    return _within(totals.final, model, spread(old), spread(new))


def _iterate(totals: Totals, model: GlmModel, beta: Floats) -> Generator[Ask, Any, Fitted]:
    """Newton with a penalty; a step that makes the likelihood worse is halved, one beyond the bound is cut."""
    penalty: Floats | None = None
    _, spread = totals.present(model.columns)
    best, step, at_bound, most = -math.inf, np.zeros_like(beta), 0, totals.study.most_points
    for count in range(1, most + 1):
        if len(totals.asked) >= most:
            break
        ask = totals.ask("newton", model, beta)
        sums = NewtonSums.of((yield ask), Newton(totals.final, beta, _final(totals, model)).bits)
        if penalty is None:
            penalty = sums.weight * model.regularisation * _penalties(totals, model)
        value = sums.likelihood - float(penalty @ beta**2) / 2
        if value < best - 1e-9 * abs(best):
            step = step / 2
            beta = beta - step
            continue
        gradient, information = sums.gradient - penalty * beta, sums.information + np.diag(penalty)
        covariance = spread(information_inverse(spread.only(information), model))
        ahead = covariance @ gradient
        if np.abs(spread.only(ahead) / np.sqrt(spread.only(np.diag(covariance)))).max() < _CLOSE:
            return Fitted(beta + ahead, covariance, sums, count)
        following = _within(totals.final, model, beta, beta + ahead)
        at_bound = at_bound + 1 if (following != beta + ahead).any() else 0
        if at_bound > 2:
            raise InvalidInput(_separated(totals, model, beta + ahead))
        best, step, beta = value, following - beta, following
    raise InvalidInput(
        f"points must be more than {most} for the model {model.name!r} to be fitted, got no convergence: give it a"
        " ridge penalty (regularisation), or the study more points"
    )


def _separated(totals: Totals, model: GlmModel, beta: Floats) -> str:
    final, target = _final(totals, model), totals.study.target.name
    reach = max(map(abs, predictor_range(totals.final, final, beta)))
    reaches = column_reaches(totals.final, final, beta)
    widest = sorted(reaches, key=lambda name: reaches[name][0] - reaches[name][1])[:_WIDEST]
    parts = ", ".join(f"{name!r} by {reaches[name][1] - reaches[name][0]:.3g}" for name in widest)
    return (
        f"the linear predictor of the model {model.name!r} must stay within {model.bound:g} over the ranges, got a"
        f" likelihood that grows towards {reach:.3g} (over their ranges it moves with {parts}): columns that tell"
        f" {target!r} without error (separation), or ranges far wider than the values; give it a ridge penalty"
        " (regularisation), narrower ranges or a larger bound"
    )


def _within(study: Study, model: GlmModel, old: Floats, new: Floats) -> Floats:
    """``new``, or as far towards it from ``old`` as the bound allows."""
    final = next(one for one in study.models if one.name == model.name)
    assert isinstance(final, GlmModel)
    share, bound = 1.0, model.bound * _WITHIN
    for _ in range(60):
        point = old + share * (new - old)
        if max(map(abs, predictor_range(study, final, point))) <= bound:
            return np.asarray(point)
        share *= 0.9
    return old


def _final(totals: Totals, model: GlmModel) -> GlmModel:
    found = next(one for one in totals.final.models if one.name == model.name)
    assert isinstance(found, GlmModel)
    return found


def _penalties(totals: Totals, model: GlmModel) -> Floats:
    """Of each coefficient of the scaled columns: squares of the penalty's units; the constant has none."""
    linear = totals.linear(model.columns)
    units = linear.study.units
    scale = np.where(units.by_moments, np.sqrt(linear.moments().variance), units.high - units.low)
    return np.append(0.0, np.square(scale / (units.step * units.limit)))


def information_inverse(information: Floats, model: StudyModel) -> Floats:
    """Of a matrix that is scaled first; one without an inverse comes of fitted means that are all 0 or 1.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.glm import information_inverse
    >>> from codedfl.contract.models import LogisticModel
    >>> information_inverse(np.diag([2.0, 4.0]), LogisticModel("m", ("age",)))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    size = np.sqrt(np.diag(information))
    if not size.all():
        raise InvalidInput(_flat(model))
    scaled = information / np.outer(size, size)
    values, vectors = np.linalg.eigh(scaled)
    if values[0] <= _DEPENDENT * values[-1]:
        raise InvalidInput(_flat(model))
    return np.asarray((vectors / values) @ vectors.T / np.outer(size, size))


def _flat(model: StudyModel) -> str:
    return (
        f"columns of the model {model.name!r} must leave its means uncertain, got some that tell the target without"
        " error (separation): give it a ridge penalty (regularisation), or leave columns out"
    )


def _refuse_dependent(correlation: Floats, names: Sequence[str], model: str) -> None:
    values, vectors = np.linalg.eigh(correlation)
    lost = values <= 1e-10 * values[-1]
    if lost.any():
        parts = np.abs(vectors[:, lost]).max(axis=1)
        named = ", ".join(name for name, part in zip(names, parts, strict=True) if part >= _NAMED * parts.max())
        raise InvalidInput(
            f"columns of the model {model!r} must be independent, got some that depend on each other: {named}; leave"
            " some out"
        )


def _check_weights(totals: Totals, model: GlmModel) -> None:
    """Weights that are other than the lowest in few rows would pick these out."""
    if not model.weights:
        return
    place = totals.study.table_columns.names.index(model.weights)
    _, above = totals.counts.columns[place]
    smallest, least = totals.study.smallest_cell, totals.study.colluders + 2
    if above.rows and (above.rows < smallest or above.devices < least):
        raise InvalidInput(
            f"weights of the model {model.name!r} must be above the lowest in at least {smallest} rows on {least}"
            f" devices, got fewer: {model.weights!r} picks out people"
        )


class Fitted(NamedTuple):
    """Coefficients of scaled columns with their covariance, the last sums, and how many totals it took.

    Examples
    --------
    See ``glm``, which makes one.
    """

    beta: Floats
    covariance: Floats
    sums: NewtonSums
    iterations: int


def in_units(
    totals: Totals,
    model: StudyModel,
    found: Fitted,
    *,
    rows: int,
    penalised: bool,
) -> GlmFinding:
    """A finding in the units of the columns, of coefficients of the scaled ones.

    Examples
    --------
    See ``glm``, which ends with it.
    """
    study, (beta, covariance, sums, iterations) = totals.final, found
    columns = columns_of(study, model)
    change = Units.of(*columns).unscaling()
    names = (CONSTANT, *(name for one in columns for name in one.column.design_names))
    # The last step is so short that the likelihood is a parabola on it.
    likelihood = sums.likelihood + float(sums.gradient @ covariance @ sums.gradient) / 2
    kind = PoissonModel.kind if isinstance(study.target, NumberTarget) else LogisticModel.kind
    part, spread = totals.present(model.columns)
    deviance, modelled = 2 * (sums.best - likelihood), getattr(study.target, "modelled", "")
    fit = GlmFit(study.target.name, kind, rows, len(spread.place), iterations, likelihood, deviance, modelled)
    coefficients, inference = change @ beta, None
    if not penalised:
        inference = Inference(
            (CONSTANT, *part.study.design_names),
            spread.only(coefficients),
            spread.only(change @ covariance @ change.T),
            math.inf,
            fit,
            part.references,
            spreads=part.spreads,
        )
    predicting = _predicting(totals, model, dict(zip(names, coefficients.tolist(), strict=True)))
    return GlmFinding(model.name, names, coefficients, fit, inference, predicting)


def _predicting(totals: Totals, model: StudyModel, coefficients: dict[str, float]) -> TrainedModel:
    """Coefficients in the columns' units as a model of raw tables; an offset is a column whose coefficient is 1."""
    study, offset = totals.final, getattr(model, "offset", "")
    target = study.target
    columns = tuple(
        replace(one, column=replace(one.column, in_model=True)) if one.column.name == offset else one
        for one in study.columns
    )
    wanted = replace(study, columns=columns, models=()).only({*model.columns, offset})
    if isinstance(target, NumberTarget):
        labels = MeanLabels("log", f"expected {target.name}")
    else:
        labels = MeanLabels("logit", f"chance of {target.name} = {target.classes[1]}")
    recipe = replace(wanted.recipe(), labels=labels)
    slopes = np.array([{**coefficients, offset: 1.0}[name] for name in wanted.design_names])
    scaling, (one, *_) = recipe.preprocessing, recipe.feature_map.transform(np.zeros((1, len(slopes))))[0]
    constant = (coefficients[CONSTANT] + scaling.shift @ slopes) / one
    theta = np.append(constant, slopes * scaling.scale)[:, None]
    return TrainedModel(theta, recipe, {"digest": totals.study.digest().hex(), "model": model.name})
