"""Wavelet scattering of small pictures as features: local means of |x * psi| and of ||x * psi| * psi'|, by kymatio.

A fixed map of public numbers, with nothing drawn and nothing learnt: it shows nobody more than other features of that
number. The pixels are the columns, row by row, of one square picture in one colour. Wavelets have a mean of zero and
an L1 norm below one, the window of the local means has one of 1: with pixels in [-b, b] the coefficients of order 0, 1
and 2 stay within b, b and b / 2. Each order is multiplied by four more than the one before, because it is about so much
smaller; the bound is 8 b.

It does not take colours or oblong pictures. ``kymatio`` is an extra, loaded at the first row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import Any, ClassVar

import numpy as np

from codedfl.checks import check_matrix, check_positive
from codedfl.data.features.feature_map import FeatureChoice, PlainMap, register_feature_map
from codedfl.data.preprocessing import Preprocessing
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows

_ANGLES = 8  # what kymatio's wavelets are made for
_LEAST_SIDE = 4
_GROWTH = 4.0  # factor on the weight from one order to the next
_BOUND = 8.0  # times the inputs': _GROWTH^2 / 2
_BLOCK = 256  # rows at a time: a row makes hundreds of pictures


@register_feature_map
@dataclass(frozen=True)
class WaveletScattering(PlainMap):
    """x -> 1 and the scattering coefficients of x as a square picture, each order times 4 to its power.

    input_dim: pixels, a square number and at least 16.
    input_bound: public bound on |x|.
    scales: J of 2^J pixels, over which coefficients are means; at least 1. More are fewer features and less place.
    """

    input_bound: float
    scales: int

    name: ClassVar[str] = "scattering"
    kind: ClassVar[str] = "wavelet-scattering"
    called: ClassVar[str] = "saved scattering features"
    whole_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.side**2 != self.input_dim or self.side < _LEAST_SIDE:
            raise InvalidInput(
                "scattering features must have the pixels of one square picture as columns, 4 x 4 or more, got"
                f" {self.input_dim} columns"
            )
        check_positive(input_bound=self.input_bound)
        most = self.side.bit_length() - 1
        if not 1 <= self.scales <= most:
            raise InvalidInput(f"scales must be between 1 and {most} for a side of {self.side}, got {self.scales}")

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> WaveletScattering:
        """By the size of the picture alone: 1954 features of 28 x 28 pixels, 325 of 8 x 8."""
        del choice
        return cls(inputs.n_columns, inputs.bound, max(1, isqrt(inputs.n_columns).bit_length() - 2))

    @property
    def side(self) -> int:
        """Side of the picture, in pixels."""
        return isqrt(max(self.input_dim, 0))

    @property
    def n_features(self) -> int:
        return 1 + len(self._weights) * (self.side >> self.scales) ** 2

    @property
    def bound(self) -> float:
        return _BOUND * max(1.0, self.input_bound)

    @property
    def _weights(self) -> Floats:
        """Weights of the coefficients at one place: one of order 0, then those of order 1, then those of order 2."""
        first, second = _ANGLES * self.scales, _ANGLES**2 * self.scales * (self.scales - 1) // 2
        return np.repeat(_GROWTH ** np.arange(3), (1, first, second))

    @cached_property
    def _scattering(self) -> Any:
        try:
            # Its front page does not load beside scipy 1.17, for the sake of another transform.
            from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D
        except ImportError:
            message = "kymatio must be installed for scattering features: pip install 'codedfl[scattering]'"
            raise InvalidInput(message) from None
        return ScatteringNumPy2D(self.scales, (self.side, self.side), _ANGLES)

    def transform(self, X: Rows) -> Floats:
        check_matrix("X", X, self.input_dim)
        scattering, weights = self._scattering, self._weights[:, np.newaxis, np.newaxis]
        features = np.ones((len(X), self.n_features))
        for start in range(0, len(X), _BLOCK):
            rows = X[start : start + _BLOCK].astype(np.float64).reshape(-1, self.side, self.side)
            features[start : start + _BLOCK, 1:] = (scattering(rows) * weights).reshape(len(rows), -1)
        # What the ring's range is proved from, whatever the last bits of a transform are.
        return np.clip(features, -self.bound, self.bound, out=features)
