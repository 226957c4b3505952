"""Logistic and Poisson models of columns with few combinations, from one cross-table: no iteration asks anybody."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.beginning import check_columns
from codedfl.analyses.glm import in_units
from codedfl.analyses.maximum import Fitted, NewtonSums, information_inverse
from codedfl.contract.combinations import FEW_CELLS, cell_codes, count_cells
from codedfl.contract.models.table import TableModel
from codedfl.data.columns import NumberTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.contingency import BITS
from codedfl.statistics.newton import scaled_design
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats

_MOST_STEPS, _CLOSE, _STEEP = 60, 1e-10, 30.0


@register_analysis(TableModel.kind)
def fit_table(totals: Totals, model: TableModel) -> Generator[Ask, Any, Finding]:
    """Count the combinations, ask for the table if none is rare, and fit it.

    Examples
    --------
    >>> from codedfl.analyses.analysis import ANALYSES
    >>> from codedfl.analyses.table import fit_table
    >>> ANALYSES["table"] is fit_table
    True
    """
    cells = count_cells(totals.study, model)
    if cells > FEW_CELLS:
        raise InvalidInput(
            f"columns of the model {model.name!r} must have at most {FEW_CELLS} combinations for a table, got {cells}"
        )
    check_columns(totals, model)
    numbers: list[int] = yield totals.ask("contingency", model)
    final = totals.final_of(model)
    rows, sums = np.array(numbers[:-2], dtype=np.float64).reshape(2, -1)
    there = np.flatnonzero(rows)
    X = scaled_design(totals.final, final, cell_codes(totals.final, final, there))
    at_zero, best = (one / 2**BITS for one in numbers[-2:])
    counts = isinstance(totals.study.target, NumberTarget)
    _, spread = totals.present(model.columns)
    fitted, of_fitted, found = _fitted(model, X[:, spread.place], rows[there], sums[there], counts)
    beta, covariance = spread(fitted), spread(of_fitted)
    # ``at_zero`` has every row's log-likelihood where the predictor is 0: of counts it is -1 less the constant.
    constant = at_zero + (rows.sum() if counts else rows.sum() * math.log(2.0))
    whole = NewtonSums(rows.sum(), found + constant, best, np.zeros(len(beta)), np.zeros((0, 0)))
    return in_units(totals, final, Fitted(beta, covariance, whole, 0), rows=int(rows.sum()), penalised=False)


def _fitted(model: TableModel, X: Floats, rows: Floats, sums: Floats, counts: bool) -> tuple[Floats, Floats, float]:
    """Newton's iteration at home: coefficients, their covariance, and the likelihood but for its constant."""
    share = sums.sum() / rows.sum()
    beta = np.zeros(X.shape[1])
    beta[0] = math.log(share if counts else share / (1 - share))
    best, step = -math.inf, np.zeros_like(beta)
    for _ in range(_MOST_STEPS):
        predictor = X @ beta
        mean = np.exp(predictor) if counts else 1 / (1 + np.exp(-predictor))
        likelihood = float(sums @ predictor - rows @ (mean if counts else np.logaddexp(0.0, predictor)))
        if likelihood < best - 1e-9 * abs(best):
            step = step / 2
            beta = beta - step
            continue
        if np.abs(predictor).max() > _STEEP:
            break
        covariance = information_inverse((X.T * (rows * (mean if counts else mean * (1 - mean)))) @ X, model)
        best, step = likelihood, covariance @ (X.T @ (sums - rows * mean))
        beta = beta + step
        if np.abs(step / np.sqrt(np.diag(covariance))).max() < _CLOSE:
            return beta, covariance, likelihood
    raise InvalidInput(
        f"the target must be uncertain in the model {model.name!r}, got levels in which it is always the same"
        " (separation): join levels, or take a logistic or Poisson model with a ridge penalty (regularisation)"
    )
