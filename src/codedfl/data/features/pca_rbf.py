"""Random Fourier features of the principal components: columns that go together are one direction, not many.

The components are those of the covariance of the scaled columns over all devices, which a secure sum gives (a stage of
a study, ``Study.features`` = "pca-rbf"): who sums learns that covariance, so it counts as shown. With fewer inputs the
same number of random features follows the kernel more closely. Pictures need no covariance: their low frequencies are
such directions, the same for all (``low_frequencies``), with nothing to learn and nothing to send.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np

from codedfl.checks import check_matrix
from codedfl.data.features.feature_map import FeatureChoice, NoKeys, Principal, register_feature_map
from codedfl.data.features.rbf import RandomFourierFeatures, default_gamma
from codedfl.data.preprocessing import Preprocessing
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject, Rows, Unchecked


def principal_directions(centre: Floats, covariance: Floats, count: int) -> Principal:
    """The ``count`` directions of largest variance about the mean.

    The largest entry of each direction is positive: which of the two signs an eigenvector has is nobody's choice.
    """
    if not 1 <= count <= len(centre):
        raise InvalidInput(f"components must be between 1 and the number of columns ({len(centre)}), got {count}")
    _, vectors = np.linalg.eigh(covariance)
    components = vectors[:, ::-1][:, :count]
    signs = np.sign(components[np.abs(components).argmax(axis=0), np.arange(count)])
    return Principal(centre, np.ascontiguousarray(components * signs))


def low_frequencies(side: int) -> Principal:
    """The cosines of a side x side picture (2-D DCT-II, orthonormal) whose two frequencies add up to less than side/2.

    All cosines together keep every distance between pictures, so the kernel's width stays that of the pixels.

    >>> low_frequencies(28).components.shape
    (784, 105)
    """
    pixel = np.arange(side)
    waves = np.cos(np.pi * (pixel[:, np.newaxis] + 0.5) * pixel / side) * np.sqrt(2 / side)
    waves[:, 0] /= np.sqrt(2)
    kept = np.flatnonzero(np.add.outer(pixel, pixel).ravel() < side / 2)
    return Principal(np.zeros(side**2), np.ascontiguousarray(np.kron(waves, waves)[:, kept]))


@register_feature_map
@dataclass(frozen=True, eq=False)
class PrincipalFourierFeatures:
    """x -> random Fourier features of (x - centre) P.

    random: the random features of the principal components; its ``input_dim`` is the number of these.
    """

    principal: Principal
    random: RandomFourierFeatures

    name: ClassVar[str] = "pca-rbf"
    kind: ClassVar[str] = "principal-fourier"
    required: ClassVar[tuple[str, ...]] = ("components",)
    Keys: ClassVar[type[msgspec.Struct]] = NoKeys
    whole_rows: ClassVar[bool] = False
    needs_covariance: ClassVar[bool] = True

    def __post_init__(self) -> None:
        centre, components = self.principal
        if centre.ndim != 1 or components.shape != (len(centre), self.random.input_dim):
            raise InvalidInput(
                f"components must be {len(centre)} x {self.random.input_dim}, got shape {components.shape}"
            )
        if not (np.isfinite(centre).all() and np.isfinite(components).all()):
            raise InvalidInput("centre and components must be finite, got other values")

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> PrincipalFourierFeatures:
        """By components over all devices; as long as nobody knows these, zeros stand for them."""
        taken = choice.components or 0
        if not 1 <= taken <= inputs.n_columns:
            raise InvalidInput(
                f"components must be between 1 and the number of columns ({inputs.n_columns}) for {cls.name}, got"
                f" {choice.components}"
            )
        gamma = default_gamma(inputs.n_columns, inputs.width) if choice.gamma is None else choice.gamma
        unknown = Principal(np.zeros(inputs.n_columns), np.zeros((inputs.n_columns, taken)))
        random = RandomFourierFeatures(taken, choice.n_features, gamma, choice.seed)
        return cls(choice.principal or unknown, random)

    def load(self) -> None:
        """It needs numpy alone."""

    @property
    def input_dim(self) -> int:
        """Scaled columns that it takes."""
        return len(self.principal.centre)

    @property
    def n_features(self) -> int:
        """Those of the random features."""
        return self.random.n_features

    @property
    def bound(self) -> float:
        """That of the random features."""
        return self.random.bound

    def transform(self, X: Rows) -> Floats:
        """Features of scaled rows."""
        check_matrix("X", X, self.input_dim)
        return self.random.transform((X.astype(np.float64) - self.principal.centre) @ self.principal.components)

    def definition(self) -> JsonObject:
        """What makes the map: the components to the last bit."""
        centre, components = (one.tolist() for one in self.principal)
        return {"kind": self.kind, "centre": centre, "components": components, "random": self.random.definition()}

    def to_dict(self) -> JsonObject:
        """For the model file, whose arrays lie beside its text."""
        return {"kind": self.kind, **self.principal._asdict(), "random": self.random.to_dict()}

    @classmethod
    def from_dict(cls, saved: Unchecked) -> PrincipalFourierFeatures:
        """The map that ``to_dict`` described."""
        try:
            parts = (np.asarray(saved[name], dtype=np.float64) for name in ("centre", "components"))
            return cls(Principal(*parts), RandomFourierFeatures.from_dict(saved["random"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"saved principal features must be complete, got {error!r}") from error
