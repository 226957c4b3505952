"""Coefficients with standard errors, t and p values: what ordinary least squares found.

The rows are the gridded rows of all devices together, and the totals are exact, so the numbers are those that a
statistics program prints for the pooled table. There is no penalty: a ridge has no such standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject

CONSTANT = "constant"
_NAME = 21  # letters of a name in the table, which then fits 80 columns


@dataclass(frozen=True, eq=False, repr=False)
class Inference:
    """Ordinary least squares in the units of the columns; the first coefficient is the constant.

    Attributes
    ----------
    names : tuple of str
    coefficients, standard_errors, t, p : ndarray
        p values are two-sided, of the hypothesis that the coefficient is zero.
    low, high : ndarray
        Ends of the confidence intervals at ``level``.
    covariance : ndarray
        Of the coefficients.
    rows : int
    r_squared, adjusted_r_squared, residual_deviation : float
    level : float

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses import Inference
    >>> covariance = np.diag([0.04, 0.01])
    >>> found = Inference.of(("constant", "age"), np.array([1.0, 0.5]), covariance, 100, 0.4, 2.0)
    >>> found.standard_errors, found.t.round(6)
    (array([0.2, 0.1]), array([5., 5.]))
    """

    names: tuple[str, ...]
    coefficients: Floats
    standard_errors: Floats
    t: Floats
    p: Floats
    low: Floats
    high: Floats
    covariance: Floats
    rows: int
    r_squared: float
    adjusted_r_squared: float
    residual_deviation: float
    level: float

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        coefficients: Floats,
        covariance: Floats,
        rows: int,
        r_squared: float,
        residual_deviation: float,
        level: float = 0.95,
    ) -> Inference:
        """All that follows from coefficients and their covariance, by Student's distribution."""
        if not 0 < level < 1:
            raise InvalidInput(f"level must lie between 0 and 1, got {level}")
        freedom = rows - len(coefficients)
        student = _student()
        errors = np.sqrt(np.diag(covariance))
        t = coefficients / errors
        reach = float(student.ppf((1 + level) / 2, freedom)) * errors
        return cls(
            names=names,
            coefficients=coefficients,
            standard_errors=errors,
            t=t,
            p=2 * student.sf(np.abs(t), freedom),
            low=coefficients - reach,
            high=coefficients + reach,
            covariance=covariance,
            rows=rows,
            r_squared=r_squared,
            adjusted_r_squared=1.0 - (1.0 - r_squared) * (rows - 1) / freedom,
            residual_deviation=residual_deviation,
            level=level,
        )

    def __repr__(self) -> str:
        return f"<Inference of {len(self.names)} coefficients from {self.rows} rows, R^2 {self.r_squared:.4f}>"

    def to_dicts(self) -> list[JsonObject]:
        """One for each coefficient, for JSON."""
        columns = self.coefficients, self.standard_errors, self.t, self.p, self.low, self.high
        keys = ("name", "coefficient", "standard_error", "t", "p", "low", "high")
        return [
            dict(zip(keys, (name, *map(float, row)), strict=True))
            for name, *row in zip(self.names, *columns, strict=True)
        ]

    def summary(self) -> str:
        """A table as statistics programs print it, at most 80 columns wide."""
        names = [name if len(name) <= _NAME else f"{name[: _NAME - 3]}..." for name in self.names]
        width = max(map(len, names))
        low, high = (f"{100 * end:.3g} %" for end in ((1 - self.level) / 2, (1 + self.level) / 2))
        lines = [
            f"ordinary least squares, {self.rows} rows, R^2 {self.r_squared:.4f},"
            f" adjusted {self.adjusted_r_squared:.4f}",
            f"{'':<{width}} {'coef':>10} {'std err':>9} {'t':>7} {'p':>6} {low:>10} {high:>10}",
        ]
        columns = self.coefficients, self.standard_errors, self.t, self.p, self.low, self.high
        for name, b, error, t, p, low_end, high_end in zip(names, *columns, strict=True):
            ratio = f"{t:.2f}" if abs(t) < 1000 else f"{t:.0e}"
            row = f"{b:>10.4g} {error:>9.3g} {ratio:>7} {p:>6.3f} {low_end:>10.4g} {high_end:>10.4g}"
            lines.append(f"{name:<{width}} {row}")
        return "\n".join(lines)


def _student() -> Any:
    """Student's distribution. It is imported here, since nobody but who makes p values needs scipy."""
    try:
        from scipy.stats import t
    except ImportError:
        raise InvalidInput("scipy must be installed for p values: pip install 'codedfl[inference]'") from None
    return t
