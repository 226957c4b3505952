"""What both ridge estimators share: everything but the labels, from rows to a trained model.

Scaling by secure moments or public ranges, features, the solver and its tolerance, noise if asked for, and the warnings
of all of them. The faces that scikit-learn's users see are in ``estimators``.
"""

from __future__ import annotations

import hashlib
import numbers
import secrets
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from codedfl.data.clipped import ClippedWarning
from codedfl.data.columns import Columns
from codedfl.data.features import FeatureChoice, FeatureMap, choose_features
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.features.rbf import default_gamma
from codedfl.data.labels import Labels
from codedfl.data.model import TrainedModel
from codedfl.data.preprocessing import DEFAULT_CLIP, Moments, Preprocessing
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.estimators.training_rows import TrainingRows, dealt_by_value, device_ids, repeated, rows_by_id
from codedfl.exact.scales import Scales
from codedfl.privacy.budget import Budget
from codedfl.run.sums_in_process import MadeRows, colluders_among, train_in_process
from codedfl.solve.krylov import BlockKrylov
from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.registry import DEFAULT_SOLVER, make_solver, solver_kind
from codedfl.solve.solver import Converging, Solver
from codedfl.typing import Floats

# Columns are standardised, so that the largest eigenvalue of X'X/m is at least about 1. An error of the solution may be
# 1/lambda times the residual: the residual is taken down to a hundredth of lambda, within these limits.
_TOLERANCES = (1e-10, 1e-6)
# X'X is known up to its rounding. Where it curves less than this multiple of it, the slopes lose their second digit.
_RESOLVED = 100
LEAST_REACH = 30.0  # standard deviations: new rows may lie farther out than those of the training


class RidgeBase(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator without its labels. The parameters are described at ``CodedRidge``."""

    model_: TrainedModel

    def __init__(
        self,
        *,
        colluders: int | None = None,
        n_devices: int = 5,
        features: str = "linear",
        n_features: int = 500,
        gamma: float | None = None,
        solver: str | Solver = DEFAULT_SOLVER,
        epochs: int = 100,
        regularisation: float = 1e-4,
        fit_intercept: bool = True,
        clip: float | None = None,
        number_bits: int = 64,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
        epsilon: float | None = None,
        delta: float | None = None,
        honest: int | None = None,
        clip_norm: float | None = None,
        ranges: tuple[ArrayLike, ArrayLike] | None = None,
        target_range: tuple[float, float] | None = None,
    ) -> None:
        self.colluders = colluders
        self.n_devices = n_devices
        self.features = features
        self.n_features = n_features
        self.gamma = gamma
        self.solver = solver
        self.epochs = epochs
        self.regularisation = regularisation
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.number_bits = number_bits
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
                "device must be given with epsilon, or one row more would deal out the others again, got None"
            )
        if sample_weight is not None:
            raise InvalidInput("sample_weight must be left out with epsilon, which hides rows that count once")

    def _train(self, rows: TrainingRows, labels: Labels, moments: Moments | None) -> None:
        """Run the protocol on the rows of each device and keep the model; no moments with noise."""
        preprocessing = self._public_scaling(rows.X) if moments is None else self._scaling(rows.X, moments)
        recipe = Recipe(preprocessing, self._feature_map(preprocessing), labels, self._columns())
        regularisation = self._choose_regularisation(rows, recipe)
        made = rows.made(recipe)
        if self.number_bits not in (32, 48, 64):
            raise InvalidInput(f"number_bits must be 32, 48 or 64, got {self.number_bits!r}")
        budget = self._budget
        noise = None if budget is None else budget.noise(recipe.n_features, recipe.feature_map.bound)
        self._check_honest(len(made.devices), rows.colluders)
        scales = made.scales(self.number_bits, noise)
        solver = self._solver(regularisation * rows.share, None if noise is None else NoiseLevel.of(scales))
        self.protection_ = protection(rows.colluders)
        seed = secrets.token_bytes(32)
        done = train_in_process(made, solver, scales, rows.colluders, noise, lambda name: seed_of(seed, name))
        theta = done.theta
        if budget is None:  # with noise columns are not centred, and X'X is no sharper than the noise
            self._warn_unless_converged(solver, made, scales)
            theta = recipe.unshrunk(theta, regularisation)
        self.n_shortened_ = done.shortened
        about = {"estimator": type(self).__name__, "devices": len(made.devices), "colluders": rows.colluders}
        self.model_ = TrainedModel(theta, recipe, {**about, "protection": self.protection_, "epochs": done.epochs})
        self.n_iter_ = done.epochs
        if self.verbose:
            print(f"{len(made.devices)} devices, {done.epochs} epochs: {self.protection_}")
        self.n_clipped_ = made.clipped.total
        if made.clipped:
            counts = made.clipped.words(recipe.column_names)
            where = f"at {self.clip} standard deviations" if budget is None else "to their public ranges"
            warnings.warn(f"clipped {where}: {counts}", ClippedWarning, stacklevel=3)
        self.devices_ = tuple(made.devices)

    def _choose_regularisation(self, rows: TrainingRows, recipe: Recipe) -> float:
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
    ) -> TrainingRows:
        """Who trains on what; refuses what the protocol cannot protect or run."""
        ids = None if device is None else device_ids(X, device)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            chosen, weights = repeated(weights)
            X, y, ids = X[chosen], y[chosen], None if ids is None else ids[chosen]
        if len(X) < 2:
            raise InvalidInput(f"X must have at least 2 samples, one for each of two devices, got {len(X)} sample")
        if ids is None and self.n_devices < 2:
            raise InvalidInput(f"n_devices must be at least 2, to hide one's data in the sum, got {self.n_devices}")
        parts = dealt_by_value(X, y, self.n_devices) if ids is None else rows_by_id(ids)
        if self.colluders is not None and not 0 <= self.colluders <= len(parts) - 2:
            raise InvalidInput(
                f"colluders must be between 0 and {len(parts) - 2}, devices less two, got {self.colluders}"
            )
        return TrainingRows(X, y, parts, weights, colluders_among(len(parts), self.colluders))

    def _check_honest(self, n_devices: int, colluders: int) -> None:
        budget = self._budget
        if budget is not None and budget.honest > n_devices - colluders:
            raise InvalidInput(
                f"honest must be at most the number of devices less the colluders ({n_devices - colluders}), got"
                f" {budget.honest}"
            )

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

    def _solver(self, regularisation: float, noise: NoiseLevel | None = None) -> Solver:
        wanted = float(np.clip(regularisation / 100, *_TOLERANCES))
        tolerance = None if solver_kind(self.solver).takes_step else wanted  # the descents would hardly ever reach it
        return make_solver(
            self.solver,
            epochs=self.epochs,
            regularisation=regularisation,
            tolerance=tolerance,
            gram=noise is not None,
            noise=noise,
        )

    def _warn_unless_converged(self, solver: Solver, made: MadeRows, scales: Scales) -> None:
        if isinstance(solver, Converging) and solver.converged is False:
            advice = "give more epochs, or more regularisation"
            warnings.warn(f"epochs={self.epochs} were too few to converge: {advice}", ConvergenceWarning, stacklevel=4)
        if isinstance(solver, BlockKrylov) and solver.smallest_curvature < _RESOLVED * _rounding(made, scales):
            what = f"columns are collinear up to rounding (X'X/m has an eigenvalue of {solver.smallest_curvature:.1e})"
            advice = "their slopes are not to be trusted: give more regularisation, or more number_bits"
            warnings.warn(f"{what}, so that {advice}", ConvergenceWarning, stacklevel=4)

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


def protection(colluders: int) -> str:
    """Who is exposed to the server, in one line."""
    if not colluders:
        return "one device that helps the server exposes the others"
    return f"no device is exposed by {'one colluder' if colluders == 1 else f'{colluders} colluders'}"


def seed_of(seed: bytes, name: str) -> bytes:
    """The seed of one device's noise."""
    return hashlib.sha256(seed + name.encode()).digest()


def _rounding(made: MadeRows, scales: Scales) -> float:
    """How far the eigenvalues of X'X/m are to be expected from those of the rows as they are.

    Each device rounds X'X once: a random symmetric matrix, whose norm is twice the deviation of its entries times
    sqrt(d). The rows are on a grid too, whose variance small eigenvalues cannot fall below.
    """
    deviation = (len(made.devices) / 12) ** 0.5 * 2.0**-scales.gram_bits / made.n_samples
    return float(2 * made.recipe.n_features**0.5 * deviation + 4.0**-scales.feature_bits / 12)
