"""Estimators that choose their regularisation: one training for the whole path of lambda, judged on held-out rows.

Each device holds out a share of its rows by a keyed hash. The others train once, at the smallest lambda; the products
made for it give the solution for every larger one at no further exchange (``BlockKrylov.path``). The held-out rows of
all devices judge the path by one secure sum, and the best lambda trains on all rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from codedfl.data.held_out import held_out_rows
from codedfl.data.labels import ClassLabels
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.estimators.ridge import CodedRidge, CodedRidgeClassifier
from codedfl.estimators.ridge_base import RidgeBase
from codedfl.estimators.training_rows import TrainingRows
from codedfl.run.sums_in_process import secure_sum_in_process, train_in_process
from codedfl.solve.krylov import BlockKrylov
from codedfl.typing import Floats

PATH = tuple(10.0**k for k in range(-6, 1))


class _ChoosesRegularisation(RidgeBase):
    """What both estimators share: the path and its judges. The parameters are described at ``CodedRidgeCV``."""

    def __init__(
        self,
        *,
        regularisations: Sequence[float] = PATH,
        held_out: float = 0.2,
        colluders: int | None = None,
        n_devices: int = 5,
        features: str = "linear",
        n_features: int = 500,
        gamma: float | None = None,
        epochs: int = 100,
        fit_intercept: bool = True,
        clip: float | None = None,
        number_bits: int = 64,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.regularisations = regularisations
        self.held_out = held_out
        self.colluders = colluders
        self.n_devices = n_devices
        self.features = features
        self.n_features = n_features
        self.gamma = gamma
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.clip = clip
        self.number_bits = number_bits
        self.random_state = random_state
        self.verbose = verbose

    solver = "block-krylov"  # the one that has a path
    # To judge a path takes sums over held-out rows, for which there is no noise.
    epsilon = delta = honest = clip_norm = ranges = target_range = None

    def _choose_regularisation(self, rows: TrainingRows, recipe: Recipe) -> float:
        candidates = sorted({float(value) for value in self.regularisations})
        if not candidates or not all(0 <= value < np.inf for value in candidates):
            raise InvalidInput(f"regularisations must be numbers of at least 0, got {list(self.regularisations)}")
        judges, others = self._judges_and_others(rows)
        path = self._path(rows.only(others), recipe, candidates)
        judged = [_judged(rows, of_device, recipe, path) for of_device in judges.values()]
        sums = secure_sum_in_process(judged, rows.colluders)
        scores = sums[1:] / (sums[0] or 1.0)
        self.path_scores_ = dict(zip(candidates, scores.tolist(), strict=True))
        self.regularisation_ = max(candidates, key=lambda value: (self.path_scores_[value], value))
        self.best_score_ = self.path_scores_[self.regularisation_]
        return self.regularisation_

    def _judges_and_others(
        self, rows: TrainingRows
    ) -> tuple[dict[str, NDArray[np.int64]], dict[str, NDArray[np.int64]]]:
        """The rows of each device that judge, and those that train; at least one of each device trains."""
        masks = {}
        for name, mine in rows.parts.items():
            key = hashlib.sha256(f"codedfl fit {name}".encode()).digest()
            masks[name] = held_out_rows(rows.X[mine], rows.y[mine], self.held_out, key)
            masks[name][0] &= not masks[name].all()
        if not any(mask.any() for mask in masks.values()):  # too few rows to hold out a share: one must judge
            masks[max(masks, key=lambda name: len(masks[name]))][-1] = len(rows.X) > len(masks)
        judges = {name: mine[masks[name]] for name, mine in rows.parts.items()}
        return judges, {name: mine[~masks[name]] for name, mine in rows.parts.items()}

    def _path(self, rows: TrainingRows, recipe: Recipe, candidates: list[float]) -> list[Floats]:
        """Theta for each lambda, from one training."""
        weights = [value * rows.share for value in candidates]
        solver = self._solver(weights[0])
        assert isinstance(solver, BlockKrylov)
        made = rows.made(recipe)
        train_in_process(made, solver, made.scales(self.number_bits), rows.colluders)
        found = solver.path(weights)
        return [recipe.unshrunk(found[weight], value) for weight, value in zip(weights, candidates, strict=True)]


def _judged(rows: TrainingRows, mine: NDArray[np.int64], recipe: Recipe, path: list[Floats]) -> Floats:
    """A device's part of the sum: the weight of the rows it judges by, and for each lambda how well they are met."""
    weights = np.ones(len(mine)) if rows.weights is None else rows.weights[mine]
    truth = recipe.labels.encode(rows.y[mine])
    sums = [float(weights.sum())]
    for theta in path:
        scores = recipe.scores(theta, rows.X[mine])[0]
        if isinstance(recipe.labels, ClassLabels):
            met = (scores.argmax(axis=1) == truth.argmax(axis=1)).astype(np.float64)
        else:
            met = -np.square(scores - truth)[:, 0]
        sums.append(float(weights @ met))
    return np.array(sums)


class CodedRidgeCV(_ChoosesRegularisation, CodedRidge):
    """``CodedRidge`` that chooses its regularisation on held-out rows.

    Parameters
    ----------
    regularisations : sequence of float, default=(1e-6, 1e-5, ..., 1)
        The candidates; see ``regularisation`` of ``CodedRidge``. Among equally good ones the largest is taken.
    held_out : float, default=0.2
        Share of each device's rows that judges, by a keyed hash of the row. The final model trains on all rows.

    The other parameters, and attributes, are those of ``CodedRidge``; the solver is block Krylov.

    Attributes
    ----------
    regularisation_ : float
        The regularisation that was chosen.
    best_score_ : float
        Its score on the held-out rows: minus the mean squared error, in units of half the target's range.
    path_scores_ : dict
        The score of each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import CodedRidgeCV
    >>> X = np.arange(80.0).reshape(40, 2) % 7
    >>> y = X @ [1.0, 2.0] + 3.0
    >>> model = CodedRidgeCV(regularisations=(1e-6, 1e-1), n_devices=4).fit(X, y)
    >>> model.regularisation_  # without noise in y, the least
    1e-06
    """


class CodedRidgeClassifierCV(_ChoosesRegularisation, CodedRidgeClassifier):
    """``CodedRidgeClassifier`` that chooses its regularisation on held-out rows, by accuracy; see ``CodedRidgeCV``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from codedfl import CodedRidgeClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = CodedRidgeClassifierCV(regularisations=(1e-4, 1e-1), n_devices=3).fit(X, y)
    >>> sorted(model.path_scores_), bool(model.score(X, y) > 0.8)
    ([0.0001, 0.1], True)
    """
