"""Tests between models of one study, one of which has all terms of the other: no total is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from codedfl.analyses.analysis import Finding
from codedfl.analyses.distributions import distributions
from codedfl.analyses.inference import Inference
from codedfl.analyses.least_squares import LeastSquaresFit
from codedfl.typing import JsonObject

_SAME = ("target", "kind", "rows", "modelled", "events", "times", "strata", "constants", "sets")


class Nested(NamedTuple):
    """That the larger model says no more than the smaller.

    test: "F", or "likelihood ratio", which follows a chi^2 law. among, freedom: degrees of freedom; the latter of F.

    Examples
    --------
    See ``nested``, which makes them.
    """

    smaller: str
    larger: str
    test: str
    statistic: float
    among: int
    freedom: int | None
    p: float

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return self._asdict()

    def line(self) -> str:
        """For people."""
        freedom = f"{self.among}" if self.freedom is None else f"{self.among} and {self.freedom}"
        name = "F" if self.freedom is not None else "likelihood ratio chi^2"
        return f"{self.larger!r} beside {self.smaller!r}: {name} {self.statistic:.4g} on {freedom}, p {self.p:.3g}"


def nested(findings: Sequence[Finding]) -> list[Nested]:
    """Of all pairs of models with classical errors on the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.inference import Inference
    >>> from codedfl.analyses.least_squares import LeastSquaresFit
    >>> from codedfl.analyses.nested import nested
    >>> from codedfl.analyses.robust import InferenceFinding
    >>> fits = LeastSquaresFit("days", 100, 1, 0.40, 2.0), LeastSquaresFit("days", 100, 2, 0.45, 1.93)
    >>> terms = ("constant", "age"), ("constant", "age", "crp")
    >>> made = [Inference(one, np.ones(len(one)), np.eye(len(one)), 97, fit) for one, fit in zip(terms, fits)]
    >>> found = nested([InferenceFinding(f"m{k}", "linear", one) for k, one in enumerate(made)])
    >>> [one.line() for one in found]
    ["'m1' beside 'm0': F 8.238 on 1 and 97, p 0.00504"]
    """
    known = [(one.name, part) for one in findings if (part := _classical(one)) is not None]
    pairs = permutations(known, 2)
    return [found for smaller, larger in pairs for found in _tested(*smaller, *larger)]


def _classical(finding: Finding) -> Inference | None:
    """Robust errors say that the likelihood is not believed, and a dispersion has none."""
    found = getattr(finding, "inference", None)
    fit = getattr(found, "fit", None)
    if isinstance(fit, LeastSquaresFit):
        return found
    believed = getattr(fit, "errors", "model") == "model"
    return found if believed and isinstance(getattr(fit, "log_likelihood", None), float) else None


def _tested(small: str, smaller: Inference, large: str, larger: Inference) -> Iterator[Nested]:
    one, other = smaller.fit, larger.fit
    alike = type(one) is type(other) and all(getattr(one, key, None) == getattr(other, key, None) for key in _SAME)
    if not alike or not set(smaller.names) < set(larger.names):
        return
    among, laws = len(larger.names) - len(smaller.names), distributions()
    if isinstance(one, LeastSquaresFit) and isinstance(other, LeastSquaresFit):
        left, rest = (fit.residual_deviation**2 * fit.freedom for fit in (one, other))
        f = (left - rest) / among / (rest / other.freedom)
        yield Nested(small, large, "F", f, among, other.freedom, float(laws.f.sf(f, among, other.freedom)))
        return
    likelihoods: tuple[Any, Any] = (one, other)
    ratio = max(0.0, 2 * (likelihoods[1].log_likelihood - likelihoods[0].log_likelihood))
    yield Nested(small, large, "likelihood ratio", ratio, among, None, float(laws.chi2.sf(ratio, among)))
