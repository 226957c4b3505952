"""Ordinary least squares as a whole: what is said of the model beside its coefficients."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import ClassVar

from codedfl.analyses.distributions import distributions
from codedfl.typing import JsonObject


@dataclass(frozen=True)
class LeastSquaresFit:
    """Ordinary least squares with a constant, as a whole.

    target: the name of what is predicted.
    rows, columns: how many rows, and how many coefficients beside the constant.
    r_squared: share of the target's variance that is explained.
    residual_deviation: root of the residual sum of squares per degree of freedom.
    constants: how many there are: 1, or with site effects one per device; R^2 is then within sites.

    Examples
    --------
    >>> from codedfl.analyses.least_squares import LeastSquaresFit
    >>> fit = LeastSquaresFit("days", rows=100, columns=1, r_squared=0.4, residual_deviation=2.0)
    >>> fit.freedom, round(fit.f, 4), round(fit.aic, 3)
    (98, 65.3333, 424.397)
    """

    target: str
    rows: int
    columns: int
    r_squared: float
    residual_deviation: float
    constants: int = 1

    title: ClassVar[str] = "Ordinary least squares"
    ratio: ClassVar[str] = ""
    thresholds: ClassVar[tuple[str, ...]] = ()

    @property
    def method(self) -> str:
        """With classical errors."""
        sites = ", with a constant for each site" if self.constants > 1 else ""
        return (
            f"The outcome {self.target} was modelled by ordinary least squares{sites}; standard errors are classical."
        )

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the residuals."""
        return self.rows - self.columns - self.constants

    @property
    def adjusted_r_squared(self) -> float:
        """R^2 per degree of freedom."""
        return 1.0 - (1.0 - self.r_squared) * (self.rows - self.constants) / self.freedom

    @property
    def f(self) -> float:
        """F of all columns together, against the constant alone."""
        return self.r_squared / self.columns / ((1.0 - self.r_squared) / self.freedom)

    @property
    def f_p(self) -> float:
        """P value of ``f``."""
        return float(distributions().f.sf(self.f, self.columns, self.freedom))

    @property
    def log_likelihood(self) -> float:
        """Of normal residuals, at its maximum."""
        log_squares = 2 * math.log(self.residual_deviation) + math.log(2 * math.pi * self.freedom / self.rows)
        return -self.rows / 2 * (log_squares + 1)

    @property
    def aic(self) -> float:
        """Akaike's criterion; the deviation is not counted as a parameter, as statsmodels has it."""
        return 2 * (self.columns + self.constants) - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion, likewise."""
        return math.log(self.rows) * (self.columns + self.constants) - 2 * self.log_likelihood

    def facts(self) -> list[tuple[str, str]]:
        """As statistics programs list them."""
        of_sites = [] if self.constants == 1 else [("Site effects", str(self.constants)), ("R^2 and F", "within sites")]
        return [
            ("Target", self.target),
            ("R^2", f"{self.r_squared:.4f}"),
            ("Rows", str(self.rows)),
            ("Adjusted R^2", f"{self.adjusted_r_squared:.4f}"),
            ("Degrees of freedom", str(self.freedom)),
            ("F", f"{self.f:.4g} on {self.columns}"),
            ("Residual deviation", f"{self.residual_deviation:.4g}"),
            ("P(F)", f"{self.f_p:.3g}"),
            ("Log-likelihood", f"{self.log_likelihood:.6g}"),
            ("AIC, BIC", f"{self.aic:.6g}, {self.bic:.6g}"),
            *of_sites,
        ]

    def to_dict(self) -> JsonObject:
        """All of it."""
        names = ("freedom", "adjusted_r_squared", "f", "f_p", "log_likelihood", "aic", "bic")
        return {"model": self.title, **asdict(self), **{name: getattr(self, name) for name in names}}
