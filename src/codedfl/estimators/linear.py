"""Least squares with standard errors, and the lasso: both from one total of a study in this process."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from codedfl.analyses.inference import Inference
from codedfl.analyses.lasso import LassoPath
from codedfl.analyses.linear import LinearTotal
from codedfl.contract.models.robust import HC, RobustModel
from codedfl.data.columns import NumberTarget
from codedfl.errors import InvalidInput
from codedfl.estimators.by_study import WithErrors, grid_of
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats


class CodedLinearRegression(RegressorMixin, WithErrors):  # type: ignore[misc]  # scikit-learn has no types
    """Ordinary least squares with standard errors, over devices that never show their data.

    Parameters
    ----------
    errors : str, default="model"
        "model" for errors that rest on one variance of the residuals; "HC0", "HC1", "HC2" or "HC3" for ones that hold
        whatever the variance, by one more total.
    n_devices : int, default=5
        Devices that the rows are dealt out to where ``fit`` is given no ``device``; at least 3.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features_in_,), float
        In raw units; 0 for columns that do not vary.
    results_ : Inference
        Standard errors and all that follows; ``summary()`` and ``conf_int()`` are its.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedLinearRegression
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = CodedLinearRegression(errors="HC3").fit(X, 2 * X[:, 0] + np.sin(np.arange(200)))
    >>> model.results_.names, (np.abs(model.results_.t) > 5).tolist()
    (('constant', 'x0', 'x1'), [False, True, False])
    """

    def __init__(self, *, errors: str = "model", n_devices: int = 5) -> None:
        self.errors = errors
        self.n_devices = n_devices

    def fit(self, X: ArrayLike, y: ArrayLike, device: ArrayLike | None = None) -> Self:
        """Train on the rows of all devices; ``device`` says who holds each row, None deals them out."""
        if self.errors not in ("model", *HC):
            raise InvalidInput(f"errors must be model, {', '.join(HC[:-1])} or {HC[-1]}, got {self.errors!r:.40}")
        rows, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        target = target.astype(np.float64)
        found = self._rows(rows, target, lambda name: NumberTarget(name, *grid_of(target)))
        self._robust: Inference | None = None
        if self.errors == "model":
            self._total = LinearTotal(found.study, self._answers(found, device)(Ask("gram")))
            coefficients = self._total.coefficients()
        else:
            _, finding = self._fitted(found, RobustModel("fit", (), self.errors), device)
            self._robust, coefficients = finding.inference, finding.inference.coefficients
        self.intercept_, self.coef_ = float(coefficients[0]), found.whole(coefficients[1:])
        return self

    @property
    def results_(self) -> Inference:
        """Coefficients with errors and all that follows; none where the columns tell the target without error."""
        check_is_fitted(self)
        return self._robust or self._total.ols()

    def predict(self, X: ArrayLike) -> Floats:
        """Targets in their own unit, one per row of X."""
        return self._linear(X)


class CodedLasso(RegressorMixin, WithErrors):  # type: ignore[misc]
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
        found = self._rows(rows, target, lambda name: NumberTarget(name, *grid_of(target)), constant=True)
        self._total = LinearTotal(found.study, self._answers(found, device)(Ask("gram")))
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
