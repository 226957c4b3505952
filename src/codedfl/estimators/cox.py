"""Cox's regression in scikit-learn's way: log hazard ratios with errors, the baseline, curves, Harrell's C."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from codedfl.analyses.cox import Baseline, CoxFinding
from codedfl.contract.models.cox import CoxModel
from codedfl.data.columns import NumberTarget
from codedfl.errors import InvalidInput
from codedfl.estimators.by_study import WithErrors
from codedfl.typing import Floats

_MOST_TIMES = 999  # of a grid, beside 0
_BOUND = 12.0  # of the log hazard ratio over the box of the columns' ranges: its exp must fit a sum


class CodedCoxRegression(WithErrors):
    """Cox's proportional hazards with Efron's ties, over devices that never show their data.

    Parameters
    ----------
    regularisation : float, default=0.0
        Weight of half the squared coefficients of standardised columns against the partial log-likelihood per row.
        Without it there are standard errors.
    n_devices : int, default=5
        Devices that the rows are dealt out to where ``fit`` is given no ``device``; at least 3.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,)
        Log hazard ratios, in raw units.
    baseline_ : Baseline
        Times, the share without the event where every column is at its mean, and its standard errors.
    results_ : Inference
        Standard errors and all that follows; ``summary()`` and ``conf_int()`` are its.

    Notes
    -----
    All times at which somebody has the event are distinguished up to 999 of them; of more, times are rounded up to 999.
    A study has a public grid, agreed on beforehand.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedCoxRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> time, end = rng.exponential(np.exp(-0.7 * X[:, 0])), rng.exponential(2.0, 200)
    >>> y = np.column_stack((np.minimum(time, end), time <= end))
    >>> model = CodedCoxRegression().fit(X, y)
    >>> model.results_.names, bool(model.results_.p[0] < 0.001), round(model.score(X, y), 1)
    (('x0', 'x1'), True, 0.7)
    """

    def __init__(self, *, regularisation: float = 0.0, n_devices: int = 5) -> None:
        self.regularisation = regularisation
        self.n_devices = n_devices

    def fit(self, X: ArrayLike, y: ArrayLike, device: ArrayLike | None = None) -> Self:
        """Train on the rows of all devices.

        y: a row each of the time and 1 where it ended with the event, else 0; or an array of two named fields, of
        which the event is of truth values, as scikit-survival has it. device: who holds each row; None deals them out.
        """
        rows = validate_data(self, X, dtype=np.float64)
        time, event = times_and_events(y)
        check_consistent_length(rows, time)
        if not event.any():
            raise InvalidInput("y must have the event in some row, got none")
        grid = np.unique(time[event])
        if len(grid) > _MOST_TIMES:
            grid = grid[np.linspace(0, len(grid) - 1, _MOST_TIMES).astype(np.int64)]
        # Only the order of times counts: the study's time is a place of the grid. Who is censored between two events
        # is at risk until the earlier, so an event is at its own place and all others at the last one that they saw.
        place = np.where(event, np.searchsorted(grid, time) + 1, np.searchsorted(grid, time, side="right"))
        last = float(len(grid))
        found = self._rows(
            rows,
            place.astype(np.float64),
            lambda name: NumberTarget(name, (0.0, last), 1.0),
            beside={"event": event.astype(np.float64)},
        )
        (name,) = (one.name for one in found.study.columns if not one.width)
        times = tuple(map(float, range(len(grid) + 1)))
        model = CoxModel("fit", (), name, times, regularisation=self.regularisation, bound=_BOUND)
        _, finding = self._fitted(found, model, device)
        assert isinstance(finding, CoxFinding)
        (of,) = finding.baseline.values()
        at = of.times > 0
        errors = None if of.standard_errors is None else of.standard_errors[at]
        self.baseline_ = Baseline(grid[of.times[at].astype(np.int64) - 1], of.share[at], errors)
        self.coef_, self._inference = found.whole(finding.coefficients), finding.inference
        self.intercept_ = -float(found.means() @ finding.coefficients)
        self.n_iter_ = finding.fit.iterations
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Log hazard of each row beside that of one with every column at its mean."""
        return self._linear(X)

    def predict_survival(self, X: ArrayLike) -> Floats:
        """Share of such rows that is still without the event, for each row of X and each time of ``baseline_``."""
        return np.asarray(self.baseline_.share ** np.exp(self.predict(X))[:, None])

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Harrell's C: of pairs of rows of which it is known who had the event first, the share that is predicted."""
        check_is_fitted(self)
        time, event = times_and_events(y)
        return concordance(time, event, self.predict(X))


def times_and_events(y: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """Times and whether each ended with the event.

    >>> times_and_events([[3.0, 1], [5.0, 0]])
    (array([3., 5.]), array([ True, False]))
    """
    given: NDArray[Any] = np.asarray(y)
    if given.dtype.names is not None:
        events = [name for name in given.dtype.names if given.dtype[name] == np.bool_]
        if len(given.dtype.names) != 2 or len(events) != 1:
            raise InvalidInput(
                f"y must have two fields, of which one is of truth values, got {', '.join(given.dtype.names)}"
            )
        (time_name,) = set(given.dtype.names) - set(events)
        given = np.column_stack((given[time_name], given[events[0]]))
    if given.ndim != 2 or given.shape[1] != 2:
        raise InvalidInput(f"y must have two columns, the time and 1 for the event or 0, got shape {given.shape}")
    time, event = given.astype(np.float64).T
    if not np.isfinite(time).all():
        raise InvalidInput("times of y must be finite, got NaN or infinity")
    if not np.isin(event, (0.0, 1.0)).all():
        raise InvalidInput(f"events of y must be 0 or 1, got {event[~np.isin(event, (0.0, 1.0))][0]:g}")
    return time, event == 1.0


def concordance(time: Floats, event: NDArray[np.bool_], risk: Floats) -> float:
    """Harrell's C; equal risks count a half. Of equal times one with the event was before one that was censored.

    >>> concordance(np.array([1.0, 2.0, 3.0]), np.array([True, True, False]), np.array([2.0, 3.0, 1.0])).__round__(3)
    0.667
    """
    right = pairs = 0.0
    for place in np.flatnonzero(event):
        later = (time > time[place]) | ((time == time[place]) & ~event)
        pairs += later.sum()
        right += (risk[later] < risk[place]).sum() + (risk[later] == risk[place]).sum() / 2
    if not pairs:
        raise InvalidInput("y must have two rows of which it is known who had the event first, got none")
    return float(right / pairs)
