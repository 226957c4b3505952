"""Correlations, principal components, tests of groups and of tables, all from the one total that is there."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.cells import enough
from codedfl.analyses.distributions import distributions
from codedfl.contract.models import StudyModel
from codedfl.contract.models.from_total import AnovaModel, AssociationModel, ComponentsModel, CorrelationModel
from codedfl.data.columns import ClassTarget, NumberTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject


@dataclass(frozen=True, eq=False)
class TotalFinding:
    """A table of numbers with a name for each row and column, and a test if there is one.

    facts: what is said of all of it, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.from_total import TotalFinding
    >>> TotalFinding("m", "anova", ("a", "b"), ("mean",), np.array([[1.0], [2.5]]), {"p": 0.25}).lines()
    ['p: 0.25', '         mean', 'a           1', 'b         2.5']
    """

    name: str
    kind: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    table: Floats
    facts: dict[str, float | int | str]

    def to_dict(self) -> JsonObject:
        """For JSON."""
        rows = [
            {"name": name, **dict(zip(self.columns, values, strict=True))}
            for name, values in zip(self.rows, self.table.tolist(), strict=True)
        ]
        return {"name": self.name, "kind": self.kind, **self.facts, "table": rows}

    def lines(self) -> list[str]:
        """The facts, and the table."""
        width = max(map(len, self.rows), default=0)
        shown = [
            f"{key.replace('_', ' ')}: {value if isinstance(value, str) else format(value, '.4g')}"
            for key, value in self.facts.items()
        ]
        widths = [max(12, len(one) + 2) for one in self.columns]
        if not self.rows:
            return shown
        head = " " * width + "".join(f"{one:>{size}}" for one, size in zip(self.columns, widths, strict=True))
        body = [
            f"{name:<{width}}" + "".join(f"{value:>{size}.4g}" for value, size in zip(values, widths, strict=True))
            for name, values in zip(self.rows, self.table.tolist(), strict=True)
        ]
        return [*shown, head, *body]


@register_analysis(CorrelationModel.kind)
def correlations(totals: Totals, model: CorrelationModel) -> Generator[Ask, Any, Finding]:
    """Of all pairs, with the p value of each by Student's t.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.from_total import correlations
    >>> ANALYSES["correlation"] is correlations
    True
    """
    yield from ()
    names, matrix, rows = _correlation(totals, model, target=isinstance(totals.study.target, NumberTarget))
    first, second = np.triu_indices(len(names), 1)
    found = matrix[first, second]
    with np.errstate(divide="ignore"):
        t = found * np.sqrt((rows - 2) / np.maximum(1.0 - found**2, 0.0))
    p = 2 * distributions().t.sf(np.abs(t), rows - 2)
    pairs = tuple(f"{names[one]} ~ {names[other]}" for one, other in zip(first, second, strict=True))
    table = np.column_stack((found, np.clip(p, 0.0, 1.0)))
    return TotalFinding(model.name, model.kind, pairs, ("correlation", "p"), table, {"rows": rows})


@register_analysis(ComponentsModel.kind)
def components(totals: Totals, model: ComponentsModel) -> Generator[Ask, Any, Finding]:
    """Loadings of each component, the largest variance first; the largest loading of each is positive.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.from_total import components
    >>> ANALYSES["pca"] is components
    True
    """
    yield from ()
    names, matrix, rows = _correlation(totals, model, target=False)
    variances, vectors = np.linalg.eigh(matrix)
    variances, vectors = np.maximum(variances[::-1], 0.0), vectors[:, ::-1]
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(len(names))])
    table = np.vstack((variances, variances / len(names), vectors))
    columns = tuple(f"component {place}" for place in range(1, len(names) + 1))
    return TotalFinding(model.name, model.kind, ("variance", "share", *names), columns, table, {"rows": rows})


@register_analysis(AnovaModel.kind)
def anova(totals: Totals, model: AnovaModel) -> Generator[Ask, Any, Finding]:
    """F of one category: the linear model of its levels. Of two levels also Student's t, for equal variances.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.from_total import anova
    >>> ANALYSES["anova"] is anova
    True
    """
    yield from ()
    totals.refuse_clipped(model.columns)
    linear, _ = totals.present(model.columns)
    found = linear.ols()
    fit: Any = found.fit
    ((column, reference),) = found.references
    names = (reference, *(name.removeprefix(f"{column} = ") for name in found.names[1:]))
    means = found.coefficients[0] + np.append(0.0, found.coefficients[1:])
    errors = [found.contrast({"constant": 1.0})]
    errors += [found.contrast({"constant": 1.0, name: 1.0}) for name in found.names[1:]]
    table = np.column_stack((means, [one.standard_error for one in errors]))
    facts: dict[str, float | int | str] = {"F": fit.f, "among": fit.columns, "freedom": fit.freedom, "p": fit.f_p}
    if len(names) == 2:
        facts["t"] = float(found.t[1])
    return TotalFinding(model.name, model.kind, names, ("mean", "std err"), table, {"rows": fit.rows, **facts})


@register_analysis(AssociationModel.kind)
def association(totals: Totals, model: AssociationModel) -> Generator[Ask, Any, Finding]:
    """Pearson's chi^2 without a correction, Cramer's V, and of two by two levels Fisher's exact test.

    A table with a rare cell is not tested: the result and the margins would give the cell back.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.from_total import association
    >>> ANALYSES["chi2"] is association
    True
    """
    yield from ()
    counts, smallest = _table(totals, model), totals.study.smallest_cell
    if not enough(counts, smallest):
        raise InvalidInput(
            f"cells of the table of the model {model.name!r} must have none or at least {smallest} rows"
            " (smallest_cell), got one with fewer, which the test would tell: join levels"
        )
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    if min(counts.shape) < 2:
        raise InvalidInput(f"both categories of the model {model.name!r} must have two levels or more, got one")
    rows = int(counts.sum())
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / rows
    chi_squared, freedom = float(((counts - expected) ** 2 / expected).sum()), (len(counts) - 1) * (len(counts.T) - 1)
    facts: dict[str, float | int | str] = {"rows": rows, "chi_squared": chi_squared, "freedom": freedom}
    facts["p"] = float(distributions().chi2.sf(chi_squared, freedom))
    facts["cramers_v"] = math.sqrt(chi_squared / rows / (min(counts.shape) - 1))
    if counts.shape == (2, 2):
        facts["fishers_p"] = fishers_p(counts)
    return TotalFinding(model.name, model.kind, (), (), np.zeros((0, 0)), facts)


def fishers_p(counts: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """Two-sided: of all tables with these margins, those that are no likelier.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.from_total import fishers_p
    >>> round(fishers_p(np.array([[8, 2], [1, 5]])), 6)
    0.034965
    """
    (a, _), (c, _) = counts.tolist()
    first, second = counts.sum(axis=1).tolist()
    law = distributions().hypergeom(first + second, first, a + c)
    there = np.arange(max(0, a + c - second), min(first, a + c) + 1)
    chances = law.pmf(there)
    return float(min(1.0, chances[chances <= law.pmf(a) * (1 + 1e-7)].sum()))


def _correlation(totals: Totals, model: StudyModel, *, target: bool) -> tuple[tuple[str, ...], Floats, int]:
    """Names, correlations and rows of the design columns, and of the target."""
    totals.refuse_clipped(model.columns)
    linear, _ = totals.present(model.columns)
    names = (*linear.study.design_names, *([totals.study.target.name] if target else []))
    scatter = linear.scatter[: len(names), : len(names)].astype(np.float64)
    size = np.sqrt(np.diag(scatter))
    if not size.all():
        still = [name for name, one in zip(names, size, strict=True) if not one]
        raise InvalidInput(f"columns of the model {model.name!r} must vary, got ones that do not: {', '.join(still)}")
    return names, scatter / np.outer(size, size), linear.rows


def _table(totals: Totals, model: AssociationModel) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Rows of each pair of levels; the first level of a column is what the others leave."""
    linear = totals.linear(model.columns)
    columns = [one for one in linear.study.columns if one.name in model.columns]
    if len(columns) < len(model.columns):
        raise InvalidInput(f"columns of the model {model.name!r} must vary in enough rows, got one that does not")
    gram = np.rint(linear.scaled_gram).astype(np.int64)
    d = 1 + columns[0].width
    rest = 1 + columns[0].width + columns[1].width if len(columns) > 1 else len(gram)
    place = np.arange(d, rest)
    if len(columns) > 1:
        inner = np.vstack((gram[0, place], gram[1:d][:, place]))  # totals of the second, then by levels of the first
        left = np.append(gram[0, 0], gram[0, 1:d]) - inner.sum(axis=1)
        table = np.column_stack((left, inner))
    else:
        assert isinstance(totals.study.target, ClassTarget)
        table = np.vstack((gram[0, place], gram[1:d][:, place]))
    return np.vstack((table[0] - table[1:].sum(axis=0), table[1:]))
