"""Residuals of a linear model: a histogram and the points of a normal QQ plot, from one total of counts."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.cells import joined
from codedfl.analyses.least_squares import LeastSquaresFit
from codedfl.analyses.robust import scaled_coefficients, units
from codedfl.contract.models.residuals import ResidualsModel
from codedfl.errors import InvalidInput
from codedfl.statistics.residuals import EDGES
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, Integers, JsonObject


@dataclass(frozen=True, eq=False)
class ResidualsFinding:
    """Counts of residuals between edges, which are in residual deviations; parts with few rows are joined.

    counts: one more than the edges: below the first, between each two, above the last.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.residuals import ResidualsFinding
    >>> found = ResidualsFinding("m", 2.0, np.array([-1.0, 1.0]), np.array([16, 68, 16]))
    >>> [(round(normal, 4), edge) for normal, edge in found.qq()]
    [(-0.9945, -1.0), (0.9945, 1.0)]
    """

    name: str
    deviation: float
    edges: Floats
    counts: Integers

    def qq(self) -> list[tuple[float, float]]:
        """At each edge with residuals on both sides the normal quantile of the share below it, and the edge itself."""
        shares = (np.cumsum(self.counts)[:-1] / self.counts.sum()).tolist()
        known = zip(shares, self.edges.tolist(), strict=True)
        return [(NormalDist().inv_cdf(share), edge) for share, edge in known if 0 < share < 1]

    def to_dict(self) -> JsonObject:
        """For JSON."""
        known: JsonObject = {"name": self.name, "kind": ResidualsModel.kind, "residual_deviation": self.deviation}
        points = [list(one) for one in self.qq()]
        return {**known, "edges": self.edges.tolist(), "counts": self.counts.tolist(), "qq": points}

    def lines(self) -> list[str]:
        """A line per part."""
        ends = ["-inf", *(f"{edge:g}" for edge in self.edges), "inf"]
        table = [
            f"{low:>6} to {high:>6} {count:>8d}"
            for low, high, count in zip(ends[:-1], ends[1:], self.counts.tolist(), strict=True)
        ]
        points = "  ".join(f"{normal:.2f}:{edge:g}" for normal, edge in self.qq())
        return [f"residuals in deviations of {self.deviation:.4g}", *table, f"QQ, normal:residual  {points}"]


@register_analysis(ResidualsModel.kind)
def residuals(totals: Totals, model: ResidualsModel) -> Generator[Ask, Any, Finding]:
    """Coefficients from the total that is there, counts from one more.

    Examples
    --------
    See ``ResidualsFinding``, in which it ends.
    """
    totals.refuse_clipped(model.columns)
    linear, spread = totals.present(model.columns)
    plain = linear.ols()
    assert isinstance(plain.fit, LeastSquaresFit)
    deviation, (_, scale) = plain.fit.residual_deviation, units(linear)
    point = np.append(spread(scaled_coefficients(linear, plain.coefficients)), deviation / scale)
    counts = np.array((yield totals.ask("residuals", model, point)))
    kept = joined(counts[None, :], totals.study.smallest_cell)
    if not kept.any():
        raise InvalidInput(f"residuals of the model {model.name!r} must differ, got nearly all in one part")
    parts = np.add.reduceat(counts, np.append(0, np.flatnonzero(kept) + 1))
    return ResidualsFinding(model.name, deviation, EDGES[kept], parts)
