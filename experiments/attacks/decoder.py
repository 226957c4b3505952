"""From features back to pixels: by least squares for means, by optimisation for single images.

A mean of features is linear in the samples, so a linear map from features to pixels turns the sum of a class's
features into the sum of its images; fitted to the features and to the constant 1 alike, it also counts the samples. The
features of one image determine it (there are more of them than pixels): its pixels are found by descent from there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.kernel_approximation import RBFSampler

from codedfl.data.features import RandomFourierFeatures

Floats = NDArray[np.float64]

_HELD_OUT = 5  # one public image in five chooses the ridge
_DESCENT_STEPS = 200  # what is an image's features converges long before; noise never does
_RIDGES = np.logspace(-8, 0, 17)


class Decoder:
    """Ridge regression from public images: features -> (pixels, 1)."""

    def __init__(self, feature_map: RandomFourierFeatures, public: Floats) -> None:
        # The map is public: its seed makes everybody the same weights.
        m = feature_map
        sampler = RBFSampler(gamma=m.gamma, n_components=m.n_components, random_state=m.seed)
        sampler.fit(np.zeros((1, m.input_dim)))
        self._weights, self._offsets, self._scale = sampler.random_weights_, sampler.random_offset_, m.bound
        features = feature_map.transform(public)
        wanted = np.hstack([public, np.ones((len(public), 1))])
        held = np.arange(len(public)) % _HELD_OUT == 0
        _, self.ridge = min(
            (float(np.mean((features[held] @ matrix - wanted[held]) ** 2)), ridge)
            for ridge, matrix in _ridge_path(features[~held], wanted[~held], _RIDGES)
        )
        ((_, self.matrix),) = _ridge_path(features, wanted, np.array([self.ridge]))

    def mean_image(self, class_sum: Floats) -> Floats:
        """The mean image of the samples whose features add up to ``class_sum``, in any scale."""
        decoded = class_sum @ self.matrix
        return np.asarray(decoded[:-1] / decoded[-1] if decoded[-1] else decoded[:-1])

    def image(self, class_sum: Floats) -> Floats:
        """The image in [0, 1] whose features these are, as nearly as descent from the linear guess comes.

        A sum of several is divided by their number, as the linear map counts them.
        """
        W, b = self._weights, self._offsets
        wanted = class_sum / (self._scale * max(1, round(float(class_sum @ self.matrix[:, -1]))))

        def loss(x: Floats) -> tuple[float, Floats]:
            angles = x @ W + b
            miss = np.cos(angles) - wanted
            return 0.5 * float(miss @ miss), -W @ (miss * np.sin(angles))

        start = np.clip(self.mean_image(class_sum), 0.0, 1.0)
        options = {"maxiter": _DESCENT_STEPS}
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(start), options=options)
        return np.asarray(found.x)


def _ridge_path(features: Floats, wanted: Floats, ridges: Floats) -> list[tuple[float, Floats]]:
    """(ridge, matrix) for each, the ridge relative to the largest eigenvalue; one decomposition for all."""
    values, vectors = np.linalg.eigh(features.T @ features)
    projected = vectors.T @ (features.T @ wanted)
    return [
        (float(ridge), vectors @ (projected / (np.maximum(values, 0) + ridge * values[-1])[:, None]))
        for ridge in ridges
    ]
