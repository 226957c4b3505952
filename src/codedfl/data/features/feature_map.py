"""What a feature map is, and the register by which a name or a model file finds one.

Every map knows a public bound on |x|, from which the exact ring gets its range (paper II-A, IV-A), and is made again,
number for number, from what its `definition` says: all devices must make the same features of the same row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, get_type_hints

import msgspec
import numpy as np

from codedfl.additions import FEATURES
from codedfl.data.preprocessing import Preprocessing
from codedfl.errors import InvalidInput
from codedfl.on_demand import Register
from codedfl.typed import only, typed
from codedfl.typing import Floats, JsonObject, Rows, Unchecked


class Principal(NamedTuple):
    """The mean of p scaled columns, and k directions of largest variance, p x k."""

    centre: Floats
    components: Floats


class NoKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys of a map that has none of its own."""


@dataclass(frozen=True)
class FeatureChoice:
    """What can be said about features beside their name; each map reads what it knows.

    n_features: how many random features; linear ones are as many as the columns.
    gamma: kernel width of random features; None takes the public rule.
    seed: public, of whatever the map draws.
    intercept: whether linear features have a constant column.
    components: how many principal components are taken, and principal: these, once they are known.
    encoder, encoder_bound: the SHA-256 of an encoder's file, and what its outputs are clipped to.
    keys: of the map's own, by the names of its ``Keys``.
    """

    n_features: int = 500
    gamma: float | None = None
    seed: int = 0
    intercept: bool = True
    components: int | None = None
    principal: Principal | None = None
    encoder: str | None = None
    encoder_bound: float | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)


class FeatureMap(Protocol):
    """What a recipe needs of a feature map, and how a study chooses one by its name.

    name: what a user calls it ("rbf"), and its file.
    kind: what a model file calls it ("random-fourier").
    required: what of a choice must be said for this map, and may be for no other.
    Keys: those of a study's [features] that are its own, with their types and defaults.
    whole_rows: whether a feature is made of all columns at once, none of which can be left out: pictures, encoders.
    needs_covariance: whether it is made of the covariance of the columns over all devices.

    Examples
    --------
    Random features stay within a bound that is known before any row is looked at:

    >>> import numpy as np
    >>> from codedfl import FeatureMap
    >>> from codedfl.data.features.rbf import RandomFourierFeatures
    >>> rbf: FeatureMap = RandomFourierFeatures(input_dim=3, n_components=50, gamma=0.5, seed=0)
    >>> features = rbf.transform(np.ones((2, 3)))
    >>> features.shape, bool(np.all(np.abs(features) <= rbf.bound))
    ((2, 50), True)
    """

    name: ClassVar[str]
    kind: ClassVar[str]
    required: ClassVar[tuple[str, ...]]
    Keys: ClassVar[type[msgspec.Struct]]
    whole_rows: ClassVar[bool]
    needs_covariance: ClassVar[bool]

    @property
    def input_dim(self) -> int:
        """Scaled columns that it takes."""

    @property
    def n_features(self) -> int:
        """d in the paper."""

    @property
    def bound(self) -> float:
        """Public: no feature is larger in absolute value."""

    def transform(self, X: Rows) -> Floats:
        """Features of scaled rows, in float64 whatever X is: all devices must round alike."""

    def definition(self) -> JsonObject:
        """What makes the map, exactly: numbers, text and lists. Two maps are the same if and only if these are."""

    def to_dict(self) -> JsonObject:
        """The definition and the kind, and whatever checks that the map was made again alike."""

    @classmethod
    def from_dict(cls, saved: Unchecked) -> Self: ...

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> Self:
        """The map for columns scaled in this way; a choice that does not fit is refused."""

    def load(self) -> None:
        """Raises where this machine lacks what a row would need, such as a package or a file."""


_PLAIN: dict[object, Callable[[Any], Any]] = {int: int, float: float, bool: bool, str: str}


@dataclass(frozen=True)
class PlainMap(ABC):
    """A map that is a few numbers and texts: the fields of its dataclass are all there is to it, in files too.

    input_dim: scaled columns that it takes.
    called: what errors call a saved one.
    """

    input_dim: int

    kind: ClassVar[str]
    called: ClassVar[str]
    required: ClassVar[tuple[str, ...]] = ()
    Keys: ClassVar[type[msgspec.Struct]] = NoKeys
    whole_rows: ClassVar[bool] = False
    needs_covariance: ClassVar[bool] = False

    @abstractmethod
    def transform(self, X: Rows) -> Floats:
        """Features of scaled rows."""

    def load(self) -> None:
        """Whatever a row needs, one shows."""
        self.transform(np.zeros((1, self.input_dim)))

    def definition(self) -> JsonObject:
        """The kind and every field."""
        return {"kind": self.kind, **{name: read(getattr(self, name)) for name, read in self._plain_fields().items()}}

    def to_dict(self) -> JsonObject:
        """The definition alone."""
        return self.definition()

    @classmethod
    def from_dict(cls, saved: Unchecked) -> Self:
        """The map that ``to_dict`` described."""
        try:
            values = {name: read(saved[name]) for name, read in cls._plain_fields().items()}
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"{cls.called} must be complete, got {error!r}") from error
        return cls(**values)

    @classmethod
    def _plain_fields(cls) -> dict[str, Callable[[Any], Any]]:
        """How to read each field, by the type that its annotation names, in quotes or not."""
        hints = get_type_hints(cls)
        found = {one.name: hints[one.name] for one in fields(cls)}
        for name, kind in found.items():
            if kind not in _PLAIN:
                raise InvalidInput(f"a field of a PlainMap must be int, float, bool or str, got {name}: {kind}")
        return {name: _PLAIN[kind] for name, kind in found.items()}


FEATURE_MAPS = Register[type[FeatureMap]]("codedfl.data.features", (FEATURES, "feature map"))

Map = TypeVar("Map", bound=type[FeatureMap])
Keys = TypeVar("Keys", bound=msgspec.Struct)


def register_feature_map(feature_map: Map) -> Map:
    """Make a class known by its ``name`` and ``kind``; serves as a decorator."""
    for other in FEATURE_MAPS.known.values():
        if feature_map.name == other.name or feature_map.kind == other.kind:
            raise InvalidInput(f"name and kind of a feature map must be new, got {feature_map.name!r} again")
    FEATURE_MAPS[feature_map.name] = feature_map
    return feature_map


def choose_features(features: str | FeatureMap, inputs: Preprocessing, choice: FeatureChoice) -> FeatureMap:
    """The map of that name for columns scaled like ``inputs``; a map itself is taken as it is."""
    if not isinstance(features, str):
        return features
    if features not in FEATURE_MAPS or any(getattr(choice, one) is None for one in FEATURE_MAPS[features].required):
        known = [name for name, one in FEATURE_MAPS.items() if not one.required]
        raise InvalidInput(f"features must be {' or '.join(known)}, got {features!r}")
    return FEATURE_MAPS[features].choose(inputs, choice)


def feature_map_from_dict(saved: Unchecked) -> FeatureMap:
    """The map that ``to_dict`` of any registered kind described."""
    kind = saved.get("kind") if isinstance(saved, dict) else None
    by_kind = {one.kind: one for one in FEATURE_MAPS.values()}
    if not isinstance(kind, str) or kind not in by_kind:
        raise InvalidInput(f"kind of feature map must be {' or '.join(map(repr, sorted(by_kind)))}, got {kind!r}")
    return by_kind[kind].from_dict(saved)


def own_keys(name: str, keys: type[Keys], said: Mapping[str, Any]) -> Keys:
    """The keys of a map's own, each of its type; whatever is not said takes its default."""
    known = {one.name: one for one in msgspec.structs.fields(keys)}
    only(f"keys of {name} features", said, known)
    for name, one in known.items():
        if one.required and name not in said:
            raise InvalidInput(f"features.{name} must be said, got nothing")
    return keys(**{key: typed(f"features.{key}", value, known[key].type) for key, value in said.items()})
