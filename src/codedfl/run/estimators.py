"""Ridge regression and classification on devices' data, as scikit-learn estimators.

``fit(X, y, device=ids)`` deals the rows out to devices and runs the real protocol in this process: column means and
variances by secure sums, then a coded scheme (``codedfl.schemes``) with its keys, pads, masks and exact ring. Nothing
is simulated but the network: everybody answers and in order, which changes nothing, since the gradients are exact
whoever straggles. What comes out is the ridge solution on all rows together, up to rounding.

It does not model time (``codedfl.run.simulator``), nor run on real machines (``codedfl.flower``).
"""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from codedfl.data.columns import Columns
from codedfl.data.features import FeatureChoice, FeatureMap, LinearFeatures, choose_features, default_gamma
from codedfl.data.labels import ClassLabels, Labels, TargetLabels
from codedfl.data.model import TrainedModel
from codedfl.data.partition import by_device_column
from codedfl.data.preprocessing import DEFAULT_CLIP, Moments, Preprocessing
from codedfl.data.problem import Problem
from codedfl.data.recipe import ClippedWarning, Recipe
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import FixedPoint
from codedfl.privacy.budget import Budget
from codedfl.run.in_process import no_more_than_needed, run_in_process
from codedfl.run.parties import make_parties
from codedfl.run.secure_sum import secure_moments_in_process
from codedfl.schemes import CodedScheme, coded_type
from codedfl.schemes.noise import noise_of_run
from codedfl.solve.krylov import BlockKrylov
from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.registry import DEFAULT_SOLVER, make_solver, solver_kind
from codedfl.solve.solver import Converging, Solver
from codedfl.typing import Floats

# Columns are standardised, so that the largest eigenvalue of X'X/m is at least about 1. An error of the solution may be
# 1/lambda times the residual: the residual is taken down to a hundredth of lambda, within these limits.
_TOLERANCES = (1e-10, 1e-6)
# X'X is known to its rounding; where it curves less than so many times that, the slopes lose their second digit.
_RESOLVED = 100
# Rows with whole weights are repeated, if that makes them no more than so many times as many.
_MOST_REPEATED = 10
LEAST_REACH = 30.0  # standard deviations: new rows may lie farther out than those of the training


@dataclass(frozen=True, eq=False)
class _TrainingRows:
    """The rows, who holds them (row numbers by the device's name), and how much each weighs; None is all alike.

    A row of weight w counts as w rows. It is scaled by the square root of its part of the largest weight, so that it
    stays within the public bounds; lambda then shrinks by ``share``, the mean weight's part of the largest.
    """

    X: Floats
    y: NDArray[Any]
    parts: dict[str, NDArray[np.int64]]
    weights: Floats | None = None
    colluders: int = 1  # so many are withstood in secure sums, as in the training

    @property
    def share(self) -> float:
        return 1.0 if self.weights is None else float(self.weights.mean() / self.weights.max())

    def moments(self, values: Floats) -> Moments:
        """Of columns beside the rows, summed securely."""
        weights = None if self.weights is None else [self.weights[rows] for rows in self.parts.values()]
        return secure_moments_in_process([values[rows] for rows in self.parts.values()], weights, self.colluders)

    def only(self, parts: dict[str, NDArray[np.int64]]) -> _TrainingRows:
        return replace(self, parts=parts)

    def problem(self, recipe: Recipe, name: str) -> Problem:
        order = np.concatenate(list(self.parts.values()))
        rows = recipe.rows(self.X[order], self.y[order])
        X, Y = rows.X, rows.Y
        if self.weights is not None:
            roots = np.sqrt(self.weights[order] / self.weights.max())[:, None]
            X, Y = (X * roots).astype(np.float32), Y * roots
        return Problem(
            name=name,
            X=X,
            Y=Y,
            offsets=np.cumsum([0, *map(len, self.parts.values())]),
            device_names=tuple(self.parts),
            X_test=X[:0],
            y_test=self.y[:0],
            recipe=recipe,
            clipped=rows.clipped,
            provenance={"estimator": name, "devices": len(self.parts)},
        )


class _CodedRidge(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share: everything but the labels. The parameters are described at ``CodedRidge``."""

    model_: TrainedModel

    def __init__(
        self,
        *,
        scheme: str | CodedScheme = "role-keys",
        n_devices: int = 5,
        features: str = "linear",
        n_features: int = 500,
        gamma: float | None = None,
        solver: str | Solver = DEFAULT_SOLVER,
        epochs: int = 100,
        regularisation: float = 1e-4,
        fit_intercept: bool = True,
        clip: float | None = None,
        precision: int | None = 36,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        epsilon: float | None = None,
        delta: float | None = None,
        honest: int | None = None,
        clip_norm: float | None = None,
        ranges: tuple[ArrayLike, ArrayLike] | None = None,
        target_range: tuple[float, float] | None = None,
    ) -> None:
        self.scheme = scheme
        self.n_devices = n_devices
        self.features = features
        self.n_features = n_features
        self.gamma = gamma
        self.solver = solver
        self.epochs = epochs
        self.regularisation = regularisation
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.precision = precision
        self.random_state = random_state
        self.verbose = verbose
        self.epsilon = epsilon
        self.delta = delta
        self.honest = honest
        self.clip_norm = clip_norm
        self.ranges = ranges
        self.target_range = target_range

    @property
    def _budget(self) -> Budget | None:
        return Budget.asked(self.epsilon, self.delta, self.honest, self.clip_norm)

    def _check_noise(self, device: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        """With noise no other sum over rows may be taken, and no row may move another."""
        if self._budget is None:
            return
        if self.ranges is None:
            raise InvalidInput(
                "ranges must be given with epsilon, since means and deviations are sums over rows, got None"
            )
        if device is None:
            raise InvalidInput(
                "device must be given with epsilon, or one row more would deal out the others anew, got None"
            )
        if sample_weight is not None:
            raise InvalidInput("sample_weight must be left out with epsilon, which hides rows that count once")

    def _train(self, rows: _TrainingRows, labels: Labels, moments: Moments | None) -> None:
        """Run the protocol on the rows of each device and keep the model; no moments with noise."""
        preprocessing = self._public_scaling(rows.X) if moments is None else self._scaling(rows.X, moments)
        recipe = Recipe(preprocessing, self._feature_map(preprocessing), labels, self._columns())
        regularisation = self._choose_regularisation(rows, recipe)
        problem = rows.problem(recipe, type(self).__name__)
        scheme, budget = self._scheme(len(rows.parts)), self._budget
        noise, level = noise_of_run(scheme, recipe, problem.bounds, problem.n_devices, budget, self.precision)
        solver = self._solver(scheme, regularisation * rows.share, level)
        self.protection_ = scheme.exposure(problem.n_devices).words
        server, devices = make_parties(scheme, problem, solver, precision=self.precision, noise=noise)
        theta = run_in_process(server, devices, no_more_than_needed(server))
        if budget is None:  # with noise columns are not centred, and X'X is no sharper than the noise
            self._warn_unless_converged(solver, problem)
            theta = recipe.unshrunk(theta, regularisation)
        self.n_shortened_ = sum(one.shortened for one in devices)
        about = {"scheme": scheme.label, "protection": self.protection_, "epochs": server.epoch}
        self.model_ = TrainedModel.of(problem, theta, **about)
        self.n_iter_ = server.epoch
        if self.verbose:
            print(f"{scheme.label}, {problem.n_devices} devices, {server.epoch} epochs: {self.protection_}")
        self.n_clipped_ = problem.clipped.total
        if problem.clipped:
            counts = problem.clipped.words(recipe.column_names)
            where = f"at {self.clip} standard deviations" if budget is None else "to their public ranges"
            warnings.warn(f"clipped {where}: {counts}", ClippedWarning, stacklevel=3)
        self.devices_ = problem.device_names

    def _choose_regularisation(self, rows: _TrainingRows, recipe: Recipe) -> float:
        """What the user said; estimators that choose it override this."""
        del rows, recipe
        return self.regularisation

    def _public_scaling(self, X: Floats) -> Preprocessing:
        assert self.ranges is not None
        return Preprocessing.from_range(*self.ranges, n_columns=X.shape[1])

    def _scaling(self, X: Floats, moments: Moments) -> Preprocessing:
        """Mean 0 and variance 1. Without ``clip`` the range is wide enough for the data, which this process sees."""
        if self.clip is not None:
            return Preprocessing.from_moments(moments, self.clip)
        scaling = Preprocessing.from_moments(moments, LEAST_REACH)
        divisor = np.where(scaling.scale > 0, scaling.scale, np.inf)
        farthest = max(abs((extreme(X, axis=0) - scaling.shift) / divisor).max() for extreme in (np.min, np.max))
        return scaling if farthest <= LEAST_REACH else Preprocessing.from_moments(moments, float(farthest))

    def _rows(
        self, X: Floats, y: NDArray[Any], device: ArrayLike | None, sample_weight: ArrayLike | None
    ) -> _TrainingRows:
        """Who trains on what; refuses what the protocol cannot protect or run."""
        ids = None if device is None else _ids(X, device)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            chosen, weights = _repeated(weights)
            X, y, ids = X[chosen], y[chosen], None if ids is None else ids[chosen]
        if len(X) < 2:
            raise InvalidInput(f"X must have at least 2 samples, one for each of two devices, got {len(X)} sample")
        parts = self._dealt(X, y) if ids is None else _by_id(ids)
        scheme = self._scheme(len(parts))
        scheme.check(len(parts))
        return _TrainingRows(X, y, parts, weights, scheme.exposure(len(parts)).colluders)

    def _dealt(self, X: Floats, y: NDArray[Any]) -> dict[str, NDArray[np.int64]]:
        """In the order of their values: so the model does not depend on the order of the rows."""
        if self.n_devices < 2:
            raise InvalidInput(f"n_devices must be at least 2, to hide one's data in the sum, got {self.n_devices}")
        order = np.lexsort((y, *X.T))
        dealt = np.array_split(order, min(self.n_devices, len(X)))
        return {f"device-{i}": part for i, part in enumerate(dealt)}

    def _scheme(self, n_devices: int) -> CodedScheme:
        if isinstance(self.scheme, str):
            return coded_type(self.scheme).default_for(n_devices)
        return self.scheme

    def _feature_map(self, preprocessing: Preprocessing) -> FeatureMap:
        gamma = self.gamma
        if gamma is None:  # the rule for clipping at 4 deviations, whatever clip is: a wide one holds few values more
            width = preprocessing.width if self._budget else 2 * DEFAULT_CLIP
            gamma = default_gamma(preprocessing.n_columns, width)
        seed = self._seed() if self.features != "linear" else 0
        choice = FeatureChoice(self.n_features, gamma, seed, self.fit_intercept)
        return choose_features(self.features, preprocessing, choice)

    def _columns(self) -> Columns | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else Columns.of_numbers(map(str, names))

    def _seed(self) -> int:
        """An integer is the seed itself, so that ``RBFSampler`` of the same seed draws the same features."""
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _solver(self, scheme: CodedScheme, regularisation: float, noise: NoiseLevel | None = None) -> Solver:
        wanted = float(np.clip(regularisation / 100, *_TOLERANCES))
        tolerance = None if solver_kind(self.solver).takes_step else wanted  # the descents would hardly ever reach it
        return make_solver(
            self.solver,
            epochs=self.epochs,
            regularisation=regularisation,
            tolerance=tolerance,
            gram=scheme.reveals_gram,
            noise=noise,
        )

    def _warn_unless_converged(self, solver: Solver, problem: Problem) -> None:
        if isinstance(solver, Converging) and solver.converged is False:
            advice = "give more epochs, or more regularisation"
            warnings.warn(f"epochs={self.epochs} were too few to converge: {advice}", ConvergenceWarning, stacklevel=4)
        if isinstance(solver, BlockKrylov) and solver.smallest_curvature < _RESOLVED * self._rounding(problem):
            what = f"columns are collinear up to rounding (X'X/m has an eigenvalue of {solver.smallest_curvature:.1e})"
            advice = "their slopes are not to be trusted: give more regularisation, or more precision"
            warnings.warn(f"{what}, so that {advice}", ConvergenceWarning, stacklevel=4)

    def _rounding(self, problem: Problem) -> float:
        """How far the eigenvalues of X'X/m are to be expected from those of the rows as they are.

        Each device rounds X'X once: a random symmetric matrix, whose norm is twice the deviation of its entries times
        sqrt(d). The rows are on a grid too, whose variance small eigenvalues cannot fall below.
        """
        format_ = FixedPoint.derive(problem.bounds, problem.n_features, problem.n_devices, precision=self.precision)
        deviation = (problem.n_devices / 12) ** 0.5 * 2.0**-format_.gram_bits / problem.n_samples
        return float(2 * problem.n_features**0.5 * deviation + 4.0**-format_.feature_bits / 12)

    def _scores(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        return self.model_.scores(validate_data(self, X, dtype=np.float64, reset=False))

    def _lines(self) -> tuple[Floats, Floats]:
        """Slopes (c x columns) and constants (c) that turn raw columns into the model's scores."""
        check_is_fitted(self)
        theta, recipe = self.model_.theta, self.model_.recipe
        if not isinstance(recipe.feature_map, LinearFeatures):
            raise AttributeError("coef_ and intercept_ belong to features='linear', got a model of random features")
        scale, columns = recipe.preprocessing.scale, recipe.n_columns
        slopes = theta[-columns:].T / np.where(scale > 0, scale, np.inf)
        at_mean = recipe.feature_map.transform(np.zeros((1, columns))) @ theta
        return slopes, at_mean[0] - slopes @ recipe.preprocessing.shift


class CodedRidge(RegressorMixin, _CodedRidge):  # type: ignore[misc]
    """Ridge regression over devices that never show their data.

    Minimises 1/(2m) |X Theta - y|^2 + regularisation/2 |Theta|^2 over all m rows together, on standardised columns.
    That is ``sklearn.linear_model.Ridge(alpha=m * regularisation)`` behind a ``StandardScaler``, up to rounding (some
    four digits) and to values beyond ``clip``.

    Parameters
    ----------
    scheme : {"role-keys", "role-sums", "coded-keys", "coded-padded", "one-shot"} or CodedScheme, default="role-keys"
        By name role-keys withstands one device that colludes with the server, where there are four at least; below it
        withstands none, and ``protection_`` says so. In the coded schemes each device can answer for D - 2 devices'
        data (at least 1), and more than 50 devices make groups of about 25; an object such as ``RoleKeys(colluders=2)``
        or ``CodedKeys(alpha=3)`` says how many itself. The model is the same whatever it is. "role-sums" and "one-shot"
        solve in closed form, for which they show the server the total of X'X; they ignore ``solver`` and ``epochs``.
    n_devices : int, default=5
        Devices that the rows are dealt out to, by their values and as evenly as possible, when ``fit`` is given no
        ``device``. At least 2; of fewer rows than devices each makes one.
    features : {"linear", "rbf"}, default="linear"
        The columns themselves, or random Fourier features of a Gaussian kernel on them.
    n_features : int, default=500
        Number of random features; "linear" ignores it. The work of a device grows with its square.
    gamma : float or None, default=None
        Of the kernel exp(-gamma |x - x'|^2) on standardised columns; "linear" ignores it. None is 0.245 / columns.
    solver : {"block-krylov", "cg", "gd", "nesterov"} or Solver, default="block-krylov"
        The Krylov solvers stop by themselves: when the residual is below a hundredth of ``regularisation``, or a
        millionth if that is less, but never further than 1e-10. The descents make all their epochs, five of them to
        derive their step from the largest eigenvalue of X'X, and need many. Or an object that was never started
        (``codedfl.Solver``), with its own epochs, regularisation and tolerance; a copy of it is used.
    epochs : int, default=100
        At most so many exchanges with the devices. 1 leaves the model at zero; for linear features about columns + 2
        are enough. A ``ConvergenceWarning`` tells when a Krylov solver would have needed more, and when the columns are
        so nearly collinear that the rounding of X'X decides about the slopes.
    regularisation : float, default=1e-4
        Weight of |Theta|^2 against the *mean* squared error: alpha of ``Ridge`` is m times it, and 1 there is 1e-4
        here at 10 000 rows. 0 is least squares.
    fit_intercept : bool, default=True
        Add a constant column to linear features; its weight is not penalised. False drops the column, not the centring
        of columns and target by their means. "rbf" has none.
    clip : float or None, default=None
        Columns, and the target in training, are clipped at so many standard deviations from their mean, with a warning
        that counts them: the exact ring needs bounds, and wider ones cost digits. None clips nothing in training: the
        bound is 30, or as wide as these data are. Predictions clip at the same place.
    precision : int or None, default=36
        Fraction bits to ask of the ring; the Krylov solvers need more epochs with fewer. None takes what two primes
        give, which shortens messages by a third.
    random_state : int, RandomState instance or None, default=None
        Draws the random features; the model depends on nothing else that is random, but for noise. An integer gives
        the features of ``RBFSampler(random_state=...)``.
    verbose : bool, default=False
        Print one line when trained: scheme, epochs, and who is exposed by whom.
    epsilon, delta, honest, clip_norm : float, float, int, float or None, default=None
        Hide single rows by noise (``Budget``); None adds none. It takes scheme="role-sums" (best) or "role-keys",
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
    intercept_ : float, linear features only
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
    >>> from codedfl.run.estimators import CodedRidge
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


class CodedRidgeClassifier(ClassifierMixin, _CodedRidge):  # type: ignore[misc]
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
    >>> from codedfl.run.estimators import CodedRidgeClassifier
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

        One number a row for two classes (above 0 is the second), one per class for more (the largest wins).
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


def _repeated(weights: Floats) -> tuple[NDArray[np.int64], Floats | None]:
    """Which rows to train on, and their weights. Whole weights repeat rows, exactly; None then counts them alike."""
    if (weights == np.round(weights)).all() and weights.sum() <= _MOST_REPEATED * len(weights):
        return np.repeat(np.arange(len(weights)), weights.astype(np.int64)), None
    chosen = np.flatnonzero(weights)
    return chosen, weights[chosen]


def _ids(X: Floats, device: ArrayLike) -> NDArray[Any]:
    """Who holds each row, checked."""
    ids = column_or_1d(device)
    check_consistent_length(X, ids)
    for row, one in enumerate(ids.tolist()):
        if one is None or one != one:  # NaN is how tables write a missing number
            raise InvalidInput(f"device must name the device of each row, got {one} in row {row}")
    return np.asarray(ids.astype(str) if ids.dtype.kind == "O" else ids)


def _by_id(ids: NDArray[Any]) -> dict[str, NDArray[np.int64]]:
    """Row numbers by device, in the order of the ids."""
    parts = by_device_column(ids)
    if len(parts) < 2:
        raise InvalidInput(f"device must name at least two devices, to hide one's data in the sum, got {ids[0]} only")
    return {str(ids[rows[0]]): rows for rows in parts}


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
