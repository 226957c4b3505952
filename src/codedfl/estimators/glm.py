"""Generalised linear models in scikit-learn's way: logistic, Poisson, negative binomial and Gamma regression."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from codedfl.analyses.glm import GlmFinding
from codedfl.analyses.inference import Inference
from codedfl.contract.models.dispersed import GammaModel
from codedfl.contract.models.glm import GlmModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.negative import NegativeBinomialModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.data.columns import ClassTarget, NumberTarget
from codedfl.errors import InvalidInput
from codedfl.estimators.by_study import StudyRows, WithErrors, grid_of
from codedfl.typing import Floats

_BOUND = 200.0  # on log odds: in this process nobody could steepen them to pick out rows
_LOG_MEAN = 17.0  # bound on the logarithm of a mean, so that a term of one row fits 62 bits
_FRACTIONS = 4096.0  # steps of a mean that is no count


class _ByNewton(WithErrors):
    """What they share: the model on all columns that vary."""

    def __init__(self, *, regularisation: float = 0.0, errors: str = "model", n_devices: int = 5) -> None:
        self.regularisation = regularisation
        self.errors = errors
        self.n_devices = n_devices

    def _by_newton(self, rows: StudyRows, model: GlmModel, device: ArrayLike | None) -> tuple[Floats, float]:
        """Slopes and constant."""
        _, found = self._fitted(rows, model, device)
        assert isinstance(found, GlmFinding)
        self._finding, self._inference = found, found.inference
        self.n_iter_ = found.fit.iterations
        return rows.whole(found.coefficients[1:]), float(found.coefficients[0])


class CodedLogisticRegression(ClassifierMixin, _ByNewton):  # type: ignore[misc]
    """Logistic regression of two classes over devices that never show their data, by Newton over secure totals.

    Parameters
    ----------
    regularisation : float, default=0.0
        Weight of half the squared coefficients of standardised columns against the mean log-likelihood; C of
        ``LogisticRegression`` is 1 / (rows * regularisation). Without it there are standard errors, and classes that
        the columns tell apart without error are refused.
    errors : str, default="model"
        "model" for standard errors that rest on the family's variance, "HC0" or "HC1" for ones that hold whatever
        it is.
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
        Standard errors and all that follows; ``summary()`` and ``conf_int()`` are its.

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
        found = self._rows(rows, codes, lambda name: ClassTarget(name, (0, 1)))
        model = LogisticModel("fit", (), self.regularisation, bound=_BOUND, errors=self.errors)
        slopes, constant = self._by_newton(found, model, device)
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


def _log_bound(rows: int) -> float:
    """Of the logarithm of a mean, so that sums over the rows fit."""
    return min(_LOG_MEAN, float(np.log(2.0**35 / rows)))


class _LogMean(RegressorMixin, _ByNewton):  # type: ignore[misc]
    """Those of the logarithm of a mean."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _positive(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
        rows, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        target = target.astype(np.float64)
        if (target < 0).any() or not target.any():
            raise InvalidInput(f"y must be at least 0 and not 0 everywhere, got {target.min():g} to {target.max():g}")
        return rows, target

    def predict(self, X: ArrayLike) -> Floats:
        """Expected values, one per row of X."""
        return np.exp(self._linear(X))


class CodedPoissonRegressor(_LogMean):
    """Poisson regression (log link) over devices that never show their data, by Newton over secure totals.

    Parameters
    ----------
    regularisation : float, default=0.0
        As in ``CodedLogisticRegression``: alpha of ``PoissonRegressor`` behind a ``StandardScaler``.
    errors : str, default="model"
        "model" for standard errors that rest on the family's variance, "HC0" or "HC1" for ones that hold whatever
        it is.
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

    def fit(self, X: ArrayLike, y: ArrayLike, device: ArrayLike | None = None) -> Self:
        """Train on the rows of all devices; ``device`` says who holds each row, None deals them out."""
        rows, target = self._positive(X, y)
        # The mean of y times a constant is that of y times the constant: slopes stay, and the intercept shifts.
        self._units = 1.0 if (target == np.round(target)).all() else _FRACTIONS / float(target.max())
        counts = np.round(target * self._units)
        found = self._rows(rows, counts, lambda name: NumberTarget(name, (0.0, max(1.0, float(counts.max()))), 1.0))
        bound = _log_bound(len(rows))
        model = PoissonModel("fit", (), self.regularisation * self._units, bound=bound, errors=self.errors)
        self.coef_, constant = self._by_newton(found, model, device)
        self.intercept_ = constant - float(np.log(self._units))
        return self

    @property
    def results_(self) -> Inference:
        """Coefficients with standard errors, for counts alone."""
        check_is_fitted(self)
        if self._units != 1.0:
            raise InvalidInput("y must be whole numbers for standard errors, got fractions")
        return super().results_


class CodedNegativeBinomialRegressor(_LogMean):
    """Negative binomial regression of counts (log link, alpha estimated) over devices that never show their data.

    Parameters
    ----------
    regularisation, n_devices
        As in ``CodedPoissonRegressor``.
    errors : str, default="model"
        Only "model": errors are those of the variance that alpha says.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features_in_,), float
        Of the logarithm of the mean, in raw units.
    alpha_ : float
        The variance is the mean plus alpha times its square.
    results_ : Inference
        Standard errors and all that follows; ``summary()`` and ``conf_int()`` are its.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedNegativeBinomialRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 1))
    >>> y = rng.poisson(np.exp(1 + 0.5 * X[:, 0]) * rng.gamma(2.0, 0.5, 400))
    >>> bool(abs(CodedNegativeBinomialRegressor().fit(X, y).alpha_ - 0.5) < 0.2)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, device: ArrayLike | None = None) -> Self:
        """Train on the rows of all devices; ``device`` says who holds each row, None deals them out."""
        rows, counts = self._positive(X, y)
        if (counts != np.round(counts)).any():
            raise InvalidInput(f"y must be whole numbers, got {counts[counts != np.round(counts)][0]:g}")
        found = self._rows(rows, counts, lambda name: NumberTarget(name, (0.0, max(1.0, float(counts.max()))), 1.0))
        bound = _log_bound(len(rows))
        model = NegativeBinomialModel("fit", (), self.regularisation, bound=bound, errors=self.errors)
        self.coef_, self.intercept_ = self._by_newton(found, model, device)
        self.alpha_ = self._finding.fit.alpha
        return self


class CodedGammaRegressor(_LogMean):
    """Gamma regression (log link) of numbers above 0, such as costs, over devices that never show their data.

    Parameters
    ----------
    errors, n_devices
        As in ``CodedPoissonRegressor``; there is no penalty.

    Attributes
    ----------
    coef_, intercept_ : ndarray of shape (n_features_in_,), float
        Of the logarithm of the mean, in raw units.
    results_ : Inference
        Standard errors by the estimated dispersion and all that follows; ``summary()`` and ``conf_int()`` are its.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedGammaRegressor
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(300, 2))
    >>> model = CodedGammaRegressor().fit(X, np.exp(1 + 0.5 * X[:, 0]) * rng.gamma(3.0, 1 / 3, 300))
    >>> bool(abs(model.coef_[0] - 0.5) < 2 * model.results_.standard_errors[1])
    True
    """

    def __init__(self, *, errors: str = "model", n_devices: int = 5) -> None:
        super().__init__(errors=errors, n_devices=n_devices)

    def fit(self, X: ArrayLike, y: ArrayLike, device: ArrayLike | None = None) -> Self:
        """Train on the rows of all devices; ``device`` says who holds each row, None deals them out."""
        rows, target = self._positive(X, y)
        if not target.all():
            raise InvalidInput("y must be above 0, got 0")
        found = self._rows(rows, target, lambda name: NumberTarget(name, *grid_of(target)))
        bound = _log_bound(len(rows))
        model = GammaModel("fit", (), bound=bound, errors=self.errors)
        self.coef_, self.intercept_ = self._by_newton(found, model, device)
        return self
