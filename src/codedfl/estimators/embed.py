"""Pictures and texts in front of an estimator: embeddings of a frozen encoder, as scikit-learn's transformers are."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from codedfl.data.encoders import Encoder, Items, encode, load_encoder
from codedfl.errors import InvalidInput


class Embed(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Rows of pictures or texts to rows of numbers. Nothing is learnt.

    Parameters
    ----------
    encoder : path or Encoder
        An encoder's file (``codedfl lab data encoder``), its ONNX file beside it.
    cache : path or None
        A folder that keeps embeddings between calls; they are as private as the rows.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from codedfl import CodedRidgeClassifier
    >>> from codedfl.estimators.embed import Embed
    >>> make_pipeline(Embed("encoder.toml"), CodedRidgeClassifier(features="linear")).steps[0][1]
    Embed(encoder='encoder.toml')
    """

    def __init__(self, encoder: str | Path | Encoder, cache: str | Path | None = None) -> None:
        self.encoder = encoder
        self.cache = cache

    def fit(self, X: Any, y: Any = None) -> Self:
        """Read the encoder's file."""
        del X, y
        self.encoder_ = self.encoder if isinstance(self.encoder, Encoder) else load_encoder(self.encoder)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Embeddings: an array of pictures (rows x height x width x 3 bytes), or a list of paths, pictures or texts.

        A damaged row is refused by its number: labels would no longer fit the rows that are left.
        """
        if not hasattr(self, "encoder_"):
            self.fit(X)
        names = [f"row {place}" for place in range(len(X))]
        found = encode(self.encoder_, Items(X, names), None if self.cache is None else Path(self.cache))
        if found.damaged:
            raise InvalidInput(f"{found.damaged[0].name} of X must be whole, got {found.damaged[0].reason}")
        return found.values.astype(np.float64)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """x0, x1, ..."""
        del input_features
        return np.array([f"x{place}" for place in range(self.encoder_.width)], dtype=object)
