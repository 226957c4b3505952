"""Coefficients with their covariance, and all that follows: standard errors, tests, contrasts, predictions, a table.

The rows are the gridded rows of all devices together, and the totals are exact, so the numbers are those that a
statistics program prints for the pooled table. There is no penalty: a ridge has no such standard errors.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple, Protocol

import numpy as np

from codedfl.analyses.distributions import distributions
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Json, JsonObject

CONSTANT = "constant"
WIDTH = 79  # columns of a summary
_NAME = 21  # letters of a name in the table, which then fits


class Fit(Protocol):
    """What a kind of model says of itself as a whole, beside its coefficients.

    Examples
    --------
    See ``LeastSquaresFit``, which is one.
    """

    @property
    def title(self) -> str:
        """The model's name, for the head of a table."""

    @property
    def rows(self) -> int:
        """Rows that the model was made of."""

    @property
    def ratio(self) -> str:
        """What exp(coefficient) is, such as "odds ratio"; "" if it is nothing that is reported."""

    @property
    def thresholds(self) -> tuple[str, ...]:
        """Coefficients beside the constant that say nothing of a column."""

    @property
    def method(self) -> str:
        """How it was estimated: a sentence for a paper."""

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for the head of a table, the most important first."""

    def to_dict(self) -> JsonObject:
        """For JSON."""


class JointTest(NamedTuple):
    """The hypothesis that several coefficients are all zero, such as all levels of a category.

    statistic: F, with ``among`` and ``freedom`` degrees of freedom; an infinite ``freedom`` is chi^2 / ``among``.

    Examples
    --------
    See ``Inference``.
    """

    names: tuple[str, ...]
    statistic: float
    among: int
    freedom: float
    p: float

    def __str__(self) -> str:
        freedom = f"{self.among}" if math.isinf(self.freedom) else f"{self.among}, {self.freedom:g}"
        return f"{', '.join(self.names)}: F({freedom}) = {self.statistic:.4g}, p = {self.p:.3g}"


class Contrast(NamedTuple):
    """A weighted sum of coefficients, with its error and interval.

    Examples
    --------
    See ``Inference``.
    """

    estimate: float
    standard_error: float
    t: float
    p: float
    low: float
    high: float


class Prediction(NamedTuple):
    """Expected values of rows with their errors and intervals.

    Examples
    --------
    See ``Inference``.
    """

    mean: Floats
    standard_error: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Inference:
    """Coefficients in the units of the columns; the first is the constant.

    Attributes
    ----------
    names : tuple of str
    coefficients : ndarray
    covariance : ndarray
        Of the coefficients.
    freedom : float
        Degrees of freedom of Student's distribution; infinite is the normal one.
    fit : Fit
        What is said of the model as a whole.
    references : tuple of (str, str)
        Each category with the level that the others are compared with.
    level : float
        Of the confidence intervals.
    spreads : tuple of float
        For each coefficient how far its column varies, roughly: what pictures show coefficients per. Empty shows them
        per unit.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.inference import Inference
    >>> from codedfl.analyses.least_squares import LeastSquaresFit
    >>> fit = LeastSquaresFit("days", 100, 2, 0.4, 2.0)
    >>> names = ("constant", "ward = eye", "ward = burns")
    >>> covariance = np.diag([0.04, 0.01, 0.01])
    >>> found = Inference(names, np.array([1.0, 0.5, 0.2]), covariance, 97, fit, references=(("ward", "surgery"),))
    >>> found.standard_errors, found.t.round(6)
    (array([0.2, 0.1, 0.1]), array([5., 5., 2.]))
    >>> print(found.joint(["ward = eye", "ward = burns"]))
    ward = eye, ward = burns: F(2, 97) = 14.5, p = 3.09e-06
    >>> round(found.contrast({"ward = eye": 1, "ward = burns": -1}).estimate, 6)
    0.3
    >>> found.get_prediction(np.array([[1.0, 0.0]])).mean
    array([1.5])
    """

    names: tuple[str, ...]
    coefficients: Floats
    covariance: Floats
    freedom: float
    fit: Fit
    references: tuple[tuple[str, str], ...] = ()
    level: float = 0.95
    spreads: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidInput(f"level must lie between 0 and 1, got {self.level}")
        if not math.isinf(self.freedom):
            distributions()  # whoever has no p values learns it here

    def __repr__(self) -> str:
        return f"<Inference of {len(self.names)} coefficients from {self.rows} rows>"

    @property
    def rows(self) -> int:
        """Rows that it was made of."""
        return self.fit.rows

    @cached_property
    def standard_errors(self) -> Floats:
        """Of the coefficients."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def t(self) -> Floats:
        """Coefficients in standard errors."""
        return self.coefficients / self.standard_errors

    @cached_property
    def p(self) -> Floats:
        """Two-sided, of the hypothesis that the coefficient is zero."""
        return np.array([self._two_sided(one) for one in self.t.tolist()])

    def _two_sided(self, ratio: float) -> float:
        if math.isinf(self.freedom):
            return math.erfc(abs(ratio) / math.sqrt(2))
        return float(2 * distributions().t.sf(abs(ratio), self.freedom))

    @cached_property
    def reach(self) -> float:
        """Standard errors on either side that make the confidence interval."""
        end = (1 + self.level) / 2
        return (
            NormalDist().inv_cdf(end) if math.isinf(self.freedom) else float(distributions().t.ppf(end, self.freedom))
        )

    @property
    def low(self) -> Floats:
        """Lower ends of the confidence intervals."""
        return self.coefficients - self.reach * self.standard_errors

    @property
    def high(self) -> Floats:
        """Upper ends of the confidence intervals."""
        return self.coefficients + self.reach * self.standard_errors

    def conf_int(self) -> Floats:
        """Lower and upper end of each coefficient's confidence interval, a row each."""
        return np.column_stack((self.low, self.high))

    @property
    def effects(self) -> tuple[str, ...]:
        """The coefficients that say something of a column: all but constants and thresholds."""
        return tuple(one for one in self.names if one != CONSTANT and one not in self.fit.thresholds)

    def ratios(self) -> Floats:
        """exp of each effect and of both ends of its interval, a row each: odds, rate or hazard ratios (``fit.ratio``).

        >>> from codedfl.analyses.least_squares import LeastSquaresFit
        >>> fit = LeastSquaresFit("days", 100, 1, 0.4, 2.0)
        >>> found = Inference(("constant", "age"), np.array([5.0, 0.1]), np.diag([0.04, 0.01]), math.inf, fit)
        >>> found.effects, found.ratios().round(4)
        (('age',), array([[1.1052, 0.9085, 1.3445]]))
        """
        places = [self.names.index(one) for one in self.effects]
        with np.errstate(over="ignore"):
            return np.exp(np.column_stack((self.coefficients, self.low, self.high))[places])

    def by_level(self, column: str, levels: Iterable[str]) -> Inference:
        """The same model with a constant for each level of a category, in place of one and differences from it.

        As ``C(ward) - 1`` means it: coefficients and errors change, and nothing of the fit does. A model that has no
        such category stays as it is.

        >>> from codedfl.analyses.least_squares import LeastSquaresFit
        >>> fit = LeastSquaresFit("days", 100, 1, 0.4, 2.0)
        >>> found = Inference(("constant", "ward = b"), np.array([5.0, 2.0]), np.diag([0.04, 0.01]), 98, fit,
        ...                   (("ward", "a"),)).by_level("ward", "ab")
        >>> found.names, found.coefficients.tolist(), found.covariance.round(6).tolist(), found.references
        (('ward = a', 'ward = b'), [5.0, 7.0], [[0.04, 0.04], [0.04, 0.05]], ())
        """
        reference = dict(self.references).get(column)
        if reference is None or self.names[0] != CONSTANT:
            return self
        names = (f"{column} = {reference}", *self.names[1:])
        change = np.eye(len(names))
        marks = {f"{column} = {level}" for level in levels}
        change[[name in marks for name in names], 0] = 1.0
        return replace(
            self,
            names=names,
            coefficients=change @ self.coefficients,
            covariance=change @ self.covariance @ change.T,
            references=tuple(one for one in self.references if one[0] != column),
        )

    # -- questions to the covariance

    def contrast(self, weights: Mapping[str, float], value: float = 0.0) -> Contrast:
        """The weighted sum of coefficients less ``value``; the reference level of a category has the coefficient 0."""
        known = {name: place for place, name in enumerate(self.names)}
        at_zero = {f"{column} = {level}" for column, level in self.references}
        row = np.zeros(len(self.names))
        for name, weight in weights.items():
            if name in known:
                row[known[name]] += weight
            elif name not in at_zero:
                raise InvalidInput(f"a coefficient must be one of {', '.join((*self.names, *at_zero))}, got {name!r}")
        if not row.any():
            raise InvalidInput("a contrast must have at least one coefficient beside the reference, got none")
        estimate, error = float(row @ self.coefficients) - value, float(row @ self.covariance @ row) ** 0.5
        reach, ratio = self.reach * error, estimate / error
        return Contrast(estimate, error, ratio, self._two_sided(ratio), estimate - reach, estimate + reach)

    def joint(self, names: Iterable[str]) -> JointTest:
        """Wald's test that these coefficients are all zero: that of the nested model, for least squares."""
        names = tuple(dict.fromkeys(names))
        if not names or set(names) - set(self.names):
            strange = sorted(set(names) - set(self.names)) or ["none"]
            raise InvalidInput(f"a coefficient must be one of {', '.join(self.names)}, got {strange[0]!r}")
        places = [self.names.index(name) for name in names]
        b, among, laws = self.coefficients[places], len(places), distributions()
        statistic = float(b @ np.linalg.solve(self.covariance[np.ix_(places, places)], b)) / among
        if math.isinf(self.freedom):
            p = laws.chi2.sf(statistic * among, among)
        else:
            p = laws.f.sf(statistic, among, self.freedom)
        return JointTest(names, statistic, among, self.freedom, float(p))

    def get_prediction(self, X: Floats) -> Prediction:
        """Constant plus coefficients times columns for rows of X, which has the columns of ``names`` but the constant.

        Intervals are of the expected value, not of a further row.
        """
        if X.ndim != 2 or X.shape[1] != len(self.names) - 1:
            raise InvalidInput(f"X must have {len(self.names) - 1} columns, got shape {X.shape}")
        rows = np.column_stack((np.ones(len(X)), X))
        mean = rows @ self.coefficients
        error = np.sqrt(np.einsum("ij,jk,ik->i", rows, self.covariance, rows))
        return Prediction(mean, error, mean - self.reach * error, mean + self.reach * error)

    # -- for files and people

    def to_dicts(self) -> list[JsonObject]:
        """One for each coefficient, for JSON."""
        keys = ("name", "coefficient", "standard_error", "t", "p", "low", "high")
        spreads = self.spreads or (1.0,) * len(self.names)
        ratios = dict(zip(self.effects, self.ratios().tolist(), strict=True))
        found: list[JsonObject] = []
        for (name, *row), spread in zip(self._table(), spreads, strict=True):
            known: dict[str, Json] = dict(zip(keys, (name, *map(float, row)), strict=True))
            known |= {"per": spread, "effect": name in ratios}
            if self.fit.ratio and name in ratios:
                ends = (one if math.isfinite(one) else None for one in ratios[name])
                known |= zip(("ratio", "ratio_low", "ratio_high"), ends, strict=True)
            found.append(known)
        return found

    def to_dict(self) -> JsonObject:
        """All that a paper needs, for JSON."""
        return {
            "fit": self.fit.to_dict(),
            "ratio": self.fit.ratio,
            "method": self.fit.method,
            "level": self.level,
            "references": dict(self.references),
            "coefficients": self.to_dicts(),
            "covariance": self.covariance.tolist(),
        }

    def summary(self) -> str:
        """A table as statistics programs print it, at most 79 columns wide."""
        names = [name if len(name) <= _NAME else f"{name[: _NAME - 9]}...{name[-6:]}" for name in self.names]
        ratio = "z" if math.isinf(self.freedom) else "t"
        low_end, high_end = f"[{(1 - self.level) / 2:.3g}", f"{(1 + self.level) / 2:.3g}]"
        head = f"{'':<{_NAME}} {'coef':>10} {'std err':>9} {ratio:>7} {f'P>|{ratio}|':>6} {low_end:>10} {high_end:>10}"
        lines = [self.fit.title.center(WIDTH).rstrip(), "=" * WIDTH, *_two_columns(self.fit.facts()), "=" * WIDTH, head]
        lines.append("-" * WIDTH)
        for name, (_, b, error, t, p, low, high) in zip(names, self._table(), strict=True):
            shown = f"{t:.2f}" if abs(t) < 1000 else f"{t:.0e}"
            ends = f"{_short(low):>10} {_short(high):>10}"
            lines.append(f"{name:<{_NAME}} {_short(b):>10} {error:>9.3g} {shown:>7} {p:>6.3f} {ends}")
        lines.append("=" * WIDTH)
        if self.fit.ratio:
            lines.append(f"{'':<{_NAME}} {self.fit.ratio:>16} {low_end:>10} {high_end:>10}")
            short = dict(zip(self.names, names, strict=True))
            for name, (ratio_, low, high) in zip(self.effects, self.ratios().tolist(), strict=True):
                lines.append(f"{short[name]:<{_NAME}} {_short(ratio_):>16} {_short(low):>10} {_short(high):>10}")
            lines.append("=" * WIDTH)
        if self.references:
            text = "; ".join(f"{column} = {level}" for column, level in self.references)
            lines += textwrap.wrap(f"Reference levels: {text}", WIDTH)
        return "\n".join(lines)

    def _table(self) -> list[tuple[str, float, float, float, float, float, float]]:
        columns = self.coefficients, self.standard_errors, self.t, self.p, self.low, self.high
        return list(zip(self.names, *columns, strict=True))


def _short(value: float) -> str:
    """At most ten letters."""
    text = f"{value:.4g}"
    return text if len(text) <= 10 else f"{value:.3g}"


def _two_columns(facts: list[tuple[str, str]]) -> list[str]:
    half = (WIDTH - 3) // 2
    texts = [f"{name}:{value[: half - len(name) - 2]:>{half - len(name) - 1}}" for name, value in facts]
    return [
        f"{texts[at]:<{half}}   {texts[at + 1] if at + 1 < len(texts) else ''}".rstrip()
        for at in range(0, len(texts), 2)
    ]
