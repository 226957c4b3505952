"""The outputs of a frozen encoder as features: an ONNX file that everybody has and nobody trains.

The study names the file by its SHA-256 (``Study.encoder``); each machine keeps it as ``SHA256.onnx`` in the folder that
CODEDFL_ENCODERS names, and a file of another hash is refused. Outputs beyond the study's bound are clipped to it, or
the range of the exact ring would not be proved (paper II-A, IV-A). A fixed map of public numbers shows nobody anything:
what is exposed is what d features expose.

It does not fetch or train encoders. Processors may differ in the last bit of an output, so a model is made again bit
for bit only on like ones; totals are exact whatever each machine's outputs are. ``onnxruntime`` is an extra, loaded at
the first row.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np

from codedfl.checks import check_at_least, check_matrix, check_positive
from codedfl.data.features.feature_map import FeatureChoice, PlainMap, register_feature_map
from codedfl.data.onnx_session import open_session, run_session
from codedfl.data.preprocessing import Preprocessing
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows

_BLOCK = 256  # rows at a time: what an encoder of images holds of each row may be a thousand times the row
_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}


@register_feature_map
@dataclass(frozen=True)
class FrozenEncoder(PlainMap):
    """x -> what the encoder makes of x, clipped to [-bound, bound].

    n_features: the number of outputs per row, in any shape; no constant is among them unless the encoder gives one.
    bound: public. Room to spare costs digits of every feature; too little clips values, which a warning counts.
    encoder: SHA-256 of the ONNX file, 64 digits in lower case. Its only input is of float32 or float64, rows x columns
        or rows x any shape of as many numbers (images); its first output is taken.
    """

    n_features: int
    bound: float
    encoder: str

    name: ClassVar[str] = "onnx"
    kind: ClassVar[str] = "frozen-encoder"
    called: ClassVar[str] = "a saved encoder"
    required: ClassVar[tuple[str, ...]] = ("encoder", "encoder_bound")
    whole_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_at_least(1, input_dim=self.input_dim, n_features=self.n_features)
        check_positive(bound=self.bound)
        if not re.fullmatch("[0-9a-f]{64}", self.encoder):
            raise InvalidInput(f"encoder must be a SHA-256 of 64 hexadecimal digits, got {self.encoder!r}")

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> FrozenEncoder:
        return cls(inputs.n_columns, choice.n_features, choice.encoder_bound or 0.0, choice.encoder or "")

    @cached_property
    def _session(self) -> Any:
        """The session of onnxruntime, loaded when first used: counting features or answering updates needs none."""
        session = open_session(self.encoder)
        self._check_inputs(session.get_inputs())
        return session

    def load(self) -> None:
        """Raises unless the file is on this machine and takes the columns; rows do the same when they come first."""
        _ = self._session

    def _check_inputs(self, inputs: list[Any]) -> None:
        if len(inputs) != 1 or inputs[0].type not in _TYPES:
            kinds = ", ".join(one.type for one in inputs)
            raise InvalidInput(f"the encoder must have one input, of float32 or float64, got {kinds or 'none'}")
        rows, *shape = inputs[0].shape or [1]
        if isinstance(rows, int) or not all(isinstance(one, int) for one in shape) or prod(shape) != self.input_dim:
            raise InvalidInput(
                f"the encoder must take any number of rows of {self.input_dim} columns, got shape {inputs[0].shape}"
            )

    def transform(self, X: Rows) -> Floats:
        """Features of scaled rows; those beyond the bound are clipped, with a warning that counts them."""
        check_matrix("X", X, self.input_dim)
        features = np.empty((len(X), self.n_features))
        session = self._session
        entry = session.get_inputs()[0]
        rows_as = X.astype(_TYPES[entry.type]).reshape(len(X), *entry.shape[1:])
        for start in range(0, len(X), _BLOCK):
            rows = rows_as[start : start + _BLOCK]
            features[start : start + _BLOCK] = run_session(session, [rows], self.n_features)
        beyond = int((np.abs(features) > self.bound).sum())
        if beyond:
            warnings.warn(
                f"beyond the encoder's bound {self.bound:g}: {beyond} of {features.size} features, clipped",
                stacklevel=2,
            )
        return np.clip(features, -self.bound, self.bound, out=features)
