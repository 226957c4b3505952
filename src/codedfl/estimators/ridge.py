"""Ridge regression and classification on devices' data, as scikit-learn estimators.

``fit(X, y, device=ids)`` deals the rows out to devices and runs the real protocol in this process: column means and
variances by secure sums, then X'Y and the products that the solver asks for.
Nothing is simulated but the network: everybody replies at once, which changes nothing, since the sums are
exact whoever straggles. What comes out is the ridge solution on all rows together, up to rounding.

It does not model time, nor run on real machines (``codedfl.engines``).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from codedfl.data.labels import ClassLabels, Labels, TargetLabels
from codedfl.data.preprocessing import Moments
from codedfl.errors import InvalidInput
from codedfl.estimators.ridge_base import LEAST_REACH, RidgeBase
from codedfl.typing import Floats


class CodedRidge(RegressorMixin, RidgeBase):  # type: ignore[misc]
    """Ridge regression over devices that never show their data.

    Minimises 1/(2m) |X Theta - y|^2 + regularisation/2 |Theta|^2 over all m rows together, on standardised columns.
    That is ``sklearn.linear_model.Ridge(alpha=m * regularisation)`` behind a ``StandardScaler``, up to rounding (some
    four digits) and to values beyond ``clip``.

    Parameters
    ----------
    colluders : int or None, default=None
        How many devices may help the server without exposing another (z). None is 1, or 0 where there are only two
        devices; ``protection_`` says what holds. The model is the same whatever it is. Other schemes, those of the
        paper among them, are in the laboratory (``codedfl-lab``).
    n_devices : int, default=5
        Devices that the rows are dealt out to, by their values and as evenly as possible, when ``fit`` is given no
        ``device``. At least 2; with fewer rows than devices, each row is a device of its own.
    features : {"linear", "rbf"}, default="linear"
        The columns themselves, or random Fourier features of a Gaussian kernel on them.
    n_features : int, default=500
        Number of random features; "linear" ignores it. The work of a device grows with its square.
    gamma : float or None, default=None
        In the kernel exp(-gamma |x - x'|^2) on standardised columns; "linear" ignores it. None is 0.245 / columns.
    solver : {"block-krylov", "cg", "gd", "nesterov"} or Solver, default="block-krylov"
        The Krylov solvers stop by themselves: when the residual is below a hundredth of ``regularisation``, or a
        millionth if that is less, but never further than 1e-10. The descents make all their epochs, five of them to
        derive their step from the largest eigenvalue of X'X, and need many. An object that was never started
        (``codedfl.Solver``) has its own epochs, regularisation and tolerance; a copy of it is used.
    epochs : int, default=100
        The largest number of exchanges with the devices. 1 leaves the model at zero; for linear features about
        columns + 2 are enough. A ``ConvergenceWarning`` tells when a Krylov solver would have needed more, and when the
        columns are so nearly collinear that the rounding of X'X decides about the slopes.
    regularisation : float, default=1e-4
        Weight of |Theta|^2 against the *mean* squared error: alpha of ``Ridge`` is m times it, and 1 there is 1e-4
        here at 10 000 rows. 0 is least squares.
    fit_intercept : bool, default=True
        Add a constant column to linear features; its weight is not penalised. False drops the column, not the centring
        of columns and target by their means. "rbf" has none.
    clip : float or None, default=None
        How many standard deviations from their mean columns may lie, and the target in training. Values beyond are
        clipped, with a warning that counts them: the exact ring needs bounds, and wider ones cost digits. None clips
        nothing in training: the bound is 30, or as wide as these data are. Predictions clip at the same place.
    number_bits : {32, 48, 64}, default=64
        Bits of each number that is summed; the Krylov solvers need more epochs with fewer, and messages are shorter.
    random_state : int, RandomState instance or None, default=None
        Draws the random features; the model depends on nothing else that is random, but for noise. An integer gives
        the features of ``RBFSampler(random_state=...)``.
    verbose : bool, default=False
        Print one line when trained: devices, epochs, and who is exposed by whom.
    epsilon, delta, honest, clip_norm : float, float, int, float or None, default=None
        Hide single rows by noise (``Budget``); None adds none. The noisy total of X'X is then solved in closed form
        after one upload: ``solver`` and ``epochs`` are ignored. It takes
        ``device``, and public ranges: a mean would be one more sum over rows. delta None is 1e-5. The number of rows
        and, in ``CodedRidgeClassifier``, the list of classes count as public.
    ranges : (low, high) or None, default=None
        With epsilon: public ranges of the columns, one number for all or one for each. Values beyond are clipped.
    target_range : (low, high) or None, default=None
        With epsilon: public range of the target.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,)
        Slopes in raw units, 0 for a constant column; linear features only. ``predict`` differs from X coef_ +
        intercept_ where a column lies beyond ``clip``.
    intercept_ : float
        The prediction where all columns are 0; linear features only.
    n_features_in_ : int
        Number of columns seen by ``fit``; ``feature_names_in_`` has their names, if all have one.
    n_iter_ : int
        Epochs made; fewer than ``epochs`` when the solver was done before.
    devices_ : tuple of str
        Names of the devices that took part, in the code's order.
    protection_ : str
        Who would be exposed to the server by how many colluding devices, if the devices were on machines of their own.
    n_clipped_ : int
        How many training values were clipped.
    n_shortened_ : int
        How many rows were longer than ``clip_norm``; 0 without noise.
    model_ : TrainedModel
        The model as the rest of codedfl has it; it saves to a file without pickle.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedRidge
    >>> X = np.arange(12.0).reshape(6, 2) ** 2
    >>> y = X @ [1.0, 2.0] + 3.0
    >>> model = CodedRidge().fit(X, y, device=["ward-a", "ward-a", "ward-b", "ward-b", "ward-c", "ward-c"])
    >>> model.devices_
    ('ward-a', 'ward-b', 'ward-c')
    >>> bool(model.score(X, y) > 0.999)
    True
    """

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        device: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on the rows of all devices.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            At least two rows, in any units: means and variances are summed securely. Constant columns have no effect.
        y : array-like of shape (n_samples,)
            Numbers; the same one everywhere is predicted everywhere.
        device : array-like of shape (n_samples,), default=None
            Who holds each row: at least two different numbers or texts of up to 64 bytes. None deals the rows out.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts; 0 leaves it out. None counts each once.

        Returns
        -------
        self : fitted
        """
        table, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        target = target.astype(np.float64)
        self._check_noise(device, sample_weight)
        rows = self._rows(table, target, device, sample_weight)
        if self._budget is not None:
            if self.target_range is None:
                raise InvalidInput("target_range must be given with epsilon: a mean is a sum over rows, got None")
            self._train(rows, Labels.for_targets(*self.target_range), None)
            return self
        moments = rows.moments(np.column_stack((rows.X, rows.y)))
        columns = Moments(moments.count, moments.mean[:-1], moments.variance[:-1])
        labels = _target_labels(rows.y, float(moments.mean[-1]), float(moments.variance[-1]), self.clip)
        self._train(rows, labels, columns)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """Targets in their own unit, one per row of X."""
        scores = self._scores(X)
        return np.asarray(self.model_.recipe.decode(scores))

    @property
    def coef_(self) -> Floats:
        slopes, _ = self._lines()
        zero, one = self.model_.recipe.decode(np.array([[0.0], [1.0]]))
        return np.asarray(slopes[0] * (one - zero))

    @property
    def intercept_(self) -> float:
        _, constants = self._lines()
        return float(self.model_.recipe.decode(constants[:, None])[0])


class CodedRidgeClassifier(ClassifierMixin, RidgeBase):  # type: ignore[misc]
    """Classification by ridge regression on one-hot labels, over devices that never show their data.

    The classes of ``sklearn.linear_model.RidgeClassifier(alpha=m * regularisation)`` behind a ``StandardScaler``, up
    to rounding and to values beyond ``clip``. ``fit_intercept=False`` leaves the constant column out; the mean of all
    columns then scores 0 for every class.

    Parameters, and attributes but for those below, are those of ``CodedRidge``. The list of classes becomes public.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, ascending; ``model_`` has them as whole numbers or text.
    coef_ : ndarray of shape (1, n_features_in_) or (n_classes, n_features_in_)
        Slopes of ``decision_function`` in raw units; only with linear features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Its values where all columns are 0; only with linear features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from codedfl import CodedRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(CodedRidgeClassifier(n_devices=3).fit(X, y).score(X, y) > 0.8)
    True
    """

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        device: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on the rows of all devices.

        Parameters
        ----------
        X, device, sample_weight : as in ``CodedRidge.fit``
        y : array-like of shape (n_samples,)
            At least two classes: whole numbers, truth values or text.

        Returns
        -------
        self : fitted
        """
        table, target = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(target)
        classes, codes = np.unique(target, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInput(f"y must hold at least two classes, got one class only: {classes.tolist()[0]!r}")
        labels = _class_labels(classes)
        self._check_noise(device, sample_weight)
        rows = self._rows(table, np.asarray(labels.classes)[codes], device, sample_weight)
        self._train(rows, labels, None if self._budget else rows.moments(rows.X))
        self.classes_ = classes
        return self

    def decision_function(self, X: ArrayLike) -> Floats:
        """Scores that are 1 for a sure yes and -1 for a sure no, as ``RidgeClassifier`` has them.

        There is one number per row for two classes (above 0 is the second), and one per class for more (the largest
        wins).
        """
        return self._margins(self._scores(X), offset=1.0)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Classes, one per row of X."""
        decision = self.decision_function(X)
        winners = (decision > 0).astype(np.int64) if decision.ndim == 1 else np.argmax(decision, axis=1)
        return np.asarray(self.classes_[winners])

    @property
    def coef_(self) -> Floats:
        slopes, _ = self._lines()
        return np.atleast_2d(self._margins(slopes.T, offset=0.0).T)

    @property
    def intercept_(self) -> Floats:
        _, constants = self._lines()
        return np.ravel(self._margins(constants[None, :], offset=1.0))

    def _margins(self, scores: Floats, offset: float) -> Floats:
        """Scores for labels in {0, 1} as scores for labels in {-1, 1}."""
        if scores.shape[1] == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return 2.0 * scores - offset


def _target_labels(target: Floats, mean: float, variance: float, clip: float | None) -> TargetLabels:
    """Mean -+ clip deviations, or wide enough for all; a constant target takes its size, or 1 if it is 0."""
    if clip is not None and not 0 < clip < np.inf:
        raise InvalidInput(f"clip must be a positive number of standard deviations, got {clip}")
    reach = (LEAST_REACH if clip is None else clip) * variance**0.5
    if clip is None:
        reach = max(reach, float(np.abs(target - mean).max()))
    reach = reach if variance > 0 else abs(mean) or 1.0
    return Labels.for_targets(mean - reach, mean + reach)


def _class_labels(classes: NDArray[Any]) -> ClassLabels:
    """Classes as a model file can hold them: whole numbers (which floats in class labels are) or text."""
    return Labels.for_classes(classes.astype(np.int64 if classes.dtype.kind in "biuf" else str))
