"""Penalties from one Gram matrix alone: lambda by generalised cross-validation, the lasso and the elastic net.

All functions take the mean products of centred columns: ``gram`` = X'X/n, ``cross`` = X'y/n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Floats

_CANDIDATES = 10.0 ** np.linspace(-10, 4, 141)  # of lambda, in mean eigenvalues
_SWEEPS = 10  # between two attempts to solve exactly
_MOST_SWEEPS = 20_000
_SLACK = 1e-9  # of lambda: how far a solution may be from its conditions


def gcv_choice(gram: Floats, cross: Floats, squares: float, rows: int) -> float:
    """Lambda of the ridge with the least generalised cross-validation, n RSS / (n - 1 - trace of the hat matrix)^2.

    squares: the mean square of the centred targets, summed over the targets.

    Examples
    --------
    Two columns, of which the second is noise:

    >>> import numpy as np
    >>> from codedfl.analyses.penalised import gcv_choice
    >>> round(gcv_choice(np.eye(2), np.array([[0.5], [0.01]]), 1.0, 100), 4)
    0.0659
    """
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    along = np.square(vectors.T @ cross).sum(axis=1)

    def criterion(weights: Floats) -> Floats:
        shrunk = values + weights[:, None]
        left = squares - (along * (2 * shrunk - values) / np.square(shrunk)).sum(axis=1)
        return np.asarray(np.maximum(left, 0.0) / np.square(rows - 1 - (values / shrunk).sum(axis=1)))

    candidates = _CANDIDATES * values.mean()
    for _ in range(3):  # narrower each time: from a tenth of a decade to a thousandth
        best = int(np.argmin(criterion(candidates)))
        candidates = np.geomspace(candidates[max(best - 1, 0)], candidates[min(best + 1, len(candidates) - 1)], 21)
    return float(candidates[int(np.argmin(criterion(candidates)))])


def elastic_net(gram: Floats, cross: Floats, weight: float, l1_ratio: float, start: Floats) -> Floats:
    """What minimises b'Gb/2 - c'b + weight (l1_ratio |b|_1 + (1 - l1_ratio) |b|^2 / 2), as scikit-learn has it.

    Coordinate descent finds which coefficients are zero; the others are then solved exactly, and the conditions of
    the minimum are checked.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.penalised import elastic_net
    >>> elastic_net(np.eye(2), np.array([0.5, 0.1]), 0.2, 1.0, np.zeros(2))
    array([0.3, 0. ])
    """
    lasso, ridge = weight * l1_ratio, weight * (1 - l1_ratio)
    penalised = gram + ridge * np.eye(len(gram))
    sizes = np.diag(penalised)
    b = start.copy()
    for sweep in range(1, _MOST_SWEEPS + 1):
        for j in np.flatnonzero(sizes > 0):
            pull = cross[j] - penalised[j] @ b + sizes[j] * b[j]
            b[j] = np.sign(pull) * max(abs(pull) - lasso, 0.0) / sizes[j]
        if sweep % _SWEEPS == 0 and (exact := _solved(penalised, cross, lasso, b)) is not None:
            return exact
    raise InvalidInput(
        f"the weight of the lasso must be larger for these columns, got {weight:g}: they nearly coincide"
    )


def _solved(penalised: Floats, cross: Floats, lasso: float, b: Floats) -> Floats | None:
    """The exact solution with the signs of ``b``; None where these are not those of the minimum."""
    active = np.flatnonzero(b)
    signs, found = np.sign(b[active]), np.zeros(len(b))
    try:
        found[active] = np.linalg.solve(penalised[np.ix_(active, active)], cross[active] - lasso * signs)
    except np.linalg.LinAlgError:
        return None
    pull = cross - penalised @ found
    slack = lasso * _SLACK + 1e-13 * float(np.abs(cross).max(initial=0.0))
    right_signs = bool((np.sign(found[active]) == signs).all())
    outside = np.delete(np.abs(pull), active)
    return found if right_signs and bool((outside <= lasso + slack).all()) else None


def weights_of_path(cross: Floats, l1_ratio: float, count: int = 100, least: float = 1e-3) -> Floats:
    """Weights from where all coefficients are zero down to ``least`` of that, at equal ratios.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.penalised import weights_of_path
    >>> weights_of_path(np.array([0.5, -2.0]), 1.0, count=3, least=0.01)
    array([2.  , 0.2 , 0.02])
    """
    if not 0 < l1_ratio <= 1:
        raise InvalidInput(f"l1_ratio must be above 0 and at most 1, got {l1_ratio}")
    largest = float(np.abs(cross).max(initial=0.0)) / l1_ratio
    if not largest:
        raise InvalidInput("the target must depend on some column for a lasso, got none that does")
    return np.geomspace(largest, least * largest, count)


def elastic_net_path(gram: Floats, cross: Floats, weights: Sequence[float] | Floats, l1_ratio: float) -> Floats:
    """A row of coefficients for each weight, each started at the one before.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.penalised import elastic_net_path
    >>> elastic_net_path(np.eye(2), np.array([0.5, 0.1]), [0.5, 0.2], 1.0).tolist()
    [[0.0, 0.0], [0.3, 0.0]]
    """
    found, b = [], np.zeros(len(cross))
    for weight in weights:
        b = elastic_net(gram, cross, float(weight), l1_ratio, b)
        found.append(b)
    return np.array(found)
