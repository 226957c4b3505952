"""Estimators whose model is an analysis of a study: lasso, logistic and Poisson regression, as scikit-learn has them.

``fit(X, y, device=ids)`` makes a study of the columns, on a fine grid over the ranges that these data have, and its
totals by the real protocol, in this process: what a federation that agreed on the same study would find, bit for bit.
Where ranges and steps are agreed on by people, take a study file instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from codedfl.analyses.analysis import Totals
from codedfl.analyses.driving import driven
from codedfl.analyses.glm import GlmFinding, glm
from codedfl.analyses.inference import Inference
from codedfl.analyses.linear import LassoPath, LinearTotal
from codedfl.contract.models import GlmModel, LogisticModel, PoissonModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import ClassTarget, NumberTarget, Study, StudyColumn
from codedfl.data.columns import NumberColumn
from codedfl.data.tables import as_raw_table
from codedfl.engines.in_process import InProcess
from codedfl.errors import InvalidInput
from codedfl.estimators.training_rows import dealt_by_value, device_ids, rows_by_id
from codedfl.run.rehearsal import Rehearsed, made_up_roster, rehearsal_key
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats

_STEPS = (
    1 << 20
)  # of a column between its ends: rounding then moves a coefficient by less than a thousandth of its error
_TARGET = "y"
_LEAST = 3  # devices
_BOUND = 200.0  # on log odds: in this process nobody could steepen them to pick out rows
_LOG_MEAN = 17.0  # bound on the logarithm of a mean, so that a term of one row fits 62 bits
_POINTS = 100
_FRACTIONS = 4096.0  # steps of a mean that is no count


class _ByStudy(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What these estimators share: from rows to answers to asks, and from coefficients to predictions."""

    coef_: Floats
    intercept_: Any

    def _study(self, X: Floats, names: list[str], target: NumberTarget | ClassTarget) -> Study:
        columns = tuple(StudyColumn(NumberColumn(name), *_grid(X[:, j])) for j, name in enumerate(names))
        n = len(X)
        return Study("fit", columns, target, n, n, _LEAST, smallest_cell=1, held_out=0.0)

    def _check_rows(self, X: Floats) -> None:
        if len(X) < _LEAST:
            raise InvalidInput(
                f"X must have at least {_LEAST} samples, one for each of {_LEAST} devices, got {len(X)} sample"
                + "s" * (len(X) != 1)
            )

    def _names(self, X: Floats) -> list[str]:
        """Those that the rows came with, if they are texts."""
        return [str(one) for one in getattr(self, "feature_names_in_", (f"x{j}" for j in range(X.shape[1])))]

    def _answers(
        self, study: Study, X: Floats, y: NDArray[Any], device: ArrayLike | None
    ) -> Callable[[Ask], list[int]]:
        """Who answers the asks of the study: server and devices in this process."""
        if device is None:
            if self.n_devices < _LEAST:
                raise InvalidInput(f"n_devices must be at least {_LEAST}, got {self.n_devices}")
            parts = dealt_by_value(X, y, self.n_devices)
        else:
            parts = rows_by_id(device_ids(X, device))
        if len(parts) < _LEAST:
            raise InvalidInput(f"device must name at least {_LEAST} devices, got {len(parts)}")
        names = study.table_columns.names
        rows = {
            name: take_snapshot(
                study,
                as_raw_table({**{one: X[part, j] for j, one in enumerate(names)}, _TARGET: y[part]}, name),
                rehearsal_key(name),
            )
            for name, part in parts.items()
        }
        rehearsed = Rehearsed(study, made_up_roster(study, parts), rows)
        self.devices_ = tuple(parts)
        totals = rehearsed.totals(InProcess({name: one.reply for name, one in rehearsed.devices().items()}))
        return lambda ask: [int(one) for one in totals.answer(ask)]

    def _linear(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(rows @ np.ravel(self.coef_) + np.ravel(self.intercept_)[0])


class CodedLasso(RegressorMixin, _ByStudy):  # type: ignore[misc]
    """The lasso, or the elastic net, over devices that never show their data.

    ``sklearn.linear_model.ElasticNet`` behind a ``StandardScaler``, from the secure total of X'X alone.

    Parameters
    ----------
    alpha : float or None, default=None
        Weight of the penalty; None takes the one of a path of a hundred with the least BIC.
    l1_ratio : float, default=1.0
        1 is the lasso; less adds a ridge.
    n_devices : int, default=5
        Devices that the rows are dealt out to where ``fit`` is given no ``device``; at least 3.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features_in_,), float
        In raw units.
    alpha_ : float
        The weight that was taken.
    path_ : LassoPath
        All weights that were looked at, with their coefficients.
    devices_ : tuple of str
        Who took part.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedLasso
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = CodedLasso().fit(X, 2 * X[:, 0] + np.sin(np.arange(200)))
    >>> (np.abs(model.coef_) > 0.2).tolist()
    [True, False, False]
    """

    def __init__(self, *, alpha: float | None = None, l1_ratio: float = 1.0, n_devices: int = 5) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.n_devices = n_devices

    def fit(self, X: ArrayLike, y: ArrayLike, device: ArrayLike | None = None) -> Self:
        """Train on the rows of all devices; ``device`` says who holds each row, None deals them out."""
        rows, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        target = target.astype(np.float64)
        self._check_rows(rows)
        study = self._study(rows, self._names(rows), NumberTarget(_TARGET, *_grid(target)))
        self._total = LinearTotal(study, self._answers(study, rows, target, device)(Ask("gram")))
        varies = bool(np.ptp(rows, axis=0).any() and np.ptp(target))
        weights = (self.alpha,) if self.alpha is not None else None if varies else (0.0,)
        self.path_: LassoPath = self._total.lasso(self.l1_ratio, weights)
        self.alpha_ = float(self.path_.weights[self.path_.best])
        chosen = self.path_.coefficients[self.path_.best]
        self.intercept_, self.coef_ = float(chosen[0]), chosen[1:]
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Targets in their own unit, one per row of X."""
        return self._linear(X)

    @property
    def results_(self) -> Inference:
        """Least squares on all columns, without the penalty: ``summary()``, ``conf_int()``, ``get_prediction()``."""
        check_is_fitted(self)
        return self._total.ols()


class _ByNewton(_ByStudy):
    """Logistic and Poisson regression share their fit."""

    def __init__(self, *, regularisation: float = 0.0, n_devices: int = 5) -> None:
        self.regularisation = regularisation
        self.n_devices = n_devices

    def _fit(
        self, X: Floats, y: NDArray[Any], target: NumberTarget | ClassTarget, model: GlmModel, device: ArrayLike | None
    ) -> tuple[Floats, float]:
        """Slopes and constant of the model on all columns; those that do not vary have none."""
        self._check_rows(X)
        used = np.flatnonzero(np.ptp(X, axis=0) > 0)
        if not len(used):
            raise InvalidInput("X must have at least one column that varies, got none")
        names = [self._names(X)[j] for j in used]
        model = replace(model, columns=tuple(names))
        study = replace(self._study(X[:, used], names, target), models=(model,), points=_POINTS)
        answer = self._answers(study, X[:, used], y, device)
        totals = Totals(study, answer(Ask("cells")), (), answer(Ask("gram")))
        found = driven(glm(totals, model), answer)
        assert isinstance(found, GlmFinding)
        self._finding = found
        self.n_iter_ = self._finding.fit.iterations
        slopes = np.zeros(X.shape[1])
        slopes[used] = self._finding.coefficients[1:]
        return slopes, float(self._finding.coefficients[0])

    @property
    def results_(self) -> Inference:
        """Coefficients with errors: ``summary()``, ``conf_int()``, ``get_prediction()``; none with a penalty."""
        check_is_fitted(self)
        if self._finding.inference is None:
            raise InvalidInput(f"regularisation must be 0 for standard errors, got {self.regularisation}")
        return self._finding.inference


class CodedLogisticRegression(ClassifierMixin, _ByNewton):  # type: ignore[misc]
    """Logistic regression of two classes over devices that never show their data, by Newton over secure totals.

    Parameters
    ----------
    regularisation : float, default=0.0
        Weight of half the squared coefficients of standardised columns against the mean log-likelihood; C of
        ``LogisticRegression`` is 1 / (rows * regularisation). Without it there are standard errors, and classes that
        the columns tell apart without error are refused.
    n_devices : int, default=5
        Devices that the rows are dealt out to where ``fit`` is given no ``device``; at least 3.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    coef_, intercept_ : ndarray of shape (1, n_features_in_), ndarray of shape (1,)
        Log odds of the second class, in raw units.
    n_iter_ : int
        Totals at coefficients that were asked for.
    results_ : Inference
        Standard errors and all that follows.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> model = CodedLogisticRegression().fit(X, X[:, 0] + rng.logistic(size=300) > 0)
    >>> model.results_.names, bool(model.results_.p[1] < 0.001)
    (('constant', 'x0', 'x1'), True)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, device: ArrayLike | None = None) -> Self:
        """Train on the rows of all devices; ``device`` says who holds each row, None deals them out."""
        rows, target = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(target)
        self.classes_, codes = np.unique(target, return_inverse=True)
        if len(self.classes_) != 2:
            raise InvalidInput(
                "Only binary classification is supported: y must hold two classes, got"
                f" {len(self.classes_)} class{'es' * (len(self.classes_) != 1)}"
            )
        model = LogisticModel("fit", (), self.regularisation, bound=_BOUND)
        slopes, constant = self._fit(rows, codes, ClassTarget(_TARGET, (0, 1)), model, device)
        self.coef_, self.intercept_ = slopes[None, :], np.array([constant])
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Log odds of the second class."""
        return self._linear(X)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Chances of both classes."""
        second = 1.0 / (1.0 + np.exp(-self.decision_function(X)))
        return np.column_stack((1.0 - second, second))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likelier class of each row."""
        second = self.decision_function(X) > 0
        return np.asarray(self.classes_[second.astype(np.int64)])


class CodedPoissonRegressor(RegressorMixin, _ByNewton):  # type: ignore[misc]
    """Poisson regression (log link) over devices that never show their data, by Newton over secure totals.

    Parameters
    ----------
    regularisation : float, default=0.0
        As in ``CodedLogisticRegression``: alpha of ``PoissonRegressor`` behind a ``StandardScaler``.
    n_devices : int, default=5
        Devices that the rows are dealt out to where ``fit`` is given no ``device``; at least 3.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features_in_,), float
        Of the logarithm of the mean, in raw units.
    n_iter_ : int
        Totals at coefficients that were asked for.
    results_ : Inference
        Standard errors and all that follows, for counts. Other y are rounded to 4096 steps and have none.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> model = CodedPoissonRegressor().fit(X, rng.poisson(np.exp(1 + 0.5 * X[:, 0])))
    >>> bool(abs(model.coef_[0] - 0.5) < 3 * model.results_.standard_errors[1])
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, device: ArrayLike | None = None) -> Self:
        """Train on the rows of all devices; ``device`` says who holds each row, None deals them out."""
        rows, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        target = target.astype(np.float64)
        if (target < 0).any() or not target.any():
            raise InvalidInput(f"y must be at least 0 and not 0 everywhere, got {target.min():g} to {target.max():g}")
        # The mean of y times a constant is that of y times the constant: slopes stay, and the intercept shifts.
        self._units = 1.0 if (target == np.round(target)).all() else _FRACTIONS / float(target.max())
        counts = np.round(target * self._units)
        most = float(max(counts.max(), 1.0))
        of_counts = NumberTarget(_TARGET, (0.0, most), 1.0)
        model = PoissonModel(
            "fit", (), self.regularisation * self._units, bound=min(_LOG_MEAN, float(np.log(2.0**35 / len(rows))))
        )
        self.coef_, constant = self._fit(rows, counts, of_counts, model, device)
        self.intercept_ = constant - float(np.log(self._units))
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Expected counts, one per row of X."""
        return np.exp(self._linear(X))

    @property
    def results_(self) -> Inference:
        """Coefficients with standard errors: ``summary()``, ``conf_int()``, ``get_prediction()``; for counts alone."""
        check_is_fitted(self)
        if self._units != 1.0:
            raise InvalidInput("y must be whole numbers for standard errors, got fractions")
        return super().results_


def _grid(values: Floats) -> tuple[tuple[float, float], float]:
    """The range of some values and a step; a constant is in the middle of one."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        width = max(1.0, abs(low))
        return (low - width, low + width), width
    return (low, high), (high - low) / _STEPS
