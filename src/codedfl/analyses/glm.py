"""Logistic and Poisson models: Newton's iteration over secure totals, from the start that the Gram matrix gives."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.calibration import Line, calibration_line
from codedfl.analyses.glm_errors import Errors, errors_of
from codedfl.analyses.inference import CONSTANT, Inference
from codedfl.analyses.maximum import Fitted, Likelihood, NewtonSums, maximise, towards
from codedfl.analyses.scoring import ClassScore
from codedfl.contract.models import StudyModel
from codedfl.contract.models.dispersed import GammaModel, QuasiPoissonModel
from codedfl.contract.models.glm import GlmModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.negative import NegativeBinomialModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.contract.study import Study
from codedfl.data.columns import NumberTarget, Units
from codedfl.data.model import TrainedModel
from codedfl.data.saved_labels import MeanLabels
from codedfl.errors import InvalidInput
from codedfl.statistics.families import Gamma, family_of
from codedfl.statistics.newton import Newton, column_reaches, columns_of, predictor_range
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject

_OVERDISPERSED = 1.5  # of a Poisson model, from which its errors are a fifth too small
_RATIOS = {
    LogisticModel.kind: "odds ratio",
    PoissonModel.kind: "rate ratio",
    QuasiPoissonModel.kind: "rate ratio",
    NegativeBinomialModel.kind: "rate ratio",
    GammaModel.kind: "ratio of means",
}
_METHODS = {
    LogisticModel.kind: "logistic regression",
    PoissonModel.kind: "Poisson regression with a logarithmic link",
    QuasiPoissonModel.kind: "quasi-Poisson regression with a logarithmic link",
    NegativeBinomialModel.kind: "negative binomial regression (NB2) with a logarithmic link",
    GammaModel.kind: "Gamma regression with a logarithmic link",
}
_WIDEST = 3  # columns that are named where the predictor is too wide


@dataclass(frozen=True)
class GlmFit:
    """A generalised linear model as a whole.

    target: the name of what is predicted. kind: as the study says. rows: training rows. coefficients: how many.
    iterations: how many totals were asked for at coefficients; 0 where a cross-table was enough.
    log_likelihood, deviance: the former at its maximum, and twice how far it is from the best there could be.
    modelled: the class whose odds it tells; "" of a count.
    dispersion: Pearson's sum per degree of freedom, of counts and of numbers; None where it was not asked for.
    errors: what kind of standard errors there are.
    alpha, alpha_error: of a negative binomial model, whose variance is the mean plus alpha times its square.

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
    dispersion: float | None = None
    errors: str = "model"
    alpha: float | None = None
    alpha_error: float | None = None

    title: ClassVar[str] = "Generalised linear model"
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def ratio(self) -> str:
        """By the family."""
        return _RATIOS[self.kind]

    @property
    def method(self) -> str:
        """The family, how it was fitted, and its errors."""
        what = (
            f"The odds of {self.target} = {self.modelled} were" if self.modelled else f"The outcome {self.target} was"
        )
        how = "by Newton's method" if self.iterations else "from the counts of all combinations of its columns"
        errors = {"model": "those of the model", "by the dispersion": "scaled by the dispersion"}
        said = errors.get(self.errors, f"robust ({self.errors})")
        return f"{what} modelled by {_METHODS[self.kind]}, fitted {how}; standard errors are {said}."

    @property
    def aic(self) -> float | None:
        """Akaike's criterion; none of a quasi-likelihood. A Gamma model's dispersion counts as no parameter."""
        if self.kind == QuasiPoissonModel.kind:
            return None
        return 2 * (self.coefficients + (self.alpha is not None)) - 2 * self.log_likelihood

    @property
    def is_overdispersed(self) -> bool:
        """Whether counts vary so much more than their means that the errors of a Poisson model are too small."""
        wide = self.dispersion is not None and self.dispersion > _OVERDISPERSED
        return wide and self.kind == PoissonModel.kind and self.errors == "model"

    def facts(self) -> list[tuple[str, str]]:
        """As statistics programs list them."""
        ends = (self.deviance, self.aic)
        return [
            ("Target", self.target),
            ("Model", self.kind),
            *([("Class modelled", self.modelled)] if self.modelled else []),
            ("Rows", str(self.rows)),
            ("Log-likelihood", f"{self.log_likelihood:.6g}"),
            ("Iterations", str(self.iterations)),
            ("Deviance" if self.aic is None else "Deviance, AIC", ", ".join(f"{one:.6g}" for one in ends if one)),
            *([] if self.dispersion is None else [("Dispersion", f"{self.dispersion:.4g}")]),
            *([] if self.alpha is None else [("Alpha", _with_error(self.alpha, self.alpha_error))]),
            *([] if self.errors == "model" else [("Standard errors", self.errors)]),
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        return {"model": self.title, **asdict(self), "aic": self.aic}


def _with_error(value: float, error: float | None) -> str:
    return f"{value:.4g}" if error is None else f"{value:.4g} (std err {error:.2g})"


@dataclass(frozen=True, eq=False)
class GlmFinding:
    """A generalised linear model in the units of the columns; the first coefficient is the constant.

    names, coefficients: of the constant and the design columns.
    inference: with standard errors; None with a penalty, which has none.
    model: predicts the chance of the second class, or the expected count, from raw tables.
    score, no_score: of a logistic model: how good its chances are, or why that is not known; else None and "".
    calibration: its intercept and slope on held-out rows; None without any, or where they have none.

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
    calibration: Line | None = None

    def to_dict(self) -> JsonObject:
        """For JSON."""
        score = None if self.score is None else self.score.to_dict()
        line = None if self.calibration is None else self.calibration.to_dict()
        of_score: JsonObject = {"score": score, "no_score": self.no_score, "calibration_line": line}
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
            return [*self.inference.summary().splitlines(), *self._overdispersed(), *self._scored()]
        width = max(map(len, self.names))
        head = [f"{name}: {value}" for name, value in self.fit.facts()]
        table = [f"{name:<{width}}  {b:.4g}" for name, b in zip(self.names, self.coefficients.tolist(), strict=True)]
        return [*head, "coefficients, without standard errors since there is a penalty:", *table, *self._scored()]

    def _overdispersed(self) -> list[str]:
        if not self.fit.is_overdispersed:
            return []
        return [
            f"errors are too small: they take a dispersion of 1, and it is {self.fit.dispersion:.4g}; take"
            ' kind = "quasi-poisson" or "negative-binomial", or errors = "HC1"'
        ]

    def _scored(self) -> list[str]:
        if self.score is None:
            return [f"no calibration: {self.no_score}"] if self.no_score else []
        area = f", {self.score.shown_auc()}" if self.score.auc is not None else ""
        bands = [
            f"  chance {chance}: {rows} rows, {share} of them"
            for chance, rows, share in self.score.shown_calibration() or ()
        ]
        why = [self.score.withheld] if self.score.withheld else []
        rows = f"{self.score.rows} held-out rows" if self.score.held_out else f"the {self.score.rows} rows of the fit"
        line = [self.calibration.text()] if self.calibration is not None else []
        return [f"accuracy {self.score.shown_accuracy()} on {rows}{area}", *line, *bands, *why]


@register_analysis(LogisticModel.kind)
@register_analysis(PoissonModel.kind)
@register_analysis(QuasiPoissonModel.kind)
@register_analysis(GammaModel.kind)
def glm(totals: Totals, model: GlmModel) -> Generator[Ask, Any, Finding]:
    """Fit a generalised linear model: a count of combinations where there are few, then totals at coefficients.

    Examples
    --------
    See ``codedfl.analyses.study_analysis.conduct``, which makes the totals it starts from.
    """
    totals.refuse_clipped((*model.columns, *model.uses))
    problem = GlmProblem(totals, model)
    found = yield from maximise(totals, problem, start(totals, model))
    errors = yield from errors_of(totals, model, problem.spread, found, problem.reach(found.beta))
    rows, penalised = totals.counts.rows.rows, model.regularisation > 0
    made = in_units(totals, model, found, rows=rows, penalised=penalised, errors=errors)
    if not isinstance(model, LogisticModel):
        return made
    score, no_score = yield from _calibration(totals, model, found.beta)
    line = None
    if score is not None and score.held_out:
        line = yield from calibration_line(totals, model, found.beta, model.most_points - found.iterations - 2)
    return replace(made, score=score, no_score=no_score, calibration=line)


def _calibration(
    totals: Totals, model: LogisticModel, beta: Floats
) -> Generator[Ask, Any, tuple[ClassScore | None, str]]:
    """On held-out rows where the study has any, else on those that the model was made of."""
    study = totals.study
    if len(totals.asked) >= study.most_points:
        return None, f"points must be more than {study.most_points} for it"
    if max(map(abs, predictor_range(totals.final, totals.final_of(model), beta))) > model.bound:
        return None, "the last step went beyond the bound"
    counts: list[int] = yield totals.ask("calibration", model, beta)
    return ClassScore.of(counts, 2, study.smallest_cell, held_out=bool(totals.final.held_out)), ""


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
        level, slopes = math.log(mean) - origin_of(totals.final, model), slopes / mean
    else:
        level, slopes = math.log(mean / (1.0 - mean)), slopes / (mean * (1.0 - mean))
    if model.offset:
        offset = next(one for one in totals.final.columns if one.name == model.offset)
        level -= sum(offset.grid.range) / 2
    old, new = np.append(level, np.zeros(len(slopes))), np.append(level - middle @ slopes, slopes)
    return towards(spread(old), spread(new), GlmProblem(totals, model).reach)


def origin_of(study: Study, model: StudyModel) -> float:
    """The logarithm of the mean that a predictor of 0 stands for: of a Gamma model the top of the target's range.

    Examples
    --------
    See ``in_units``, which adds it to the constant.
    """
    family = family_of(study, model)
    return math.log(family.top) if isinstance(family, Gamma) else 0.0


class GlmProblem(Likelihood):
    """The likelihood of a generalised linear model, whose sums are those of ``newton``.

    Examples
    --------
    See ``glm``, which maximises it.
    """

    statistic: ClassVar[type[Newton]] = Newton
    model: GlmModel

    def __init__(self, totals: Totals, model: GlmModel) -> None:
        super().__init__(totals, model, totals.present(model.columns)[1])

    def penalty(self, sums: NewtonSums) -> Floats:
        """The ridge's."""
        return sums.weight * self.model.regularisation * penalties(self._totals, self.model)

    def in_units(self, beta: Floats) -> Floats:
        """Coefficients of the columns, of those of the scaled ones."""
        change = Units.of(*columns_of(self._totals.final, self.model)).unscaling()
        return np.asarray(change @ beta)

    def beyond(self, beta: Floats) -> str:
        """Separation, or ranges that are too wide."""
        reaches = column_reaches(self._totals.final, self._final, beta)
        widest = sorted(reaches, key=lambda name: reaches[name][0] - reaches[name][1])[:_WIDEST]
        parts = ", ".join(f"{name!r} by {reaches[name][1] - reaches[name][0]:.3g}" for name in widest)
        return (
            f"the linear predictor of the model {self.model.name!r} must stay within {self.model.bound:g} over the"
            f" ranges, got a likelihood that grows towards {self.reach(beta) * self.model.bound:.3g} (over their ranges"
            f" it moves with {parts}): columns that tell {self._totals.study.target.name!r} without error"
            " (separation), or ranges far wider than the values; give it a ridge penalty (regularisation), narrower"
            " ranges or a larger bound"
        )


def penalties(totals: Totals, model: StudyModel) -> Floats:
    """Of each coefficient of the scaled columns: squares of the penalty's units; the constant has none.

    Examples
    --------
    See ``GlmProblem``, whose penalty it is.
    """
    linear = totals.linear(model.columns)
    units = linear.study.units
    scale = np.where(units.by_moments, np.sqrt(linear.moments().variance), units.high - units.low)
    return np.append(0.0, np.square(scale / (units.step * units.limit)))


def in_units(
    totals: Totals,
    model: StudyModel,
    found: Fitted,
    *,
    rows: int,
    penalised: bool,
    errors: Errors | None = None,
) -> GlmFinding:
    """A finding in the units of the columns, of coefficients of the scaled ones.

    Examples
    --------
    See ``glm``, which ends with it.
    """
    study, (beta, covariance, sums, iterations) = totals.final, found
    errors, columns = errors or Errors(covariance), columns_of(study, model)
    change = Units.of(*columns).unscaling()
    names = (CONSTANT, *(name for one in columns for name in one.design_names))
    likelihood = found.likelihood
    deviance, modelled = 2 * (sums.best - likelihood), getattr(study.target, "modelled", "")
    kind = PoissonModel.kind if isinstance(study.target, NumberTarget) else LogisticModel.kind
    if isinstance(model, GlmModel):
        kind = model.kind
    origin = origin_of(study, model)
    if kind == GammaModel.kind and errors.dispersion is not None:  # a share's density is the target's times its unit
        likelihood = gamma_likelihood(likelihood, sums, errors.dispersion) - sums.weight * origin
    part, spread = totals.present(model.columns)
    of_fit = (len(spread.place), iterations, likelihood, deviance, modelled, errors.dispersion, errors.words)
    fit = GlmFit(study.target.name, kind, rows, *of_fit)
    coefficients, inference = change @ beta, None
    coefficients[0] += origin
    if not penalised:
        inference = Inference(
            (CONSTANT, *part.study.design_names),
            spread.only(coefficients),
            spread.only(change @ errors.covariance @ change.T),
            errors.freedom,
            fit,
            part.references,
            spreads=part.spreads,
        )
    if isinstance(target := study.target, NumberTarget):
        labels = MeanLabels("log", f"expected {target.name}")
    else:
        labels = MeanLabels("logit", f"chance of {target.name} = {target.classes[1]}")
    predicting = model_of(totals, model, dict(zip(names, coefficients.tolist(), strict=True)), labels)
    return GlmFinding(model.name, names, coefficients, fit, inference, predicting)


def gamma_likelihood(at_one: float, sums: NewtonSums, dispersion: float) -> float:
    """Log-likelihood of numbers that follow a Gamma law with this dispersion.

    at_one: without what only the targets say, at a dispersion of 1.

    Examples
    --------
    See ``in_units``, which tells it.
    """
    shape, logs = 1.0 / dispersion, -sums.best - sums.weight
    each = shape * math.log(shape) - math.lgamma(shape)
    return sums.weight * each + shape * at_one + (shape - 1.0) * logs


def model_of(totals: Totals, model: StudyModel, coefficients: dict[str, float], labels: MeanLabels) -> TrainedModel:
    """Coefficients in the columns' units as a model of raw tables; an offset is a column whose coefficient is 1.

    Examples
    --------
    See ``in_units``, whose finding has it.
    """
    study, offset = totals.final, getattr(model, "offset", "")
    columns = tuple(replace(one, in_model=True) if one.name == offset else one for one in study.columns)
    wanted = replace(study, columns=columns, models=()).only({*model.columns, offset})
    recipe = replace(wanted.recipe(), labels=labels)
    slopes = np.array([{**coefficients, offset: 1.0}[name] for name in wanted.design_names])
    scaling, (one, *_) = recipe.preprocessing, recipe.feature_map.transform(np.zeros((1, len(slopes))))[0]
    constant = (coefficients[CONSTANT] + scaling.shift @ slopes) / one
    theta = np.append(constant, slopes * scaling.scale)[:, None]
    return TrainedModel(theta, recipe, {"digest": totals.study.digest().hex(), "model": model.name})
