"""What a feature map is, and the register by which a name or a model file finds one.

Every map knows a public bound on |x|, from which the exact ring gets its range (paper II-A, IV-A), and is made again,
number for number, from what its `definition` says: all devices must make the same features of the same row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self, TypeVar, get_type_hints

from codedfl.additions import FEATURES, Registry, named, with_parameters
from codedfl.data.preprocessing import Preprocessing
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject, Rows, Unchecked


@dataclass(frozen=True)
class FeatureChoice:
    """What can be said about features beside their name; each map reads what it knows.

    n_features: how many random features; linear ones are as many as the columns.
    gamma: kernel width of random features; None takes the public rule.
    seed: public, of whatever the map draws.
    intercept: whether linear features have a constant column.
    """

    n_features: int = 500
    gamma: float | None = None
    seed: int = 0
    intercept: bool = True


class FeatureMap(Protocol):
    """What a recipe needs of a feature map.

    name: what a user calls it ("rbf").
    kind: what a model file calls it ("random-fourier").

    Examples
    --------
    Random features stay within a bound that is known before any row is looked at:

    >>> import numpy as np
    >>> from codedfl import FeatureMap
    >>> from codedfl.data.features import RandomFourierFeatures
    >>> rbf: FeatureMap = RandomFourierFeatures(input_dim=3, n_components=50, gamma=0.5, seed=0)
    >>> features = rbf.transform(np.ones((2, 3)))
    >>> features.shape, bool(np.all(np.abs(features) <= rbf.bound))
    ((2, 50), True)
    """

    name: ClassVar[str]
    kind: ClassVar[str]

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


class NamedMap(FeatureMap, Protocol):
    """A map for which a name and public numbers are enough; others are made of totals over devices, or of a file."""

    @classmethod
    def choose(cls, inputs: Preprocessing, choice: FeatureChoice) -> Self:
        """The map for columns scaled in this way."""


_PLAIN: dict[object, Callable[[Any], Any]] = {int: int, float: float, bool: bool, str: str}


@dataclass(frozen=True)
class PlainMap:
    """A map that is a few numbers and texts: the fields of its dataclass are all there is to it, in files too.

    input_dim: scaled columns that it takes.
    called: what errors call a saved one.
    """

    input_dim: int

    kind: ClassVar[str]
    called: ClassVar[str]

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


def check_feature_map(feature_map: Any) -> None:
    """Refuse what cannot be chosen by a name."""
    if not all(hasattr(feature_map, one) for one in ("name", "kind", "choose", "from_dict")):
        raise InvalidInput(
            f"a feature map must be a class with name, kind, choose and from_dict, got {feature_map!r:.80}"
        )


class FeatureMaps(Registry["type[NamedMap]"]):
    """Maps for which a name and public numbers are enough; a saved one of any is found by its kind."""

    def add(self, one: type[NamedMap]) -> None:
        self._check(one)
        if self.known.get(one.name) is not one:  # an entry point names what its import has registered
            register_kind(one)
            super().add(one)


Map = TypeVar("Map", bound=type[FeatureMap])
Named = TypeVar("Named", bound=type[NamedMap])

_BY_KIND: dict[str, type[FeatureMap]] = {}
FEATURE_MAPS = FeatureMaps(FEATURES, "feature map", check_feature_map)


def register_feature_map(feature_map: Named) -> Named:
    """Make a class known by its ``name`` and ``kind``; serves as a decorator.

    Another package does it by an entry point of the group ``codedfl.features``, which names the class.
    """
    FEATURE_MAPS.add(feature_map)
    return feature_map


def register_kind(feature_map: Map) -> Map:
    """Make a class known by its ``kind`` alone: its maps are made of totals over devices, which a name cannot give."""
    for other in _BY_KIND.values():
        if feature_map.name == other.name or feature_map.kind == other.kind:
            raise InvalidInput(f"name and kind of a feature map must be new, got {feature_map.name!r} again")
    _BY_KIND[feature_map.kind] = feature_map
    return feature_map


_OF_INPUTS = ("input_dim", "bound")
"""Fields that follow from the columns, whatever is typed behind a name."""


def is_chosen_by_name(features: str) -> bool:
    """Whether it names a map for which a name and public numbers are enough; parameters may stand behind it."""
    return named(features)[0] in FEATURE_MAPS


def choose_features(features: str | FeatureMap, inputs: Preprocessing, choice: FeatureChoice) -> FeatureMap:
    """The map of that name for columns scaled like ``inputs``; a map itself is taken as it is."""
    if not isinstance(features, str):
        return features
    name, parameters = named(features)
    if name not in FEATURE_MAPS:
        if name in FEATURE_MAPS.broken:
            raise InvalidInput(FEATURE_MAPS.broken[name])
        raise InvalidInput(f"features must be {' or '.join(FEATURE_MAPS)}, got {features!r}")
    return with_parameters(FEATURE_MAPS[name].choose(inputs, choice), parameters, fixed=_OF_INPUTS)


def feature_map_from_dict(saved: Unchecked) -> FeatureMap:
    """The map that ``to_dict`` of any registered kind described."""
    kind = saved.get("kind") if isinstance(saved, dict) else None
    if isinstance(kind, str) and kind not in _BY_KIND:
        list(FEATURE_MAPS)  # another package's are looked for
    if not isinstance(kind, str) or kind not in _BY_KIND:
        raise InvalidInput(f"kind of feature map must be {' or '.join(map(repr, _BY_KIND))}, got {kind!r}")
    return _BY_KIND[kind].from_dict(saved)
