"""Coefficients with standard errors, t and p values, from totals alone: ordinary least squares over devices.

The target goes in as one more column of X, so that the total of X'X holds X'X, X'y and y'y together: one answer of the
one-shot scheme, which shows the server that whole total and nothing of a single device. Everything below is linear
algebra on it. The rows are on the ring's grid (20 bits), the totals are exact up to one rounding a device: the numbers
are those of ordinary least squares on the gridded table. No penalty: a ridge has no such standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from codedfl.data.features import LinearFeatures
from codedfl.data.inference_rows import inference_rows
from codedfl.data.labels import TargetLabels
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.problem import Problem
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds, FixedPoint
from codedfl.protocol import Parameters
from codedfl.run.secure_gram import TakesGram, gram_parameters, run_for_gram
from codedfl.schemes import CodedScheme, OneShot
from codedfl.typing import Floats

CONSTANT = "constant"
# Below this part of the largest eigenvalue of the correlations a direction is not resolved by the grid.
_SINGULAR = 1e-9
_MOST_MOVED = 0.1  # standard errors by which the grid may move a coefficient; beyond, the errors are the grid's own
_WORTH_A_WORD = 1e-3
_NAMED = 0.2  # a column with so large a part in an unresolved direction is named


@dataclass(frozen=True, eq=False)
class Inference:
    """Ordinary least squares in the units of the columns; the first coefficient is the constant.

    Attributes
    ----------
    names : tuple of str
    coefficients, standard_errors, t_values, p_values : ndarray
        Two-sided p values of the hypothesis that the coefficient is zero.
    low, high : ndarray
        Ends of the confidence intervals at ``level``.
    covariance : ndarray
        Of the coefficients.
    rows : int
    r_squared, adjusted_r_squared, residual_deviation : float
    grid : float
        The step of the ring's grid in standard units of the columns: how finely the rows were seen.
    grid_effect : float
        By how many of its standard errors the grid moves the coefficient that it moves most, about: the root mean
        square over all ways in which rounding could have fallen.
    """

    names: tuple[str, ...]
    coefficients: Floats
    standard_errors: Floats
    t_values: Floats
    p_values: Floats
    low: Floats
    high: Floats
    covariance: Floats
    rows: int
    r_squared: float
    adjusted_r_squared: float
    residual_deviation: float
    level: float
    grid: float
    grid_effect: float

    def to_dicts(self) -> list[dict[str, object]]:
        """One a coefficient, for JSON."""
        columns = self.coefficients, self.standard_errors, self.t_values, self.p_values, self.low, self.high
        keys = ("name", "coefficient", "standard_error", "t", "p", "low", "high")
        return [
            dict(zip(keys, (name, *map(float, row)), strict=True))
            for name, *row in zip(self.names, *columns, strict=True)
        ]

    def summary(self) -> str:
        """A table as statistics programs print it."""
        fit = f"R^2 {self.r_squared:.4f}, adjusted {self.adjusted_r_squared:.4f}"
        width = max(len(name) for name in self.names)
        ends = f"{100 * (1 - self.level) / 2:.1f} %", f"{100 * (1 + self.level) / 2:.1f} %"
        lines = [f"ordinary least squares, {self.rows} rows, {fit}"]
        lines += [f"{'':<{width}}  {'coef':>12} {'std err':>12} {'t':>9} {'p':>8} {ends[0]:>12} {ends[1]:>12}"]
        columns = (self.coefficients, self.standard_errors, self.t_values, self.p_values, self.low, self.high)
        for name, b, error, t, p, low, high in zip(self.names, *columns, strict=True):
            lines.append(f"{name:<{width}}  {b:>12.5g} {error:>12.4g} {t:>9.3f} {p:>8.3f} {low:>12.5g} {high:>12.5g}")
        lines.append(
            f"the rows were seen on a grid of {self.grid:.1e} standard units, which moves coefficients by about"
            f" {self.grid_effect:.1e} standard errors at most"
            + (": narrower ranges move them less" if self.grid_effect > _WORTH_A_WORD else "")
        )
        return "\n".join(lines)


def infer(problem: Problem, scheme: CodedScheme | None = None, level: float = 0.95) -> Inference:
    """Ordinary least squares on a problem's training rows: linear features, a constant and a number to predict.

    The devices take part in a run of its own, for which each allows the server the total of X'X.

    Parameters
    ----------
    scheme : CodedScheme or None
        One that shows that total and nothing else; None is one-shot.
    level : float
        Of the confidence intervals.
    """
    scheme = scheme or OneShot(alpha=max(1, problem.n_devices - 2))
    recipe = problem.recipe
    check_for_inference(recipe, level)
    parameters = inference_parameters(scheme, recipe, problem.bounds, problem.n_devices, recipe.digest())
    places = (problem.rows_of(i) for i in range(problem.n_devices))
    parts = [inference_rows(problem.X[rows], problem.Y[rows]) for rows in places]
    solver = run_for_gram(scheme, parameters, problem.device_names, parts)
    return inference_from_total(solver, recipe, parameters, problem.n_devices, level)


def inference_parameters(
    scheme: CodedScheme, recipe: Recipe, bounds: Bounds, n_devices: int, digest: bytes
) -> Parameters:
    """Of the run whose total inference is made of; ``bounds`` are those of training, ``digest`` what is agreed on."""
    bounds = replace(bounds, features=max(bounds.features, bounds.labels))
    return gram_parameters(scheme, recipe.n_features + 1, bounds, n_devices, digest)


def inference_from_total(
    solver: TakesGram, recipe: Recipe, parameters: Parameters, n_devices: int, level: float = 0.95
) -> Inference:
    """What the total says that the solver has got; ``parameters`` are those of its run."""
    labels = check_for_inference(recipe, level)
    width, n_rows = parameters.n_features, solver.samples
    if n_rows <= recipe.n_features:
        raise InvalidInput(f"rows must be more than the coefficients ({recipe.n_features}), got {n_rows}")
    format_ = FixedPoint.derive(parameters.bounds, width, n_devices, precision=parameters.precision)
    names = recipe.column_names or tuple(f"column {j}" for j in range(recipe.n_columns))
    solved = _least_squares(solver.total(width), n_rows, (CONSTANT, *names))
    grid_effect = _grid_effect(solved, 2.0**-format_.feature_bits, n_rows)
    if not grid_effect <= _MOST_MOVED:
        raise InvalidInput(
            "inference must have residuals far above the grid that rows are seen on, got coefficients that it moves by"
            f" about {grid_effect:.2g} standard errors: narrow the ranges of target and columns"
        )
    one = np.array([[min(1.0, recipe.feature_map.bound)]], dtype=np.float32)
    constant = float(np.ldexp(format_.grid_features(one), -format_.feature_bits)[0, 0])
    transform, offset = _to_units(recipe.preprocessing, labels, constant)
    coefficients = transform @ solved.coefficients
    coefficients[0] += offset
    covariance = transform @ solved.covariance @ transform.T
    errors = np.sqrt(np.diag(covariance))
    freedom = n_rows - len(coefficients)
    reach = float(stats.t.ppf((1 + level) / 2, freedom)) * errors
    return Inference(
        names=(CONSTANT, *names),
        coefficients=coefficients,
        standard_errors=errors,
        t_values=coefficients / errors,
        p_values=2 * stats.t.sf(np.abs(coefficients / errors), freedom),
        low=coefficients - reach,
        high=coefficients + reach,
        covariance=covariance,
        rows=n_rows,
        r_squared=solved.r_squared,
        adjusted_r_squared=1.0 - (1.0 - solved.r_squared) * (n_rows - 1) / freedom,
        residual_deviation=solved.deviation * (labels.high - labels.low) / 2,
        level=level,
        grid=2.0**-format_.feature_bits,
        grid_effect=grid_effect,
    )


def check_for_inference(recipe: Recipe, level: float = 0.95) -> TargetLabels:
    """The labels of a recipe that inference can be made for; others are refused."""
    feature_map, labels = recipe.feature_map, recipe.labels
    if not isinstance(feature_map, LinearFeatures) or not feature_map.intercept:
        raise InvalidInput(f"inference must have linear features with a constant, got {recipe!r}")
    if not isinstance(labels, TargetLabels):
        raise InvalidInput("inference must have a number to predict, got classes")
    if not 0 < level < 1:
        raise InvalidInput(f"level must lie between 0 and 1, got {level}")
    return labels


@dataclass(frozen=True, eq=False)
class _Solution:
    """In the units of features and labels."""

    coefficients: Floats
    covariance: Floats
    r_squared: float
    deviation: float


def _least_squares(total: Floats, rows: int, names: tuple[str, ...]) -> _Solution:
    """By the eigenvectors of the columns' cosines, which say whether columns depend on each other."""
    gram, cross, squares = total[:-1, :-1], total[:-1, -1], float(total[-1, -1])
    sizes = np.sqrt(np.diag(gram))
    _refuse_if(sizes <= 0, names, "are constant")
    values, vectors = np.linalg.eigh(gram / np.outer(sizes, sizes))
    lost = values <= _SINGULAR * values[-1]
    if lost.any():
        parts = np.abs(vectors[:, lost]).max(axis=1)
        _refuse_if(parts >= _NAMED * parts.max(), names, "depend on each other")
    inverse = (vectors / values) @ vectors.T / np.outer(sizes, sizes)
    coefficients = inverse @ cross
    coefficients += inverse @ (cross - gram @ coefficients)  # mends the rounding of the inverse
    residual = squares - coefficients @ (2 * cross - gram @ coefficients)
    about_mean = squares - cross[0] ** 2 / gram[0, 0]
    variance = max(residual, 0.0) / (rows - len(coefficients))  # a negative one is the grid's: refused by its effect
    r_squared = float(1.0 - residual / about_mean) if about_mean > 0 else 0.0
    return _Solution(coefficients, variance * inverse, r_squared, float(variance**0.5))


def _grid_effect(solved: _Solution, step: float, rows: int) -> float:
    """In standard errors of the coefficient that is moved most, to first order in the rounding errors E.

    Those are (X'X)^-1 (E'r - X'E b): errors of a step have the variance step^2 / 12, the target's count too, and what
    r, the residuals, do with them weighs the more the closer a column is to others.
    """
    if not solved.deviation > 0:
        return np.inf
    weights = (1.0 + float(np.square(solved.coefficients[1:]).sum())) / solved.deviation**2
    inverse = solved.covariance / solved.deviation**2
    closeness = float((np.square(inverse).sum(axis=0) / np.diag(inverse)).max())
    return float(step * ((weights + rows * closeness) / 12) ** 0.5)


def _to_units(scaling: Preprocessing, labels: TargetLabels, constant: float) -> tuple[Floats, float]:
    """Coefficients of features to those of columns, in the target's unit: a matrix, and what the constant gains."""
    unit = (labels.high - labels.low) / 2
    transform = np.diag(np.concatenate(([unit * constant], unit / scaling.scale)))
    transform[0, 1:] = -unit * scaling.shift / scaling.scale
    return transform, labels.low + unit


def _refuse_if(wrong: np.ndarray, names: tuple[str, ...], what: str) -> None:
    if wrong.any():
        named = ", ".join(repr(name) for name, is_wrong in zip(names, wrong, strict=True) if is_wrong)
        raise InvalidInput(f"columns must be independent for inference, got some that {what}: {named}; leave some out")
